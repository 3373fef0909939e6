"""PyTorch's names: aliases, errors for missing names, and NumPy's functions on Tensors."""

from __future__ import annotations

from ..core.tensor import Tensor
from ..ops.methods import bind
from . import missing_names
from . import torch_aliases as aliases
from .conversions import Conversions
from .numpy_functions import WITHOUT_GRADIENT, array_function, array_ufunc
from .torch_aliases import *

bind(aliases.METHODS, aliases.PROPERTIES)
Tensor.__array_ufunc__ = array_ufunc
Tensor.__array_function__ = array_function
conversions = Conversions(WITHOUT_GRADIENT | {"all", "any", "argmax", "argmin", "nonzero"})
Tensor.__array__ = conversions.array(Tensor.__array__)  # type: ignore[method-assign]
Tensor.__float__ = conversions.number(Tensor.__float__)  # type: ignore[method-assign]

__all__ = aliases.__all__
