"""Scaled dot-product attention ("Attention Is All You Need", section 3.2.1)."""

from __future__ import annotations

import math
from typing import Any

from ... import random
from ...errors import DtypeError, ShapeError
from ...ops import attention as _attention
from ...ops import repeat_interleave
from ...tensor import Tensor, given
from .core import check_probability


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
    mask = None if attn_mask is None else attention_mask(attn_mask, query)
    draw = _draw(dropout_p)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _attention.scaled_dot_product_attention(query, key, value, mask, is_causal, scale, dropout_p, draw)


def _draw(dropout_p: float) -> Any:
    """The key of the weights' dropout, or None where nothing is dropped."""
    if not (type(dropout_p) is float and 0 <= dropout_p <= 1):
        check_probability(dropout_p)
    return random.next_key("dropout") if dropout_p else None


def attention_mask(mask: Any, query: Tensor) -> Tensor:
    """The mask as a tensor on the query's device: booleans (True = may attend), or of the query's dtype."""
    if not isinstance(mask, Tensor):
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
