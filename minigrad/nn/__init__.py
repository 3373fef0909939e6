"""Networks: modules, layers, functions, initialization, with PyTorch's names."""

from . import functional, init
from .layers import GELU, CrossEntropyLoss, Dropout, Embedding, LayerNorm, Linear, ReLU, Tanh
from .module import Module, ModuleList, Parameter, Sequential

__all__ = [
    "GELU", "CrossEntropyLoss", "Dropout", "Embedding", "LayerNorm", "Linear", "Module", "ModuleList",
    "Parameter", "ReLU",
    "Sequential", "Tanh", "functional", "init",
]  # fmt: skip
