"""Every op, and the one place where ops become methods and operators of Tensor."""

from __future__ import annotations

from ..tensor import Tensor
from . import activations, arithmetic, attention, indexing, linalg, losses, normalization, reductions, shaping
from .activations import log_softmax, relu, softmax
from .arithmetic import (
    absolute,
    add,
    alias,
    astype,
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
from .linalg import dot, matmul, outer
from .record import Op, composite, differentiable, fused, ops
from .reductions import all, amax, amin, any, argmax, argmin, cumsum, logsumexp, max, mean, min, std, sum, var
from .shaping import (
    broadcast_to,
    cat,
    chunk,
    expand,
    flatten,
    flip,
    permute,
    reshape,
    split,
    squeeze,
    stack,
    transpose,
    tril,
    triu,
    unsqueeze,
    view,
)

abs, pow, sub, mul, div, neg = absolute, power, subtract, multiply, divide, negative
concat = cat
swapaxes = transpose

# fmt: off
_METHODS = [
    abs, add, all, amax, amin, any, argmax, argmin, astype, broadcast_to, chunk, clamp, clone, cos, cumsum, dot, erf, exp,
    expand, expm1, flatten, flip, floor, gather, index_select, isfinite, isinf, isnan, log, log1p, log_softmax, logical_and,
    logical_not, logical_or, logsumexp, masked_fill, matmul, max, maximum, mean, min, minimum, outer, permute, relu,
    remainder, reshape, rsqrt, sigmoid, sign, sin, softmax, split, sqrt, square, squeeze, std, sum, tanh, transpose,
    tril, triu, unsqueeze, var, where,
]
_OPERATORS = {
    "__add__": add, "__radd__": add, "__sub__": subtract, "__mul__": multiply, "__rmul__": multiply, "__truediv__": divide,
    "__pow__": power, "__neg__": negative, "__abs__": absolute, "__matmul__": matmul, "__floordiv__": floor_divide,
    "__mod__": remainder, "__eq__": equal, "__ne__": not_equal, "__lt__": less, "__le__": less_equal, "__gt__": greater,
    "__ge__": greater_equal, "__invert__": logical_not, "__and__": logical_and, "__or__": logical_or, "__getitem__": index,
    "__rsub__": lambda x, y: subtract(y, x), "__rtruediv__": lambda x, y: divide(y, x),
    "__rpow__": lambda x, y: power(y, x), "__rmatmul__": lambda x, y: matmul(y, x),
    "abs": absolute, "pow": power, "sub": subtract, "mul": multiply, "div": divide, "neg": negative, "view": view,
    "swapaxes": transpose, "eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater, "ge": greater_equal,
    "absolute": absolute, "mm": matmul, "contiguous": alias,
}
# fmt: on


def _to(x: Tensor, *targets, dtype=None, device=None) -> Tensor:
    """x in another dtype or on another device: `to("float64")`, `to("cpu")`, `to(dtype=...)`."""
    from ..devices import as_dtype, check_device

    for target in targets:
        if target == "cpu" or (isinstance(target, str) and target.startswith("cuda")):
            device = target
        else:
            dtype = target
    check_device(device)
    return x if dtype is None or as_dtype(dtype) == x.dtype else astype(x, as_dtype(dtype))


def _type_as(name: str):
    def convert(x: Tensor) -> Tensor:
        return _to(x, name)

    convert.__doc__ = f"x as {name}."
    return convert


for _method in _METHODS:
    setattr(Tensor, _method.__name__, _method)
for _name, _function in _OPERATORS.items():
    setattr(Tensor, _name, _function)
Tensor.to, Tensor.type = _to, _to  # type: ignore[attr-defined]
for _short, _long in {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "bool": "bool",
}.items():
    setattr(Tensor, _short, _type_as(_long))
Tensor.T = property(lambda x: permute(x, *reversed(range(x.ndim))), doc="The axes in reverse.")  # type: ignore[attr-defined]
Tensor.mT = property(lambda x: transpose(x, -1, -2), doc="Each matrix transposed.")  # type: ignore[attr-defined]
