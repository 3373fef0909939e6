"""NumPy kernels, written with few passes over memory and few temporaries."""

from ...core.kernels import KernelSet

KernelSet("numpy", "cpu")

from . import activations, attention, linear, losses, normalization, optimizers, recurrent, reductions  # noqa: E402
