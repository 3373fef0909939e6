"""Networks: modules, layers, losses, functions, initialization, with PyTorch's names."""

from . import functional, init, losses
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .layers import (
    GELU,
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    Embedding,
    Identity,
    LayerNorm,
    Linear,
    ReLU,
    Tanh,
)
from .losses import *
from .module import Module, Parameter

__all__ = [
    *losses.__all__,
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "Embedding", "GELU", "Identity",
    "LayerNorm", "Linear", "Module", "ModuleDict", "ModuleList", "Parameter",
    "ParameterDict", "ParameterList", "ReLU", "Sequential", "Tanh", "functional", "init",
]  # fmt: skip
