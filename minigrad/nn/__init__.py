"""Neural networks: modules, layers, functions and initialization, with PyTorch's names."""

from typing import TYPE_CHECKING

from . import containers, functional, init, layers, parameter, recurrent, utils
from .containers import *
from .layers import *
from .module import Module, Parameter
from .recurrent import *

if TYPE_CHECKING:  # what the breadth adds, for editors
    from ..breadth.modules import *

__all__: list[str] = [
    *containers.__all__, *layers.__all__, *recurrent.__all__, "Module", "Parameter", "functional", "init",
    "parameter", "utils",
]  # fmt: skip
listed = __all__  # `breadth` adds its own
