"""Kernels for CuPy arrays, in two sets: cupy is one call of a library each, cuda our own CUDA C (`fused`).

Composite ops that neither has run their readable definitions, each step of which is one of CuPy's operations.
CuPy is not imported here: the arrays that come in bring it with them.
"""

# ruff: noqa: E402
from ...core.kernels import KernelSet


def load() -> None:
    """Register what runs CUDA C."""
    from . import fused

    fused.register()


KernelSet("cupy", "cuda")
KernelSet("cuda", "cuda", load, falls_back_to="cupy", is_default=True)

from . import cublas, draws, optimizers
