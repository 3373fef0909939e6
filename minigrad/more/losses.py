"""Losses for classes, probabilities and regression (for margins, see `margin_losses`).

They are exported by `nn.functional`.
"""

from __future__ import annotations

import math

from ..core.costs import per_element
from ..core.errors import OptionError, RangeError, ShapeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from ..ops.axes import all_floating, as_floating
from ..ops.comparisons import where
from ..ops.elementary import logaddexp
from ..ops.losses import check_pair, check_reduction, class_numbers, likelihoods, reduced
from ..ops.samplers import cases, distinct, integers, positive, probability, real
from .activations import hardtanh
from .distances import clamp_value

__family__ = "loss"
__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss", "kl_div",
    "l1_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip


# ---------------------------------------------------------------- classes


@derived(
    autocast="float32",
    samples=cases((real, 3, 4), (integers(0, 4), 3))
    | cases((real, 4), (integers(0, 4),), reduction="sum")
    | cases((real, 2, 3, 2), (integers(0, 3), 2, 2), weight=(positive, 3), ignore_index=1, reduction="none"),
    latex=(r"-\frac{g}{n}\,\operatorname{onehot}(target)", None),
)
def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """-input[target] of log-probabilities: (N, V), (V,) or (N, V, d1, ...); target has no axis V.

    `weight` has one weight per class; targets equal to `ignore_index` are ignored. "mean" divides by the
    weights of all other targets.
    """
    check_reduction(reduction)
    input = as_floating(input)
    target = class_numbers("nll_loss", input, target)
    weight = None if weight is None else as_floating(weight)
    losses, scale, _ = likelihoods(input, target, weight, ignore_index)
    return losses.sum() / scale.sum() if reduction == "mean" else reduced(losses, reduction)


# ---------------------------------------------------------------- probabilities


@differentiable(
    public_name="binary_cross_entropy",
    floating=True,
    samples=cases((probability, 2, 3), (probability, 2, 3)),
    latex=(r"g\,\frac{p - t}{p\,(1 - p)}", r"g\,\log\frac{1 - p}{p}"),
    flops=per_element(8),
)
def bernoulli_loss(p, t, /):
    """-t log p - (1 - t) log(1 - p). Logarithms are at least -100, and p (1 - p) in d/dp at least 1e-12."""
    xp = namespace(p, t)
    p_is_0, q_is_0 = p <= math.exp(-100), p == 1  # `where` also keeps the second derivative finite
    log_p = xp.where(p_is_0, -100.0, xp.log(xp.where(p_is_0, 1.0, p)))
    log_q = xp.where(q_is_0, -100.0, xp.log1p(-xp.where(q_is_0, 0.0, p)))
    return -t * log_p - (1 - t) * log_q, (
        lambda g: g * ((p - t) / xp.maximum(p * (1 - p), 1e-12)),
        lambda g: g * (log_q - log_p),
    )


@derived(
    autocast="float32",
    samples=cases((probability, 2, 3), (probability, 2, 3))
    | cases((probability, 3), (integers(0, 2), 3), weight=(positive, 3), reduction="none"),
    latex=(r"\frac{g}{n}\,\frac{input - target}{input\,(1 - input)}", None),
)
def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    """-target log(input) - (1 - target) log(1 - input) of probabilities, times `weight`.

    Logarithms are clamped to at least -100. For logits, `binary_cross_entropy_with_logits` is more accurate.
    """
    input, target = of_one_shape("binary_cross_entropy", input, target)
    if ((input.array < 0) | (input.array > 1)).any():
        raise RangeError(
            "binary_cross_entropy needs probabilities between 0 and 1, but some are not.\n"
            "Apply sigmoid first, or use binary_cross_entropy_with_logits."
        )
    losses = bernoulli_loss(input, target)
    return reduced(losses if weight is None else losses * as_tensor(weight), reduction)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (probability, 2, 3))
    | cases(
        (real, 2, 3), (probability, 2, 3), weight=(positive, 3), pos_weight=(positive, 3), reduction="none"
    ),
    latex=(r"\frac{g}{n}\,(\sigma(input) - target)", r"-\frac{g}{n}\,input"),
)
def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """binary_cross_entropy(sigmoid(input), target), computed without overflow, times `weight`.

    It is target log(1 + exp(-input)) + (1 - target) log(1 + exp(input)), which is accurate in both tails.
    `pos_weight` multiplies the first term.
    """
    input, target = all_floating(*of_one_shape("binary_cross_entropy_with_logits", input, target))
    positive = target if pos_weight is None else target * as_floating(pos_weight)
    losses = product(positive, logaddexp(-input, 0.0)) + product(1 - target, logaddexp(input, 0.0))
    return reduced(losses if weight is None else losses * as_tensor(weight), reduction)


def product(weight, losses):
    """weight * losses, but 0 where the weight is 0, even for an infinite loss."""
    return weight * losses.masked_fill((weight == 0) & losses.isinf(), 0.0)


