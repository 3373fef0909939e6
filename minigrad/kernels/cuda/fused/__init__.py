"""CUDA kernels, compiled on first use; everything else uses the set cupy.

The kernels are written in CUDA C (`kernels/cuda/sources`), each with its formula; this package launches
them. They take float32, float64, float16 and bfloat16 (`ml_dtypes`), and compute in float32, float64 in
float64. For other arrays they return None. Nothing waits for the GPU, so that a step can be captured. That
is why an id or a class out of range is not an error here but gives NaN. Sums are added in a fixed order, so
that two runs agree to the last digit; only attention through cuDNN (`cudnn`) has no fixed order in backward.
"""


def register() -> None:
    """Import the modules, whose kernels register themselves."""
    from . import activations, attention, conversion, indexing, linear, losses, normalization, optimizers
