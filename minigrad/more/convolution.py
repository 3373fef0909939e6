"""Convolution and transposed convolution over one, two or three axes, exported by `nn.functional`.

Input x, kernel w and output y of a convolution appear in one sum over all windows,

    sum of y[n, o, i] w[o, c, k] x[n, c, i * stride + k * dilation],

which is linear in each of them. So the gradient with respect to each is the same sum without it: a
convolution without y, its transpose without x, and a correlation of x and y without w. These three rules,
each the derivative of the others, are enough for derivatives of every order.
"""

from __future__ import annotations

import math

from ..core.costs import Flops
from ..core.dtypes import int64
from ..core.errors import OptionError, ShapeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from ..ops.axes import all_floating
from ..ops.samplers import cases, real
from .windows import per_axis

__family__ = "convolution"
__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


# ---------------------------------------------------------------- the three rules


def _flops(windows, kernel):
    """Two operations for each window and each element of the kernel."""

    def count(inputs, result, settings):
        n, _, *positions = windows(inputs, result)
        return 2 * n * math.prod(positions) * math.prod(kernel(inputs, result))

    return Flops("2 × windows × elements of the kernel", count)


SMALL = {"stride": (2,), "padding": ((1, 0),), "dilation": (1,), "groups": 1}

FLAT = {"stride": (1, 2), "padding": ((1, 1), (0, 0)), "dilation": (2, 1), "groups": 2}


@differentiable(
    autocast="lower",
    samples=cases((real, 2, 2, 5), (real, 3, 2, 3), **SMALL)
    | cases((real, 1, 4, 4, 5), (real, 2, 2, 2, 3), **FLAT),
    latex=(r"\textstyle\sum_k g_{i-k}\,w_k", r"\textstyle\sum_i g_i\,x_{i+k}"),
    flops=_flops(lambda inputs, result: result, lambda inputs, result: inputs[1]),
)
def convolution(x, w, /, stride, padding, dilation, groups):
    """y[n, o, i] = sum of x[n, c, i * stride + k * dilation] w[o, c, k] over c and k.

    x (N, C, *size), w (O, C / groups, *kernel) -> (N, O, *positions); `padding` is a pair for each axis.
    """
    xp = namespace(x, w)
    how = (stride, padding, dilation, groups)
    size = x.shape[2:]
    kernel = w.shape[2:]
    return xp.convolution(x, w, *how), (
        lambda g: namespace(g, w).convolution_input(g, w, size, *how),
        lambda g: namespace(g, x).convolution_weight(x, g, kernel, *how),
    )


@differentiable(
    autocast="lower",
    samples=cases((real, 2, 3, 2), (real, 3, 2, 3), size=(5,), **SMALL)
    | cases((real, 1, 2, 4, 2), (real, 2, 2, 2, 3), size=(4, 5), **FLAT),
    latex=(r"\textstyle\sum_k g_{i+k}\,w_k", r"\textstyle\sum_i y_i\,g_{i+k}"),
    flops=_flops(lambda inputs, result: inputs[0], lambda inputs, result: inputs[1]),
)
def convolution_input(y, w, /, size, stride, padding, dilation, groups):
    """x[n, c, i * stride + k * dilation] = sum of y[n, o, i] w[o, c, k]: a convolution's transpose.

    y (N, O, *positions), w (O, C / groups, *kernel) -> (N, C, *size).
    """
    xp = namespace(y, w)
    how = (stride, padding, dilation, groups)
    kernel = w.shape[2:]
    return xp.convolution_input(y, w, size, *how), (
        lambda g: namespace(g, w).convolution(g, w, *how),
        lambda g: namespace(g, y).convolution_weight(g, y, kernel, *how),
    )


