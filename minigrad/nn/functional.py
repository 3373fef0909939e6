"""Functions of networks, with PyTorch's signatures (torch.nn.functional)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import random
from ..creation import ones
from ..devices import finfo
from ..errors import DtypeError, OptionError, RangeError, ShapeError
from ..ops import activations as _activations
from ..ops import attention as _attention
from ..ops import indexing as _indexing
from ..ops import linalg as _linalg
from ..ops import losses as _losses
from ..ops import normalization as _normalization
from ..ops import one_hot, permute, relu, repeat_interleave, reshape, sigmoid, silu, tanh, where
from ..ops.activations import (
    celu,
    elu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
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
from ..ops.convolution import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from ..ops.distances import bilinear, cosine_similarity, pairwise_distance, pdist
from ..ops.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
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
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from ..ops.normalization import batch_norm, group_norm, instance_norm, local_response_norm, normalize
from ..ops.padding import pad
from ..ops.pooling import (
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
from ..ops.resampling import (
    channel_shuffle,
    interpolate,
    pixel_shuffle,
    pixel_unshuffle,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from ..ops.windows import fold, unfold
from ..tensor import Tensor, as_tensor, given

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "fold",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input Weightᵀ + bias: (..., in), (out, in), (out,) -> (..., out)."""
    shape = weight.shape
    if input.shape[-1:] != shape[1:] or (bias is not None and bias.shape != shape[:1]):
        given = "" if bias is None else f" and a bias of shape {bias.shape}"
        raise ShapeError(
            f"linear of an input of shape {input.shape} with a weight of shape {weight.shape}{given}.\n"
            f"A weight is (out, in): the input's last axis must be `in`, and a bias (out,)."
        )
    return _linalg.linear(input, weight, bias)


