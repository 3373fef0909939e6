"""Sums, means, spreads, extremes: what takes an axis away.

`dim` is an axis, several, or None for all; `keepdim` leaves an axis of length 1 in its place; `dtype` is what
the elements become before they are added up.
"""

from __future__ import annotations

import builtins
import math
from typing import NamedTuple

import numpy as np

from ..errors import ShapeError
from ..tensor import Tensor, as_tensor
from .axes import axes_of, axis_of, count, spread
from .choices import maximum, minimum
from .costs import per_input
from .joining import cat
from .namespace import namespace
from .norms import root
from .record import composite, differentiable, made_of_ops
from .samplers import distinct, each, mask, real, reducing

__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max",
    "mean", "min", "nanmean", "nansum", "prod", "std", "std_mean", "sum", "sum_to_size", "var",
    "var_mean",
]  # fmt: skip

# ---------------------------------------------------------------- sums and products


@differentiable(samples=reducing(real), latex=r"g \text{ for each element}", flops=per_input(1))
def sum(x, /, dim=None, keepdim=False, dtype=None):
    """The sum; each element's derivative is 1. Integers and booleans add up in int64."""
    shape, axes, source = x.shape, axes_of(dim, x.ndim), x.dtype
    if dtype is not None or source.kind in "bui":
        x = x.astype(dtype or "int64")
    back = lambda g: g if g.dtype == source else g.astype(source)
    return x.sum(axis=axes, keepdims=keepdim), (lambda g: back(spread(g, shape, axes, keepdim)),)


@differentiable(floating=True, samples=reducing(real), latex=r"\frac{g}{n}", flops=per_input(1))
def mean(x, /, dim=None, keepdim=False, dtype=None):
    """The mean; each element's derivative is 1 / n."""
    shape, axes, source = x.shape, axes_of(dim, x.ndim), x.dtype
    if dtype is not None:
        x = x.astype(dtype)
    n = count(shape, axes)
    total = x.sum(axis=axes, keepdims=keepdim)
    back = lambda g: g if g.dtype == source else g.astype(source)
    return total / n if n else total * math.nan, (
        lambda g: back(spread(g / n if n else g, shape, axes, keepdim)),
    )


@made_of_ops(samples=reducing(real) | each(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]]), dim=1),
             latex=r"g\,\prod_{j \ne i} x_j")  # fmt: skip
