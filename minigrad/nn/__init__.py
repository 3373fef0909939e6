"""Neural networks: modules, layers, functions and initialization, with PyTorch's names."""

from typing import TYPE_CHECKING

from . import activations, containers, functional, init, layers, losses, parameter, recurrent, utils
from .activations import *
from .containers import *
from .layers import *
from .losses import *
from .module import Module, Parameter
from .recurrent import *

if TYPE_CHECKING:  # what `more` adds, for editors
    from ..more.modules import *

__all__: list[str] = [
    *activations.__all__, *containers.__all__, *layers.__all__, *losses.__all__, *recurrent.__all__, "Module",
    "Parameter", "functional", "init", "parameter", "utils",
]  # fmt: skip
