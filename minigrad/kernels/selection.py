"""Which package of kernels serves arrays on the CPU, and which those on a GPU."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..core.devices import CPU, device_of
from ..core.errors import DependencyError, MinigradError, OptionError
from ..core.modes import Switch

NAMES = {"numpy": "numpy", "jit": "numba"}
GPU_NAMES = {"cupy": "cuda", "cuda": "cuda.fused"}


class _Active(threading.local):
    """Each thread's kernels; None until they are first needed (numba takes a second to import)."""

    cpu: ModuleType | None = None
    gpu: ModuleType | None = None


active = _Active()


def kernels(array: Any) -> ModuleType:
    """The kernels for arrays such as this one."""
    if device_of(array) != CPU:
        if active.gpu is None:
            active.gpu = _load("cuda")
        return active.gpu
    if active.cpu is None:
        active.cpu = _load("jit" if find_spec("numba") else "numpy")
    return active.cpu


def _load(name: str) -> ModuleType:
    try:
        return import_module(f"minigrad.kernels.{(NAMES | GPU_NAMES)[name]}")
    except Exception as error:  # what numba raises for its variables of the environment can be anything
        if name != "jit" or isinstance(error, MinigradError):
            raise
        reason = str(error).partition("\n")[0]
        read = [name for name in sorted(os.environ) if name.startswith(("NUMBA_", "SOURCE_DATE_EPOCH"))]
        known = ", ".join(f"{name} (now {os.environ[name][:40]!r})" for name in read)
        fix = f"Correct or unset {known}" if known else "Install numba again: pip install -e '.[fast]'"
        raise DependencyError(
            f"the kernels 'jit' cannot be loaded: {reason.rstrip('.')}.\n"
            f"{fix}; or choose NumPy's kernels: mg.kernels.use('numpy')."
        ) from error


class use(Switch):
    """Which kernels composite ops run on, from now on, for a `with`, or in a function.

    `use("numpy")` or `use("jit")` for arrays on the CPU; `use("cupy")` or `use("cuda")` for those on a GPU.
    With "cupy" all composite ops but `linear` and `dropout` run their readable definitions.
    """

    def __init__(self, name: str) -> None:
        if name not in NAMES | GPU_NAMES:
            names = ", ".join(map(repr, NAMES | GPU_NAMES))
            raise OptionError(f"kernels must be one of {names}, got {name!r}.\nChoose one of them.")
        if name == "jit" and not find_spec("numba"):
            raise DependencyError(
                "the kernels 'jit' need numba, which is not installed.\n"
                "In the repository, pip install -e '.[fast]'."
            )
        super().__init__(active, "cpu" if name in NAMES else "gpu", _load(name), at_once=True)
