"""Functions of torch.nn.functional beyond `nn/functional`, collected from this package.

Defined here are dropout of channels, alpha dropout, Gumbel-softmax, and softmin.
"""

from __future__ import annotations

from typing import Any

from ..core import random
from ..core.dtypes import HALF, float32
from ..core.errors import OptionError, ShapeError
from ..core.half import round_once
from ..core.tensor import Tensor
from ..nn import functional
from ..nn.functional.core import check_probability, dropout, softmax
from ..ops import draws
from ..ops.comparisons import where
from ..ops.creation import empty_like, ones, zeros_like
from ..ops.padding import pad
from . import activations as more_activations
from .activations import (
    celu,
    elu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    mish,
    prelu,
    relu6,
    selu,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from .convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from .distances import bilinear, cosine_similarity, pairwise_distance, pdist
from .losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from .margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from .normalization import batch_norm, group_norm, instance_norm, local_response_norm
from .pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from .resampling import (
    channel_shuffle,
    interpolate,
    pixel_shuffle,
    pixel_unshuffle,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from .windows import fold, unfold


def _channel_dropout(name: str, input: Tensor, p: float, training: bool, axes: int) -> Tensor:
    """Zero each channel as a whole with probability p; `axes` axes follow the channels."""
    if input.ndim not in (axes + 1, axes + 2):
        raise ShapeError(
            f"{name} got shape {input.shape}.\nPass (N, C, ...) or (C, ...), with {axes} axes after C."
        )
    check_probability(p)
    if not training or not p:
        return input
    shape = (*input.shape[: input.ndim - axes], *[1] * axes)
    dtype = float32 if input.dtype in HALF else input.dtype
    channels = dropout(ones(shape, dtype=dtype, device=input.device), p)
    return (input.to(dtype) * channels).to(input.dtype)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero whole channels with probability p: (N, C, L) or (C, L) (Tompson et al. 2015)."""
    return _channel_dropout("dropout1d", input, p, training, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero whole channels with probability p: (N, C, H, W); three axes are (N, C, L), as in PyTorch."""
    return _channel_dropout("dropout2d", input, p, training, 1 if input.ndim == 3 else 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero whole channels with probability p: (N, C, D, H, W) or (C, D, H, W)."""
    return _channel_dropout("dropout3d", input, p, training, 3)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Apply dropout that keeps mean 0 and variance 1 after selu (Klambauer et al. 2017).

    Dropped elements become a = -1.7581, selu's limit at -infinity. Then all elements are scaled by
    s = ((1 - p) (1 + p a**2))**-0.5 and shifted by -a p s.
    """
    check_probability(p)
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0
    a = -1.7580993408473766
    keep = Tensor(draws.keep_mask(random.next_key("dropout"), input.shape, p))
    scale = ((1 - p) * (1 + p * a * a)) ** -0.5
    return _drop_and_rescale(input, keep, a, scale, -a * p * scale)


@round_once
def _drop_and_rescale(x: Tensor, keep: Tensor, other: float, scale: float, shift: float) -> Tensor:
    return where(keep, x, other) * scale + shift


def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw softmax((logits + g) / tau) along `dim`, g from Gumbel's distribution (Jang et al. 2017).

    `hard` returns one-hot vectors, with the gradient of the soft sample. `eps` has no effect, as in PyTorch.
    """
    if not tau > 0:
        raise OptionError(f"tau must be a positive number, got {tau}.\nThe default is 1.")
    soft = _gumbel_sample(logits, empty_like(logits).exponential_(), tau, dim)
    if not hard:
        return soft
    largest = soft.argmax(dim, keepdim=True)
    return zeros_like(soft).scatter(dim, largest, 1.0) - soft.detach() + soft


@round_once
def _gumbel_sample(logits: Tensor, draws: Tensor, tau: float, dim: int) -> Tensor:
    """A sample of Gumbel-softmax, from exponential draws."""
    return softmax((logits - draws.log()) / tau, dim)


def softmin(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """Compute softmax(-input) along `dim`, in `dtype` if given."""
    return more_activations.softmin(input, dim, dtype)


FUNCTIONS = (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    alpha_dropout,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    batch_norm,
    bilinear,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    celu,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_embedding_loss,
    cosine_similarity,
    dropout1d,
    dropout2d,
    dropout3d,
    elu,
    fold,
    gaussian_nll_loss,
    glu,
    group_norm,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hinge_embedding_loss,
    huber_loss,
    instance_norm,
    interpolate,
    kl_div,
    l1_loss,
    leaky_relu,
    local_response_norm,
    margin_ranking_loss,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    mish,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    pad,
    pairwise_distance,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    poisson_nll_loss,
    prelu,
    relu6,
    selu,
    smooth_l1_loss,
    soft_margin_loss,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
    unfold,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
MAY_BE_IN_PLACE = {
    "alpha_dropout", "celu", "dropout1d", "dropout2d", "dropout3d", "elu", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "mish", "relu6", "selu", "threshold",
}  # fmt: skip

functional.add(FUNCTIONS, MAY_BE_IN_PLACE, ("celu", "elu", "hardtanh", "leaky_relu", "selu", "threshold"))