def of_one_shape(name, input, target):
    """Convert both to tensors, or raise a ShapeError if their shapes differ."""
    input, target = as_tensor(input), as_tensor(target)
    if input.shape != target.shape:
        raise ShapeError(
            f"{name} got input {input.shape} and target {target.shape}.\nPass a target of the input's shape."
        )
    return input, target


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (probability, 2, 3), reduction="batchmean")
    | cases((real, 2, 3), (real, 2, 3), log_target=True),
)
def kl_div(input, target, reduction="mean", log_target=False):
    """target (log(target) - input), 0 where target is 0; input (and target, if `log_target`) are logarithms.

    The sum over classes is the Kullback-Leibler divergence. reduction="batchmean" divides the sum by the
    length of axis 0.
    """
    input, target = all_floating(input, target)
    if log_target:
        losses = product(target.exp(), target - input)
    else:
        losses = product(target, where(target == 0, 1.0, target).log() - input)
    if reduction == "batchmean":
        return losses.sum() / input.shape[0] if input.ndim else losses.sum()
    return reduced(losses, reduction)


# ---------------------------------------------------------------- regression


@derived(
    autocast="float32",
    samples=cases((distinct, 2, 3), (real, 2, 3)) | cases((distinct, 3), (real, 3), reduction="none"),
    latex=(
        r"\frac{g}{n}\operatorname{sign}(input - target)",
        r"\frac{g}{n}\operatorname{sign}(target - input)",
    ),
)
def l1_loss(input, target, reduction="mean"):
    """|input - target|, with derivative 0 where they are equal."""
    input, target = check_pair("l1_loss", input, target)
    if reduction == "mean":
        input, target = all_floating(input, target)
    return reduced((input - target).absolute(), reduction)


@derived(
    autocast="float32",
    samples=cases((distinct, 2, 3), (real, 2, 3))
    | cases((distinct, 3), (real, 3), reduction="none", beta=0.3),
)
def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """d**2 / (2 beta) where |d| < beta, |d| - beta / 2 elsewhere, with d = input - target (Girshick 2015)."""
    if not beta >= 0:
        raise OptionError(f"beta must be at least 0, got {beta}.\nThe default is 1.")
    input, target = all_floating(*check_pair("smooth_l1_loss", input, target))
    d = input - target
    return reduced(_quadratic_near_0(d, beta) / beta if beta else d.absolute(), reduction)


@derived(
    autocast="float32",
    samples=cases((distinct, 2, 3), (real, 2, 3))
    | cases((distinct, 3), (real, 3), reduction="none", delta=0.3),
)
def huber_loss(input, target, reduction="mean", delta=1.0):
    """d**2 / 2 where |d| < delta, delta (|d| - delta / 2) elsewhere, with d = input - target (Huber 1964)."""
    if not delta > 0:
        raise OptionError(f"delta must be above 0, got {delta}.\nThe default is 1.")
    input, target = all_floating(*check_pair("huber_loss", input, target))
    return reduced(_quadratic_near_0(input - target, delta), reduction)


def _quadratic_near_0(d, limit):
    """d**2 / 2 where |d| is below `limit`, limit (|d| - limit / 2) elsewhere; d2/dd2 is 1 at 0 too."""
    near = hardtanh(d, -limit, limit)
    return near * (d - 0.5 * near)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3), (positive, 2, 3), full=True)
    | cases((real, 2, 3), (real, 2, 3), (positive, 2), reduction="none"),
)
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log(var) + (input - target)**2 / var) / 2, plus log(2 pi) / 2 if `full` (Nix and Weigend 1994).

    `var` is raised to at least `eps`, without changing its gradient. It is a number, or has the input's
    shape, possibly with one axis of length 1 or without the last axis.
    """
    input, target, var = all_floating(input, target, var)
    one_for_an_axis = [(*input.shape[:i], 1, *input.shape[i + 1 :]) for i in range(input.ndim)]
    if var.shape == input.shape[:-1] and input.ndim:
        var = var.unsqueeze(-1)
    elif var.ndim and var.shape not in (input.shape, *one_for_an_axis):
        raise ShapeError(
            f"gaussian_nll_loss got input {input.shape} and var {var.shape}.\n"
            f"Pass a var of the input's shape, with one axis of length 1, or without the last axis."
        )
    if (var.array < 0).any():
        raise RangeError("gaussian_nll_loss got a negative variance.\nApply exp or softplus to var.")
    var = clamp_value(var, eps)
    losses = 0.5 * (var.log() + (input - target).square() / var)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (positive, 2, 3), full=True)
    | cases((positive, 3), (positive, 3), log_input=False, reduction="none"),
)
def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    """exp(input) - target input or, without `log_input`, input - target log(input + eps).

    `full` adds Stirling's approximation of log(target!) where target > 1.
    """
    input, target = all_floating(input, target)
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        large = target > 1
        n = where(large, target, 1.0)
        losses = losses + where(large, n * n.log() - n + 0.5 * (2 * math.pi * n).log(), 0.0)
    return reduced(losses, reduction)
