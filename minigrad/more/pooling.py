"""Average and max pooling, exported by `nn.functional`."""

from __future__ import annotations

import functools
import math

import numpy as np

from ..core.costs import Flops
from ..core.devices import array_module
from ..core.errors import OptionError, ShapeError
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor, constant
from ..ops.allocation import check_allocation
from ..ops.axes import as_floating
from ..ops.creation import zeros
from ..ops.indexing import index
from ..ops.linalg import linear
from ..ops.samplers import cases, distinct, real
from .windows import as_columns, geometry, per_axis, sliding_windows, with_leading_axes

__family__ = "convolution"
__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d",
    "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


# ---------------------------------------------------------------- means


@derived(samples=cases((real, 2, 1, 5), 2) | cases((real, 1, 5), 3, 2, 1, True, False))
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Average each window of (N, C, L); windows are `stride` (by default the kernel size) apart.

    `padding` zeros are added at both ends, and count as elements unless `count_include_pad` is False. With
    `ceil_mode` the last window may extend past the end.
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@derived(samples=cases((real, 1, 2, 3, 4), 2, (1, 2)) | cases((real, 2, 3, 3), 2, 2, 1, True, False))
def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """Average each window of (N, C, H, W), or divide its sum by `divisor_override`; see `avg_pool1d`."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@derived(samples=cases((real, 1, 1, 2, 3, 2), (1, 2, 2), 1, divisor_override=3))
def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """Average each window of (N, C, D, H, W), or divide its sum by `divisor_override`; see `avg_pool1d`."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _avg_pool(n, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor):
    x = with_leading_axes(f"avg_pool{n}d", as_floating(x), n)
    size = x.shape[-n:]
    padding = per_axis("padding", padding, n, least=0)
    kernel, stride, pairs, dilation, positions = geometry(size, kernel_size, stride, padding, 1, ceil_mode)
    _check_padding(padding, kernel)
    columns = as_columns(sliding_windows(x, kernel, stride, pairs, dilation), n)
    total = columns.sum(-2).reshape(*x.shape[:-n], *positions)
    if divisor is not None:
        if divisor == 0:
            raise OptionError("divisor_override must not be 0.\nPass another number, or None for the mean.")
        return total / divisor
    ends = padding if count_include_pad else (0,) * n
    counts = [
        _overlap(np.arange(m) * s - p, k, -e, length + e)
        for m, s, p, k, e, length in zip(positions, stride, padding, kernel, ends, size, strict=True)
    ]
    divisors = functools.reduce(np.multiply, np.ix_(*counts))
    return total / constant(divisors.astype(total.dtype), x)


def _overlap(starts, length, low, high):
    """The number of elements of each window [start, start + length) that are in [low, high)."""
    return np.minimum(starts + length, high) - np.maximum(starts, low)


def _check_padding(padding, spans):
    if any(2 * p > span for p, span in zip(padding, spans, strict=True)):
        raise OptionError(
            f"padding must be at most half of the windows {tuple(spans)}, got {padding}.\nPad less."
        )


@derived(exact_in_half="gpu", samples=cases((real, 2, 1, 5), 3) | cases((real, 1, 4), 2))
def adaptive_avg_pool1d(input, output_size):
    """Average n = `output_size` windows that cover (N, C, L); None keeps L.

    Window i extends from floor(i L / n) up to, but not including, ceil((i + 1) L / n).
    """
    return _adaptive_avg_pool(1, input, output_size)


@derived(exact_in_half="gpu", samples=cases((real, 1, 2, 3, 4), (2, 3)) | cases((real, 2, 3, 3), (None, 1)))
def adaptive_avg_pool2d(input, output_size):
    """Average a grid of windows that cover (N, C, H, W); see `adaptive_avg_pool1d`."""
    return _adaptive_avg_pool(2, input, output_size)


@derived(exact_in_half="gpu", samples=cases((real, 1, 1, 2, 3, 4), (1, 2, 3)))
def adaptive_avg_pool3d(input, output_size):
    """Average a grid of windows that cover (N, C, D, H, W); see `adaptive_avg_pool1d`."""
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_avg_pool(n, x, output_size):
    """Average the windows along each axis, by a product with a matrix."""
    x = with_leading_axes(f"adaptive_avg_pool{n}d", as_floating(x), n)
    counts = _output_counts(x, n, output_size)
    if set(counts) == {1}:
        return x.mean(tuple(range(-n, 0)), keepdim=True)
    for axis, (length, count) in enumerate(zip(x.shape[-n:], counts, strict=True), -n):
        if count != length:
            starts, ends = _window_bounds(length, count)
            places = np.arange(length)
            inside = (starts[:, None] <= places) & (places < ends[:, None])
            x = along_axis(x, axis, inside / (ends - starts)[:, None])
    return x


