"""PyTorch's names: aliases, errors for missing names, and NumPy's functions on Tensors."""

from __future__ import annotations

from ..core.tensor import Tensor
from ..ops.methods import bind
from . import missing_names
from . import torch_aliases as aliases
from .numpy_functions import array_function, array_ufunc
from .torch_aliases import *

bind(aliases.METHODS, aliases.PROPERTIES)
Tensor.__array_ufunc__ = array_ufunc
Tensor.__array_function__ = array_function

__all__ = aliases.__all__
