"""Every op. What a Transformer needs is in this package, the rest of PyTorch's in `extra`.

`op` says what an op is; `methods` makes them methods and operators of Tensor.
"""

from __future__ import annotations

from ..core.modes import fused
from . import attention, losses, normalization
from .activations import *
from .arithmetic import *
from .arithmetic import alias, astype, to_device
from .comparisons import *
from .elementary import *
from ..breadth import *
from .methods_in_place import of_a_tensor
from .indexing import *
from .linalg import *
from .methods import FUNCTIONS, IN_PLACE_FUNCTIONS, METHODS, PROPERTIES, bind
from ..core.op import About, Op, OpInfo, composite, derived, differentiable, registry
from .reductions import *
from .shaping import *

__all__ = [*FUNCTIONS, *IN_PLACE_FUNCTIONS, "fused"]

globals().update({name: of_a_tensor(METHODS[name]) for name in IN_PLACE_FUNCTIONS})

bind()
