"""Sums, means, extremes: what takes an axis away.

`dim` is an axis, several, or None for all; `keepdim` leaves an axis of length 1 in its place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..errors import OptionError
from ..tensor import Tensor, as_tensor
from .axes import axes_of, axis_of, count, spread
from .choices import maximum, minimum
from .namespace import namespace
from .record import composite, differentiable, made_of_ops

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "cumsum", "logsumexp", "max", "mean", "min", "norm",
    "std", "sum", "var",
]  # fmt: skip


@differentiable
def sum(x, /, dim=None, keepdim=False):
    """The sum; each element's derivative is 1. Integers and booleans add up in int64."""
    shape, axes = x.shape, axes_of(dim, x.ndim)
    if x.dtype.kind in "bui":
        x = x.astype("int64")
    return x.sum(axis=axes, keepdims=keepdim), (lambda g: spread(g, shape, axes, keepdim),)


@differentiable(floating=True)
def mean(x, /, dim=None, keepdim=False):
    """The mean; each element's derivative is 1 / n."""
    shape, axes = x.shape, axes_of(dim, x.ndim)
    n = count(shape, axes)
    total = x.sum(axis=axes, keepdims=keepdim)
    return total / n if n else total * math.nan, (lambda g: spread(g / n if n else g, shape, axes, keepdim),)


@differentiable(floating=True)
def variance(x, /, dim, correction, keepdim):
    """sum((x - mean)**2) / (n - correction); d/dx = 2 (x - mean) / (n - correction)."""
    shape, axes = x.shape, axes_of(dim, x.ndim)
    n = count(shape, axes) - correction
    xp = namespace(x)
    centred = x - xp.mean(x, axis=axes, keepdims=True)
    total = (centred * centred).sum(axis=axes, keepdims=keepdim)
    value = total / n if n > 0 else total * math.nan
    return value, (lambda g: spread(g * (2 / n if n > 0 else math.nan), shape, axes, keepdim) * centred,)


@made_of_ops
def var(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The variance, divided by n - correction, which is 1 unless given (or 0 with unbiased=False)."""
    return variance(x, dim, int(unbiased) if correction is None else correction, keepdim)


@made_of_ops
def std(x, dim=None, unbiased=True, keepdim=False, *, correction=None):
    """The standard deviation, sqrt(var); where it is 0 its derivative is taken to be 0."""
    return _root(var(x, dim, unbiased, keepdim, correction=correction))


def _root(x):
    """sqrt(x), with 0 for its infinite derivative at 0."""
    zero = x == 0
    return x.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)


@made_of_ops
def norm(x, p=2, dim=None, keepdim=False):
    """The length of vectors, sum(|x|**p)**(1/p), with p 1, 2 or inf; where it is 0 its derivative is 0."""
    x = as_tensor(x)
    if p == math.inf:
        return x.abs().amax(dim, keepdim)
    if p not in (1, 2):
        raise OptionError(f"norm has p = 1, 2 or inf, got {p!r}.\nChoose one of them.")
    return x.abs().sum(dim, keepdim) if p == 1 else _root(x.square().sum(dim, keepdim))


def _extreme(name):
    def rule(x, /, dim=None, keepdim=False):
        shape, axes = x.shape, axes_of(dim, x.ndim)
        xp = namespace(x)
        value = getattr(xp, name)(x, axis=axes, keepdims=True)

        def gradient(g):
            ties = xp.stop_gradient(x == value).astype(g.dtype)
            return spread(g, shape, axes, keepdim) * (ties / ties.sum(axis=axes, keepdims=True))

        result = value if keepdim else value.reshape(tuple(n for i, n in enumerate(shape) if i not in axes))
        return result, (gradient,)

    rule.__name__ = rule.__qualname__ = name
    return rule


_amax, _amin = _extreme("amax"), _extreme("amin")
_amax.__doc__ = "The largest along `dim`; elements that tie share the gradient evenly."
_amin.__doc__ = "The smallest along `dim`; elements that tie share the gradient evenly."
amax, amin = differentiable(_amax), differentiable(_amin)


@differentiable
def argmax(x, /, dim=None, keepdim=False):
    """The index of the largest (of ties the first), in the flattened tensor if `dim` is None."""
    return namespace(x).argmax(x, axis=dim if x.ndim else None, keepdims=keepdim), None


@differentiable
def argmin(x, /, dim=None, keepdim=False):
    """The index of the smallest (of ties the first), in the flattened tensor if `dim` is None."""
    return namespace(x).argmin(x, axis=dim if x.ndim else None, keepdims=keepdim), None


class Extremes(NamedTuple):
    """The extreme along an axis, and where it stands."""

    values: Tensor
    indices: Tensor


@made_of_ops
def max(x, dim=None, keepdim=False):
    """The largest of all, or (values, indices) along `dim`, where one of the ties gets all the gradient.

    With a tensor in place of `dim`, the larger of each pair.
    """
    if isinstance(dim, Tensor):
        return maximum(x, dim)
    return amax(x) if dim is None else _best(argmax, x, dim, keepdim)


@made_of_ops
def min(x, dim=None, keepdim=False):
    """The smallest of all, or (values, indices) along `dim`, where one of the ties gets all the gradient.

    With a tensor in place of `dim`, the smaller of each pair.
    """
    if isinstance(dim, Tensor):
        return minimum(x, dim)
    return amin(x) if dim is None else _best(argmin, x, dim, keepdim)


def _best(index, x, dim, keepdim):
    x = as_tensor(x)
    places = index(x, dim, keepdim=True)
    values = x.gather(dim, places)
    return Extremes(values, places) if keepdim else Extremes(values.squeeze(dim), places.squeeze(dim))


@differentiable
def all(x, /, dim=None, keepdim=False):
    """Whether every element is true."""
    return namespace(x).all(x, axis=axes_of(dim, x.ndim), keepdims=keepdim), None


@differentiable
def any(x, /, dim=None, keepdim=False):
    """Whether some element is true."""
    return namespace(x).any(x, axis=axes_of(dim, x.ndim), keepdims=keepdim), None


@composite
def logsumexp(x, /, dim, keepdim=False):
    """log(sum(exp(x))), without overflow: m + log(sum(exp(x - m))) with m the largest."""
    m = x.detach().amax(dim, keepdim=True)
    m = m.masked_fill(m.isinf(), 0.0)
    y = (x - m).exp().sum(dim, keepdim=True).log() + m
    return y if keepdim else y.squeeze(dim)


@differentiable
def cumsum(x, /, dim):
    """The sum of all elements up to each (int64 of integers); the gradient is the sum of all from each on."""
    xp, dim = namespace(x), axis_of(dim, x.ndim)
    if x.dtype.kind in "bui":
        x = x.astype("int64")
    return xp.cumsum(x, axis=dim), (lambda g: xp.flip(xp.cumsum(xp.flip(g, axis=dim), axis=dim), axis=dim),)
