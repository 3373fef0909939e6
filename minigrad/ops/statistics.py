"""Products, variances and covariances, and reductions that ignore NaN."""

from __future__ import annotations

import builtins
import math
from typing import NamedTuple

import numpy as np

from ..core.costs import per_input
from ..core.dtypes import HALF, float32, float64, is_floating
from ..core.errors import OptionError, ShapeError
from ..core.namespace import namespace, value_in_rule
from ..core.op import derived, differentiable
from ..core.tensor import Tensor, as_tensor
from . import scaled_norms
from .axes import as_floating, axes_of, axis_of, cast, count, expand_reduced, slice_along
from .reductions import _total, amax, amin, mean, sum
from .samplers import along_axis, cases, distinct, mask, positive, real, reducing

__family__ = "reduction"
__all__ = [
    "aminmax", "corrcoef", "count_nonzero", "cov", "cumprod", "nanmean", "nansum", "prod", "std", "std_mean",
    "sum_to_size", "var", "var_mean",
]  # fmt: skip


# ---------------------------------------------------------------- sums and products


@differentiable(
    autocast="float32",
    samples=reducing(real)
    | cases(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]]), dim=1)
    | cases(np.array([[2.0, 0.0], [4.0, 1.0]])),
    latex=r"g\,\prod_{j \ne i} x_j",
    flops=per_input(1),
)
def prod(x, /, dim=None, keepdim=False, dtype=None):
    """The product of all elements, or along `dim`; d/dx is the product of the others, without division.

    Integers and booleans are multiplied in int64.
    """
    shape = x.shape
    axes = axes_of(dim, x.ndim)
    source = x.dtype
    x = cast(x, dtype, "int64")
    wide = float32 if x.dtype in HALF else x.dtype
    value = cast(x.prod(axis=axes, keepdims=keepdim, dtype=wide), x.dtype)
    gradient = lambda g: cast(expand_reduced(g, shape, axes, keepdim) * _product_of_others(x, axes), source)
    return value, (gradient,) if is_floating(x.dtype) else None


def _product_of_others(x, axes):
    """For each element, the product of all other elements along the axis."""
    xp = namespace(x)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    there = kept + axes
    back = tuple(np.argsort(kept + axes).tolist())
    moved = xp.permute_dims(x, there)
    flat = moved.reshape((*moved.shape[: len(kept)], count(x.shape, axes)))
    one = xp.ones_like(flat[..., :1])
    before = xp.cumprod(xp.concat([one, flat[..., :-1]], axis=-1), axis=-1)
    after = xp.flip(xp.cumprod(xp.flip(xp.concat([flat[..., 1:], one], axis=-1), axis=-1), axis=-1), axis=-1)
    return xp.permute_dims((before * after).reshape(moved.shape), back)


def accumulate_in_float64(accumulate, x):
    """Return accumulate(x), computed in float64 for NumPy floats, and in at least float32 for others."""
    wide = float64 if isinstance(x, np.ndarray) else float32
    narrow = is_floating(x.dtype) and x.dtype.itemsize < wide.itemsize
    return accumulate(x.astype(wide)).astype(x.dtype) if narrow else accumulate(x)


def sums_from_the_end(xp, g, factors, dim):
    """s with s[i] = g[i] + factors[i] s[i + 1] along an axis: the gradient of a cumulative product.

    It takes log n steps (Hillis and Steele 1986, "Data Parallel Algorithms"). After each, g[i] has the terms
    of `reach` elements from i on, and factors[i] is the product of `reach` factors from i on.
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


_with_zeros = cases(np.array([2.0, 0.0, 3.0, 0.0, 1.5]), dim=0) | cases(np.array([[0.0, 2.0], [3.0, 4.0]]), 0)


@differentiable(
    autocast="float32",
    samples=along_axis(real) | _with_zeros | cases((real,), 0),
    latex=r"\sum_{j \ge i} g_j \prod_{k \le j,\ k \ne i} x_k",
)
def cumprod(x, /, dim, dtype=None):
    """Compute the cumulative product along `dim` (int64 for integers).

    dx_i = p_i s_i, with p_i the product of the elements before i and s_i = g_i + x_{i+1} s_{i+1}: there is no
    division, as an element may be 0.
    """
    xp = namespace(x)
    dim = axis_of(dim, x.ndim)
    source = x.dtype
    x = cast(x, dtype, "int64")
    if not x.ndim:
        return xp.copy(x), (lambda g: cast(g, source),)
    y = accumulate_in_float64(lambda x: xp.cumprod(x, axis=dim, dtype=x.dtype), x)

    def gradient(g):
        before = xp.concat(
            [xp.ones_like(slice_along(y, dim, None, 1)), slice_along(y, dim, None, -1)], axis=dim
        )
        return cast(before * sums_from_the_end(xp, g, slice_along(x, dim, 1), dim), source)

    return y, (gradient,) if is_floating(x.dtype) else None


@derived(autocast="float32", samples=reducing(real))
def nansum(x, dim=None, keepdim=False, dtype=None):
    """The sum, ignoring NaN."""
    x = as_tensor(x)
    return sum(x.masked_fill(x.isnan(), 0.0) if x.is_floating_point() else x, dim, keepdim, dtype)


@derived(autocast="float32", samples=reducing(real))
def nanmean(x, dim=None, keepdim=False, dtype=None):
    """The mean, ignoring NaN."""
    x = as_tensor(x)
    return nansum(x, dim, keepdim, dtype) / (~x.isnan()).sum(dim, keepdim)


@derived(
    exact_in_half=True,
    samples=cases((real, 2, 3), (1, 3)) | cases((real, 4, 2, 3), (2, 1)) | cases((real, 3), (3,)),
)
def sum_to_size(x, *size):
    """Sum x over the axes along which `size` is broadcast to x's shape."""
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else size
    extra = x.ndim - len(size)
    if extra < 0 or builtins.any(n not in (1, m) for n, m in zip(size, x.shape[extra:], strict=True)):
        raise ShapeError(
            f"a tensor of shape {x.shape} does not sum to {size}.\nPass a shape that broadcasts to {x.shape}."
        )
    axes = tuple(i for i, m in enumerate(x.shape) if i < extra or size[i - extra] != m)
    return (sum(x, axes) if axes or not size else x).reshape(size)


