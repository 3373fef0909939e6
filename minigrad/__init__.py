"""minigrad: tensors and automatic differentiation on NumPy, written to be read.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

# The parts are assembled here, one paragraph each.
# ruff: noqa: E402, I001

__version__ = "0.2.0"  # pyproject.toml reads it

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

# core: tensors, ops, nodes and the backward pass
from .core import errors, random
from .core.devices import Size
from .core.dtypes import bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from .core.dtypes import bool_ as bool
from .core.devices import check_device as device
from .core.dtypes import float16 as half
from .core.dtypes import float32 as float
from .core.dtypes import float64 as double
from .core.dtypes import int16 as short
from .core.dtypes import int32 as int
from .core.dtypes import int64 as long
from .core.errors import (
    ArgumentError,
    CaptureError,
    DependencyError,
    DeviceError,
    DtypeError,
    FileError,
    GraphError,
    MinigradError,
    MissingFileError,
    MissingImportError,
    MissingNameError,
    NonFiniteError,
    OptionError,
    OutOfMemoryError,
    RangeError,
    ShapeError,
    SignatureError,
    StateError,
)
from .core.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .core.precision import autocast, get_float32_matmul_precision, set_float32_matmul_precision
from .core.printing import set_printoptions
from .core.random import Generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .core.tensor import Tensor, as_tensor, tensor

# ops, and the public modules built from them
from .ops import *
from .ops.creation import *
from . import accelerator, allocator, amp, autograd, backends, cuda, func, kernels, nn, ops, optim, utils
from .amp import GradScaler
from .io import load_file, save_file
from .ops.checked import check_all as _check_all

_check_all(globals(), ["as_tensor", "manual_seed", "tensor"])
_check_all(vars(random), ["set_step"])

# kernels/numba: kernels for the CPU, compiled by numba
from .kernels import numba as _numba

# kernels/cuda: CuPy arrays and kernels for GPUs
from .kernels.cuda import backend as _cupy

# capture: training steps as CUDA graphs
from .capture import capture

# torch_names: PyTorch's other names
from .torch_names import *
from .torch_names import missing_names as _late

if _TYPE_CHECKING:
    from . import breadth, debug, graph
    from .breadth import *
    from .breadth import linalg, special
    from .checks import GradcheckError, GradcheckReport, gradcheck, gradcheck_sweep
    from .debug import shadow


def _load_rest() -> None:
    """Load the parts that wait until one of their names is asked for, here or in another package."""
    # checks: gradients compared with finite differences
    from .checks import GradcheckError, GradcheckReport, gradcheck, gradcheck_sweep

    # graph: tracing and drawing computation graphs
    from . import graph

    # debug: NaN, memory, differences between devices
    from . import debug
    from .debug import shadow

    # breadth: more of PyTorch's functions and layers
    from . import breadth
    from .breadth import linalg, special

    names = {name: getattr(breadth, name) for name in breadth.__all__} | {**locals()}
    globals().update(names)
    # `from minigrad import *` does not hide Python's types
    hidden = ("bool", "float", "int")
    globals()["__all__"] = [name for name in globals() if name[0] != "_" and name not in hidden]
    _late.install_missing_names(_sys.modules[__name__], _rest)


def _show(x: Tensor | nn.Module) -> str:
    """Show a tensor or module in a notebook."""
    from .graph import notebooks

    return notebooks.show(x)


Tensor._repr_html_ = nn.Module._repr_html_ = _show  # type: ignore[attr-defined]
_rest = _late.Rest(_load_rest, [nn, nn.functional, ops])
_late.bind_late_methods(Tensor, _rest)
_late.install_missing_names(_sys.modules[__name__], _rest)
