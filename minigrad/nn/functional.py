"""Functions of networks, with PyTorch's signatures (torch.nn.functional)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import random
from ..errors import DtypeError, OptionError, ShapeError
from ..ops import activations as _activations
from ..ops import attention as _attention
from ..ops import indexing as _indexing
from ..ops import linalg as _linalg
from ..ops import losses as _losses
from ..ops import normalization as _normalization
from ..ops import one_hot, permute, relu, reshape, sigmoid, silu, tanh
from ..ops.losses import (
    binary_cross_entropy,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from ..ops.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
)
from ..tensor import Tensor, as_tensor

__all__ = [
    "binary_cross_entropy", "cosine_embedding_loss", "cross_entropy", "dropout", "embedding",
    "gaussian_nll_loss", "gelu", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss",
    "layer_norm", "linear", "log_softmax", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "nll_loss", "one_hot", "poisson_nll_loss", "relu",
    "scaled_dot_product_attention", "sigmoid", "silu", "smooth_l1_loss", "softmax", "tanh",
]  # fmt: skip


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input Weightᵀ + bias: (..., in), (out, in), (out,) -> (..., out)."""
    if input.shape[-1:] != weight.shape[1:] or (bias is not None and bias.shape != weight.shape[:1]):
        given = "" if bias is None else f" and a bias of shape {bias.shape}"
        raise ShapeError(
            f"linear of an input of shape {input.shape} with a weight of shape {weight.shape}{given}.\n"
            f"A weight is (out, in): the input's last axis must be `in`, and a bias (out,)."
        )
    return _linalg.linear(input, weight, bias)


def embedding(input: Any, weight: Tensor) -> Tensor:
    """Row `input` of `weight` (V, D) for each id in `input`: (..., D)."""
    return _indexing.embedding(weight, input)


def softmax(input: Tensor, dim: int = -1) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`."""
    return _activations.softmax(input, dim)


def log_softmax(input: Tensor, dim: int = -1) -> Tensor:
    """log(softmax(input)) along `dim`."""
    return _activations.log_softmax(input, dim)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit; `approximate` is "none" (with erf) or "tanh"."""
    if approximate not in ("none", "tanh"):
        raise OptionError(f'approximate is "none" or "tanh", got {approximate!r}.\nChoose one of them.')
    return _activations.gelu(input, approximate)


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(input - mean) / sqrt(var + eps) * weight + bias over the last axes, which have `normalized_shape`."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if (
        any(p is not None and tuple(p.shape) != shape for p in (weight, bias))
        or input.shape[-len(shape) :] != shape
    ):
        given = [None if p is None else tuple(p.shape) for p in (weight, bias)]
        raise ShapeError(
            f"layer_norm over {shape} of shape {input.shape}, with weight and bias of shapes {given}.\n"
            f"The input's last axes, the weight and the bias must have that shape."
        )
    return _normalization.layer_norm(input, weight, bias, shape, eps)


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero each element with probability p and divide the others by 1 - p; nothing unless `training`."""
    if not 0 <= p <= 1:
        raise OptionError(f"p is a probability from 0 to 1, got {p}.\nPass one in that range.")
    return _activations.dropout(input, p, random.next_key("dropout")) if training and p else input


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query keyᵀ / sqrt(d_k)) value: (..., T, D), (..., S, D), (..., S, Dv) -> (..., T, Dv).

    A boolean `attn_mask` (broadcast to (..., T, S)) is True where a query may attend; one of floats is added
    to the scores. A query that may attend to nothing gives zeros. ("Attention Is All You Need", equation 1.)
    """
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"attention of query {query.shape}, key {key.shape}, value {value.shape}.\n"
            f"Query and key must agree in their last axis, key and value in the one before."
        )
    mask = None if attn_mask is None else as_tensor(attn_mask)
    if mask is not None and mask.is_floating_point():
        mask = mask.to(query.dtype)
    elif mask is not None and mask.dtype != bool:
        raise DtypeError(
            f"attn_mask is {mask.dtype}, which could mean either.\n"
            f"Pass booleans (True = may attend; mask != 0), or floats to add to the scores."
        )
    draw = random.next_key("dropout") if dropout_p else None
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _attention.scaled_dot_product_attention(query, key, value, mask, is_causal, scale, dropout_p, draw)


def cross_entropy(
    input: Tensor,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The mean of -log softmax(input)[target], for input (N, V), (V,) or (N, V, d1, ...), target without V.

    Targets equal to `ignore_index` count nothing. `label_smoothing` e: the target is (1 - e) one-hot + e / V.
    `weight` (V,) is how much each class counts, in the mean too. A target of floats, of the input's shape,
    gives a probability for each class.
    """
    _losses.check_reduction(reduction)
    if not 0 <= label_smoothing <= 1:
        raise OptionError(f"label_smoothing is from 0 to 1, got {label_smoothing}.\nPass one in that range.")
    input, target = as_tensor(input), as_tensor(target)
    weight = None if weight is None else _losses.class_weights(weight, input)
    if target.shape == input.shape and target.is_floating_point():
        return _losses.soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    target = _losses.class_numbers("cross_entropy", input, target)
    if weight is not None:
        return _losses.weighted_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    if input.ndim > 2:  # (N, V, d1, ...) -> (N, d1, ..., V)
        input = permute(input, 0, *range(2, input.ndim), 1)
    rows = reshape(input, -1, input.shape[-1])
    losses = _losses.cross_entropy(rows, reshape(target, -1), ignore_index, reduction, label_smoothing)
    return reshape(losses, target.shape) if reduction == "none" else losses
