"""Losses as modules, named as in torch.nn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from ...nn import functional as F
from ...nn.losses import Loss
from ...nn.module import Module
from ...ops.losses import check_reduction
from ..margin_losses import check_margin, check_order

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
    "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


# ---------------------------------------------------------------- classes


class NLLLoss(Loss, function=F.nll_loss):
    """-input[target] of log-probabilities; targets equal to `ignore_index` are ignored."""


class MultiMarginLoss(Loss, function=F.multi_margin_loss):
    """The mean over the other classes of max(0, margin - input[target] + input)**p."""

    def _configure(self, **settings: Any) -> None:
        check_order(settings["p"])
        super()._configure(**settings)


class MultiLabelMarginLoss(Loss, function=F.multilabel_margin_loss):
    """The sum of max(0, 1 - input[i] + input[j]) / V over i in target, j not; target ends at the first -1."""


class MultiLabelSoftMarginLoss(Loss, function=F.multilabel_soft_margin_loss):
    """Binary cross-entropy of logits, averaged over classes."""


# ---------------------------------------------------------------- probabilities


class BCELoss(Loss, function=F.binary_cross_entropy):
    """Binary cross-entropy of probabilities."""


class BCEWithLogitsLoss(Loss, function=F.binary_cross_entropy_with_logits):
    """Binary cross-entropy of logits; `pos_weight` weights the positive targets of each class."""


class KLDivLoss(Loss, function=F.kl_div):
    """target (log(target) - input) of log-probabilities; "batchmean" divides the sum by the batch size."""

    def _check_reduction(self, reduction: str) -> None:
        if reduction != "batchmean":
            super()._check_reduction(reduction)


class GaussianNLLLoss(Loss, function=F.gaussian_nll_loss, inputs=3):
    """Negative log density of target under a normal distribution with mean input and variance var."""


class PoissonNLLLoss(Loss, function=F.poisson_nll_loss):
    """Negative log probability of target under a Poisson distribution, with rate exp(input) or, without
    `log_input`, input.
    """

    def forward(self, log_input: Any, target: Any) -> Any:  # PyTorch's names
        return super().forward(log_input, target)


# ---------------------------------------------------------------- regression


class L1Loss(Loss, function=F.l1_loss):
    """|input - target|."""


class SmoothL1Loss(Loss, function=F.smooth_l1_loss):
    """d**2 / (2 beta) where d = |input - target| < `beta`, d - beta / 2 elsewhere."""


class HuberLoss(Loss, function=F.huber_loss):
    """d**2 / 2 where d = |input - target| < `delta`, delta (d - delta / 2) elsewhere."""


# ---------------------------------------------------------------- margins


class SoftMarginLoss(Loss, function=F.soft_margin_loss):
    """log(1 + exp(-target input)); target is 1 or -1."""


class HingeEmbeddingLoss(Loss, function=F.hinge_embedding_loss):
    """input where target is 1, max(0, margin - input) where it is -1."""


class MarginRankingLoss(Loss, function=F.margin_ranking_loss, inputs=3):
    """max(0, margin - target (input1 - input2)); target is 1 where input1 should be larger, else -1."""


class CosineEmbeddingLoss(Loss, function=F.cosine_embedding_loss, inputs=3):
    """1 - c where target is 1, max(0, c - margin) where it is -1, with c the cosine of the inputs."""


class TripletMarginLoss(Loss, function=F.triplet_margin_loss, inputs=3):
    """max(0, margin + |anchor - positive| - |anchor - negative|)."""

    def _configure(self, **settings: Any) -> None:
        check_margin(settings["margin"])
        super()._configure(**settings)


class TripletMarginWithDistanceLoss(Module):
    """`TripletMarginLoss` with another distance, `distance_function(x, y)`."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        check_margin(margin)
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap
        self.reduction = reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
