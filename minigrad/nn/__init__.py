"""Networks: modules, layers, functions and initialization, with PyTorch's names.

What a Transformer needs is in this package, the rest of torch.nn in `extra`.
"""

from . import containers, functional, init, layers, parameter, utils
from ..breadth import nn as extra
from .containers import *
from ..breadth.nn import *
from .layers import *
from .module import Module, Parameter

__all__ = [
    *containers.__all__, *extra.__all__, *layers.__all__, "Module", "Parameter", "functional", "init",
    "parameter", "utils",
]  # fmt: skip
