"""The breadth that PyTorch's users expect; a Transformer needs none of it."""

from . import activations, convolution, losses, more_layers, normalization, padding, pooling, recurrent
from .activations import *
from .convolution import *
from .losses import *
from .more_layers import *
from .normalization import *
from .padding import *
from .pooling import *
from .recurrent import *

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