# ---------------------------------------------------------------- variances


@differentiable(
    autocast="float32",
    public_name="var",
    floating=True,
    samples=cases((real, 2, 3), dims=1, correction=1, keepdim=False)
    | cases((real, 2, 3), dims=None, correction=0, keepdim=True)
    | cases((real, 2, 3, 2), dims=(0, 1), correction=2, keepdim=False),
    latex=r"\frac{2\,g\,(x - \operatorname{mean}(x))}{n - \text{correction}}",
    flops=per_input(4),
)
def variance(x, /, dims, correction, keepdim):
    """sum((x - mean)**2) / (n - correction); d/dx = 2 (x - mean) / (n - correction).

    Where n - correction is not positive, the variance is infinite, or NaN if all elements are equal.
    """
    shape = x.shape
    axes = axes_of(dims, x.ndim)
    xp = namespace(x)
    n = count(shape, axes)
    centred = _centred(x, axes, n)
    freedom = n - correction
    if math.isnan(freedom):
        raise OptionError("correction is NaN.\nPass a number, 1 for an unbiased variance.")
    if freedom > 0 and n:
        value = scaled_norms.mean_square(centred, freedom, axes, keepdim)
        scale = 2 / freedom
    else:
        total = _total(centred * centred, axes, keepdim)
        value = xp.where(total > 0, math.inf, math.nan).astype(x.dtype)
        scale = math.nan
    return value, (lambda g: expand_reduced(g * scale, shape, axes, keepdim) * centred,)


def _centred(x, axes, n):
    """x minus its mean, twice: the second time removes the rounding error of the first mean."""
    if not n:
        return x
    centred = x - _total(x, axes, True, n)
    return centred - _total(centred, axes, True, n)


@differentiable(
    autocast="float32",
    public_name="std",
    floating=True,
    samples=cases((real, 2, 3), dims=1, correction=1, keepdim=False)
    | cases((real, 2, 3), dims=None, correction=0, keepdim=True)
    | cases((real, 2, 3, 2), dims=(0, 1), correction=2, keepdim=False),
    latex=r"\frac{g\,(x - \operatorname{mean}(x))}{(n - \text{correction})\,y}",
    flops=per_input(4),
)
def deviation(x, /, dims, correction, keepdim):
    """sqrt(sum((x - mean)**2) / (n - correction)), without overflow; n - correction must be positive.

    d/dx = (x - mean) / ((n - correction) std), and 0 where std is 0.
    """
    shape = x.shape
    axes = axes_of(dims, x.ndim)
    xp = namespace(x)
    n = count(shape, axes)
    centred = _centred(x, axes, n)
    freedom = math.sqrt(n - correction)
    compute = lambda x, p, axes, keepdim: scaled_norms.scaled_norm(x, p, axes)
    length = value_in_rule("p_norm", compute, centred, 2, axes, True)

    def gradient(g):
        slope = xp.where(length == 0, 0.0, centred / xp.where(length == 0, 1.0, length))
        return expand_reduced(g / freedom, shape, axes, keepdim) * slope

    value = length / freedom
    value = value if keepdim else value.reshape(tuple(m for i, m in enumerate(shape) if i not in axes))
    return value, (gradient,)


_spreads = (
    cases((real, 2, 3))
    | cases((real, 2, 3), 1, False)
    | cases((real, 2, 3, 2), dim=(0, -1), keepdim=True)
    | cases((real, 2, 3), dim=0, correction=0)
)


