"""Fused loops behind the composite ops, a package a device, the same names in each.

A kernel is a rule (see `minigrad.ops.record`) written for speed: few passes over memory, few temporaries.
Its gradients are arrays of their own, none given to two inputs.
`cpu` has them in NumPy, `jit` as plain loops that numba compiles, where it is installed; `use` says which.
`cuda` has them for arrays on a GPU.
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

NAMES = {"numpy": "cpu", "jit": "jit"}


class _Chosen(threading.local):
    module: ModuleType | None = None  # None: nobody asked yet


_chosen = _Chosen()


def kernels(x: Any) -> ModuleType:
    """The kernels for arrays such as `x`."""
    if isinstance(x, gpu.arrays):
        return import_module(".cuda", __name__)
    if _chosen.module is None:
        use("jit" if find_spec("numba") else "numpy")
        assert _chosen.module is not None
    return _chosen.module


class use:
    """`use("numpy")` or `use("jit")`: the kernels of composite ops, from now on or within a `with`."""

    def __init__(self, name: str) -> None:
        if name not in NAMES:
            raise OptionError(f"kernels are {' or '.join(map(repr, NAMES))}, got {name!r}.\nChoose one.")
        if name == "jit" and not find_spec("numba"):
            raise DependencyError(
                "the kernels 'jit' need numba, which is not installed.\npip install 'minitransformer[fast]'."
            )
        self.before, _chosen.module = _chosen.module, import_module(f".{NAMES[name]}", __name__)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _chosen.module = self.before
