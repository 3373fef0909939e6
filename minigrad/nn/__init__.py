"""Networks: modules, layers, functions and initialization, with PyTorch's names."""

from . import containers, functional, init, layers, parameter, recurrent, utils
from .containers import *
from .layers import *
from .module import Module, Parameter
from .recurrent import *

__all__ = [
    *containers.__all__, *layers.__all__, *recurrent.__all__, "Module", "Parameter", "functional", "init",
    "parameter", "utils",
]  # fmt: skip
