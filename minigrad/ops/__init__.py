"""Every op, and the one place where ops become methods and operators of Tensor."""

from __future__ import annotations

from ..devices import as_dtype, check_device
from ..tensor import Tensor
from . import activations, arithmetic, attention, indexing, linalg, losses, normalization, reductions, shaping
from .activations import log_softmax, relu, silu, softmax
from .arithmetic import (
    absolute,
    add,
    alias,
    astype,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    clamp,
    clone,
    cos,
    divide,
    equal,
    erf,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    remainder,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    subtract,
    tanh,
    where,
)
from .indexing import gather, getitem, index, index_select, masked_fill, one_hot
from .linalg import bmm, dot, matmul, outer
from .record import Op, composite, differentiable, fused, made_of_ops
from .reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    cumsum,
    logsumexp,
    max,
    mean,
    min,
    norm,
    std,
    sum,
    var,
)
from .shaping import (
    broadcast_to,
    cat,
    chunk,
    expand,
    expand_as,
    flatten,
    flip,
    permute,
    repeat,
    repeat_interleave,
    reshape,
    split,
    squeeze,
    stack,
    transpose,
    tril,
    triu,
    unbind,
    unflatten,
    unsqueeze,
    view,
)

abs, pow, sub, mul, div, neg = absolute, power, subtract, multiply, divide, negative
concat = cat
swapaxes = transpose


@made_of_ops
def where_self(x, condition, y):
    """x where `condition` is True, y elsewhere."""
    return where(condition, x, y)


@made_of_ops
def to(x, *targets, dtype=None, device=None):
    """x in another dtype or on another device: `to("float64")`, `to("cpu")`, `to(other_tensor)`."""
    for target in targets:
        if isinstance(target, Tensor):
            dtype = target.dtype
        elif target == "cpu" or (isinstance(target, str) and target.startswith("cuda")):
            device = target
        else:
            dtype = target
    check_device(device)
    return x if dtype is None or as_dtype(dtype) == x.dtype else astype(x, as_dtype(dtype))


def _converts_to(dtype):
    def convert(x):
        return to(x, dtype)

    convert.__doc__ = f"x as {dtype}."
    return convert


def _reflected(function):
    def reflected(y, x):
        return function(x, y)

    reflected.__doc__ = function.__doc__
    return reflected


def _reversed_axes(x):
    """The axes in reverse."""
    return permute(x, *reversed(range(x.ndim)))


def _transposed_matrices(x):
    """Each matrix transposed."""
    return transpose(x, -1, -2)


# fmt: off
_named = [
    absolute, add, all, amax, amin, any, argmax, argmin, astype, bmm, broadcast_to, chunk, clamp, clone, cos,
    cumsum,
    dot, erf, exp, expand, expand_as, expm1, flatten, flip, floor, gather, index_select, isfinite, isinf,
    isnan, log,
    log1p, log_softmax, logical_and, logical_not, logical_or, logsumexp, masked_fill, matmul, max, maximum,
    mean,
    min, minimum, norm, outer, permute, relu, remainder, repeat, repeat_interleave, reshape, rsqrt, sigmoid,
    sign,
    sin, softmax, split, sqrt, square, squeeze, std, sum, tanh, to, transpose, tril, triu, unbind, unflatten,
    unsqueeze, var,
]
_renamed = {
    "__add__": add, "__radd__": add, "__sub__": subtract, "__rsub__": _reflected(subtract),
    "__mul__": multiply,
    "__rmul__": multiply, "__truediv__": divide, "__rtruediv__": _reflected(divide), "__pow__": power,
    "__rpow__": _reflected(power), "__matmul__": matmul, "__rmatmul__": _reflected(matmul),
    "__neg__": negative,
    "__abs__": absolute, "__floordiv__": floor_divide, "__rfloordiv__": _reflected(floor_divide),
    "__mod__": remainder, "__rmod__": _reflected(remainder), "__eq__": equal, "__ne__": not_equal,
    "__lt__": less,
    "__le__": less_equal, "__gt__": greater, "__ge__": greater_equal, "__invert__": bitwise_not,
    "__and__": bitwise_and, "__rand__": bitwise_and, "__or__": bitwise_or, "__ror__": bitwise_or,
    "__getitem__": index,
    "abs": absolute, "pow": power, "sub": subtract, "mul": multiply, "div": divide, "neg": negative,
    "view": view,
    "swapaxes": transpose, "eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater,
    "ge": greater_equal, "mm": matmul, "contiguous": alias, "where": where_self, "type": to,
    "float": _converts_to("float32"), "double": _converts_to("float64"), "half": _converts_to("float16"),
    "long": _converts_to("int64"), "int": _converts_to("int32"), "bool": _converts_to("bool"),
}
# fmt: on
METHODS = {function.__name__: function for function in _named} | _renamed
PROPERTIES = {"T": _reversed_axes, "mT": _transposed_matrices}

for _name, _function in METHODS.items():
    setattr(Tensor, _name, _function)
for _name, _function in PROPERTIES.items():
    setattr(Tensor, _name, property(_function))