def along_axis(x, axis, matrix):
    """Multiply every vector along `axis` by a constant matrix (new length, length)."""
    return linear(x.transpose(axis, -1), constant(matrix.astype(x.dtype), x), None).transpose(axis, -1)


def _output_counts(x, n, output_size):
    """The number of windows along each axis."""
    sizes = output_size if isinstance(output_size, tuple | list) else (output_size,) * n
    if len(sizes) != n:
        raise OptionError(f"output_size must be {n} integers or one, got {output_size!r}.\nPass either.")
    counts = [length if m is None else m for m, length in zip(sizes, x.shape[-n:], strict=True)]
    check_allocation((*x.shape[:-n], *counts), x.dtype)
    if 0 in x.shape[-n:]:
        raise ShapeError(f"adaptive pooling needs non-empty axes, got shape {x.shape}.\nPass more elements.")
    return per_axis("output_size", tuple(counts), n, least=0)


def _window_bounds(length, count):
    """The starts and ends of `count` windows that cover an axis."""
    i = np.arange(count)
    return i * length // max(count, 1), -(-(i + 1) * length // max(count, 1))


# ---------------------------------------------------------------- maxima


@derived(
    exact_in_half=True,
    samples=cases((distinct, 2, 1, 5), 2) | cases((distinct, 1, 6), 3, 2, 1, 2, True, True),
)
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Take the maximum of each window of (N, C, L); windows are `stride` (default: kernel size) apart.

    The first of equal elements gets the whole gradient. Padding counts as -inf. `return_indices` also returns
    the index of each maximum in its flattened channel.
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@derived(
    exact_in_half=True, samples=cases((distinct, 1, 2, 3, 4), 2, 1) | cases((distinct, 2, 3, 3), 2, 2, 1)
)
def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Take the maximum of each window of (N, C, H, W); see `max_pool1d`."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@derived(exact_in_half=True, samples=cases((distinct, 1, 1, 2, 3, 4), (1, 2, 2)))
def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Take the maximum of each window of (N, C, D, H, W); see `max_pool1d`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _max_pool(n, x, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    x = with_leading_axes(f"max_pool{n}d", as_tensor(x), n)
    padding = per_axis("padding", padding, n, least=0)
    kernel, stride, _, dilation, positions = geometry(
        x.shape[-n:], kernel_size, stride, padding, dilation, ceil_mode
    )
    _check_padding(padding, [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)])
    axes = zip(positions, stride, padding, kernel, dilation, x.shape[-n:], strict=True)
    windows = [
        _clip_to_axis(np.arange(m)[:, None] * s - p + np.arange(k) * d, length)
        for m, s, p, k, d, length in axes
    ]
    return _window_maxima(x, windows, return_indices)


def _clip_to_axis(places, length):
    """Replace indices (windows, k) in the padding with the nearest index of their window inside the axis."""
    valid = (places >= 0) & (places < length)
    if not valid.any(1).all():
        raise ShapeError("a window contains only padding.\nUse less padding or dilation.")
    first = np.where(valid, places, length).min(1)
    last = np.where(valid, places, -1).max(1)
    return places.clip(first[:, None], last[:, None])


def _window_maxima(x, windows, return_indices):
    """The maximum of each window; `windows` has indices (windows, k) along each of the last axes."""
    n = len(windows)
    size = x.shape[-n:]
    counts = [len(places) for places in windows]
    flat = np.zeros((1,) * 2 * n, np.int64)  # axes: the windows, then the elements within a window
    for i, places in enumerate(windows):
        shape_of_places = [1] * 2 * n
        shape_of_places[i], shape_of_places[n + i] = places.shape
        flat = flat + (places * math.prod(size[i + 1 :])).reshape(shape_of_places)
    flat = flat.reshape(math.prod(counts), -1).T
    rows = x.reshape(math.prod(x.shape[:-n]), math.prod(size))
    where = largest_place(rows, flat)
    starts = np.arange(rows.shape[0])[:, None] * rows.shape[1]
    shape = (*x.shape[:-n], *counts)
    values = index(x.reshape(-1), (where + starts).reshape(-1)).reshape(shape)
    return (values, where.reshape(shape)) if return_indices else values


