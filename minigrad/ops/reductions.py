"""Reductions: sums, means, extremes.

`dim` is an axis, several, or None for all; `keepdim` keeps reduced axes with length 1; elements are cast to
`dtype` before they are added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.composites import composite
from ..core.costs import per_input
from ..core.dtypes import HALF, float32, is_floating
from ..core.errors import DtypeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.sums import stable_sum
from ..core.tensor import Tensor, as_tensor
from .axes import axes_of, axis_of, cast, check_nonempty, count, expand_reduced
from .comparisons import maximum, minimum
from .samplers import cases, distinct, mask, real, reducing

__family__ = "reduction"
__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "logsumexp", "max", "mean", "min", "sum"]


# ---------------------------------------------------------------- sums and products


@differentiable(
    autocast="float32",
    sign="Σ",
    samples=reducing(real) | cases((real, 2, 3), dtype="float64"),
    latex="g",
    flops=per_input(1),
)
def sum(x, /, dim=None, keepdim=False, dtype=None):
    """The sum of all elements, or along `dim`; d/dx = 1. Integers and booleans are summed in int64."""
    shape = x.shape
    axes = axes_of(dim, x.ndim)
    source = x.dtype
    x = cast(x, dtype, "int64")
    value = _total(x, axes, keepdim)
    gradient = lambda g: cast(expand_reduced(g, shape, axes, keepdim), source)
    return value, (gradient,) if is_floating(x.dtype) else None


@differentiable(
    autocast="float32",
    samples=reducing(real) | cases((real, 2, 3), dtype="float64"),
    latex=r"\frac{g}{n}",
    flops=per_input(1),
)
def mean(x, /, dim=None, keepdim=False, dtype=None):
    """The mean of all elements, or along `dim`; d/dx = 1 / n. Integers become float32; without any, NaN."""
    shape = x.shape
    axes = axes_of(dim, x.ndim)
    source = x.dtype
    x = cast(x, dtype, "float32")
    n = count(shape, axes)
    if not is_floating(x.dtype):
        raise DtypeError(f"mean cannot be computed in {x.dtype}.\nChoose a floating-point dtype.")
    value = _total(x, axes, keepdim, n or math.nan)
    return value, (lambda g: cast(expand_reduced(_divide(g, n or math.nan), shape, axes, keepdim), source),)


def _total(x, axes, keepdim, divisor=1):
    """The sum divided by `divisor`, computed in float32 if x has 16 bits (since `dtype` asked for them)."""
    if x.dtype in HALF:
        return _total(x.astype(float32), axes, keepdim, divisor).astype(x.dtype)
    value = stable_sum(x, axes, keepdim)
    return value if divisor == 1 else value / divisor


def _divide(g, n):
    """g / n, where n may exceed the range of 16 bits."""
    return (g.astype(float32) / n).astype(g.dtype) if g.dtype in HALF else g / n


# ---------------------------------------------------------------- extremes

_searches = (
    cases((distinct, 2, 3)) | cases((distinct, 2, 3), 1) | cases((distinct, 2, 3), dim=0, keepdim=True)
)


def _extreme(name, which):
    def rule(x, /, dim=None, keepdim=False):
        shape = x.shape
        axes = axes_of(dim, x.ndim)
        xp = namespace(x)
        check_nonempty(name, shape, axes)
        value = getattr(xp, name)(x, axis=axes, keepdims=True)

        def gradient(g):
            ties = xp.stop_gradient((x == value) | (x != x)).astype(g.dtype)
            return expand_reduced(g, shape, axes, keepdim) * (ties / ties.sum(axis=axes, keepdims=True))

        result = value if keepdim else value.reshape(tuple(n for i, n in enumerate(shape) if i not in axes))
        return result, (gradient,)

    rule.__name__ = rule.__qualname__ = name
    rule.__doc__ = (
        f"The {which} element along `dim`, NaN if one is NaN; equal elements (or NaNs) share the gradient."
    )
    latex = r"\frac{g\,[x = y]}{\text{number of ties}}"
    return differentiable(rule, samples=reducing(distinct), latex=latex, flops=per_input(1))


amax, amin = _extreme("amax", "largest"), _extreme("amin", "smallest")


class Extremes(NamedTuple):
    """The extremes along an axis, and their indices."""

    values: Tensor
    indices: Tensor


@differentiable(samples=_searches, flops=per_input(1))
def argmax(x, /, dim=None, keepdim=False):
    """The index of the maximum (the first of several), in the flattened tensor if `dim` is None."""
    return _place(namespace(x).argmax, x, dim, keepdim), None


@differentiable(samples=_searches, flops=per_input(1))
def argmin(x, /, dim=None, keepdim=False):
    """The index of the minimum (the first of several), in the flattened tensor if `dim` is None."""
    return _place(namespace(x).argmin, x, dim, keepdim), None


def _place(search, x, dim, keepdim):
    axis = None if dim is None else axis_of(dim, x.ndim)
    check_nonempty("the place of the extreme", x.shape, axes_of(axis, x.ndim))
    return search(x, axis=axis if x.ndim else None, keepdims=keepdim)


@derived(exact_in_half=True, samples=_searches)
def max(x, dim: int | Tensor | None = None, keepdim=False):
    """The maximum of all elements, or (values, indices) along `dim`, whose gradient goes to one element.

    With a tensor instead of `dim`, the elementwise maximum.
    """
    if isinstance(dim, Tensor | np.ndarray) and not keepdim:
        return maximum(x, dim)
    return amax(x) if dim is None else _best(argmax, x, dim, keepdim)


@derived(exact_in_half=True, samples=_searches)
def min(x, dim: int | Tensor | None = None, keepdim=False):
    """The minimum of all elements, or (values, indices) along `dim`, whose gradient goes to one element.

    With a tensor instead of `dim`, the elementwise minimum.
    """
    if isinstance(dim, Tensor | np.ndarray) and not keepdim:
        return minimum(x, dim)
    return amin(x) if dim is None else _best(argmin, x, dim, keepdim)


def _best(index, x, dim, keepdim):
    x = as_tensor(x)
    places = index(x, dim, keepdim=True)
    values = x.gather(dim, places)
    return Extremes(values, places) if keepdim else Extremes(values.squeeze(dim), places.squeeze(dim))


# ---------------------------------------------------------------- logic and counting


@differentiable(samples=cases((mask, 2, 3)) | cases((mask, 2, 3), dim=1, keepdim=True) | cases((mask, 0)))
def all(x, /, dim=None, keepdim=False):
    """Whether all elements, or all along `dim`, are true."""
    return _truth(namespace(x).all, x, dim, keepdim), None


@differentiable(samples=cases((mask, 2, 3)) | cases((mask, 2, 3), dim=1, keepdim=True) | cases((mask, 0)))
def any(x, /, dim=None, keepdim=False):
    """Whether any element, or any along `dim`, is true."""
    return _truth(namespace(x).any, x, dim, keepdim), None


def _truth(test, x, dim, keepdim):
    value = test(x, axis=axes_of(dim, x.ndim), keepdims=keepdim)
    return value.astype(x.dtype) if x.dtype == np.uint8 else value  # as in PyTorch


# ---------------------------------------------------------------- the logarithm of a sum of exponentials


@composite(
    autocast="float32",
    samples=cases((real, 2, 3), dim=1)
    | cases((real, 2, 3), dim=(0, 1), keepdim=True)
    | cases((real,), dim=0),
    latex=r"g\,\operatorname{softmax}(x)",
    flops=per_input(4),
)
def logsumexp(x, /, dim: int | Sequence[int], keepdim=False):
    """log(sum(exp(x))) along `dim`, without overflow: m + log(sum(exp(x - m))), with m the largest element.

    d/dx = softmax(x).
    """
    if not x.numel():
        return x.exp().sum(dim, keepdim).log()
    m = x.detach().amax(dim, keepdim=True)
    m = m.masked_fill(m.isinf(), 0.0)
    y = (x - m).exp().sum(dim, keepdim=True).log() + m
    return y if keepdim else y.squeeze(dim)
