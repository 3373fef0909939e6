"""NumPy kernels, written with few passes over memory and few temporaries."""

from ...core.kernels import KernelSet

KernelSet("numpy", "cpu")

from . import (  # noqa: E402
    activations,
    attention,
    indexing,
    linear,
    losses,
    normalization,
    optimizers,
    quantized,
    recurrent,
    reductions,
)