@differentiable(
    samples=cases((distinct, 2, 5), places=np.array([[0, 1, 2], [1, 2, 3], [4, 4, 4]])),
    flops=Flops(
        "elements of all windows", lambda inputs, result, settings: inputs[0][0] * np.size(settings["places"])
    ),
)
def largest_place(x, /, places):
    """The index of each window's maximum: x (rows, size), places (k, windows) -> (rows, windows).

    Of equal elements the first is taken. NaN is larger than any number; of several NaN the last is taken.
    """
    xp = array_module(x)
    places = xp.asarray(places)
    best = xp.take(x, places[0], axis=1)
    where = xp.broadcast_to(places[0], best.shape).copy()
    for place in places[1:]:
        candidate = xp.take(x, place, axis=1)
        better = candidate > best
        if x.dtype.kind == "f":
            better |= xp.isnan(candidate)
        xp.copyto(best, candidate, where=better)
        xp.copyto(where, place, where=better)
    return where, None


@derived(exact_in_half=True, samples=cases((distinct, 2, 1, 5), 3) | cases((distinct, 1, 4), 2))
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Take the maxima of `output_size` windows that cover (N, C, L); see `adaptive_avg_pool1d`."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


@derived(
    exact_in_half=True, samples=cases((distinct, 1, 2, 3, 4), (2, 3)) | cases((distinct, 2, 3, 3), (None, 1))
)
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Take the maxima of a grid of windows that cover (N, C, H, W); see `adaptive_avg_pool1d`."""
    return _adaptive_max_pool(2, input, output_size, return_indices)


@derived(exact_in_half=True, samples=cases((distinct, 1, 1, 2, 3, 4), (1, 2, 3)))
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Take the maxima of a grid of windows that cover (N, C, D, H, W); see `adaptive_avg_pool1d`."""
    return _adaptive_max_pool(3, input, output_size, return_indices)


def _adaptive_max_pool(n, x, output_size, return_indices):
    x = with_leading_axes(f"adaptive_max_pool{n}d", as_tensor(x), n)
    windows = []
    for length, count in zip(x.shape[-n:], _output_counts(x, n, output_size), strict=True):
        starts, ends = _window_bounds(length, count)
        longest = max(ends - starts, default=1)
        windows.append(np.minimum(starts[:, None] + np.arange(longest), ends[:, None] - 1))
    return _window_maxima(x, windows, return_indices)


@derived(exact_in_half=True, samples=cases((real, 2, 1, 2), np.array([[[0, 3]], [[1, 2]]]), 2))
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put the maxima of `max_pool1d` back at their indices, with zeros elsewhere: (N, C, L') -> (N, C, L).

    L = (L' - 1) stride - 2 padding + kernel_size, or `output_size` if several lengths give L'. Of several
    values for one index the last is used, and gets the gradient.
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@derived(exact_in_half=True, samples=cases((real, 1, 1, 2), np.array([[[1, 6]]]), 2, output_size=(2, 5)))
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put the maxima of `max_pool2d` back at their indices: (N, C, H', W') -> (N, C, H, W)."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@derived(exact_in_half=True, samples=cases((real, 1, 1, 1, 1, 2), np.array([[[[[1, 6]]]]]), (1, 2, 2)))
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put the maxima of `max_pool3d` back at their indices: (N, C, D', H', W') -> (N, C, D, H, W)."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _unpool(n, x, indices, kernel_size, stride, padding, output_size):
    x = with_leading_axes(f"max_unpool{n}d", as_tensor(x), n)
    indices = as_tensor(indices)
    if indices.shape != x.shape:
        raise ShapeError(f"indices must have shape {x.shape}, got {indices.shape}.\nPass one per element.")
    kernel = per_axis("kernel_size", kernel_size, n)
    stride = kernel if stride in (None, (), []) else per_axis("stride", stride, n)
    padding = per_axis("padding", padding, n, least=0)
    axes = zip(x.shape[-n:], kernel, stride, padding, strict=True)
    size = tuple((length - 1) * s - 2 * p + k for length, k, s, p in axes)
    if output_size is not None:
        wanted = tuple(output_size)[-n:]
        if len(output_size) not in (n, n + 2):
            raise OptionError(
                f"output_size must have {n} or {n + 2} numbers, got {output_size!r}.\n"
                f"Pass lengths, or a shape."
            )
        if any(abs(a - b) >= s for a, b, s in zip(wanted, size, stride, strict=True)):
            raise ShapeError(
                f"output_size {wanted} is too far from {size}.\n"
                f"Pass one that differs by less than the stride {stride}."
            )
        size = wanted
    lead = x.shape[:-n]
    flat = zeros(*lead, math.prod(size), dtype=x.dtype, device=x.device)
    return flat.scatter(-1, indices.flatten(-n), x.flatten(-n)).reshape(*lead, *size)
