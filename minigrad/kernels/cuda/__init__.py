"""CuPy kernels, for arrays on a GPU: formulas as they are written, each step a kernel of CuPy's own.

CuPy is not imported here: an array that comes in is its.
"""

from ..cpu.pooling import largest_place
from .activations import dropout, gelu, log_softmax, softmax
from .attention import multi_head_attention, scaled_dot_product_attention
from .clipping import scale, total_norm
from .indexing import embedding
from .linalg import linear
from .losses import cross_entropy
from .normalization import layer_norm, rms_norm
from .optimizers import adam
from .reductions import logsumexp

__all__ = [
    "adam",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "largest_place",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsumexp",
    "multi_head_attention",
    "rms_norm",
    "scale",
    "scaled_dot_product_attention",
    "softmax",
    "total_norm",
]
