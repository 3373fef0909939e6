"""Sums, means, spreads, extremes: what takes an axis away.

`dim` is an axis, several, or None for all; `keepdim` leaves an axis of length 1 in its place; `dtype` is what
the elements become before they are added up.
"""

from __future__ import annotations

import builtins
import math
from typing import NamedTuple

import numpy as np

from ..devices import float16, float32, is_floating
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor, as_tensor
from .axes import axes_of, axis_of, cast, count, refuse_none, spread
from .choices import maximum, minimum
from .costs import per_input
from .namespace import namespace
from .norms import root
from .op import composite, derived, differentiable
from .samplers import distinct, each, mask, positive, real, reducing

__family__ = "reduction"

__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "corrcoef", "count_nonzero", "cov",
    "logsumexp", "max", "mean", "min", "nanmean", "nansum", "prod", "std", "std_mean", "sum",
    "sum_to_size", "var", "var_mean",
]  # fmt: skip

# ---------------------------------------------------------------- sums and products


@differentiable(
    autocast="float32",
    sign="Σ",
    samples=reducing(real) | each((real, 2, 3), dtype="float64"),
    latex="g",
    flops=per_input(1),
)
def sum(x, /, dim=None, keepdim=False, dtype=None):
    """The sum; each element's derivative is 1. Integers and booleans add up in int64, float16 in float32."""
    shape, axes, source = x.shape, axes_of(dim, x.ndim), x.dtype
    x = cast(x, dtype, "int64")
    value = _total(x, axes, keepdim)
    return value, (lambda g: cast(spread(g, shape, axes, keepdim), source),) if is_floating(x.dtype) else None


@differentiable(
    autocast="float32",
    samples=reducing(real) | each((real, 2, 3), dtype="float64"),
    latex=r"\frac{g}{n}",
    flops=per_input(1),
)
def mean(x, /, dim=None, keepdim=False, dtype=None):
    """The mean; each element's derivative is 1 / n. Integers become float32; of nothing it is NaN."""
    shape, axes, source = x.shape, axes_of(dim, x.ndim), x.dtype
    x, n = cast(x, dtype, "float32"), count(shape, axes)
    if not is_floating(x.dtype):
        raise DtypeError(f"a mean in {x.dtype}.\nChoose a floating-point dtype.")
    value = _total(x, axes, keepdim, n or math.nan)
    return value, (lambda g: cast(spread(_over(g, n or math.nan), shape, axes, keepdim), source),)


def _total(x, axes, keepdim, divisor=1):
    """The sum over `divisor`, found in float32 where x is float16 (whose numbers end at 65504)."""
    if x.dtype == float16:
        return _total(x.astype(float32), axes, keepdim, divisor).astype(float16)
    total = x.sum(axis=axes, keepdims=keepdim)
    return total if divisor == 1 else total / divisor


def _over(g, n):
    """g / n, of which float16 may not hold n."""
    return (g.astype(float32) / n).astype(float16) if g.dtype == float16 else g / n


@differentiable(
    autocast="float32",
    samples=reducing(real)
    | each(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]]), dim=1)
    | each(np.array([[2.0, 0.0], [4.0, 1.0]])),
    latex=r"g\,\prod_{j \ne i} x_j",
    flops=per_input(1),
)
def prod(x, /, dim=None, keepdim=False, dtype=None):
    """The product; each element's derivative is the product of all others, found without a division.

    Integers and booleans multiply in int64.
    """
    shape, axes, source = x.shape, axes_of(dim, x.ndim), x.dtype
    x = cast(x, dtype, "int64")
    value = x.prod(axis=axes, keepdims=keepdim)
    gradient = lambda g: cast(spread(g, shape, axes, keepdim) * _product_of_others(x, axes), source)
    return value, (gradient,) if is_floating(x.dtype) else None


