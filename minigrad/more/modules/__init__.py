"""Modules of torch.nn beyond those of `nn`."""

from ...nn import recurrent
from . import activations, convolution, layers, losses, normalization, padding, pooling
from .activations import *
from .convolution import *
from .layers import *
from .losses import *
from .normalization import *
from .padding import *
from .pooling import *

__all__ = [
    *activations.__all__,
    *convolution.__all__,
    *losses.__all__,
    *layers.__all__,
    *normalization.__all__,
    *padding.__all__,
    *pooling.__all__,
]

# under their former names, for pickles
FILES = {
    "activations": activations, "convolution": convolution, "losses": losses, "more_layers": layers,
    "normalization": normalization, "padding": padding, "pooling": pooling, "recurrent": recurrent,
}  # fmt: skip
