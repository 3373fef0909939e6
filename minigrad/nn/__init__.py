"""Networks: modules, layers, functions, initialization, with PyTorch's names."""

from . import functional, init, losses
from .layers import GELU, Dropout, Embedding, LayerNorm, Linear, ReLU, Tanh
from .losses import *
from .module import Module, ModuleList, Parameter, Sequential

__all__ = [
    *losses.__all__,
    "GELU", "Dropout", "Embedding", "LayerNorm", "Linear", "Module", "ModuleList", "Parameter", "ReLU",
    "Sequential", "Tanh", "functional", "init",
]  # fmt: skip