def prod(x, dim=None, keepdim=False, dtype=None):
    """The product, multiplied up as a tree of pairs, so that its derivatives hold where elements are 0.

    Integers and booleans multiply in int64.
    """
    x = as_tensor(x)
    if dtype is not None or not x.is_floating_point():
        x = x.to(dtype or "int64")
    axes = axes_of(dim, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    y = x.permute(*kept, *axes).reshape(*(x.shape[i] for i in kept), count(x.shape, axes))
    if not y.shape[-1]:
        y = y.sum(-1, keepdim=True) + 1  # the product of nothing
    while (n := y.shape[-1]) > 1:
        pairs = y[..., : n // 2] * y[..., n // 2 : n // 2 * 2]
        y = pairs if n % 2 == 0 else cat([pairs, y[..., -1:]], dim=-1)
    return y.reshape(shape if keepdim else tuple(n for i, n in enumerate(shape) if i not in axes))


@made_of_ops(samples=reducing(real))
def nansum(x, dim=None, keepdim=False, dtype=None):
    """The sum of what is not NaN."""
    x = as_tensor(x)
    return sum(x.masked_fill(x.isnan(), 0.0) if x.is_floating_point() else x, dim, keepdim, dtype)


@made_of_ops(samples=reducing(real))
def nanmean(x, dim=None, keepdim=False, dtype=None):
    """The mean of what is not NaN."""
    x = as_tensor(x)
    return nansum(x, dim, keepdim, dtype) / (~x.isnan()).sum(dim, keepdim)


@made_of_ops(samples=each((real, 2, 3), (1, 3)) | each((real, 4, 2, 3), (2, 1)) | each((real, 3), (3,)))
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
    floating=True,
    samples=each((real, 2, 3), dim=1, correction=1, keepdim=False)
    | each((real, 2, 3), dim=None, correction=0, keepdim=True)
    | each((real, 2, 3, 2), dim=(0, 1), correction=2, keepdim=False),
    latex=r"\frac{2\,g\,(x - \bar x)}{n - \text{correction}}",
    flops=per_input(4),
)
def variance(x, /, dim, correction, keepdim):
    """sum((x - mean)**2) / (n - correction); d/dx = 2 (x - mean) / (n - correction)."""
    shape, axes = x.shape, axes_of(dim, x.ndim)
    n = count(shape, axes) - correction
    xp = namespace(x)
    centred = x - (xp.mean(x, axis=axes, keepdims=True) if count(shape, axes) else 0)
    total = (centred * centred).sum(axis=axes, keepdims=keepdim)
    scale = (1 / n) if n > 0 else math.inf
    value = total / n if n > 0 else total / 0.0 if total.size else total
    return value, (lambda g: spread(g * (2 * scale), shape, axes, keepdim) * centred,)


@made_of_ops(samples=reducing(real) | each((real, 2, 3), 1, False) | each((real, 2, 3), dim=0, correction=0))
def var(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The variance, divided by n - correction, which is 1 unless given (or 0 with unbiased=False)."""
    if isinstance(dim, bool):  # var(unbiased)
        dim, unbiased = None, dim
    return variance(x, dim, int(unbiased) if correction is None else correction, keepdim)


@made_of_ops(samples=each((real, 2, 3)) | each((real, 2, 3), dim=0, correction=0, keepdim=True))
def std(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The standard deviation, sqrt(var); where it is 0 its derivative is taken to be 0."""
    return root(var(x, dim, unbiased, keepdim, correction=correction))


@made_of_ops(samples=each((real, 2, 3)) | each((real, 2, 3), dim=1, keepdim=True))
def var_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """(variance, mean)."""
    axes = None if isinstance(dim, bool) else dim
    return var(x, dim, unbiased, keepdim, correction=correction), mean(x, axes, keepdim)


@made_of_ops(samples=each((real, 2, 3)) | each((real, 2, 3), dim=1, keepdim=True))
def std_mean(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """(standard deviation, mean)."""
    axes = None if isinstance(dim, bool) else dim
    return std(x, dim, unbiased, keepdim, correction=correction), mean(x, axes, keepdim)


# ---------------------------------------------------------------- extremes


def _extreme(name):
    def rule(x, /, dim=None, keepdim=False):
        shape, axes = x.shape, axes_of(dim, x.ndim)
        xp = namespace(x)
        if not count(shape, axes):
            raise ShapeError(f"{name} of no elements, in shape {shape}.\nReduce axes that have some.")
        value = getattr(xp, name)(x, axis=axes, keepdims=True)

        def gradient(g):
            ties = xp.stop_gradient((x == value) | (xp.isnan(x) & xp.isnan(value))).astype(g.dtype)
            return spread(g, shape, axes, keepdim) * (ties / ties.sum(axis=axes, keepdims=True))

        result = value if keepdim else value.reshape(tuple(n for i, n in enumerate(shape) if i not in axes))
        return result, (gradient,)

    rule.__name__ = rule.__qualname__ = name
    return rule


_amax, _amin = _extreme("amax"), _extreme("amin")
_amax.__doc__ = "The largest along `dim`; elements that tie share the gradient evenly."
_amin.__doc__ = "The smallest along `dim`; elements that tie share the gradient evenly."
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


@differentiable(samples=reducing(distinct), flops=per_input(1))
def argmax(x, /, dim=None, keepdim=False):
    """The index of the largest (of ties the first), in the flattened tensor if `dim` is None."""
    return _place(namespace(x).argmax, x, dim, keepdim), None


@differentiable(samples=reducing(distinct), flops=per_input(1))
def argmin(x, /, dim=None, keepdim=False):
    """The index of the smallest (of ties the first), in the flattened tensor if `dim` is None."""
    return _place(namespace(x).argmin, x, dim, keepdim), None


def _place(search, x, dim, keepdim):
    axis = None if dim is None else axis_of(dim, x.ndim)
    if not (x.size if axis is None or not x.ndim else x.shape[axis]):
        raise ShapeError(f"no element to find in shape {x.shape}.\nSearch an axis that has some.")
    return search(x, axis=axis if x.ndim else None, keepdims=keepdim)


@made_of_ops(
    samples=each((distinct, 2, 3)) | each((distinct, 2, 3), 1) | each((distinct, 2, 3), dim=0, keepdim=True)
)
def max(x, dim=None, keepdim=False):
    """The largest of all, or (values, indices) along `dim`, where one of the ties gets all the gradient.

    With a tensor in place of `dim`, the larger of each pair.
    """
    if hasattr(dim, "shape"):
        return maximum(x, dim)
    return amax(x) if dim is None else _best(argmax, x, dim, keepdim)


@made_of_ops(
    samples=each((distinct, 2, 3)) | each((distinct, 2, 3), 1) | each((distinct, 2, 3), dim=0, keepdim=True)
)
def min(x, dim=None, keepdim=False):
    """The smallest of all, or (values, indices) along `dim`, where one of the ties gets all the gradient.

    With a tensor in place of `dim`, the smaller of each pair.
    """
    if hasattr(dim, "shape"):
        return minimum(x, dim)
    return amin(x) if dim is None else _best(argmin, x, dim, keepdim)


def _best(index, x, dim, keepdim):
    x = as_tensor(x)
    places = index(x, dim, keepdim=True)
    values = x.gather(dim, places)
    return Extremes(values, places) if keepdim else Extremes(values.squeeze(dim), places.squeeze(dim))


@made_of_ops(samples=each((distinct, 2, 3)) | each((distinct, 2, 3), dim=1, keepdim=True))
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


@made_of_ops(samples=each((mask, 2, 3)) | each((mask, 2, 3), dim=1))
def count_nonzero(x, dim=None):
    """How many elements are not 0."""
    return sum(as_tensor(x) != 0, dim)


# ---------------------------------------------------------------- the logarithm of a sum of exponentials


@composite(
    samples=each((real, 2, 3), dim=1) | each((real, 2, 3), dim=(0, 1), keepdim=True) | each((real,), dim=0),
    latex=r"g\,\operatorname{softmax}(x)",
    flops=per_input(4),
)
def logsumexp(x, /, dim, keepdim=False):
    """log(sum(exp(x))), without overflow: m + log(sum(exp(x - m))) with m the largest."""
    if not x.size:
        return x.exp().sum(dim, keepdim).log()
    m = x.detach().amax(dim, keepdim=True)
    m = m.masked_fill(m.isinf(), 0.0)
    y = (x - m).exp().sum(dim, keepdim=True).log() + m
    return y if keepdim else y.squeeze(dim)
