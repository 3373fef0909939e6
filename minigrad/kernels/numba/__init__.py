"""Plain loops, compiled by numba where it is installed (the extra `fast`); what is not here is NumPy's.

A loop reads as the formula does and passes over memory once. It computes in float32; other dtypes, and
layouts that a loop does not take, go to the NumPy kernel of the same name.
"""

from ..numpy import *
from .activations import gelu, log_softmax, softmax
from .attention import attention_softmax, scaled_dot_product_attention
from .indexing import embedding
from .losses import cross_entropy
from .normalization import layer_norm, rms_norm
from .optimizers import adam
from .recurrent import gru, lstm, rnn
