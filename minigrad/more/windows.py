"""Sliding windows over the last axes and their transpose, from which pooling and `unfold` are built."""

from __future__ import annotations

import math

import numpy as np

from ..core.costs import per_input, zero_flops
from ..core.errors import DtypeError, OptionError, ShapeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from ..ops.axes import axis_of
from ..ops.samplers import cases, real
from ..ops.shaping import view_as_shape
from ..ops.views import movedim

__family__ = "shape"
__all__ = ["fold", "unfold"]

LINE = {"stride": (2,), "padding": ((1, 0),), "dilation": (1,)}

PLANE = {"stride": (1, 2), "padding": ((0, 1), (1, 1)), "dilation": (2, 1)}


@differentiable(
    public_name="unfold",
    view=True,
    samples=cases((real, 2, 5), kernel=(3,), **LINE) | cases((real, 2, 4, 3), kernel=(2, 2), **PLANE),
    latex=r"\textstyle\sum_{\text{windows}} g",
    flops=zero_flops,
)
def sliding_windows(x, /, kernel, stride, padding, dilation):
    """(..., *size) -> (..., *positions, *kernel): element k is x at index position * stride + k * dilation.

    Indices include the padding: `padding` is a pair (before, after) of numbers of zeros for each axis.
    """
    size = x.shape[-len(kernel) :]
    return namespace(x).sliding_windows(x, kernel, stride, padding, dilation), (
        lambda g: namespace(g).overlap_add(g, size, stride, padding, dilation),
    )


@differentiable(
    public_name="fold",
    samples=cases((real, 2, 2, 3), size=(5,), **LINE) | cases((real, 2, 3, 2, 2, 2), size=(4, 3), **PLANE),
    latex=r"\text{windows of } g",
    flops=per_input(1),
)
def overlap_add(y, /, size, stride, padding, dilation):
    """(..., *positions, *kernel) -> (..., *size): add up windows, the transpose of `sliding_windows`."""
    kernel = y.shape[-len(size) :]
    return namespace(y).overlap_add(y, size, stride, padding, dilation), (
        lambda g: namespace(g).sliding_windows(g, kernel, stride, padding, dilation),
    )


@derived(
    exact_in_half=True,
    samples=cases((real, 2, 1, 3, 4), 2) | cases((real, 2, 3, 3), (2, 1), (1, 2), 1, (2, 1)),
)
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Return the windows of images as columns: (N, C, H, W) -> (N, C KH KW, windows), row by row."""
    x = with_leading_axes("unfold", as_tensor(input), 2)
    stride = per_axis("stride", stride, 2)
    kernel, stride, pairs, dilation, positions = geometry(
        x.shape[-2:], kernel_size, stride, padding, dilation
    )
    columns = as_columns(sliding_windows(x, kernel, stride, pairs, dilation), 2)
    return columns.reshape(*x.shape[:-3], x.shape[-3] * math.prod(kernel), math.prod(positions))


def as_columns(windows, n):
    """Copy (..., *positions, *kernel) to (..., elements of a window, windows)."""
    last = windows.ndim - 2 * n
    positions = range(last, last + n)
    kernel = range(last + n, last + 2 * n)
    counts = (math.prod(windows.shape[i] for i in axes) for axes in (kernel, positions))
    return windows.permute(*range(last), *kernel, *positions).reshape(*windows.shape[:last], *counts)


@derived(
    exact_in_half=True,
    samples=cases((real, 2, 4, 6), (3, 4), 2) | cases((real, 2, 6), (3, 3), (2, 1), (1, 2), 1, (2, 2)),
)
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Add up columns into images: (N, C KH KW, windows) -> (N, C, H, W), the transpose of `unfold`."""
    x = as_tensor(input)
    size = per_axis("output_size", output_size, 2)
    stride = per_axis("stride", stride, 2)
    kernel, stride, pairs, dilation, positions = geometry(size, kernel_size, stride, padding, dilation)
    if x.ndim not in (2, 3) or x.shape[-2] % math.prod(kernel) or x.shape[-1] != math.prod(positions):
        raise ShapeError(
            f"fold into images of {size} by windows of {kernel} got shape {x.shape}.\n"
            f"Pass (N, C * {math.prod(kernel)}, {math.prod(positions)}), or the same without N."
        )
    lead = x.shape[:-2]
    c = x.shape[-2] // math.prod(kernel)
    windows = x.reshape(*lead, c, *kernel, *positions)
    i = len(lead)
    windows = windows.permute(*range(i + 1), i + 3, i + 4, i + 1, i + 2)
    return overlap_add(windows, size, stride, pairs, dilation)


@derived(
    exact_in_half=True,
    samples=cases((real, 5), 0, 3, 1) | cases((real, 2, 5), 1, 2, 2) | cases((real, 3, 2), -2, 1, 1),
)
def windows_along(x, dimension, size, step):
    """Return windows of `size` elements, `step` apart, along an axis; their elements are a new last axis."""
    dim = axis_of(dimension, x.ndim)
    n = x.shape[dim] if x.ndim else 1
    if not 0 <= size <= n or step < 1:
        raise OptionError(
            f"unfold got size {size} and step {step} for axis {dim} of length {n}.\n"
            f"Pass a size from 0 to {n} and a step of at least 1."
        )
    if not x.ndim:
        return view_as_shape(x, (1,))[:size]
    windows = sliding_windows(movedim(x, dim, -1), (size,), (step,), ((0, 0),), (1,))
    return movedim(windows, -2, dim)


# ---------------------------------------------------------------- settings


def per_axis(name, value, n, least=1):
    """Convert a setting to one integer for each of n axes."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    values = values * n if len(values) == 1 else values
    if not all(isinstance(v, int | np.integer) for v in values):
        raise DtypeError(f"{name} must be an integer, or one for each axis, got {value!r}.\nPass integers.")
    if len(values) != n or min(values) < least:
        raise OptionError(
            f"{name} must be {n} integers of at least {least}, or one for all, got {value!r}.\nPass either."
        )
    return tuple(int(v) for v in values)


def geometry(size, kernel_size, stride, padding, dilation=1, ceil_mode=False):
    """Return (kernel, stride, padding as pairs, dilation, positions) of windows over axes of these lengths.

    There are (length + 2 padding - span) / stride + 1 positions, rounded down, or with `ceil_mode` up, unless
    the last window would start past the elements.
    """
    n = len(size)
    kernel = per_axis("kernel_size", kernel_size, n)
    stride = kernel if stride is None or stride in ((), []) else per_axis("stride", stride, n)
    padding = per_axis("padding", padding, n, least=0)
    dilation = per_axis("dilation", dilation, n)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    positions = []
    pairs = []
    for length, p, s, span in zip(size, padding, stride, spans, strict=True):
        count = (length + 2 * p - span + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= length + p:
            count -= 1
        if count < 1:
            raise ShapeError(
                f"a window spans {span} elements, but the axis has {length} plus a padding of 2 * {p}.\n"
                f"Pad more, or use a smaller kernel or dilation."
            )
        positions.append(count)
        pairs.append((p, (count - 1) * s + span - length - p))
    return kernel, stride, tuple(pairs), dilation, tuple(positions)


def with_leading_axes(name, x, n):
    """Return x after checking that it is (N, C, ...) or (C, ...) with n axes after C."""
    if x.ndim not in (n + 1, n + 2):
        raise ShapeError(f"{name} got shape {x.shape}.\nPass (N, C, ...) or (C, ...), with {n} axes after C.")
    return x
