"""NumPy's functions on Tensors call ops: `ndarray * Tensor`, `np.exp(Tensor)`, `np.concatenate([Tensor])`.

So a formula written for arrays also works for Tensors, and returns Tensors with gradients. A NumPy function
without a counterpart here runs on the arrays and returns arrays, as long as no gradient would be lost.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ..core.errors import DtypeError, GraphError
from ..core.modes import modes
from ..core.tensor import Tensor
from ..core.trees import leaves, map_leaves
from ..ops.methods import FUNCTIONS
from .numpy_counterparts import counterparts, ufunc_counterpart

# NumPy's functions whose result has no derivative: they always run on the arrays
WITHOUT_GRADIENT = frozenset({
    "allclose", "argpartition", "argsort", "argwhere", "array2string", "array_equal", "array_equiv",
    "array_repr", "array_str", "can_cast", "common_type", "count_nonzero", "diag_indices_from", "digitize",
    "einsum_path",
    "empty_like", "flatnonzero", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "isclose",
    "iscomplex", "iscomplexobj", "isin", "isneginf", "isposinf", "isreal", "isrealobj", "ix_", "lexsort",
    "linalg.matrix_rank", "may_share_memory", "min_scalar_type", "nanargmax", "nanargmin", "ndim",
    "ones_like",
    "packbits", "ravel_multi_index", "result_type", "save", "savetxt", "savez", "savez_compressed",
    "searchsorted", "shape", "shares_memory", "size", "tril_indices_from", "triu_indices_from", "unpackbits",
    "unravel_index", "zeros_like",
})  # fmt: skip
# NumPy's functions that write into their first argument
_WRITES = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})


@cache
def _counterparts() -> Mapping[str, Any]:
    return counterparts(FUNCTIONS)


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
    """`Tensor.__array_ufunc__`: call the op."""
    result = _by_ops(ufunc_counterpart(FUNCTIONS, ufunc.__name__, method), inputs, settings)
    if result is NotImplemented:
        name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
        written = inputs[0] if method == "at" else None
        return _by_numpy(name, getattr(ufunc, method), inputs, settings, written)
    return result


def array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """`Tensor.__array_function__`: call the counterpart of one of NumPy's functions."""
    name = f"{func.__module__}.{func.__name__}".removeprefix("numpy.")
    result = NotImplemented
    if not name.startswith("linalg.") or any(x.is_floating_point() for x in _tensors((args, kwargs))):
        result = _by_ops(_counterparts().get(name), args, kwargs)
    if result is NotImplemented:
        return _by_numpy(name, func, args, kwargs, args[0] if name in _WRITES else None)
    return result


def _by_ops(function: Callable | None, args: tuple, settings: dict[str, Any]) -> Any:
    """The result of calling `function`, or NotImplemented if it does not accept these arguments."""
    if function is None:
        return NotImplemented
    if hasattr(function, "op"):  # an op's settings are not a ufunc's
        return NotImplemented if settings else function(*args)
    positional, names, most = _parameters(function)
    settings = {
        name: x for name, x in settings.items() if x is not np._NoValue and (x is not None or name in names)
    }
    if len(args) > most or not names >= settings.keys() or settings.keys() & set(positional[: len(args)]):
        return NotImplemented
    return function(*args, **settings)


@lru_cache(maxsize=1024)
def _parameters(function: Callable) -> tuple[tuple[str, ...], frozenset[str], float]:
    """A function's positional parameters, all parameters, and the maximum number of positional arguments."""
    found = inspect.signature(function).parameters.values()
    positional = tuple(p.name for p in found if p.kind <= p.POSITIONAL_OR_KEYWORD)
    names = frozenset(p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    return positional, names, math.inf if any(p.kind is p.VAR_POSITIONAL for p in found) else len(positional)


def _by_numpy(name: str, function: Callable, args: tuple, settings: dict[str, Any], written: Any) -> Any:
    """Call the NumPy function on the arrays, or raise if it would lose a gradient or write into a Tensor."""
    out = settings.get("out")
    if isinstance(written, Tensor) or _tensors(out):
        raise DtypeError(f"np.{name} cannot write into a Tensor.\nUse the Tensor's own methods.")
    recorded = modes.grad_enabled and any(x.requires_grad for x in _tensors((args, settings)))
    if recorded and name not in WITHOUT_GRADIENT:
        writes = out is not None or written is not None
        names = ", ".join(name for name in settings if name != "out")
        raise GraphError(
            f"np.{name} {'writes into an array' if writes else 'has no counterpart here'}"
            f"{names and f' with {names}='}, and a gradient would be lost.\n"
            f"Use minigrad's own functions, or give it x.detach(): then the result is outside any graph."
        )
    return function(*_as_arrays(args), **_as_arrays(settings))


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in leaves(tree) if isinstance(x, Tensor)]


def _as_arrays(tree: Any) -> Any:
    """Replace Tensors with their arrays, also within lists, tuples and dicts."""
    return map_leaves(lambda x: x.array if isinstance(x, Tensor) else x, tree)
