"""PyTorch's other names: aliases, what is missing and what to use instead, and NumPy's protocol."""

from __future__ import annotations

from ..core.tensor import Tensor
from ..ops.methods import FUNCTIONS, bind
from . import aliases
from .aliases import *
from .conversions import Conversions
from .missing import refuse_missing
from .numpy_functions import WITHOUT_GRADIENT, array_function, array_ufunc

bind(aliases.METHODS, aliases.PROPERTIES)
Tensor.__array_ufunc__ = array_ufunc(FUNCTIONS)
Tensor.__array_function__ = array_function(FUNCTIONS)
conversions = Conversions(WITHOUT_GRADIENT | {"all", "any", "argmax", "argmin", "nonzero"})
Tensor.__array__ = conversions.array(Tensor.__array__)  # type: ignore[method-assign]
Tensor.__float__ = conversions.number(Tensor.__float__)  # type: ignore[method-assign]

__all__ = aliases.__all__
