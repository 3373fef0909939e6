"""Plain loops, compiled by numba where it is installed (the extra `fast`); what is not here is NumPy's.

A loop reads as the formula does and passes over memory once. It computes in float32; other dtypes, and
layouts that a loop does not take, go to the NumPy kernel of the same name.
"""

from ..cpu import *
from . import activations, losses
from .activations import gelu, log_softmax, softmax
from .attention import attention_softmax, scaled_dot_product_attention
from .indexing import embedding
from .losses import cross_entropy
from .normalization import layer_norm, rms_norm
from .optimizers import adam
from .recurrent import gru, lstm, rnn

# loops that may have their result in the place of an operand: how they do, and the positions of the two
IN_PLACE = {
    activations._tanh_backward: (activations._tanh_backward_in_place, 1, 2),
    activations._exact_backward: (activations._exact_backward_in_place, 1, 2),
    losses._cross_entropy_backward: (losses._cross_entropy_backward_in_place, 0, 4),
}
