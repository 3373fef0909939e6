"""Cross-entropy, the squared error, and PyTorch's `reduction`, which all losses share.

"mean" averages the losses, "sum" adds them up, "none" returns each.
"""

from __future__ import annotations

import math

from ..core.arithmetic import astype
from ..core.composites import composite
from ..core.costs import per_input
from ..core.errors import DtypeError, OptionError, RangeError, ShapeError
from ..core.frames import warn
from ..core.op import derived
from ..core.tensor import as_tensor, as_tensor_like
from .activations import log_softmax
from .axes import all_floating
from .elementary import logaddexp
from .indexing import checked_ids, gather
from .reductions import logsumexp
from .samplers import cases, integers, positive, probability, real

__family__ = "loss"


def check_reduction(reduction):
    if reduction not in ("mean", "sum", "none"):
        raise OptionError(f'reduction must be "mean", "sum" or "none", got {reduction!r}.\nChoose one.')


def reduced(losses, reduction):
    """The mean of the losses, their sum, or each of them."""
    check_reduction(reduction)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


# ---------------------------------------------------------------- classes


@composite(
    promotes=False,
    samples=cases((real, 3, 4), (integers(0, 4), 3), ignore_index=-100, reduction="mean", label_smoothing=0.0)
    | cases((real, 3, 4), (integers(0, 2), 3), ignore_index=1, reduction="sum", label_smoothing=0.1)
    | cases((real, 3, 4), (integers(0, 4), 3), ignore_index=3, reduction="none", label_smoothing=0.1)
    | cases((real, 1, 1), (integers(0, 1), 1), ignore_index=-100, reduction="mean", label_smoothing=0.1),
    latex=(r"\frac{g}{n}\,(\operatorname{softmax}(logits) - q)", None),
    flops=per_input(4),
)
def cross_entropy(logits, target, /, ignore_index, reduction, label_smoothing, dtype=None):
    """-sum of q log softmax(logits) over classes, q = (1 - e) onehot(target) + e / V (Szegedy et al. 2015).

    -log softmax(logits)[t] is computed as log(1 + e**u), u = log(sum of e**logits over the other classes) -
    logits[t], so that losses near 0 and their gradients are accurate, unlike 1 - softmax(logits)[t].
    logits (N, V), target (N,) of integers; rows whose target is `ignore_index` are ignored. "mean" divides by
    the number n of the other rows. The loss is computed and returned in `dtype`, if one is given.
    d/dlogits = softmax(logits) - q (divided by n for "mean").
    """
    logits = logits if dtype is None else astype(logits, dtype)
    valid = target != ignore_index
    known = target.masked_fill(~valid, 0)
    checked_ids("the classes of a target", known, logits.shape[1])
    place = known.unsqueeze(1)
    largest = logits.detach().amax(1, keepdim=True)
    logits = logits - largest.masked_fill(largest == -math.inf, 0.0)  # rounding is relative to the loss
    own = gather(logits, 1, place).squeeze(1)
    rest = logits.scatter(1, place, -math.inf)
    alone = (rest == -math.inf).all(1)  # no other class is possible
    others = logsumexp(rest.masked_fill(alone.unsqueeze(1), 0.0), 1).masked_fill(alone, -math.inf)
    losses = logaddexp(others - own, 0.0)
    if label_smoothing:
        losses = losses * (1 - label_smoothing) - log_softmax(logits, -1).mean(1) * label_smoothing
    losses = losses.masked_fill(~valid, 0.0)
    if reduction == "none":
        return losses
    return losses.sum() / valid.sum() if reduction == "mean" else losses.sum()


def raise_class_error(wrong, classes, ignore_index):
    """Raise the error for a target that is not one of the classes; also called by kernels."""
    raise RangeError(
        f"target class {wrong} is out of range for {classes} classes (only {ignore_index} is ignored).\n"
        f"Classes count from 0. Give the model an output for each (num_labels, vocab_size)."
    )


def class_numbers(name, input, target):
    """Convert a target to a tensor of class numbers, one for each row of `input`, or raise an error."""
    target = as_tensor_like(target, input)
    expected = input.shape[:1] + input.shape[2:] if input.ndim > 1 else ()
    if target.shape != expected or target.is_floating_point():
        raise (DtypeError if target.is_floating_point() else ShapeError)(
            f"{name} of input {input.shape} takes integers of shape {expected}, got "
            f"{target.dtype} {target.shape}.\n{_target_advice(input, target, expected)}"
        )
    return target


def _target_advice(input, target, expected):
    if target.shape == expected:
        return "A target is the index of a class: use target.long()."
    if input.ndim > 2 and target.shape == input.shape[:-1]:  # (B, T, V) with (B, T), as a language model's
        return (
            "The classes must be axis 1 of the input. If they are the last, flatten the positions: "
            "logits.reshape(-1, V), target.reshape(-1)."
        )
    if target.ndim == input.ndim and target.numel() == math.prod(expected):
        return f"A target is the index of a class: use target.reshape({', '.join(map(str, expected))})."
    return "The classes must be axis 1 of the input; a target is the index of one."