def _product_of_others(x, axes):
    """For each element the product of those before it, times that of those after it."""
    xp = namespace(x)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    there, back = kept + axes, tuple(np.argsort(kept + axes).tolist())
    moved = xp.permute_dims(x, there)
    flat = moved.reshape((*moved.shape[: len(kept)], count(x.shape, axes)))
    one = xp.ones_like(flat[..., :1])
    before = xp.cumprod(xp.concat([one, flat[..., :-1]], axis=-1), axis=-1)
    after = xp.flip(xp.cumprod(xp.flip(xp.concat([flat[..., 1:], one], axis=-1), axis=-1), axis=-1), axis=-1)
    return xp.permute_dims((before * after).reshape(moved.shape), back)


@derived(samples=reducing(real))
def nansum(x, dim=None, keepdim=False, dtype=None):
    """The sum of what is not NaN."""
    x = as_tensor(x)
    return sum(x.masked_fill(x.isnan(), 0.0) if x.is_floating_point() else x, dim, keepdim, dtype)


@derived(samples=reducing(real))
def nanmean(x, dim=None, keepdim=False, dtype=None):
    """The mean of what is not NaN."""
    x = as_tensor(x)
    return nansum(x, dim, keepdim, dtype) / (~x.isnan()).sum(dim, keepdim)


@derived(samples=each((real, 2, 3), (1, 3)) | each((real, 4, 2, 3), (2, 1)) | each((real, 3), (3,)))
def sum_to_size(x, *size):
    """x summed over the axes along which `size` is broadcast to x's shape."""
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else size
    extra = x.ndim - len(size)
    if extra < 0 or builtins.any(n not in (1, m) for n, m in zip(size, x.shape[extra:], strict=True)):
        raise ShapeError(
            f"a tensor of shape {x.shape} does not sum to {size}.\nGive a shape that broadcasts to {x.shape}."
        )
    axes = tuple(i for i, m in enumerate(x.shape) if i < extra or size[i - extra] != m)
    return (sum(x, axes) if axes else x).reshape(size)


# ---------------------------------------------------------------- spreads


@differentiable(
    autocast="float32",
    public_name="var",
    floating=True,
    samples=each((real, 2, 3), dim=1, correction=1, keepdim=False)
    | each((real, 2, 3), dim=None, correction=0, keepdim=True)
    | each((real, 2, 3, 2), dim=(0, 1), correction=2, keepdim=False),
    latex=r"\frac{2\,g\,(x - \bar x)}{n - \text{correction}}",
    flops=per_input(4),
)
def variance(x, /, dim, correction, keepdim):
    """sum((x - mean)**2) / (n - correction); d/dx = 2 (x - mean) / (n - correction).

    Where n - correction is not positive it is infinite, or NaN if all are equal.
    """
    shape, axes = x.shape, axes_of(dim, x.ndim)
    xp, n = namespace(x), count(shape, axes)
    centred = x - (xp.mean(x, axis=axes, keepdims=True) if n else 0)
    freedom = n - correction
    if freedom > 0:
        value, scale = _total(centred * centred, axes, keepdim, freedom), 2 / freedom
    else:
        total = _total(centred * centred, axes, keepdim)
        value, scale = xp.where(total > 0, math.inf, math.nan).astype(x.dtype), math.nan
    return value, (lambda g: spread(g * scale, shape, axes, keepdim) * centred,)


_spreads = (
    each((real, 2, 3))
    | each((real, 2, 3), 1, False)
    | each((real, 2, 3, 2), dim=(0, -1), keepdim=True)
    | each((real, 2, 3), dim=0, correction=0)
)


