"""The ops used to train a Transformer, including in-place ones: one file per family.

`core/op.py` explains what an op is; `methods` binds the ops as methods and operators of Tensor.
"""

from __future__ import annotations

from ..core.composites import composite
from ..core.modes import fused
from ..core.op import About, Op, OpInfo, derived, differentiable, registry
from . import array_functions, attention, losses, normalization, norms, quantized, recurrent
from .activations import *
from .arithmetic import *
from .arithmetic import alias, astype, to_device
from .comparisons import *
from .elementary import *
from .indexing import *
from .linalg import *
from .logic import *
from .methods import FUNCTIONS, METHODS, PROPERTIES, PUBLIC
from .padding import *
from .reductions import *
from .repeat_and_flip import *
from .rounding import *
from .sampling import *
from .scans import *
from .scattering import *
from .selection import *
from .shaping import *
from .sorting import *
from .stacking import *
from .statistics import *
from .triangles import *
from .views import *

globals().update(PUBLIC)

__all__ = [*PUBLIC, "fused"]