@derived(
    autocast="float32",
    samples=_spreads,
    latex=r"\frac{2\,g\,(x - \operatorname{mean}(x))}{n - \text{correction}}",
)
def var(x, dim: object = None, unbiased=True, keepdim=False, *, correction=None):
    """The variance, with divisor n - correction; `correction` is by default 1, or 0 with unbiased=False."""
    if isinstance(dim, bool):  # var(unbiased)
        unbiased = dim
        dim = None
    x = as_tensor(x)
    correction = int(unbiased) if correction is None else correction
    return variance(x, dim, correction, keepdim)


@derived(autocast="float32", samples=_spreads)
def std(x, dim: object = None, unbiased=True, keepdim=False, *, correction=None):
    """The standard deviation, sqrt(var); its derivative at 0 is 0."""
    if isinstance(dim, bool):  # std(unbiased)
        unbiased = dim
        dim = None
    x = as_tensor(x)
    correction = int(unbiased) if correction is None else correction
    if count(x.shape, axes_of(dim, x.ndim)) > correction:
        return deviation(x, dim, correction, keepdim)
    return var(x, dim, unbiased, keepdim, correction=correction).sqrt()  # infinite, or NaN


@derived(autocast="float32", samples=_spreads)
def var_mean(x, dim: object = None, unbiased=True, keepdim=False, *, correction=None):
    """Return (variance, mean); see `var` for the arguments."""
    axes = None if isinstance(dim, bool) else dim
    return var(x, dim, unbiased, keepdim, correction=correction), mean(x, axes, keepdim)


@derived(autocast="float32", samples=_spreads)
def std_mean(x, dim: object = None, unbiased=True, keepdim=False, *, correction=None):
    """Return (standard deviation, mean); see `var` for the arguments."""
    axes = None if isinstance(dim, bool) else dim
    return std(x, dim, unbiased, keepdim, correction=correction), mean(x, axes, keepdim)


@derived(
    exact_in_half="gpu",
    samples=cases((real, 3, 5))
    | cases((real, 4))
    | cases((real, 2, 4), correction=0, fweights=np.array([1, 3, 2, 1]))
    | cases((real, 2, 4), aweights=(positive, 4)),
)
def cov(x, *, correction: int = 1, fweights=None, aweights=None):
    """The covariance matrix of the rows of x; each row is a variable, each column an observation.

    `fweights` are the frequencies of the observations, `aweights` their weights. A vector is one variable,
    and gives a number.
    """
    x = as_tensor(x)
    if x.ndim > 2:
        raise ShapeError(f"cov needs at most 2 axes, got shape {x.shape}.\nPass variables by observations.")
    rows = as_floating(x if x.ndim == 2 else x.reshape(1, -1))
    weights = [as_tensor(w) for w in (fweights, aweights) if w is not None]
    for w in weights:
        if w.ndim > 1:
            raise ShapeError(f"weights must be a vector, got shape {w.shape}.\nPass one per observation.")
    weight = weights[0] if len(weights) == 1 else weights[0] * weights[1] if weights else None
    weighted = (lambda rows: rows) if weight is None else (lambda rows: rows * weight)
    total = rows.shape[1] if weight is None else weight.sum()
    excess = correction if aweights is None else correction * (weight * weights[-1]).sum() / total
    centred = rows - weighted(rows).sum(1, keepdim=True) / total
    result = (weighted(centred) @ centred.T) / as_tensor(total - excess).clamp(min=0)
    return result if x.ndim == 2 and len(rows) > 1 else result.squeeze()


@derived(exact_in_half="gpu", samples=cases((real, 3, 5)) | cases((real, 2, 4)))
def corrcoef(x):
    """The correlation matrix of the rows of x: covariances divided by standard deviations."""
    c = cov(x)
    if not c.ndim:
        return c / c
    every = np.arange(len(c))
    deviations = c[every, every].sqrt()
    return (c / deviations[:, None] / deviations).clamp(-1, 1)


# ---------------------------------------------------------------- extremes


class Range(NamedTuple):
    """The minimum and the maximum."""

    min: Tensor
    max: Tensor


@derived(exact_in_half=True, samples=cases((distinct, 2, 3)) | cases((distinct, 2, 3), dim=1, keepdim=True))
def aminmax(x, dim=None, keepdim=False):
    """Return (minimum, maximum); equal elements share the gradient evenly."""
    return Range(amin(x, dim, keepdim), amax(x, dim, keepdim))


# ---------------------------------------------------------------- logic and counting


@derived(exact_in_half=True, samples=cases((mask, 2, 3)) | cases((mask, 2, 3), dim=1))
def count_nonzero(x, dim=None):
    """Count the elements that are not 0."""
    return sum(as_tensor(x) != 0, dim)
