"""CUDA kernels, compiled on first use; everything else uses the set cupy.

The kernels are written in CUDA C (`kernels/cuda/sources`), each with its formula; this package launches
them. They support float32, float64, float16 and bfloat16 (`ml_dtypes`), and compute in float32, or float64
for float64. For other arrays they return None. Nothing waits for the GPU, so that a step can be captured;
therefore an id or class out of range gives NaN instead of an error. Sums are added in a fixed order, so two
runs agree to the last digit; only the backward of attention through cuDNN (`cudnn`) has no fixed order.
"""


def register() -> None:
    """Import the modules, which registers their kernels."""
    from . import (
        activations,
        arithmetic,
        attention,
        conversion,
        indexing,
        linear,
        losses,
        normalization,
        optimizers,
    )
