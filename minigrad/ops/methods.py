"""Binds ops as methods, operators and properties of Tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from ..core.arithmetic import to
from ..core.errors import DtypeError
from ..core.methods import METHODS, PROPERTIES, bind, reflected  # noqa: F401
from ..core.tensor import Tensor, from_other_library
from . import (
    activations,
    arithmetic,
    comparisons,
    creation,
    elementary,
    indexing,
    linalg,
    logic,
    padding,
    reductions,
    repeat_and_flip,
    rounding,
    sampling,
    scans,
    scattering,
    selection,
    shaping,
    sorting,
    stacking,
    statistics,
    triangles,
    views,
)
from .arithmetic import (
    absolute,
    multiply,
    power,
)
from .checked import check_methods
from .comparisons import bitwise_and, bitwise_not, bitwise_or, eq, ge, gt, le, lt, ne, where
from .in_place import assign
from .indexing import index
from .linalg import matmul
from .logic import bitwise_left_shift, bitwise_right_shift, bitwise_xor
from .methods_in_place import OWN, methods_in_place, of_a_tensor
from .rounding import floor_divide, positive, remainder
from .shaping import permute, transpose

FUNCTIONS: dict[str, Callable[..., Any]] = {}  # every function that is `mg.NAME`


def bind_functions(families: Iterable[ModuleType], not_methods: set[str]) -> dict[str, Callable[..., Any]]:
    """Bind the functions of these modules as methods, along with their in-place variants.

    Returns the functions that users find as `mg.NAME`.
    """
    functions = {name: getattr(family, name) for family in families for name in family.__all__}
    FUNCTIONS.update(functions)
    in_place = methods_in_place(functions)
    bind({name: f for name, f in functions.items() if name not in not_methods} | in_place)
    return functions | {name: of_a_tensor(in_place[name]) for name in IN_PLACE_FUNCTIONS if name in in_place}


def where_self(x, condition, y):
    """x where `condition` is True, y elsewhere."""
    return where(condition, x, y)


def _converts_to(dtype):
    def convert(x):
        return to(x, dtype)

    convert.__doc__ = f"Convert x to {dtype}."
    return convert


def _comparing(function):
    @wraps(function)
    def compare(x, y):
        known = isinstance(y, Tensor | np.generic | int | float | list | tuple) or hasattr(y, "__array__")
        if not known and not hasattr(y, "__dlpack__"):
            return NotImplemented  # `x == None`, `x == "cpu"` are False
        return function(x, y)

    return compare


def _contains(x, element):
    """Whether any element of x equals `element`, a number or a tensor."""
    element = from_other_library(element)
    if not isinstance(element, int | float | np.generic | np.ndarray | Tensor):
        raise DtypeError(f"`in` needs a number or a tensor, got {element!r}.\nPass one of them.")
    return bool(eq(x, element).any())


def _times(x, y):
    """y * x for a y that is not a Tensor: a list or a string is repeated x times."""
    if type(y) in _REPEATED and not x.ndim and x.dtype.kind in "iu":
        return NotImplemented
    return multiply(x, y)


_REPEATED = {list, tuple, str}


def _reversed_axes(x):
    """Reverse the axes."""
    return permute(x, *reversed(range(x.ndim)))


def _transposed_matrices(x):
    """Transpose each matrix."""
    return transpose(x, -1, -2)


IN_PLACE_FUNCTIONS = (  # PyTorch's in-place functions: `mg.relu_(x)` is `x.relu_()`
    "abs_", "acos_", "acosh_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_", "asin_",
    "asinh_", "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_", "clamp_min_", "clip_", "cos_", "cosh_",
    "deg2rad_", "detach_", "erf_", "erfc_", "exp2_", "exp_", "expm1_", "fill_", "fix_", "floor_", "frac_",
    "index_put_", "log10_", "log1p_", "log2_", "log_", "logit_", "nan_to_num_", "neg_", "negative_",
    "rad2deg_", "reciprocal_", "relu_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_",
    "square_", "tan_", "tanh_", "trunc_", "xlogy_", "zero_",
)  # fmt: skip

FAMILIES = (
    arithmetic, elementary, comparisons, activations, reductions, shaping, indexing, linalg, rounding, logic,
    statistics, scans, sorting, sampling, views, stacking, repeat_and_flip, selection, scattering, padding,
    triangles,
)  # fmt: skip

# functions that are not methods in PyTorch; most do not take one tensor first
NOT_METHODS = {
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "cat", "column_stack", "concat",
    "concatenate", "constant_pad_nd", "dstack", "fill", "hstack", "one_hot", "silu", "stack", "vstack",
    "where",
}  # fmt: skip

# operators, and methods that differ from the function
# fmt: off
OTHERS = {
    **{function.__name__: function for function in OWN},
    "new_empty": creation.new_empty, "new_full": creation.new_full,
    "new_ones": creation.new_ones, "new_tensor": creation.new_tensor, "new_zeros": creation.new_zeros,
    "__rmul__": _times, "__pow__": power,
    "__rpow__": reflected(power), "__matmul__": matmul, "__rmatmul__": reflected(matmul),
    "__abs__": absolute, "__floordiv__": floor_divide, "__rfloordiv__": reflected(floor_divide),
    "__mod__": remainder, "__rmod__": reflected(remainder),
    "__eq__": _comparing(eq), "__ne__": _comparing(ne),
    "__lt__": lt, "__le__": le, "__gt__": gt, "__ge__": ge,
    "__lshift__": bitwise_left_shift, "__rlshift__": reflected(bitwise_left_shift),
    "__rshift__": bitwise_right_shift, "__rrshift__": reflected(bitwise_right_shift),
    "__xor__": bitwise_xor, "__rxor__": bitwise_xor, "__pos__": positive,
    "__invert__": bitwise_not,
    "__and__": bitwise_and, "__rand__": bitwise_and, "__or__": bitwise_or, "__ror__": bitwise_or,
    "__getitem__": index, "__setitem__": assign, "__contains__": _contains,
    "where": where_self,
    "float": _converts_to("float32"), "double": _converts_to("float64"), "half": _converts_to("float16"),
    "bfloat16": _converts_to("bfloat16"),
    "long": _converts_to("int64"), "int": _converts_to("int32"), "short": _converts_to("int16"),
    "char": _converts_to("int8"), "byte": _converts_to("uint8"), "bool": _converts_to("bool"),
}
# fmt: on

PUBLIC = bind_functions(FAMILIES, NOT_METHODS)
bind(OTHERS, {"T": _reversed_axes, "mT": _transposed_matrices, "H": _transposed_matrices})
PUBLIC |= {name: of_a_tensor(METHODS[name]) for name in IN_PLACE_FUNCTIONS if name in OTHERS}
check_methods(Tensor, ["add_", "fill_", "requires_grad_", "size", "sub_"])
