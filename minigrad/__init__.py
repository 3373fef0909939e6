"""minigrad: tensors and automatic differentiation on NumPy, to read to the bottom.

import minigrad as mg

x = mg.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
x.grad                       # tensor([2., 4.])
"""

__version__ = "0.2.0"  # pyproject.toml reads it

import sys as _sys

from . import accelerator, allocator, amp, autograd, backends, cuda, debug, func, graph, nn, ops, optim, utils
from .breadth import linalg, special
from .core import random
from .capture import capture
from .core.checks import check_all as _check_all
from .ops.creation import *
from .debug import shadow
from .core.devices import Size, bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from .core.devices import bool_ as bool
from .core.devices import check_device as device
from .core.devices import float16 as half
from .core.devices import float32 as float
from .core.devices import float64 as double
from .core.devices import int16 as short
from .core.devices import int32 as int
from .core.devices import int64 as long
from .core.errors import ArgumentError, CaptureError, DependencyError, DeviceError, DtypeError, FileError, GraphError, MinigradError, MissingFileError, MissingImportError, MissingNameError, NonFiniteError, OptionError, OutOfMemoryError, RangeError, ShapeError, SignatureError, StateError
from .gradcheck import GradcheckError, GradcheckReport, gradcheck, gradcheck_sweep
from .torch_names.missing import refuse_missing as _refuse_missing
from .io import load_file, save_file
from .core.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .torch_names.aliases import *
from .graph.notebooks import bind as _bind_notebooks
from .ops import *
from .core.precision import GradScaler, autocast, get_float32_matmul_precision, set_float32_matmul_precision
from .core.printing import set_printoptions
from .core.random import Generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .core.tensor import Tensor, as_tensor, tensor

_bind_notebooks()
_check_all(globals(), ["as_tensor", "manual_seed", "tensor"])
_refuse_missing(_sys.modules[__name__])

# `from minigrad import *` leaves Python's types their names
__all__ = [name for name in dir() if not name.startswith("_") and name not in ("bool", "float", "int")]
