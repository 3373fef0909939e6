"""Networks: modules, layers, activations, losses, functions, initialization, with PyTorch's names."""

from . import (
    activations,
    containers,
    convolution,
    functional,
    init,
    layers,
    losses,
    normalization,
    padding,
    pooling,
)
from .activations import *
from .containers import *
from .convolution import *
from .layers import *
from .losses import *
from .module import Module, Parameter
from .normalization import *
from .padding import *
from .pooling import *

__all__ = [
    *activations.__all__,
    *containers.__all__,
    *convolution.__all__,
    *layers.__all__,
    *losses.__all__,
    *normalization.__all__,
    *padding.__all__,
    *pooling.__all__,
    "Module",
    "Parameter",
    "functional",
    "init",
]
