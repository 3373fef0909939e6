"""NumPy's functions on Tensors: with NumPy's names, arguments and semantics, implemented by ops.

A function returns NotImplemented for arguments for which its result would differ from NumPy's. Arguments that
it does not have are accepted only if they are None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.errors import ShapeError
from ..core.tensor import as_tensor
from ..ops.arithmetic import astype, clone, multiply
from ..ops.axes import axes_of, axis_of
from ..ops.indexing import checked_places, getitem
from ..ops.linalg import matmul
from ..ops.padding import pad
from ..ops.shaping import permute, transpose, unsqueeze
from ..ops.views import ravel
from . import contractions, decompositions, inverses, matrix_products, norms

# NumPy's names of ufuncs that are not PyTorch's
_UFUNCS = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "conjugate": "clone", "degrees": "rad2deg",
    "divide": "div", "equal": "eq", "fabs": "abs", "greater": "gt", "greater_equal": "ge",
    "invert": "bitwise_not", "left_shift": "bitwise_left_shift", "less": "lt", "less_equal": "le",
    "mod": "remainder", "multiply": "mul", "negative": "neg", "not_equal": "ne", "power": "pow",
    "radians": "deg2rad", "right_shift": "bitwise_right_shift", "rint": "round", "subtract": "sub",
}  # fmt: skip
_REDUCES = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin",
            "logical_and": "all", "logical_or": "any", "logaddexp": "logsumexp"}  # fmt: skip
_ACCUMULATES = {"add": "cumsum", "multiply": "cumprod"}


def ufunc_counterpart(of: Mapping[str, Any], name: str, method: str) -> Callable | None:
    """The counterpart of `np.NAME`, or of its `.reduce`, `.accumulate` or `.outer`; None if there is none.

    `of` are minigrad's functions by name.
    """
    if method == "__call__" and name not in _SEVERAL_OPS:
        return of.get(_UFUNCS.get(name, name))
    if method == "reduce" and name in _REDUCES:
        return lambda array, axis=0, keepdims=False: of[_REDUCES[name]](as_tensor(array), axis, keepdims)
    if method == "accumulate" and name in _ACCUMULATES:
        return lambda array, axis=0: of[_ACCUMULATES[name]](as_tensor(array), axis)
    function = _SEVERAL_OPS.get(name, of.get(_UFUNCS.get(name, name)))
    if method == "outer" and function is not None:
        return lambda x, y: function(_append_axes(as_tensor(x), as_tensor(y).ndim), y)
    return function if method == "__call__" else None


def _append_axes(x, n):
    return x.reshape((*x.shape, *(1,) * n))


_SEVERAL_OPS = {
    "divmod": lambda x, y: (as_tensor(x) // y, as_tensor(x) % y),
    "modf": lambda x: (x.frac(), x.trunc()),
    "vecdot": matrix_products.vecdot,
    "matvec": lambda x, y: matmul(x, unsqueeze(y, -1)).squeeze(-1),
    "vecmat": lambda x, y: matmul(unsqueeze(x, -2), y).squeeze(-2),
}


def counterparts(of: Mapping[str, Any]) -> dict[str, Callable]:
    """Functions with NumPy's names and arguments, built from minigrad's functions `of`, by name."""
    line = lambda x: ravel(as_tensor(x))
    as_list = lambda name: (
        lambda ary, indices_or_sections: list(of[name](as_tensor(ary), indices_or_sections))
    )

    joined = lambda name: lambda tup: of[name](tup)

    def reduction(name):
        def reduced(a, axis=None, keepdims=False):
            return NotImplemented if axis == () else of[name](as_tensor(a), axis, keepdims)

        return reduced

    def total(name):
        def reduced(a, axis=None, dtype=None, keepdims=False):
            return NotImplemented if axis == () else of[name](as_tensor(a), axis, keepdims, dtype)

        return reduced

    def spread(name):
        def spread(a, axis=None, ddof=0, keepdims=False, correction=None):
            ddof = ddof if correction is None else correction
            return of[name](as_tensor(a), axis, correction=ddof, keepdim=keepdims)

        return spread

    def scan(name):
        def scanned(a, axis=None, dtype=None):
            return of[name](line(a) if axis is None else as_tensor(a), axis or 0, dtype)

        return scanned

    def quantile(name, scale=1):
        def quantile(a, q, axis=None, method="linear", keepdims=False):
            a = as_tensor(a)
            simple = method in ("linear", "lower", "higher", "midpoint") and not isinstance(axis, tuple)
            if not simple or not a.is_floating_point():
                return NotImplemented
            q = as_tensor(np.asarray(q) / scale, dtype=a.dtype)
            return of[name](a, q, axis, keepdims, interpolation=method)

        return quantile

    median = lambda name: lambda a, axis=None, keepdims=False: quantile(name)(a, 0.5, axis, keepdims=keepdims)

    def where(condition, *xy):
        return of["where"](condition, *xy) if xy else of["nonzero"](condition, as_tuple=True)

    def clip(a, a_min=None, a_max=None, *, min=None, max=None):
        return of["clamp"](as_tensor(a), a_min if min is None else min, a_max if max is None else max)

    def gradient(f, *varargs, axis=None, edge_order=1):
        if len(varargs) > 1 or any(np.ndim(step) for step in varargs):
            return NotImplemented
        parts = of["gradient"](f, spacing=[*varargs, 1][0], dim=axis, edge_order=edge_order)
        return parts[0] if len(parts) == 1 else tuple(parts)

    def average(a, axis=None, weights=None, keepdims=False):
        if weights is None:
            return of["mean"](as_tensor(a), axis, keepdims)
        if np.shape(weights) != np.shape(a):
            return NotImplemented
        return multiply(a, weights).sum(axis, keepdims) / as_tensor(weights).sum(axis, keepdims)

    def cov(m, *, rowvar=True, bias=False, ddof=None):
        m = as_tensor(m)
        return of["cov"](m if rowvar or m.ndim < 2 else m.T, correction=1 - bias if ddof is None else ddof)

    def trace(a, offset=0, axis1=0, axis2=1):
        return of["diagonal"](as_tensor(a), offset, axis1, axis2).sum(-1)

    def outer(a, b):
        return of["outer"](line(a), line(b))

    def tensordot(a, b, axes=2):
        if not isinstance(axes, int):
            axes = [list(axis) if np.ndim(axis) else [axis] for axis in axes]
        return of["tensordot"](as_tensor(a), as_tensor(b), axes)

    def dot(a, b):
        a, b = as_tensor(a), as_tensor(b)
        if not (a.ndim and b.ndim):
            return multiply(a, b)
        return matmul(a, b) if b.ndim <= 2 else of["tensordot"](a, b, ([a.ndim - 1], [b.ndim - 2]))

    def inner(a, b):
        return of["inner"](a, b) if np.ndim(a) and np.ndim(b) else multiply(a, b)

    def cross(a, b, axis=-1):
        if np.shape(a)[axis] != 3 or np.shape(b)[axis] != 3:
            return NotImplemented
        return of["cross"](*of["broadcast_tensors"](a, b), axis)

    def einsum(*operands, optimize=None):
        return of["einsum"](*operands)

    def concatenate(arrays, axis=0):
        return of["cat"](list(map(line, arrays)) if axis is None else arrays, axis or 0)

    def take(a, indices, axis=None):
        if axis is None:
            return of["take"](a, indices)
        a = as_tensor(a)
        axis = axis_of(axis, a.ndim)
        return getitem(a, (slice(None),) * axis + (checked_places("take", indices, a, axis, negative=True),))

    return {
        **{name: reduction(name) for name in ("amax", "amin", "argmax", "argmin", "all", "any")},
        "max": reduction("amax"), "min": reduction("amin"), "ptp": _range,
        **{name: total(name) for name in ("sum", "mean", "prod", "nansum", "nanmean")},
        **{name: spread(name) for name in ("std", "var")},
        **{name: scan(name) for name in ("cumsum", "cumprod")},
        "cumulative_sum": scan("cumsum"), "cumulative_prod": scan("cumprod"),
        "median": median("quantile"), "nanmedian": median("nanquantile"),
        "quantile": quantile("quantile"), "nanquantile": quantile("nanquantile"),
        "percentile": quantile("quantile", 100), "nanpercentile": quantile("nanquantile", 100),
        "average": average, "cov": cov,
        "corrcoef": lambda x, *, rowvar=True: of["corrcoef"](x if rowvar or x.ndim < 2 else x.T),
        # element by element
        "where": where, "clip": clip, "copy": lambda a: clone(a), "astype": lambda x, dtype: astype(x, dtype),
        "around": lambda a, decimals=0: of["round"](a, decimals=decimals),
        "round": lambda a, decimals=0: of["round"](a, decimals=decimals),
        "fix": lambda x: of["trunc"](x), "sinc": lambda x: of["sinc"](x), "real": lambda val: of["real"](val),
        "angle": lambda z, deg=False: of["rad2deg"](of["angle"](z)) if deg else of["angle"](z),
        "nan_to_num": lambda x, copy=True, nan=0.0, posinf=None, neginf=None: (
            of["nan_to_num"](x, nan, posinf, neginf)
        ),
        # shapes
        "reshape": lambda a, shape: of["reshape"](a, shape), "ravel": line,
        "transpose": lambda a, axes=None: permute(a, axes or tuple(reversed(range(a.ndim)))),
        "matrix_transpose": _transposed, "linalg.matrix_transpose": _transposed,
        "swapaxes": lambda a, axis1, axis2: transpose(a, axis1, axis2),
        "moveaxis": lambda a, source, destination: of["movedim"](a, source, destination),
        "expand_dims": _expand_dims, "squeeze": _squeeze,
        "broadcast_to": lambda array, shape: of["broadcast_to"](array, tuple(np.atleast_1d(shape).tolist())),
        "broadcast_arrays": lambda *args: of["broadcast_tensors"](*args),
        **{name: of[name] for name in ("atleast_1d", "atleast_2d", "atleast_3d")},
        "stack": lambda arrays, axis=0: of["stack"](arrays, axis), "concatenate": concatenate,
        "append": lambda arr, values, axis=None: concatenate((arr, values), axis),
        **{name: joined(name) for name in ("hstack", "vstack", "dstack", "column_stack")},
        "split": _split, "unstack": lambda x, *, axis=0: of["unbind"](x, axis),
        "array_split": lambda ary, indices_or_sections, axis=0: list(
            of["tensor_split"](ary, indices_or_sections, axis)
        ),
        **{name: as_list(name) for name in ("hsplit", "vsplit", "dsplit")},
        # reordering and repeating
        "flip": lambda m, axis=None: of["flip"](m, dim=tuple(range(m.ndim)) if axis is None else axis),
        "fliplr": lambda m: of["fliplr"](m), "flipud": lambda m: of["flipud"](m),
        "rot90": lambda m, k=1, axes=(0, 1): of["rot90"](m, k, axes),
        "roll": lambda a, shift, axis=None: of["roll"](a, shift, axis),
        "tile": lambda A, reps: of["tile"](A, *([reps] if isinstance(reps, int) else reps)),
        "repeat": lambda a, repeats, axis=None: of["repeat_interleave"](a, as_repeats(repeats), axis),
        "pad": _pad, "take": take,
        "take_along_axis": lambda arr, indices, axis=-1: of["take_along_dim"](arr, indices, axis),
        "extract": lambda condition, arr: of["masked_select"](line(arr), line(condition) != 0),
        "sort": lambda a, axis=-1, kind=None, stable=None: (
            of["sort"](line(a) if axis is None else a, axis or 0 if axis is None else axis).values
        ),
        "nonzero": where, "meshgrid": lambda *xi, indexing="xy": of["meshgrid"](*xi, indexing=indexing),
        # matrices
        "diag": lambda v, k=0: of["diag"](v, k), "diagflat": lambda v, k=0: of["diagflat"](v, k),
        "tril": lambda m, k=0: of["tril"](m, k), "triu": lambda m, k=0: of["triu"](m, k),
        "diagonal": lambda a, offset=0, axis1=0, axis2=1: of["diagonal"](a, offset, axis1, axis2),
        "linalg.diagonal": lambda x, *, offset=0: of["diagonal"](x, offset, -2, -1),
        "trace": trace, "linalg.trace": lambda x, *, offset=0: trace(x, offset, -2, -1),
        "einsum": einsum, "kron": lambda a, b: of["kron"](a, b),
        "tensordot": tensordot, "linalg.tensordot": lambda x1, x2, *, axes=2: tensordot(x1, x2, axes),
        "dot": dot, "inner": inner, "vdot": lambda a, b: matmul(line(a), line(b)),
        "outer": outer, "linalg.outer": lambda x1, x2, /: outer(x1, x2),
        "cross": lambda a, b, *, axis=-1: cross(a, b, axis),
        "linalg.cross": lambda x1, x2, /, *, axis=-1: cross(x1, x2, axis),
        "linalg.matmul": lambda x1, x2, /: matmul(x1, x2),
        "linalg.vecdot": lambda x1, x2, /, *, axis=-1: matrix_products.vecdot(x1, x2, dim=axis),
        # differences
        "diff": lambda a, n=1, axis=-1: of["diff"](a, n, axis), "ediff1d": lambda ary: of["diff"](line(ary)),
        "trapezoid": lambda y, x=None, dx=1.0, axis=-1: of["trapezoid"](y, x, dx=dx, dim=axis)
        if x is None or np.ndim(x)
        else NotImplemented,
        "gradient": gradient, "vander": _vander, **_LINALG,
    }  # fmt: skip


def as_repeats(repeats: Any) -> Any:
    """Repeats as one number, or as an array with one for each element."""
    return repeats if isinstance(repeats, int) else np.asarray(repeats)


def _range(a, axis=None, keepdims=False):
    a = as_tensor(a)
    return a.amax(axis, keepdims) - a.amin(axis, keepdims)


def _transposed(x, /):
    return transpose(x, -1, -2)


def _expand_dims(a, axis):
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    for place in sorted(axis % (np.ndim(a) + len(axes)) for axis in axes):
        a = unsqueeze(a, place)
    return a


def _squeeze(a, axis=None):
    for d in () if axis is None else axes_of(axis, a.ndim):
        if a.shape[d] != 1:
            raise ShapeError(
                f"cannot squeeze axis {d} of shape {a.shape}: its length is not 1.\nPass axes of length 1."
            )
    return a.squeeze() if axis is None else a.squeeze(axis)


def _split(ary, indices_or_sections, axis=0):
    n = ary.shape[axis_of(axis, ary.ndim)]
    if isinstance(indices_or_sections, int) and n % indices_or_sections:
        raise ShapeError(
            f"cannot split axis {axis} of length {n} into {indices_or_sections} equal pieces.\n"
            f"Use np.array_split."
        )
    return list(ary.tensor_split(indices_or_sections, axis))


def _pad(array, pad_width, mode="constant", constant_values=0):
    modes = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}
    if mode not in modes or isinstance(pad_width, dict) or np.ndim(constant_values):
        return NotImplemented
    widths = np.broadcast_to(pad_width, (array.ndim, 2))[::-1].reshape(-1).tolist()
    return pad(array, widths, modes[mode], constant_values if mode == "constant" else None)


def _vander(x, N=None, increasing=False):
    powers = matrix_products.vander(as_tensor(x), N)
    return powers if increasing else powers.flip(-1)


def _solve(a, b):
    a, b = as_tensor(a), as_tensor(b)
    if b.ndim == 1:  # the same vector for every matrix
        return inverses.solve(a, unsqueeze(b, -1)).squeeze(-1)
    return inverses.solve(a, b.reshape((1,) * (a.ndim - b.ndim) + b.shape))


def _svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    if hermitian:
        return NotImplemented
    return decompositions.svd(a, full_matrices) if compute_uv else decompositions.svdvals(a)


_LINALG = {
    "linalg.norm": lambda x, ord=None, axis=None, keepdims=False: norms.linalg_norm(x, ord, axis, keepdims),
    "linalg.matrix_norm": lambda x, /, *, keepdims=False, ord="fro": norms.matrix_norm(
        x, ord, keepdim=keepdims
    ),
    "linalg.vector_norm": lambda x, /, *, axis=None, keepdims=False, ord=2: norms.vector_norm(
        x, ord, axis, keepdims
    ),
    "linalg.cond": lambda x, p=None: norms.cond(x, p),
    "linalg.det": lambda a: inverses.det(a),
    "linalg.slogdet": lambda a: inverses.slogdet(a),
    "linalg.inv": lambda a: inverses.inv(a),
    "linalg.pinv": lambda a, rcond=None, hermitian=False, *, rtol=None: inverses.pinv(
        a, rtol=rtol if rcond is None else rcond, hermitian=hermitian
    ),
    "linalg.solve": _solve,
    "linalg.matrix_power": lambda a, n: inverses.matrix_power(a, n),
    "linalg.multi_dot": lambda arrays: contractions.multi_dot(arrays),
    "linalg.tensorinv": lambda a, ind=2: inverses.tensorinv(a, ind),
    "linalg.tensorsolve": lambda a, b, axes=None: inverses.tensorsolve(a, b, axes),
    "linalg.cholesky": lambda a, /, *, upper=False: decompositions.cholesky(a, upper),
    "linalg.qr": lambda a, mode="reduced": (
        decompositions.qr(a, mode) if mode in ("reduced", "complete") else NotImplemented
    ),
    "linalg.svd": _svd,
    "linalg.svdvals": lambda x, /: decompositions.svdvals(x),
    "linalg.eigh": lambda a, UPLO="L": decompositions.eigh(a, UPLO),
    "linalg.eigvalsh": lambda a, UPLO="L": decompositions.eigvalsh(a, UPLO),
}
