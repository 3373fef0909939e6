"""Networks: modules, layers, losses, functions, initialization, with PyTorch's names."""

from . import functional, init, losses
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .layers import GELU, Dropout, Embedding, LayerNorm, Linear, ReLU, Tanh
from .losses import *
from .module import Module, Parameter

__all__ = [
    *losses.__all__,
    "GELU", "Dropout", "Embedding", "LayerNorm", "Linear", "Module", "ModuleDict", "ModuleList", "Parameter",
    "ParameterDict", "ParameterList", "ReLU", "Sequential", "Tanh", "functional", "init",
]  # fmt: skip
