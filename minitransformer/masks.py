"""Who may attend to whom. Every mask here is boolean and True means "may attend", as in
`scaled_dot_product_attention`; its shape broadcasts to (batch, heads, queries, keys)."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

import numpy as np
from jaxtyping import Bool

from minigrad import Tensor, as_tensor
from minigrad.errors import ShapeError
from minigrad.nn.functional.core import attention_mask


def causal_mask(length: int, past: int = 0) -> Bool[Tensor, "T S"]:
    """Position t may attend to positions 0 to t: no token sees a later one (section 3.2.3).

    Of queries that stand after `past` other tokens, query t may attend to positions 0 to past + t.
    """
    return Tensor(np.tri(length, past + length, past, dtype=bool))


def padding_mask(ids: Any, pad_token_id: int) -> Bool[Tensor, "B 1 1 S"]:
    """Every query may attend to every token that is not padding: ids (B, S)."""
    array = ids.array if isinstance(ids, Tensor) else np.asarray(ids)
    return Tensor((array != pad_token_id)[:, None, None, :])


def combine(*masks: Tensor | None) -> Tensor | None:
    """What all of the masks allow; None allows everything."""
    given = [as_tensor(mask) for mask in masks if mask is not None]
    return reduce(and_, given) if given else None


def validate_mask(mask: Any, query: Tensor, scores: tuple[int, ...]) -> Tensor:
    """The mask as a tensor beside `query`: booleans, or numbers to add to scores of this shape."""
    mask = attention_mask(mask, query)
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"a mask of shape {mask.shape} for scores of shape {scores}: (batch, heads, queries, keys).\n"
            f"Pass one that broadcasts to them: each axis as long as theirs, or 1."
        )
    return mask


def from_blocked(mask: Any) -> Bool[Tensor, "..."]:
    """A mask of the other kind, where True means "may not attend" (torch.nn.Transformer's), as ours."""
    return ~as_tensor(mask).to("bool")
