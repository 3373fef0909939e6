"""Running sums, products and extremes along an axis: element i of the result is of elements 0 to i."""

from __future__ import annotations

import math

import numpy as np

from ..core.costs import per_element
from ..core.devices import through_cpu
from ..core.dtypes import float32, float64, is_floating
from ..core.namespace import namespace, value_in_rule
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor, constant
from ..ops.axes import axis_of, cast, slice_along
from ..ops.reductions import Extremes
from ..ops.samplers import along_axis, distinct, each, real

__family__ = "reduction"
__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]


def in_wide_floats(accumulate, x):
    """accumulate(x), a running sum or product: NumPy's floats in float64, others in float32 at least."""
    wide = float64 if isinstance(x, np.ndarray) else float32
    narrow = is_floating(x.dtype) and x.dtype.itemsize < wide.itemsize
    return accumulate(x.astype(wide)).astype(x.dtype) if narrow else accumulate(x)


_with_zeros = each(np.array([2.0, 0.0, 3.0, 0.0, 1.5]), dim=0) | each(np.array([[0.0, 2.0], [3.0, 4.0]]), 0)


@differentiable(autocast="float32", samples=along_axis(real) | each((real,), 0), latex=r"\sum_{j \ge i} g_j")
def cumsum(x, /, dim, dtype=None):
    """The sum of all elements up to each; the gradient is the sum of all from each on.

    Integers and booleans add up in int64, floats on the CPU in float64: a million numbers of 0.1 end 1e-8
    from their sum and not 1e-2, in 1.5 times the time.
    """
    xp, dim, source = namespace(x), axis_of(dim, x.ndim), x.dtype
    x = cast(x, dtype, "int64")
    if not x.ndim:
        return xp.copy(x), (lambda g: cast(g, source),)
    add_up = lambda x: in_wide_floats(lambda x: xp.cumsum(x, axis=dim, dtype=x.dtype), x)
    back = lambda g: xp.flip(add_up(xp.flip(g, axis=dim)), axis=dim)
    return add_up(x), (lambda g: cast(back(g), source),) if is_floating(x.dtype) else None


def _sums_from_the_end(xp, g, factors, dim):
    """s where s[i] = g[i] + factors[i] s[i + 1] along an axis: the gradient of a running product.

    It takes log n steps (Hillis and Steele 1986, "Data Parallel Algorithms"): after one of them s[i] holds
    the terms of `reach` elements from i on, and factors[i] takes it to the next `reach`.
    """
    reach = 1
    while reach < g.shape[dim]:
        ahead = slice_along(g, dim, reach)
        g = xp.concat(
            [slice_along(g, dim, None, -reach) + factors * ahead, slice_along(g, dim, -reach)], axis=dim
        )
        factors = slice_along(factors, dim, None, -reach) * slice_along(factors, dim, reach)
        reach *= 2
    return g


@differentiable(
    autocast="float32",
    samples=along_axis(real) | _with_zeros | each((real,), 0),
    latex=r"\sum_{j \ge i} g_j \prod_{k \le j,\ k \ne i} x_k",
)
def cumprod(x, /, dim, dtype=None):
    """The product of all elements up to each (int64 of integers).

    dx_i = p_i s_i, with p_i the product of those before i and s_i = g_i + x_{i+1} s_{i+1}: nothing is divided
    by an element, which may be 0.
    """
    xp, dim, source = namespace(x), axis_of(dim, x.ndim), x.dtype
    x = cast(x, dtype, "int64")
    if not x.ndim:
        return xp.copy(x), (lambda g: cast(g, source),)
    y = in_wide_floats(lambda x: xp.cumprod(x, axis=dim, dtype=x.dtype), x)

    def gradient(g):
        before = xp.concat(
            [xp.ones_like(slice_along(y, dim, None, 1)), slice_along(y, dim, None, -1)], axis=dim
        )
        return cast(before * _sums_from_the_end(xp, g, slice_along(x, dim, 1), dim), source)

    return y, (gradient,) if is_floating(x.dtype) else None


@differentiable(
    autocast="float32",
    floating=True,
    samples=along_axis(real) | each(np.array([1.0, 500.0, -500.0, 501.0]), 0) | each((real,), 0),
    latex=r"\sum_{j \ge i} g_j\,e^{x_i - y_j}",
    flops=per_element(4),
)
def logcumsumexp(x, /, dim):
    """y = log(cumsum(exp(x))), without overflow.

    dx_i = e**(x_i - y_i) s_i, where s_i = g_i + e**(y_i - y_{i+1}) s_{i+1}: no exponent is positive. Where
    all so far are -inf the derivative is taken to be 0.
    """
    xp, dim = namespace(x), axis_of(dim, x.ndim)
    if not x.ndim:
        return xp.copy(x), (lambda g: g,)
    accumulate = lambda x: np.logaddexp.accumulate(x, axis=dim)
    y = value_in_rule("logcumsumexp", lambda x, dim: through_cpu(in_wide_floats, accumulate, x), x, dim)

    def gradient(g):
        empty = xp.stop_gradient(y == -math.inf)
        level = xp.where(empty, 0.0, y)
        step = slice_along(level, dim, None, -1) - slice_along(level, dim, 1)
        factors = xp.exp(xp.where(slice_along(empty, dim, None, -1), -math.inf, step))
        return xp.exp(x - level) * _sums_from_the_end(xp, g, factors, dim)

    return y, (gradient,)


# ---------------------------------------------------------------- extremes


def _running(accumulate, x, dim):
    """(values, indices) of the extreme so far; of ties the last, and of NaNs."""
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


@derived(exact_in_half=True, samples=along_axis(distinct) | each((distinct,), 0))
def cummax(x, dim):
    """(values, indices) of the largest element so far, of ties the last; NaN from the first NaN on."""
    return _running(np.maximum.accumulate, x, dim)


@derived(exact_in_half=True, samples=along_axis(distinct) | each((distinct,), 0))
def cummin(x, dim):
    """(values, indices) of the smallest element so far, of ties the last; NaN from the first NaN on."""
    return _running(np.minimum.accumulate, x, dim)