@derived(samples=_spreads, latex=r"\frac{2\,g\,(x - \bar x)}{n - \text{correction}}")
def var(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The variance, divided by n - correction, which is 1 unless given (or 0 with unbiased=False)."""
    if isinstance(dim, bool):  # var(unbiased)
        dim, unbiased = None, dim
    x, correction = as_tensor(x), int(unbiased) if correction is None else correction
    if x.dtype == float16:  # squares beyond 65504
        return variance(x.to(float32), dim, correction, keepdim).to(float16)
    return variance(x, dim, correction, keepdim)


@derived(samples=_spreads)
def std(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The standard deviation, sqrt(var); where it is 0 its derivative is taken to be 0."""
    x = as_tensor(x)
    if x.dtype == float16:  # squares beyond 65504
        return std(x.to(float32), dim, unbiased, keepdim, correction=correction).to(float16)
    return root(var(x, dim, unbiased, keepdim, correction=correction))


@derived(samples=_spreads)
def var_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """(variance, mean)."""
    axes = None if isinstance(dim, bool) else dim
    return var(x, dim, unbiased, keepdim, correction=correction), mean(x, axes, keepdim)


@derived(samples=_spreads)
def std_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """(standard deviation, mean)."""
    axes = None if isinstance(dim, bool) else dim
    return std(x, dim, unbiased, keepdim, correction=correction), mean(x, axes, keepdim)


@derived(
    samples=each((real, 3, 5))
    | each((real, 4))
    | each((real, 2, 4), correction=0, fweights=np.array([1, 3, 2, 1]))
    | each((real, 2, 4), aweights=(positive, 4))
)
def cov(x, *, correction=1, fweights=None, aweights=None):
    """The covariances of the rows of x, each row one variable and each column one observation.

    `fweights` says how often each column was observed, `aweights` how much it counts. A vector is one
    variable, and gives a number.
    """
    x = as_tensor(x)
    if x.ndim > 2:
        raise ShapeError(f"covariances of a tensor with {x.ndim} axes.\nGive variables by observations.")
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    weights = [as_tensor(w) for w in (fweights, aweights) if w is not None]
    weight = weights[0] if len(weights) == 1 else weights[0] * weights[1] if weights else None
    weighted = (lambda rows: rows) if weight is None else (lambda rows: rows * weight)
    total = rows.shape[1] if weight is None else weight.sum()
    excess = correction if aweights is None else correction * (weight * weights[-1]).sum() / total
    centred = rows - weighted(rows).sum(1, keepdim=True) / total
    result = (weighted(centred) @ centred.T) / (total - excess)
    return result if x.ndim == 2 and len(rows) > 1 else result.squeeze()


@derived(samples=each((real, 3, 5)) | each((real, 2, 4)))
def corrcoef(x):
    """The correlations of the rows of x: their covariances over the product of their deviations."""
    c = cov(x)
    if not c.ndim:
        return c / c
    every = np.arange(len(c))
    deviations = c[every, every].sqrt()
    return (c / deviations[:, None] / deviations).clamp(-1, 1)


# ---------------------------------------------------------------- extremes


_searches = each((distinct, 2, 3)) | each((distinct, 2, 3), 1) | each((distinct, 2, 3), dim=0, keepdim=True)


def _extreme(name):
    def rule(x, /, dim=None, keepdim=False):
        shape, axes = x.shape, axes_of(dim, x.ndim)
        xp = namespace(x)
        refuse_none(name, shape, axes)
        value = getattr(xp, name)(x, axis=axes, keepdims=True)

        def gradient(g):
            ties = xp.stop_gradient((x == value) | (x != x)).astype(g.dtype)
            return spread(g, shape, axes, keepdim) * (ties / ties.sum(axis=axes, keepdims=True))

        result = value if keepdim else value.reshape(tuple(n for i, n in enumerate(shape) if i not in axes))
        return result, (gradient,)

    rule.__name__ = rule.__qualname__ = name
    return rule


_amax, _amin = _extreme("amax"), _extreme("amin")
_amax.__doc__ = (
    "The largest along `dim`, NaN if one is; elements that tie share the gradient evenly, and NaNs do."
)
_amin.__doc__ = (
    "The smallest along `dim`, NaN if one is; elements that tie share the gradient evenly, and NaNs do."
)
_shared = r"\frac{g\,[x = y]}{\text{number of ties}}"
amax = differentiable(samples=reducing(distinct), latex=_shared, flops=per_input(1))(_amax)
amin = differentiable(samples=reducing(distinct), latex=_shared, flops=per_input(1))(_amin)


class Extremes(NamedTuple):
    """The extreme along an axis, and where it stands."""

    values: Tensor
    indices: Tensor


class Range(NamedTuple):
    """The smallest and the largest."""

    min: Tensor
    max: Tensor


@differentiable(samples=_searches, flops=per_input(1))
def argmax(x, /, dim=None, keepdim=False):
    """The index of the largest (of ties the first), in the flattened tensor if `dim` is None."""
    return _place(namespace(x).argmax, x, dim, keepdim), None


@differentiable(samples=_searches, flops=per_input(1))
def argmin(x, /, dim=None, keepdim=False):
    """The index of the smallest (of ties the first), in the flattened tensor if `dim` is None."""
    return _place(namespace(x).argmin, x, dim, keepdim), None


def _place(search, x, dim, keepdim):
    axis = None if dim is None else axis_of(dim, x.ndim)
    refuse_none("the place of the extreme", x.shape, axes_of(axis, x.ndim))
    return search(x, axis=axis if x.ndim else None, keepdims=keepdim)


@derived(samples=_searches)
def max(x, dim=None, keepdim=False):
    """The largest of all, or (values, indices) along `dim`, where one of the ties gets all the gradient.

    With a tensor in place of `dim`, the larger of each pair.
    """
    if isinstance(dim, Tensor | np.ndarray):
        return maximum(x, dim)
    return amax(x) if dim is None else _best(argmax, x, dim, keepdim)


@derived(samples=_searches)
def min(x, dim=None, keepdim=False):
    """The smallest of all, or (values, indices) along `dim`, where one of the ties gets all the gradient.

    With a tensor in place of `dim`, the smaller of each pair.
    """
    if isinstance(dim, Tensor | np.ndarray):
        return minimum(x, dim)
    return amin(x) if dim is None else _best(argmin, x, dim, keepdim)


def _best(index, x, dim, keepdim):
    x = as_tensor(x)
    places = index(x, dim, keepdim=True)
    values = x.gather(dim, places)
    return Extremes(values, places) if keepdim else Extremes(values.squeeze(dim), places.squeeze(dim))


@derived(samples=each((distinct, 2, 3)) | each((distinct, 2, 3), dim=1, keepdim=True))
def aminmax(x, dim=None, keepdim=False):
    """(the smallest, the largest); elements that tie share the gradient evenly."""
    return Range(amin(x, dim, keepdim), amax(x, dim, keepdim))


# ---------------------------------------------------------------- logic and counting


@differentiable(samples=each((mask, 2, 3)) | each((mask, 2, 3), dim=1, keepdim=True) | each((mask, 0)))
def all(x, /, dim=None, keepdim=False):
    """Whether every element is true."""
    return _truth(namespace(x).all, x, dim, keepdim), None


@differentiable(samples=each((mask, 2, 3)) | each((mask, 2, 3), dim=1, keepdim=True) | each((mask, 0)))
def any(x, /, dim=None, keepdim=False):
    """Whether some element is true."""
    return _truth(namespace(x).any, x, dim, keepdim), None


def _truth(test, x, dim, keepdim):
    value = test(x, axis=axes_of(dim, x.ndim), keepdims=keepdim)
    return value.astype(x.dtype) if x.dtype == np.uint8 else value  # as PyTorch


@derived(samples=each((mask, 2, 3)) | each((mask, 2, 3), dim=1))
def count_nonzero(x, dim=None):
    """How many elements are not 0."""
    return sum(as_tensor(x) != 0, dim)


# ---------------------------------------------------------------- the logarithm of a sum of exponentials


@composite(
    autocast="float32",
    samples=each((real, 2, 3), dim=1) | each((real, 2, 3), dim=(0, 1), keepdim=True) | each((real,), dim=0),
    latex=r"g\,\operatorname{softmax}(x)",
    flops=per_input(4),
)
def logsumexp(x, /, dim, keepdim=False):
    """log(sum(exp(x))), without overflow: m + log(sum(exp(x - m))) with m the largest."""
    if not x.numel():
        return x.exp().sum(dim, keepdim).log()
    m = x.detach().amax(dim, keepdim=True)
    m = m.masked_fill(m.isinf(), 0.0)
    y = (x - m).exp().sum(dim, keepdim=True).log() + m
    return y if keepdim else y.squeeze(dim)
