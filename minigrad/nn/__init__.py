"""Networks: modules, layers, activations, losses, functions, initialization, with PyTorch's names."""

from . import activations, containers, functional, init, layers, losses
from .activations import *
from .containers import *
from .layers import *
from .losses import *
from .module import Module, Parameter

__all__ = [
    *activations.__all__,
    *containers.__all__,
    *layers.__all__,
    *losses.__all__,
    "Module",
    "Parameter",
    "functional",
    "init",
]
