"""The breadth that PyTorch's users expect; a Transformer needs none of it."""

from . import activations, convolution, losses, layers as more_layers, normalization, padding, pooling
from ...nn import recurrent
from .activations import *
from .convolution import *
from .losses import *
from .layers import *
from .normalization import *
from .padding import *
from .pooling import *
from ...nn.recurrent import *

__all__ = [
    *activations.__all__,
    *convolution.__all__,
    *losses.__all__,
    *more_layers.__all__,
    *normalization.__all__,
    *padding.__all__,
    *pooling.__all__,
    *recurrent.__all__,
]
