"""Kernels for CuPy arrays, in two sets: cupy calls libraries, cuda runs our own CUDA C (`fused`).

Composite ops without a kernel run their readable definitions, one CuPy operation per step. CuPy is not
imported here: kernels find it through their arrays.
"""

# ruff: noqa: E402
from ...core.kernels import KernelSet


def load() -> None:
    """Register the CUDA C kernels."""
    from . import fused

    fused.register()


KernelSet("cupy", "cuda")
KernelSet("cuda", "cuda", load, falls_back_to="cupy", is_default=True)

from . import cublas, draws, optimizers
