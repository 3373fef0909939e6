"""Names that are loaded when they are first used: `more` adds names to the packages and to Tensor.

Other names raise an AttributeError. For a name of PyTorch, the error says what to use instead. `load` is a
function that imports `more` and returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def load_when_asked(package: ModuleType, load: Callable[[], Any], parts: Mapping[str, str] = {}) -> None:
    """Make a package look up missing names in `parts`, {name: module}, and then in `more`."""

    def __getattr__(name: str) -> Any:
        if name in parts:
            module = import_module(parts[name])
            return module if parts[name].endswith(f".{name}") else getattr(module, name)
        if name[:2] == "__" and name != "__all__":  # pytest and inspect ask for names such as __wrapped__
            raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
        more = load()
        name = "listed" if name == "__all__" else name
        return vars(package)[name] if name in vars(package) else more.raise_missing(package, name)

    def __dir__() -> list[str]:  # for editors and notebooks that complete names
        load()
        return sorted({*vars(package), *parts})

    # `more` adds its names to `listed`, so `from minigrad.nn import *` loads `more` and finds all names
    package.listed = vars(package).pop("__all__", [])  # type: ignore[attr-defined]
    package.__getattr__, package.__dir__ = __getattr__, __dir__  # type: ignore[method-assign]


class Late:
    """An attribute that `more` defines when it is first used; it may turn out not to exist."""

    def __init__(self, path: str, load: Callable[[], Any]) -> None:
        self.path = path  # the name within minigrad, such as "Tensor.acosh"
        self.load = load

    def __get__(self, instance: Any, owner: type) -> Any:
        self.load().raise_if_known(self.path)
        return getattr(owner if instance is None else instance, self.path.rpartition(".")[2])


def attributes_when_asked(owner: type, path: str, load: Callable[[], Any], names: str) -> None:
    """Bind `Late` attributes to a class, which is called `path` in minigrad.

    (A `__getattr__` would slow down np.asarray.)
    """
    for name in names.split():
        setattr(owner, name, Late(f"{path}.{name}", load))


OF_TENSOR = """
    acos acos_ acosh acosh_ addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ arccos arccos_ arccosh
    arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ as_strided
    asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ baddbmm baddbmm_ bincount bmm cholesky
    cholesky_inverse cholesky_solve coalesce cosh cosh_ cpu cross cuda data_ptr dequantize det diag
    diag_embed diagflat diagonal diagonal_scatter diff digamma digamma_ dist dot element_size erfinv
    erfinv_ exp2 exp2_ expm1 expm1_ ger get_device hardshrink histc histogram imag inner inverse
    is_complex is_contiguous is_cuda is_pinned kron lgamma lgamma_ log10 log10_ log1p log1p_ log2 log2_
    logaddexp2 logdet logit logit_ matrix_exp matrix_power mm mv mvlgamma mvlgamma_ nelement new norm
    outer pin_memory pinverse prelu record_stream register_post_accumulate_grad_hook renorm renorm_
    resize_ set_ share_memory_ sinc sinc_ sinh sinh_ slogdet storage storage_offset stride symeig tan tan_
    to_dense to_sparse to_sparse_csr trace type type_as unfold unique unique_consecutive untyped_storage
    vdot xlogy xlogy_
"""
