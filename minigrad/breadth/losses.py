"""How far a prediction is from its target: classes, probabilities and numbers (margins: `margin_losses`).

Their names are in `nn.functional`.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.costs import per_element
from ..core.errors import OptionError, RangeError, ShapeError
from ..core.frames import warn
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from ..ops.axes import all_floating, as_floating
from ..ops.comparisons import where
from ..ops.elementary import logaddexp
from ..ops.losses import check_reduction, class_numbers, likelihoods, reduced
from ..ops.samplers import cases, distinct, integers, positive, probability, real
from .distances import no_less

__family__ = "loss"
__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss", "kl_div",
    "l1_loss", "mse_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
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
    """-input[target], where input holds log-probabilities: (N, V), (V,) or (N, V, d1, ...), target without V.

    `weight` is how much each class counts; targets equal to `ignore_index` count nothing. "mean" divides by
    the weight of what counts.
    """
    check_reduction(reduction)
    input, target = as_floating(input), class_numbers("nll_loss", input, target)
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
    """-t log p - (1 - t) log(1 - p), no logarithm below -100, and in d/dp no p (1 - p) below 1e-12."""
    xp = namespace(p, t)
    with np.errstate(divide="ignore"):
        log_p = xp.maximum(xp.log(p), -100.0)
        log_q = xp.maximum(xp.log1p(-p), -100.0)
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
    """-target log(input) - (1 - target) log(1 - input), of probabilities; each times `weight`.

    Logarithms are cut off at -100. Of logits, `binary_cross_entropy_with_logits` is exact where this is not.
    """
    input, target = of_one_shape("binary_cross_entropy", input, target)
    if ((input.array < 0) | (input.array > 1)).any():
        raise RangeError(
            "binary_cross_entropy takes probabilities from 0 to 1, and some are not.\n"
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
    """binary_cross_entropy(sigmoid(input), target), computed without overflow; each times `weight`.

    It is target log(1 + exp(-input)) + (1 - target) log(1 + exp(input)), of which each term has its digits in
    the tail. `pos_weight` is how much target, not 1 - target, counts.
    """
    input, target = all_floating(*of_one_shape("binary_cross_entropy_with_logits", input, target))
    positive = target if pos_weight is None else target * as_floating(pos_weight)
    losses = product(positive, logaddexp(-input, 0.0)) + product(1 - target, logaddexp(input, 0.0))
    return reduced(losses if weight is None else losses * as_tensor(weight), reduction)


def product(weight, losses):
    """weight * losses, 0 where the weight is 0, also of an infinite loss."""
    return weight * losses.masked_fill((weight == 0) & losses.isinf(), 0.0)


def of_one_shape(name, input, target):
    """Both as tensors; an error unless they have one shape."""
    input, target = as_tensor(input), as_tensor(target)
    if input.shape != target.shape:
        raise ShapeError(
            f"{name} of input {input.shape} with target {target.shape}.\nGive a target of the input's shape."
        )
    return input, target


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (probability, 2, 3), reduction="batchmean")
    | cases((real, 2, 3), (real, 2, 3), log_target=True),
)
def kl_div(input, target, reduction="mean", log_target=False):
    """target (log(target) - input), 0 where target is 0; input (and target, if `log_target`) are logarithms.

    Added up over classes this is the Kullback-Leibler divergence; reduction="batchmean" adds up all and
    divides by the length of axis 0.
    """
    input, target = all_floating(input, target)
    if log_target:
        losses = product(target.exp(), target - input)
    else:
        losses = product(target, where(target == 0, 1.0, target).log() - input)
    if reduction == "batchmean":
        return losses.sum() / input.shape[0] if input.ndim else losses.sum()
    return reduced(losses, reduction)


# ---------------------------------------------------------------- numbers


def _pair(name, input, target):
    """Both as tensors; a warning where they broadcast: (N, 1) with (N,) gives (N, N), seldom meant."""
    input, target = as_tensor(input), as_tensor(target)
    if input.shape != target.shape:
        warn(
            f"{name} of input {input.shape} with target {target.shape}, which broadcast to all pairs.\n"
            f"Give a target of the input's shape."
        )
    return input, target


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3))
    | cases((real, 3), (real, 3), reduction="none", weight=(positive, 3)),
    latex=(r"\frac{2g}{n}\,(input - target)", r"\frac{2g}{n}\,(target - input)"),
)
def mse_loss(input, target, reduction="mean", weight=None):
    """(input - target)**2; with `weight`, "mean" is the weighted mean."""
    input, target = all_floating(*_pair("mse_loss", input, target))
    losses = (input - target).square()
    if weight is None:
        return reduced(losses, reduction)
    weight = as_tensor(weight)
    losses = losses * weight
    return losses.sum() / weight.sum() if reduction == "mean" else reduced(losses, reduction)


@derived(
    autocast="float32",
    samples=cases((distinct, 2, 3), (real, 2, 3)) | cases((distinct, 3), (real, 3), reduction="none"),
    latex=(
        r"\frac{g}{n}\operatorname{sign}(input - target)",
        r"\frac{g}{n}\operatorname{sign}(target - input)",
    ),
)
def l1_loss(input, target, reduction="mean"):
    """|input - target|; the derivative where they are equal is 0."""
    input, target = _pair("l1_loss", input, target)
    if reduction == "mean":
        input, target = all_floating(input, target)
    return reduced((input - target).absolute(), reduction)


@derived(
    autocast="float32",
    samples=cases((distinct, 2, 3), (real, 2, 3))
    | cases((distinct, 3), (real, 3), reduction="none", beta=0.3),
)
def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """d**2 / (2 beta) where d = |input - target| is below `beta`, d - beta / 2 elsewhere (Girshick 2015)."""
    if not beta >= 0:
        raise OptionError(f"beta is at least 0, got {beta}.\nPass one in that range.")
    input, target = all_floating(*_pair("smooth_l1_loss", input, target))
    d = (input - target).absolute()
    near = d.clamp(max=beta)
    return reduced(near / beta * (d - 0.5 * near) if beta else d, reduction)


@derived(
    autocast="float32",
    samples=cases((distinct, 2, 3), (real, 2, 3))
    | cases((distinct, 3), (real, 3), reduction="none", delta=0.3),
)
def huber_loss(input, target, reduction="mean", delta=1.0):
    """d**2 / 2 where d = |input - target| is below `delta`, delta (d - delta / 2) elsewhere (Huber 1964)."""
    if not delta > 0:
        raise OptionError(f"delta is above 0, got {delta}.\nPass one in that range.")
    input, target = all_floating(*_pair("huber_loss", input, target))
    d = (input - target).absolute()
    near = d.clamp(max=delta)
    return reduced(near * (d - 0.5 * near), reduction)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3), (positive, 2, 3), full=True)
    | cases((real, 2, 3), (real, 2, 3), (positive, 2), reduction="none"),
)
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log(var) + (input - target)**2 / var) / 2, `full`: + log(2 pi) / 2 (Nix and Weigend 1994).

    `var` is at least `eps`, by which its gradient is not cut off; it is a number, or has the input's shape,
    with 1 for one of the axes, or nothing for the last.
    """
    input, target, var = all_floating(input, target, var)
    one_for_an_axis = [(*input.shape[:i], 1, *input.shape[i + 1 :]) for i in range(input.ndim)]
    if var.shape == input.shape[:-1] and input.ndim:
        var = var.unsqueeze(-1)
    elif var.ndim and var.shape not in (input.shape, *one_for_an_axis):
        raise ShapeError(
            f"gaussian_nll_loss of input {input.shape} with var {var.shape}.\n"
            f"Give a var of the input's shape, with 1 for one of its axes, or without the last axis."
        )
    if (var.array < 0).any():
        raise RangeError("gaussian_nll_loss with a negative variance.\nApply exp or softplus to get one.")
    var = no_less(var, eps)
    losses = 0.5 * (var.log() + (input - target).square() / var)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (positive, 2, 3), full=True)
    | cases((positive, 3), (positive, 3), log_input=False, reduction="none"),
)
def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    """exp(input) - target input; unless `log_input`, input - target log(input + eps).

    `full` adds Stirling's approximation of log(target!) where target is above 1.
    """
    input, target = all_floating(input, target)
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        large = target > 1
        n = where(large, target, 1.0)
        losses = losses + where(large, n * n.log() - n + 0.5 * (2 * math.pi * n).log(), 0.0)
    return reduced(losses, reduction)
