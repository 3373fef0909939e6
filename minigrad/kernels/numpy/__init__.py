"""NumPy kernels: a pass over memory and a fresh temporary are slow, so they have few of both."""

from .activations import dropout, gelu, log_softmax, softmax
from .attention import attention_softmax, scaled_dot_product_attention
from .linear import embedding, linear, matmul, times
from .losses import cross_entropy
from .normalization import layer_norm, rms_norm
from .optimizers import adam, flatten, scale, total_norm
from .pooling import largest_place
from .recurrent import gru, lstm, rnn
from .reductions import logsumexp

__all__ = [
    "adam",
    "attention_softmax",
    "cross_entropy",
    "dropout",
    "embedding",
    "flatten",
    "gelu",
    "gru",
    "largest_place",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsumexp",
    "lstm",
    "matmul",
    "rms_norm",
    "rnn",
    "scale",
    "scaled_dot_product_attention",
    "softmax",
    "times",
    "total_norm",
]
