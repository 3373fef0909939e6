"""Margin losses for scores, distances, angles and classes, which are 0 beyond the margin.

They are exported by `nn.functional`.
"""

from __future__ import annotations

import numpy as np

from ..core.devices import array_module
from ..core.errors import DtypeError, OptionError, ShapeError
from ..core.op import derived
from ..core.tensor import Tensor, as_tensor, constant
from ..ops.activations import relu
from ..ops.axes import all_floating, as_floating
from ..ops.comparisons import minimum, where
from ..ops.elementary import logaddexp
from ..ops.indexing import checked_ids, gather
from ..ops.losses import class_weights, reduced
from ..ops.samplers import cases, integers, positive, probability, real
from .distances import pairwise_distance
from .losses import binary_cross_entropy_with_logits, of_one_shape

__family__ = "loss"
__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


def sides(rng, *shape):
    """Sample targets of 1 or -1."""
    return rng.choice([-1, 1], shape)


def check_order(p):
    """Raise if p is not 1 or 2."""
    if p not in (1, 2):
        raise OptionError(f"p must be 1 or 2, got {p}.\nChoose one of them.")


def check_margin(margin):
    """Raise if the margin of a triplet loss is not valid."""
    if margin <= 0:
        raise OptionError(f"margin must be above 0, got {margin}.\nThe default is 1.")


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (sides, 2, 3)) | cases((real, 3), (sides, 3), margin=0.5, reduction="none"),
)
def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1; input is a distance."""
    input = as_floating(input)
    target = as_tensor(target)
    near = where(target != -1, input, 0.0)
    far = where(target != 1, (margin - input).clamp(min=0), 0.0)
    return reduced(near + far, reduction)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3), (sides, 2, 3))
    | cases((real, 3), (real, 3), (sides, 3), margin=0.5, reduction="none"),
)
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """max(0, margin - target (input1 - input2)); target is 1 where input1 should be larger, else -1."""
    input1, input2, target = all_floating(input1, input2, target)
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3), (sides, 2), margin=-0.5)
    | cases((real, 3), (real, 3), (sides,), reduction="none"),
)
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """1 - c where target is 1, max(0, c - margin) where it is -1, with c the cosine of input1 and input2.

    Inputs (N, D) with target (N,), or (D,) with (). 1e-12 is added to each squared norm.
    """
    input1, input2, target = all_floating(input1, input2, target)
    lengths = (input1.square().sum(-1) + 1e-12).sqrt() * (input2.square().sum(-1) + 1e-12).sqrt()
    cosine = (input1 * input2).sum(-1) / lengths
    if target.shape != cosine.shape:
        raise ShapeError(
            f"cosine_embedding_loss got inputs {input1.shape} and {input2.shape} and target {target.shape}.\n"
            f"Pass a target of shape {cosine.shape}: 1 or -1 for each pair of vectors."
        )
    near = where(target == 1, 1 - cosine, 0.0)
    return reduced(near + where(target == -1, (cosine - margin).clamp(min=0), 0.0), reduction)


@derived(
    autocast="float32",
    samples=cases((real, 3, 4), (integers(0, 4), 3))
    | cases((real, 3, 4), (integers(0, 4), 3), p=2, margin=0.5, weight=(positive, 4), reduction="none")
    | cases((real, 4), (integers(0, 4),)),
)
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, reduction="mean"):
    """The mean over classes j of max(0, margin - input[target] + input[j])**p, 0 for j = target.

    input (N, V) with target (N,), or (V,) with (). p is 1 or 2; `weight` (V,) is applied by target class.
    """
    check_order(p)
    input = as_floating(input)
    classes = input.shape[-1] if input.ndim else 1
    target = checked_ids("multi_margin_loss", target, classes)
    rows = input.reshape(-1, classes)
    places = Tensor(target.reshape(-1, 1))
    if len(places) != len(rows):
        raise ShapeError(
            f"multi_margin_loss got input {input.shape} and target {target.shape}.\n"
            f"Pass a class index for each row."
        )
    short = relu(margin - gather(rows, 1, places) + rows)
    short = short if p == 1 else short.square()
    if weight is not None:
        short = short * class_weights(weight, rows)[places]
    losses = short.masked_fill(Tensor(places.array == array_module(target).arange(classes)), 0.0).mean(1)
    return reduced(losses if input.ndim > 1 else losses.reshape(()), reduction)


@derived(
    autocast="float32",
    samples=cases((real, 3, 4), np.array([[1, 3, -1, 0], [2, -1, 0, 0], [-1, 0, 0, 0]]))
    | cases((real, 4), np.array([1, 3, -1, 0]), reduction="none"),
)
def multilabel_margin_loss(input, target, reduction="mean"):
    """The sum of max(0, 1 - input[i] + input[j]) / V over all classes i in target and j not in target.

    Both are (N, V) or (V,). A row of target lists classes up to the first -1.
    """
    input, target = of_one_shape("multilabel_margin_loss", input, target)
    if target.is_floating_point():
        raise DtypeError(f"target must list classes as integers, got {target.dtype}.\nUse target.long().")
    classes = input.shape[-1] if input.ndim else 1
    rows = as_floating(input).reshape(-1, classes)
    listed = target.numpy().reshape(-1, classes)
    valid = np.logical_and.accumulate(listed >= 0, axis=1)
    listed = checked_ids("multilabel_margin_loss", np.where(valid, listed, 0), classes)
    right = ((listed[:, :, None] == np.arange(classes)) & valid[:, :, None]).any(1)
    counted = valid[:, :, None] & ~right[:, None, :]  # (N, position in target, class)
    short = relu(1 - gather(rows, 1, constant(listed, rows)).unsqueeze(2) + rows.unsqueeze(1))
    losses = short.masked_fill(constant(~counted, rows), 0.0).sum((1, 2)) / classes
    return reduced(losses if input.ndim > 1 else losses.reshape(()), reduction)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (sides, 2, 3)) | cases((real, 3), (sides, 3), reduction="none"),
    latex=(r"-\frac{g}{n}\,target\,\sigma(-target\,input)", None),
)
def soft_margin_loss(input, target, reduction="mean"):
    """log(1 + exp(-target input)), without overflow; target is 1 or -1."""
    input, target = all_floating(*of_one_shape("soft_margin_loss", input, target))
    return reduced(logaddexp(-target * input, 0.0), reduction)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (probability, 2, 3))
    | cases((real, 3), (integers(0, 2), 3), weight=(positive, 3), reduction="none"),
)
def multilabel_soft_margin_loss(input, target, weight=None, reduction="mean"):
    """binary_cross_entropy_with_logits, averaged over the last axis, the classes."""
    return reduced(
        binary_cross_entropy_with_logits(input, target, weight, reduction="none").mean(-1), reduction
    )


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3), (real, 2, 3))
    | cases((real, 3), (real, 3), (real, 3), margin=3.0, swap=True, reduction="none"),
)
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"
):
    """max(0, margin + |anchor - positive| - |anchor - negative|), p-norms of vectors (..., D).

    `swap` replaces the last distance with |positive - negative| where that is smaller (Balntas et al. 2016).
    `eps` is added to each difference.
    """
    distance = lambda x, y: pairwise_distance(x, y, p, eps)
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=reduction
    )


@derived(autocast="float32", samples=cases((real, 2, 3), (real, 2, 3), (real, 2, 3)))
def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """`triplet_margin_loss` with another distance, `distance_function(x, y)`."""
    if distance_function is None:
        return triplet_margin_loss(anchor, positive, negative, margin, swap=swap, reduction=reduction)
    check_margin(margin)
    anchor, positive, negative = all_floating(anchor, positive, negative)
    ndims = [x.ndim for x in (anchor, positive, negative)]
    if len({*ndims}) > 1:
        raise ShapeError(f"anchor, positive and negative have {ndims} axes.\nPass equally many for each.")
    far = distance_function(anchor, negative)
    if swap:
        far = minimum(far, distance_function(positive, negative))
    return reduced((margin + distance_function(anchor, positive) - far).clamp(min=0), reduction)
