"""Cumulative sums and extremes along an axis: element i of the result depends on elements 0 to i."""

from __future__ import annotations

import math

import numpy as np

from ..core.costs import per_element
from ..core.devices import through_cpu
from ..core.dtypes import is_floating
from ..core.namespace import namespace, value_in_rule
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor, constant
from .axes import axis_of, cast, slice_along
from .reductions import Extremes
from .samplers import along_axis, cases, distinct, real
from .statistics import accumulate_in_float64, sums_from_the_end

__family__ = "reduction"
__all__ = ["cummax", "cummin", "cumsum", "logcumsumexp"]


@differentiable(autocast="float32", samples=along_axis(real) | cases((real,), 0), latex=r"\sum_{j \ge i} g_j")
def cumsum(x, /, dim, dtype=None):
    """Compute the cumulative sum along `dim`; the gradient is the cumulative sum from the end.

    Integers and booleans are summed in int64, floats on the CPU in float64: the error for a million numbers
    of 0.1 is 1e-8 instead of 1e-2, in 1.5 times the time.
    """
    xp = namespace(x)
    dim = axis_of(dim, x.ndim)
    source = x.dtype
    x = cast(x, dtype, "int64")
    if not x.ndim:
        return xp.copy(x), (lambda g: cast(g, source),)
    add_up = lambda x: accumulate_in_float64(lambda x: xp.cumsum(x, axis=dim, dtype=x.dtype), x)
    back = lambda g: xp.flip(add_up(xp.flip(g, axis=dim)), axis=dim)
    return add_up(x), (lambda g: cast(back(g), source),) if is_floating(x.dtype) else None


@differentiable(
    autocast="float32",
    floating=True,
    samples=along_axis(real) | cases(np.array([1.0, 500.0, -500.0, 501.0]), 0) | cases((real,), 0),
    latex=r"\sum_{j \ge i} g_j\,e^{x_i - y_j}",
    flops=per_element(4),
)
def logcumsumexp(x, /, dim):
    """Compute y = log(cumsum(exp(x))), without overflow.

    dx_i = e**(x_i - y_i) s_i, with s_i = g_i + e**(y_i - y_{i+1}) s_{i+1}: no exponent is positive. If all
    elements so far are -inf, the derivative is 0.
    """
    xp = namespace(x)
    dim = axis_of(dim, x.ndim)
    if not x.ndim:
        return xp.copy(x), (lambda g: g,)
    accumulate = lambda x: np.logaddexp.accumulate(x, axis=dim)
    y = value_in_rule(
        "logcumsumexp", lambda x, dim: through_cpu(accumulate_in_float64, accumulate, x), x, dim
    )

    def gradient(g):
        empty = xp.stop_gradient(y == -math.inf)
        level = xp.where(empty, 0.0, y)
        step = slice_along(level, dim, None, -1) - slice_along(level, dim, 1)
        factors = xp.exp(xp.where(slice_along(empty, dim, None, -1), -math.inf, step))
        return xp.exp(x - level) * sums_from_the_end(xp, g, factors, dim)

    return y, (gradient,)


# ---------------------------------------------------------------- extremes


def _cumulative_extreme(accumulate, x, dim):
    """Return (values, indices) of the extreme so far; of equal elements, or NaNs, the index of the last."""
    x = as_tensor(x)
    dim = axis_of(dim, x.ndim)
    if not x.ndim:
        return Extremes(x.clone(), constant(np.zeros((), np.int64), x))
    data = x.numpy()
    best = accumulate(data, axis=dim)
    steps = np.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    new = (data == best) | (data != data)
    places = constant(np.maximum.accumulate(np.where(new, steps, 0), axis=dim), x)
    return Extremes(x.gather(dim, places), places)


@derived(exact_in_half=True, samples=along_axis(distinct) | cases((distinct,), 0))
def cummax(x, dim):
    """Return (values, indices) of the largest so far, the last of equal ones; NaN from the first NaN on."""
    return _cumulative_extreme(np.maximum.accumulate, x, dim)


@derived(exact_in_half=True, samples=along_axis(distinct) | cases((distinct,), 0))
def cummin(x, dim):
    """Return (values, indices) of the smallest so far, the last of equal ones; NaN from the first NaN on."""
    return _cumulative_extreme(np.minimum.accumulate, x, dim)
