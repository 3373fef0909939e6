"""Calculus on sampled functions: differences, gradients and integrals."""

from __future__ import annotations

import numpy as np

from ..core.error_context import describe
from ..core.errors import ArgumentError, OptionError, ShapeError
from ..core.op import derived
from ..core.tensor import Tensor, as_tensor, constant
from ..ops.axes import all_floating, as_floating, axes_of, axis_of, slice_along
from ..ops.creation import full
from ..ops.samplers import cases, distinct, real
from ..ops.shaping import cat

__family__ = "reduction"
__all__ = ["cumulative_trapezoid", "diff", "gradient", "trapezoid", "trapz"]


@derived(
    samples=cases((real, 2, 4), n=2)
    | cases((real, 2, 3), dim=0)
    | cases((real, 2, 3), prepend=(real, 2, 1))
    | cases((real, 2, 3), 1, 1, (real, 2, 1), (real, 2, 2)),
    latex=r"g_{i-1} - g_i",
)
def diff(x, n=1, dim=-1, prepend=None, append=None):
    """Subtract from each element the previous one, n times; `prepend` and `append` are joined to x first."""
    x = as_tensor(x)
    if not isinstance(n, int) or n < 0:
        raise OptionError(f"n must be a non-negative integer, got {n}.\nThe default is 1.")
    if not x.ndim:
        raise ShapeError("diff needs at least one axis, got a 0-d tensor.\nPass a vector.")
    ends = [as_tensor(end) for end in (prepend, x, append) if end is not None]
    if not n:
        return x.clone()
    x = cat(ends, dim) if len(ends) > 1 else x
    dim = axis_of(dim, x.ndim)
    for _ in range(min(n, x.shape[dim])):
        later = slice_along(x, dim, 1)
        earlier = slice_along(x, dim, None, -1)
        x = later != earlier if x.dtype == bool else later - earlier
    return x


# ---------------------------------------------------------------- integrals


def _strips(y, x, dx, dim):
    """The areas of the trapezoids between neighbours."""
    dim = axis_of(dim, y.ndim)
    if x is None:
        y = as_floating(y)
    else:
        y, x = all_floating(y, x)
    means = (slice_along(y, dim, 1) + slice_along(y, dim, None, -1)) / 2
    if x is None:
        return means * dx
    return means * (_column(diff(x), dim, y.ndim) if x.ndim == 1 else diff(x, dim=dim - y.ndim))


def _column(steps, dim, ndim):
    """Reshape a vector to `ndim` axes, along axis `dim`."""
    return steps.reshape([-1 if i == dim else 1 for i in range(ndim)])


_curves = (
    cases((real, 2, 4))
    | cases((real, 2, 4), (real, 4))
    | cases((real, 2, 3), (real, 2, 3), dim=0)
    | cases((real, 3, 2), dx=0.5, dim=0)
)


@derived(autocast="float32", samples=_curves)
def trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """Integrate y along an axis by the trapezoidal rule, with samples `dx` apart or at the points x."""
    y = as_tensor(y)
    return _strips(y, x, dx, dim).sum(dim) if y.shape[axis_of(dim, y.ndim)] else y.sum(dim)


@derived(autocast="float32", samples=_curves)
def cumulative_trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """Integrate y from the first point to each of the others by the trapezoidal rule."""
    return _strips(as_tensor(y), x, dx, dim).cumsum(dim)


trapz = trapezoid  # PyTorch's other name


# ---------------------------------------------------------------- gradients


@derived(
    samples=cases((distinct, 4, 3))
    | cases((distinct, 5), spacing=0.5, edge_order=2)
    | cases((distinct, 3, 4), spacing=[np.array([0, 1, 3, 4])], dim=1, edge_order=2)
)
def gradient(x, *, spacing=1, dim=None, edge_order=1):
    """Estimate the gradient of a sampled function along each axis (or those in `dim`), a tensor for each.

    Inner points use central differences (the parabola through a point and its neighbours), edges one-sided
    differences of order `edge_order`, 1 or 2. `spacing` is the distance between points: a number, or for each
    axis a number or a vector of coordinates.
    """
    x = as_floating(x)
    if edge_order not in (1, 2):
        raise OptionError(f"edge_order must be 1 or 2, got {edge_order!r}.\nChoose one of them.")
    dims = dim if isinstance(dim, tuple | list) else range(x.ndim) if dim is None else (dim,)
    axes_of(dim, x.ndim)  # raises for repeated axes
    spacing = 1 if spacing is None else spacing
    if isinstance(spacing, Tensor) and spacing.ndim:
        raise ArgumentError(
            f"spacing must be a number or a list with one for each axis, got {describe(spacing)}.\n"
            f"Pass coordinates along a single axis as a list of one vector: [x]."
        )
    spacings = spacing if isinstance(spacing, tuple | list) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise OptionError(f"expected {len(dims)} spacings, got {len(spacings)}.\nPass one for each axis.")
    return tuple(_slope(x, h, axis_of(d, x.ndim), edge_order) for d, h in zip(dims, spacings, strict=True))


def _slope(x, spacing, dim, edge_order):
    n = x.shape[dim] if x.ndim else 1
    if n <= edge_order:
        raise ShapeError(
            f"gradient needs at least {edge_order + 1} elements along an axis, got {n}.\n"
            f"Pass more elements, or other axes in `dim`."
        )
    if isinstance(spacing, int | float):
        steps = full(n - 1, float(spacing), x.dtype, x.device)
    else:
        steps = diff(
            as_floating(spacing if isinstance(spacing, Tensor) else constant(as_tensor(spacing).array, x))
        )
    steps = _column(steps, dim, x.ndim)
    slopes = diff(x, dim=dim)
    slopes = slopes / steps
    a, b = (
        slice_along(steps, dim, None, -1),
        slice_along(steps, dim, 1),
    )  # the step before each inner point, and after it
    before = slice_along(slopes, dim, None, -1)
    after = slice_along(slopes, dim, 1)
    inner = (b * before + a * after) / (a + b)
    first = slice_along(slopes, dim, None, 1)
    last = slice_along(slopes, dim, -1)
    if edge_order == 2:
        bend = (after - before) / (a + b)
        first = first - slice_along(a, dim, None, 1) * slice_along(bend, dim, None, 1)
        last = last + slice_along(b, dim, -1) * slice_along(bend, dim, -1)
    return cat([first, inner, last], dim)
