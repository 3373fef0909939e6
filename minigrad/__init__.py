"""minigrad: tensors and automatic differentiation on NumPy, written to be read.

>>> import minigrad as mg
>>> x = mg.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

# The library's parts are assembled here, in a paragraph each.
# ruff: noqa: E402, I001

__version__ = "0.2.0"  # pyproject.toml reads it

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

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
from . import allocator, amp, autograd, cuda, func, kernels, nn, ops, optim, utils
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

# more: other functions of PyTorch; like graph, debug and checks, it is loaded when first used
from .late_names import (
    OF_TENSOR as _OF_TENSOR,
    attributes_when_asked as _attributes_when_asked,
    load_when_asked as _load_when_asked,
)

if _TYPE_CHECKING:
    from . import debug, graph
    from .checks import GradcheckError, GradcheckReport, gradcheck, gradcheck_sweep
    from .debug import shadow
    from .more import *
    from .more import accelerator, backends, linalg, special

_PARTS = {
    **dict.fromkeys(("GradcheckError", "GradcheckReport", "gradcheck", "gradcheck_sweep"), "minigrad.checks"),
    **{name: f"minigrad.{name}" for name in ("checks", "debug", "graph", "more")},
    "shadow": "minigrad.debug",
}
_ANOMALY = dict.fromkeys(("detect_anomaly", "set_detect_anomaly"), "minigrad.debug")
# `from minigrad import *` does not hide Python's types
__all__ = [name for name in globals() if name[0] != "_" and name not in ("bool", "float", "int")] + [*_PARTS]


def _load_more() -> _Any:
    from . import more

    names = globals()
    names.update(more.NAMES)
    names["listed"] = [*dict.fromkeys([*names["listed"], *more.NAMES])]
    return more


_load_when_asked(_sys.modules[__name__], _load_more, _PARTS)
for _package in (
    nn, nn.functional, nn.utils, ops, optim, optim.lr_scheduler, cuda, func, utils, utils.data,
):  # fmt: skip
    _load_when_asked(_package, _load_more)
_load_when_asked(autograd, _load_more, _ANOMALY)
_attributes_when_asked(Tensor, "Tensor", _load_more, _OF_TENSOR)
_attributes_when_asked(nn.Module, "nn.Module", _load_more, "compile share_memory")


def _show(x: Tensor | nn.Module) -> str:
    """Return the HTML with which a notebook displays a tensor or a module."""
    from .graph import notebooks

    return notebooks.show(x)


def _numpy_ufunc(x: Tensor, *args: _Any, **settings: _Any) -> _Any:
    """Compute `ndarray * Tensor`, `np.exp(Tensor)`, ... Loading `more` replaces this function."""
    from .more.numpy_functions import array_ufunc

    return array_ufunc(x, *args, **settings)


def _numpy_function(x: Tensor, *args: _Any) -> _Any:
    """Compute `np.concatenate([Tensor])`, ... Loading `more` replaces this function."""
    from .more.numpy_functions import array_function

    return array_function(x, *args)


Tensor._repr_html_ = nn.Module._repr_html_ = _show  # type: ignore[attr-defined]
Tensor.__array_ufunc__, Tensor.__array_function__ = _numpy_ufunc, _numpy_function
