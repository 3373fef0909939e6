"""Fused loops behind the composite ops, a package a device, the same names in each.

A kernel is a rule (see `minigrad.ops.op`) written for speed: few passes over memory, few temporaries.
Its gradients are arrays of their own, none given to two inputs.
`cpu` has them in NumPy, `jit` as plain loops that numba compiles, where it is installed. For arrays on a GPU
`cuda` has them in CuPy, `cuda.fused` in CUDA C, attention also through cuDNN. `use` says which.
"""

from __future__ import annotations

import threading
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..devices import gpu
from ..errors import DependencyError, OptionError
from . import cpu

NAMES = {"numpy": ".cpu", "jit": ".jit"}
GPU_NAMES = {"cupy": ".cuda", "cuda": ".cuda.fused"}


class _Chosen(threading.local):
    module: ModuleType | None = None  # None: nobody asked yet
    on_gpu: ModuleType | None = None


_chosen = _Chosen()


def kernels(x: Any) -> ModuleType:
    """The kernels for arrays such as `x`."""
    if isinstance(x, gpu.arrays):
        if _chosen.on_gpu is None:
            use("cuda")
            assert _chosen.on_gpu is not None
        return _chosen.on_gpu
    if _chosen.module is None:
        use("jit" if find_spec("numba") else "numpy")
        assert _chosen.module is not None
    return _chosen.module


class use:
    """The kernels of composite ops, from now on or within a `with`.

    `use("numpy")` or `use("jit")` for arrays on the CPU; `use("cupy")` or `use("cuda")` for those on a GPU.
    """

    def __init__(self, name: str) -> None:
        if name not in NAMES | GPU_NAMES:
            names = ", ".join(map(repr, NAMES | GPU_NAMES))
            raise OptionError(f"kernels are one of {names}, got {name!r}.\nChoose one.")
        if name == "jit" and not find_spec("numba"):
            raise DependencyError(
                "the kernels 'jit' need numba, which is not installed.\npip install 'minitransformer[fast]'."
            )
        self.before = _chosen.module, _chosen.on_gpu
        module = import_module((NAMES | GPU_NAMES)[name], __name__)
        if name in NAMES:
            _chosen.module = module
        else:
            _chosen.on_gpu = module

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _chosen.module, _chosen.on_gpu = self.before
