"""The ops that training a Transformer uses, in-place ones included: one file a family.

`core/op.py` says what an op is; `methods` makes them methods and operators of Tensor.
"""

from __future__ import annotations

from ..core.modes import fused
from ..core.op import About, Op, OpInfo, composite, derived, differentiable, registry
from . import array_functions, attention, losses, normalization, recurrent
from .arithmetic import alias, astype, to_device
from .methods import FUNCTIONS, METHODS, PROPERTIES, PUBLIC

globals().update(PUBLIC)

__all__ = [*PUBLIC, "fused"]
