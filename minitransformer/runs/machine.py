"""The versions and machine of a run. With settings, data and seed, they determine the weights exactly."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from minigrad import __version__, zeros
from minigrad.core.devices import library_of
from minigrad.kernels import kernels
from minigrad.kernels.numpy.blas import blas_libraries, blas_threads

# versions and properties of the machine that affect rounding
ROUNDING = (
    "minitransformer", "numpy", "numba", "cupy", "processor", "kernels", "blas", "threads", "device", "ranks",
)  # fmt: skip


def describe_versions(device: str = "cpu") -> dict[str, str]:
    """The versions of Python and of the packages that affect the weights."""
    packages = ["numpy", "tokenizers"] + (["numba"] if kernels_of(device) == "jit" else [])
    gpu = {} if device == "cpu" else {"cupy": str(library_of(device).__version__)}
    ours = {"python": platform.python_version(), "minitransformer": __version__}
    return {**ours, **{name: version_of(name) for name in packages}, **gpu}


def version_of(package: str) -> str:
    """The installed version of a package, or "not installed"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def describe_machine(device: str = "cpu", ranks: int = 1) -> dict[str, Any]:
    """The machine, and the kernels and libraries that compute on it."""
    keys = ("internal_api", "version", "architecture")
    blas = [" ".join(str(library.get(key) or "") for key in keys).strip() for library in blas_libraries()]
    return {
        "platform": platform.platform(),
        "processor": platform.machine(),
        "byteorder": sys.byteorder,
        "kernels": kernels_of(device),
        "blas": blas[0] if blas else "not known",
        "threads": blas_threads(),
        "device": device,
        "ranks": ranks,
    }


def kernels_of(device: str) -> str:
    """The kernels of ops on a device: "numpy", "jit", "cupy", "cuda", or "none"."""
    in_use = kernels(zeros(1, device=device).array)
    return "none" if in_use is None else in_use.public_name


def rounding_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The changes of versions and machine that affect rounding: {key: [old, new]}.

    Keys that are not in both are skipped.
    """
    known = [key for key in ROUNDING if key in before and key in now]
    return {key: [before[key], now[key]] for key in known if before[key] != now[key]}
