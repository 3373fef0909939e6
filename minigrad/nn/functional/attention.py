"""Scaled dot-product attention, of one head and of many ("Attention Is All You Need", section 3.2)."""

from __future__ import annotations

import math
from typing import Any

from ... import random
from ...errors import DtypeError, OptionError, ShapeError
from ...ops import attention as _attention
from ...ops import repeat_interleave
from ...tensor import Tensor, as_tensor, given
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
    """The key of the weights' dropout, or None where nothing is dropped."""
    if not (type(dropout_p) is float and 0 <= dropout_p <= 1):
        check_probability(dropout_p)
    return random.next_key("dropout") if dropout_p else None


def _check_mask(shape: tuple[int, ...], scores: tuple[int, ...]) -> None:
    """Refuse a mask that does not broadcast to the scores."""
    fits = len(shape) <= len(scores)
    for n, m in zip(shape[::-1], scores[::-1], strict=False):
        fits = fits and n in (1, m)
    if not fits:
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
