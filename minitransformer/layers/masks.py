"""Masks: which query may attend to which key.

A mask is boolean, True where a query may attend, as in `scaled_dot_product_attention`, and broadcasts to
(batch, heads, queries, keys).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from minigrad import Tensor, as_tensor
from minigrad.core.devices import as_array
from minigrad.core.errors import DtypeError, ShapeError
from minigrad.core.tensor import as_tensor_like
from minigrad.nn.functional.core import attention_mask

from ..errors import UserError, counted


def causal_mask(length: int, past: int = 0) -> Bool[Tensor, "T S"]:
    """A mask in which position t may attend to positions 0 to t: no token sees a later one (section 3.2.3).

    If `past` tokens precede the queries, query t may attend to positions 0 to past + t.

    >>> from minitransformer import causal_mask
    >>> causal_mask(3)
    tensor([[ True, False, False],
            [ True,  True, False],
            [ True,  True,  True]])
    """
    return Tensor(np.tri(length, past + length, past, dtype=bool))


def padding_mask(ids: Any, pad_token_id: int) -> Bool[Tensor, "B 1 1 S"]:
    """A mask of ids (B, S) in which every query may attend to every token that is not padding.

    >>> from minitransformer import padding_mask
    >>> padding_mask(np.array([[5, 6, 0]]), pad_token_id=0)
    tensor([[[[ True,  True, False]]]])
    """
    array = as_array(ids.array if isinstance(ids, Tensor) else ids)
    return Tensor((array != pad_token_id)[:, None, None, :])


def key_mask(
    mask: Any, x: Tensor, past: int = 0, allow_empty: bool = False
) -> Bool[Tensor, "B 1 1 S"] | Tensor | None:
    """Check a padding mask (B, past + T) of tokens x (B, T, D), and reshape it to broadcast to scores.

    True is a real token. Integers 0 and 1, as in Hugging Face's `attention_mask`, become booleans. A row
    without a real token is an error, unless `allow_empty`. Masks of 3 or 4 dimensions are returned unchanged.
    """
    if mask is None:
        return None
    mask = as_tensor_like(mask, x)
    if mask.ndim > 2:
        return mask
    expected = x.array.shape[0], past + x.array.shape[1]
    if mask.array.shape != expected:
        raise ShapeError(
            f"a padding mask of shape {tuple(mask.shape)} for {counted(expected[0], 'row')} of "
            f"{counted(expected[1], 'token')}.\n"
            f"Pass True or False for each token, {expected}, including those in the cache."
        )
    if mask.is_floating_point():
        raise DtypeError(
            f"a padding mask of dtype {mask.dtype}.\nPass booleans: True for real tokens, False for padding."
        )
    if mask.dtype != bool:
        mask = _from_integers(mask)
    if not allow_empty and not bool(mask.array.any(1).all()):
        raise UserError(
            "a row of the padding mask has no real token.\n"
            "True means a real token: if yours means padding, pass ~mask."
        )
    return mask[:, None, None, :]


def _from_integers(mask: Tensor) -> Bool[Tensor, "..."]:
    """Convert a padding mask of 0s and 1s to booleans. Raise a UserError for other integers."""
    wrong = (mask.array != 0) & (mask.array != 1)
    if wrong.any():
        raise UserError(
            f"a padding mask of integers must be 1 for real tokens and 0 for padding, "
            f"got {int(mask.array[wrong][0])}.\n"
            f"Pass ids != pad_token_id; if yours is an additive mask (0 for real tokens), pass mask == 0."
        )
    return mask.to("bool")


def masked_bias(bias: Float[Tensor, "1 H T S"], mask: Tensor | None, batch: int) -> Float[Tensor, "_ H T S"]:
    """A bias of the scores with -inf where the mask is False. A floating-point mask is added to the bias."""
    if mask is None:
        return bias
    mask = attention_mask(mask, bias)
    scores = (batch, *bias.shape[1:])
    try:
        biased = bias + mask if mask.is_floating_point() else bias.masked_fill(~mask, -math.inf)
    except ShapeError:
        raise _shape_error(mask, scores) from None
    if biased.shape[0] not in (1, batch):
        raise _shape_error(mask, scores)
    return biased


def check_same_batch(query: Tensor, memory: Tensor) -> None:
    """Raise a ShapeError if the queries (B, T, D) and the memory (B, S, D) have different batch sizes."""
    targets = query.array.shape[0]
    sources = memory.array.shape[0]
    if targets != sources:
        raise ShapeError(
            f"{counted(sources, 'source sequence')} and {counted(targets, 'target sequence')}: the batches "
            f"of memory and query differ.\nPass one target for each source."
        )


def resolve_mask(
    mask: Any, is_causal: bool, past: int, q: Tensor, kv: Tensor | None, num_heads: int
) -> tuple[Tensor | None, bool]:
    """The mask and `is_causal` for `multi_head_attention`. The mask is checked and on the device of q.

    Kernels with `is_causal` assume that the queries are at the first positions. After `past` tokens they are
    not, and the mask includes a causal mask instead.
    """
    length = q.array.shape[1]
    keys = (q if kv is None else kv).array.shape[1]
    visible = causal_mask(length, past).to(q.device) if is_causal and past and length > 1 else None
    is_causal = is_causal and not past  # a single query after past tokens attends to every key
    if mask is None:
        return visible, is_causal
    mask = attention_mask(mask, q)
    scores = (q.shape[0], num_heads, length, keys)
    if mask.dtype == bool and length == keys > 1 and mask.ndim == 2 and not mask.array[0, 0]:
        _check_not_inverted(mask)
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise _shape_error(mask, scores)
    if visible is not None:
        is_bias = mask.is_floating_point()
        mask = mask.masked_fill(~visible, -math.inf) if is_bias else mask & visible
    return mask, is_causal


def _shape_error(mask: Tensor, scores: tuple[int, ...]) -> ShapeError:
    return ShapeError(
        f"a mask of shape {mask.shape} for scores of shape {scores}: (batch, heads, queries, keys).\n"
        f"Pass a mask that broadcasts to the scores."
    )


def _check_not_inverted(mask: Tensor) -> None:
    """Raise a UserError if the mask (T, T) is the inverse of a causal mask."""
    if bool((mask.array == ~causal_mask(len(mask)).to(mask.device).array).all()):
        raise UserError(
            "the mask is True for later tokens and False for earlier ones: an inverted causal mask.\n"
            "True means may attend: pass ~mask, or masks.from_blocked(mask) for torch.nn.Transformer's."
        )


def from_blocked(mask: Any) -> Bool[Tensor, "..."]:
    """The inverse of a mask in which True means "may not attend", as in torch.nn.Transformer."""
    return ~as_tensor(mask).to("bool")