def embedding(input: Any, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Row `input` of `weight` (V, D) for each id in `input`: (..., D); row `padding_idx` gets no gradient.

    An id that is not there is an error; on a GPU, which nothing waits for, it gives NaN.
    """
    rows = _indexing.embedding(weight, input)
    padding_idx = padding_row(padding_idx, weight.shape[0])
    if padding_idx is None:
        return rows
    padded = as_tensor(input) == padding_idx
    return where(padded.unsqueeze(-1), rows.detach(), rows)


def padding_row(padding_idx: int | None, count: int) -> int | None:
    """The row of padding in a table of `count` rows, counted from 0."""
    if padding_idx is None or -count <= padding_idx < count:
        return None if padding_idx is None else padding_idx % count
    raise RangeError(
        f"padding_idx {padding_idx} in a table of {count} rows.\nThey count from 0, or from the end from -1."
    )


def softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`; computed in `dtype` if that is given."""
    return _activations.softmax(input, dim, dtype)


def softmin(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """softmax(-input) along `dim`; computed in `dtype` if that is given."""
    return _activations.softmin(input, dim, dtype)


def log_softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """log(softmax(input)) along `dim`; computed in `dtype` if that is given."""
    return _activations.log_softmax(input, dim, dtype)


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
    shape = _normalized_shape("layer_norm", input, normalized_shape, weight, bias)
    return _normalization.layer_norm(input, weight, bias, shape, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """input / sqrt(mean(input**2) + eps) * weight over the last axes, which have `normalized_shape`.

    `eps` is by default the distance from 1 to the next number of the input's dtype.
    """
    shape = _normalized_shape("rms_norm", input, normalized_shape, weight)
    eps = float(finfo(input.dtype).eps) if eps is None else eps
    return _normalization.rms_norm(input, weight, shape, eps)


def _normalized_shape(
    name: str, input: Tensor, shape: int | Sequence[int], *parameters: Tensor | None
) -> tuple[int, ...]:
    """The shape of the last axes, which the parameters must have too."""
    shape = shape if type(shape) is tuple else (shape,) if isinstance(shape, int) else tuple(shape)
    fits = shape and input.shape[-len(shape) :] == shape
    for p in parameters:
        fits = fits and (p is None or p.shape == shape)
    if not fits:
        given = [None if p is None else p.shape for p in parameters]
        raise ShapeError(
            f"{name} over {shape} of shape {input.shape}, with parameters of shapes {given}.\n"
            f"The input's last axes and the parameters must have that shape."
        )
    return shape


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero each element with probability p and divide the others by 1 - p; nothing unless `training`."""
    check_probability(p)
    return _activations.dropout(input, p, random.next_key("dropout")) if training and p else input


def check_probability(p: float) -> None:
    if not isinstance(p, int | float | np.number) or not 0 <= p <= 1:
        raise OptionError(f"p is a probability from 0 to 1, got {p!r}.\nPass one in that range.")


def _channel_dropout(name: str, input: Tensor, p: float, training: bool, places: int) -> Tensor:
    """Zero or keep each channel as a whole; what lies within a channel has `places` axes."""
    if input.ndim not in (places + 1, places + 2):
        raise ShapeError(
            f"{name} of shape {input.shape}.\nGive (N, C, ...) or (C, ...), with {places} axes after C."
        )
    check_probability(p)
    if not training or not p:
        return input
    shape = (*input.shape[: input.ndim - places], *[1] * places)
    channels = ones(shape, dtype=input.dtype, device=input.device)
    return input * dropout(channels, p)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Dropout of whole channels: (N, C, L) or (C, L) (Tompson et al. 2015)."""
    return _channel_dropout("dropout1d", input, p, training, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Dropout of whole channels: (N, C, H, W); three axes are (N, C, L), as PyTorch's."""
    return _channel_dropout("dropout2d", input, p, training, 1 if input.ndim == 3 else 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Dropout of whole channels: (N, C, D, H, W) or (C, D, H, W)."""
    return _channel_dropout("dropout3d", input, p, training, 3)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Dropout that keeps mean 0 and variance 1 after selu (Klambauer et al. 2017).

    What is dropped becomes a = -1.7581, selu's limit at -infinity; then all are scaled by
    ((1 - p) (1 + p a**2))**-0.5, and shifted by -a p times that.
    """
    check_probability(p)
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0
    a = -1.7580993408473766
    kept = Tensor(random.keep_mask(random.next_key("dropout"), input.shape, p))
    scale = ((1 - p) * (1 + p * a * a)) ** -0.5
    return where(kept, input, a) * scale - a * p * scale


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query keyᵀ / sqrt(d_k)) value: (..., T, D), (..., S, D), (..., S, Dv) -> (..., T, Dv).

    A boolean `attn_mask` (broadcast to (..., T, S)) is True where a query may attend; one of floats is added
    to the scores. A query that may attend to nothing gives zeros. ("Attention Is All You Need", equation 1.)
    `enable_gqa`: each head of key and value (axis -3) serves a group of query heads (Ainslie et al. 2023).
    """
    if enable_gqa:
        key, value = _for_each_query_head(query, key), _for_each_query_head(query, value)
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            f"attention of query {query.shape}, key {key.shape}, value {value.shape}.\n"
            f"Give each two axes at least, (length, width)."
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"attention of query {query.shape}, key {key.shape}, value {value.shape}.\n"
            f"Query and key must agree in their last axis, key and value in the one before."
        )
    mask = _attention_mask(attn_mask, query)
    draw = _draw(dropout_p)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _attention.scaled_dot_product_attention(query, key, value, mask, is_causal, scale, dropout_p, draw)


def multi_head_attention(
    query: Tensor,
    memory: Tensor | None = None,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    num_heads: int,
) -> Tensor:
    """`scaled_dot_product_attention` of every head of projections whose heads stand side by side.

    Of a sequence to itself: `query` (B, T, 3 D) holds queries, keys and values, one after the other. To a
    `memory` (B, S, 2 D) of keys and values: `query` (B, T, D). Gives (B, T, D), D = num_heads d_k; a mask
    broadcasts to (B, num_heads, T, S). ("Attention Is All You Need", section 3.2.2, without its products.)
    """
    if type(num_heads) is not int or num_heads < 1:
        raise OptionError(f"num_heads is a whole number from 1 on, got {num_heads!r}.\nPass one.")
    parts, shape = 3 if memory is None else 1, query.shape
    fits = len(shape) == 3 and shape[2] and not shape[2] % (parts * num_heads)
    if memory is not None:
        memory = as_tensor(memory)
        fits = fits and memory.ndim == 3 and memory.shape[::2] == (shape[0], 2 * shape[2])
    if not fits:
        raise ShapeError(
            f"attention of {num_heads} heads of {shape}"
            f"{'' if memory is None else f' to a memory of {memory.shape}'}.\n"
            f"Pass (B, T, 3 D), or (B, T, D) and a memory (B, S, 2 D), D a multiple of {num_heads}."
        )
    mask = _attention_mask(attn_mask, query)
    if mask is not None:
        _check_mask(
            mask.shape, (shape[0], num_heads, shape[1], (query if memory is None else memory).shape[1])
        )
    draw = _draw(dropout_p)
    scale = 1 / math.sqrt(shape[2] // (parts * num_heads))
    return _attention.multi_head_attention(query, memory, mask, num_heads, is_causal, scale, dropout_p, draw)


def _draw(dropout_p: float) -> Any:
    """The key of what is dropped, if anything is."""
    check_probability(dropout_p)
    return random.next_key("dropout") if dropout_p else None


def _check_mask(shape: tuple[int, ...], scores: tuple[int, ...]) -> None:
    """Refuse a mask that does not broadcast to the scores."""
    fits = all(n in (1, m) for n, m in zip(shape[::-1], scores[::-1], strict=False))
    if len(shape) > len(scores) or not fits:
        raise ShapeError(
            f"a mask of shape {shape} for scores of shape {scores}: (batch, heads, queries, keys).\n"
            f"Pass one that broadcasts to them: each axis as long as theirs, or 1."
        )


def _attention_mask(mask: Any, query: Tensor) -> Tensor | None:
    """The mask as a tensor of booleans, or of the query's dtype."""
    if mask is None:
        return None
    mask = given(mask, query)
    if mask.is_floating_point():
        return mask.to(query.dtype)
    if mask.dtype != bool:
        raise DtypeError(
            f"attn_mask is {mask.dtype}, which could mean either.\n"
            f"Pass booleans (True = may attend; mask != 0), or floats to add to the scores."
        )
    return mask


def _for_each_query_head(query: Tensor, heads: Tensor) -> Tensor:
    """Each of the heads as often as there are query heads for it."""
    if query.ndim < 3 or heads.ndim < 3 or query.shape[-3] % heads.shape[-3]:
        raise ShapeError(
            f"grouped attention of query {query.shape} with key or value {heads.shape}.\n"
            f"Give a number of query heads, axis -3, that is a multiple of theirs."
        )
    return repeat_interleave(heads, query.shape[-3] // heads.shape[-3], -3)


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
    gives a probability for each class. A class that is not there is an error; on a GPU it gives NaN.
    """
    _losses.check_reduction(reduction)
    if not 0 <= label_smoothing <= 1:
        raise OptionError(f"label_smoothing is from 0 to 1, got {label_smoothing}.\nPass one in that range.")
    input = as_tensor(input)
    target = given(target, input)
    weight = None if weight is None else _losses.class_weights(weight, input)
    if target.shape == input.shape and target.is_floating_point():
        return _losses.soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    target = _losses.class_numbers("cross_entropy", input, target)
    if weight is not None:
        return _losses.weighted_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    if input.ndim == 2:
        return _losses.cross_entropy(input, target, ignore_index, reduction, label_smoothing)
    if input.ndim > 2:  # (N, V, d1, ...) -> (N, d1, ..., V)
        input = permute(input, 0, *range(2, input.ndim), 1)
    rows = reshape(input, -1, input.shape[-1])
    losses = _losses.cross_entropy(rows, reshape(target, -1), ignore_index, reduction, label_smoothing)
    return reshape(losses, target.shape) if reduction == "none" else losses