@differentiable(
    autocast="lower",
    samples=cases((real, 2, 2, 5), (real, 2, 3, 2), kernel=(3,), **SMALL)
    | cases((real, 1, 4, 4, 5), (real, 1, 2, 4, 2), kernel=(2, 3), **FLAT),
    latex=(r"\textstyle\sum_k y_{i-k}\,g_k", r"\textstyle\sum_k x_{i+k}\,g_k"),
    flops=_flops(lambda inputs, result: inputs[1], lambda inputs, result: result),
)
def convolution_weight(x, y, /, kernel, stride, padding, dilation, groups):
    """w[o, c, k] = sum of y[n, o, i] x[n, c, i * stride + k * dilation] over images n and positions i.

    x (N, C, *size), y (N, O, *positions) -> (O, C / groups, *kernel).
    """
    xp = namespace(x, y)
    how = (stride, padding, dilation, groups)
    size = x.shape[2:]
    return xp.convolution_weight(x, y, kernel, *how), (
        lambda g: namespace(g, y).convolution_input(y, g, size, *how),
        lambda g: namespace(g, x).convolution(x, g, *how),
    )


# ---------------------------------------------------------------- PyTorch's functions


@derived(
    exact_in_half="gpu",
    samples=cases((real, 2, 2, 5), (real, 3, 2, 3), (real, 3))
    | cases((real, 2, 5), (real, 4, 1, 2), groups=2),
)
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Apply a 1-d convolution: input (N, C, L), weight (O, C / groups, K) -> (N, O, L').

    L' = (L + 2 padding - dilation (K - 1) - 1) // stride + 1. The kernel is not flipped. `padding` zeros are
    added at both ends; "valid" means none, "same" as many as keep L with stride 1. N is optional.
    """
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


@derived(
    exact_in_half="gpu",
    samples=cases((real, 1, 2, 4, 3), (real, 2, 2, 2, 2), (real, 2), stride=(2, 1), padding=1)
    | cases((real, 1, 2, 3, 4), (real, 2, 1, 2, 2), None, padding="same", groups=2),
)
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Apply a 2-d convolution: (N, C, H, W), weight (O, C / groups, KH, KW) -> (N, O, H', W').

    See `conv1d`.
    """
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


@derived(
    exact_in_half="gpu",
    samples=cases((real, 1, 2, 2, 3, 2), (real, 2, 2, 1, 2, 2), (real, 2), padding=(0, 1, 0)),
)
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Apply a 3-d convolution: (N, C, D, H, W), weight (O, C / groups, KD, KH, KW) -> (N, O, D', H', W').

    See `conv1d`.
    """
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


@derived(
    exact_in_half="gpu",
    samples=cases((real, 2, 2, 3), (real, 2, 3, 2), (real, 3), stride=2, output_padding=1)
    | cases((real, 2, 3), (real, 2, 1, 3), padding=1, groups=2),
)
def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Apply a 1-d transposed convolution: input (N, C, L), weight (C, O / groups, K) -> (N, O, L').

    L' = (L - 1) stride - 2 padding + dilation (K - 1) + 1 + output_padding. This is the gradient of conv1d
    with respect to its input. `padding` removes elements at both ends, `output_padding` adds some at the end.
    """
    return _convolve_transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@derived(
    exact_in_half="gpu",
    samples=cases((real, 1, 2, 2, 3), (real, 2, 2, 2, 2), (real, 2), stride=(1, 2), padding=(1, 0)),
)
def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Apply a 2-d transposed convolution: (N, C, H, W), weight (C, O / groups, KH, KW) -> (N, O, H', W').

    See `conv_transpose1d`.
    """
    return _convolve_transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@derived(
    exact_in_half="gpu",
    samples=cases((real, 1, 2, 2, 1, 2), (real, 2, 1, 1, 2, 2), (real, 1), dilation=(1, 1, 2)),
)
def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Apply a 3-d transposed convolution: (N, C, D, H, W), weight (C, O / groups, KD, KH, KW).

    Returns (N, O, D', H', W'); see `conv_transpose1d`.
    """
    return _convolve_transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _convolve(n, x, w, bias, stride, padding, dilation, groups):
    x, w, batched = _check_inputs(f"conv{n}d", n, x, w, bias, groups, channels=1, outputs=0)
    stride = per_axis("stride", stride, n)
    dilation = per_axis("dilation", dilation, n)
    spans = [d * (k - 1) for k, d in zip(w.shape[2:], dilation, strict=True)]
    if isinstance(padding, str):
        pairs = _padding_pairs(padding, stride, spans)
    else:
        pairs = tuple((p, p) for p in per_axis("padding", padding, n, least=0))
    for length, (before, after), span in zip(x.shape[2:], pairs, spans, strict=True):
        if length + before + after <= span:
            raise ShapeError(
                f"the kernel spans {span + 1} elements, but the input has {length} plus a padding of "
                f"{before + after}.\nPad more, or use a smaller kernel or dilation."
            )
    return _finish(convolution(x, w, stride, pairs, dilation, groups), bias, n, batched)


def _convolve_transposed(n, x, w, bias, stride, padding, output_padding, groups, dilation):
    x, w, batched = _check_inputs(f"conv_transpose{n}d", n, x, w, bias, groups, channels=0, outputs=1)
    stride = per_axis("stride", stride, n)
    dilation = per_axis("dilation", dilation, n)
    padding = per_axis("padding", padding, n, least=0)
    extra = per_axis("output_padding", output_padding, n, least=0)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise OptionError(
            f"output_padding {extra} must be smaller than stride {stride} or dilation {dilation}.\n"
            f"Pass a smaller one."
        )
    size = tuple(
        (length - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for length, k, s, p, d, e in zip(
            x.shape[2:], w.shape[2:], stride, padding, dilation, extra, strict=True
        )
    )
    if min(size) < 1:
        raise ShapeError(
            f"the result would have size {size}.\nPad less: padding removes elements of the result."
        )
    pairs = tuple((p, p - e) for p, e in zip(padding, extra, strict=True))
    y = convolution_input(x, w, size, stride, pairs, dilation, groups)
    return _finish(y, bias, n, batched)


def _finish(y, bias, n, batched):
    """Add the bias to each channel, and remove the batch axis if the input had none."""
    if bias is not None:
        y = y + as_tensor(bias).reshape(-1, *[1] * n)
    return y if batched else y.squeeze(0)


def _check_inputs(name, n, x, w, bias, groups, channels, outputs):
    """Check shapes. Returns x with a batch axis, the kernel, and whether x had a batch axis.

    `channels` is the kernel's axis of input channels.
    """
    x, w = as_tensor(x), as_tensor(w)
    if int64 not in (x.dtype, w.dtype):  # sums of narrower integers would wrap around
        x, w = all_floating(x, w)
    letters = ", ".join("DHW"[3 - n :] if n > 1 else "L")
    if w.ndim != n + 2 or x.ndim not in (n + 1, n + 2):
        raise ShapeError(
            f"{name} got an input of shape {x.shape} and a weight of shape {w.shape}.\n"
            f"Pass an input (N, C, {letters}) or (C, {letters}), and a weight with {n + 2} axes."
        )
    batched = x.ndim == n + 2
    x = x if batched else x.unsqueeze(0)
    if not isinstance(groups, int) or groups < 1:
        raise OptionError(f"groups must be a positive integer, got {groups!r}.\nThe default is 1.")
    own = w.shape[channels] * (groups if channels else 1)
    made = w.shape[outputs] * (groups if outputs else 1)
    if x.shape[1] != own or w.shape[0] % groups:
        raise ShapeError(
            f"{name} got {x.shape[1]} channels (axis 1 of {tuple(x.shape)}) and a weight of shape {w.shape} "
            f"with groups={groups}.\n"
            f"The weight expects {own} channels; its first axis must be a multiple of `groups`."
        )
    if bias is not None and as_tensor(bias).shape != (made,):
        raise ShapeError(
            f"{name} got a bias of shape {as_tensor(bias).shape}.\n"
            f"Pass one number for each of the {made} output channels."
        )
    return x, w, batched


def _padding_pairs(name, stride, spans):
    """Padding pairs for "same" and "valid"; the extra element of an odd number goes at the end."""
    if name not in ("same", "valid"):
        raise OptionError(f'padding must be "same", "valid" or integers, got {name!r}.\nChoose one of them.')
    if name == "same" and any(s != 1 for s in stride):
        raise OptionError(f'padding="same" needs stride 1, got {stride}.\nPass numbers for the padding.')
    return tuple((span // 2, span - span // 2) if name == "same" else (0, 0) for span in spans)
