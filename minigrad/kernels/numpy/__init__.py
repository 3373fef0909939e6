"""NumPy kernels: a pass over memory and a fresh temporary are slow, so they have few of both."""

from ...core.kernels import KernelSet

KernelSet("numpy", "cpu")

from . import activations, attention, linear, losses, normalization, optimizers, recurrent, reductions  # noqa: E402
