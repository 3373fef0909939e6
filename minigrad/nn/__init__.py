"""Networks: modules, layers, functions and initialization, with PyTorch's names.

What a Transformer needs is in this package, the rest of torch.nn in `extra`.
"""

from . import containers, extra, functional, init, layers, parameter, utils
from .containers import *
from .extra import *
from .layers import *
from .module import Module, Parameter

__all__ = [
    *containers.__all__, *extra.__all__, *layers.__all__, "Module", "Parameter", "functional", "init",
    "parameter", "utils",
]  # fmt: skip