@derived(
    autocast="float32",
    samples=cases((real, 3, 4), (integers(0, 4), 3), (positive, 4), reduction="none", label_smoothing=0.1)
    | cases((real, 2, 3, 2), (integers(0, 3), 2, 2), (positive, 3), ignore_index=1, label_smoothing=0.1),
)
def weighted_cross_entropy(input, target, weight, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Cross-entropy with rows weighted by `weight[class]`; "mean" is the weighted mean."""
    axis = _class_axis(input)
    valid = target != ignore_index
    known = target.masked_fill(~valid, 0).to("int64")
    checked_ids("the classes of a target", known, input.shape[axis])
    rows = input if input.ndim < 3 else input.permute(0, *range(2, input.ndim), 1)
    losses = cross_entropy(rows.reshape(-1, input.shape[axis]), known.reshape(-1), -100, "none", 0.0)
    weight = class_weights(weight, input)
    scale = valid.to(input.dtype) * weight[known]
    losses = (losses.reshape(target.shape) * weight[known]).masked_fill(~valid, 0.0)
    if label_smoothing:
        log_p = log_softmax(input, axis)
        others = -(log_p * _per_class(weight, log_p)).mean(axis).masked_fill(~valid, 0.0)
        losses = losses * (1 - label_smoothing) + others * label_smoothing
    return losses.sum() / scale.sum() if reduction == "mean" else reduced(losses, reduction)


@derived(
    autocast="float32",
    samples=cases((real, 3, 4), (probability, 3, 4))
    | cases((real, 2, 3, 2), (probability, 2, 3, 2), weight=(positive, 3), label_smoothing=0.1)
    | cases((real, 4), (probability, 4), reduction="none"),
)
def soft_cross_entropy(input, target, weight=None, reduction="mean", label_smoothing=0.0):
    """-sum of q log softmax(input) over classes, with q = (1 - e) target + e / V.

    `target` has a probability for each class, and e is `label_smoothing`.
    """
    axis = _class_axis(input)
    classes = input.shape[axis]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = log_softmax(input, axis) * target
    if weight is not None:
        terms = terms * _per_class(class_weights(weight, input), input)
    return reduced(-terms.sum(axis), reduction)


def _class_axis(input):
    return 1 if input.ndim > 1 else 0


def _per_class(weight, input):
    """`weight` (V,), in a shape that broadcasts along the classes of `input`."""
    return weight.reshape(-1, *(1,) * (input.ndim - 1 - _class_axis(input)))


def likelihoods(log_p, target, weight, ignore_index):
    """Return, for each row, its loss -weight log_p[target], its weight, and whether it is not ignored."""
    axis = _class_axis(log_p)
    valid = target != ignore_index
    known = target.masked_fill(~valid, 0).to("int64")
    checked_ids("the classes of a target", known, log_p.shape[axis])
    losses = -gather(log_p, axis, known.unsqueeze(axis)).squeeze(axis)
    scale = valid.to(log_p.dtype)
    if weight is not None:
        weight = class_weights(weight, log_p)
        scale = scale * weight[known]
        losses = losses * weight[known]
    return losses.masked_fill(~valid, 0.0), scale, valid


def class_weights(weight, input):
    weight = as_tensor_like(weight, input)
    classes = input.shape[_class_axis(input)]
    if weight.shape != (classes,):
        raise ShapeError(
            f"weight must have shape ({classes},), got {weight.shape}.\nPass one number for each class."
        )
    return weight


# ---------------------------------------------------------------- regression


def check_pair(name, input, target):
    """Convert both to tensors, and warn if their shapes differ: (N, 1) and (N,) would broadcast to (N, N)."""
    input, target = as_tensor(input), as_tensor(target)
    if input.shape != target.shape:
        warn(
            f"{name} broadcasts input {input.shape} with target {target.shape}.\n"
            f"Pass a target of the input's shape."
        )
    return input, target


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3))
    | cases((real, 3), (real, 3), reduction="none", weight=(positive, 3)),
    latex=(r"\frac{2g}{n}\,(input - target)", r"\frac{2g}{n}\,(target - input)"),
)
def mse_loss(input, target, reduction="mean", weight=None):
    """The squared error (input - target)**2; with `weight`, "mean" is the weighted mean."""
    input, target = all_floating(*check_pair("mse_loss", input, target))
    losses = (input - target).square()
    if weight is None:
        return reduced(losses, reduction)
    weight = as_tensor(weight).expand(losses.shape)
    losses = losses * weight
    return losses.sum() / weight.sum() if reduction == "mean" else reduced(losses, reduction)
