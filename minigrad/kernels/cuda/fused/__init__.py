"""CUDA kernels of our own, compiled on first use; what is not here is CuPy's (`kernels.cuda`).

The kernels are written in CUDA C (`kernels/cuda/sources`), each with its formula beside it; here is what
launches them. They take float32, float64, float16 and bfloat16 (`ml_dtypes`), and compute in float32, or in
float64 what is float64. Nothing waits for the GPU and nothing that a graph captures is read from Python's
numbers later, so that a step can be captured. That is why an id or a class that is not there is no error
here: it gives NaN. Sums are added in one order, so that two runs agree to the last digit; but where attention
goes to cuDNN (`cudnn`), backward has no order.
"""

from .. import *
from .activations import dropout, gelu, gelu_with_bias, log_softmax, masked_softmax, softmax
from .attention import scaled_dot_product_attention
from .indexing import embedding
from .losses import cross_entropy
from .normalization import layer_norm, rms_norm
from .optimizers import adam, scale, total_norm
