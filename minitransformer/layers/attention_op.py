"""Attention over heads as one op: split into heads, attend, merge the heads."""

from __future__ import annotations

import math
from typing import Any

from minigrad import Tensor
from minigrad.core import random
from minigrad.core.composites import composite
from minigrad.core.costs import Flops
from minigrad.ops.attention import scaled_dot_product_attention
from minigrad.ops.samplers import each, mask, real


def split_heads(x: Any, kv: Any, num_heads: int, num_kv_heads: int | None = None) -> tuple[Any, Any, Any]:
    """Queries, keys and values of each head, (B, H, T, d), as views.

    They are packed in x (B, T, 3 D); or x (B, T, D) has the queries and kv (B, S, 2 D) keys and values.
    """
    kv_heads = num_kv_heads or num_heads
    if kv is None and kv_heads == num_heads:
        return tuple(split_parts(x, 3, num_heads))
    if kv is None:
        width = x.shape[2] // (num_heads + 2 * kv_heads) * num_heads
        x, kv = x[..., :width], x[..., width:]
    return (*split_parts(x, 1, num_heads), *split_parts(kv, 2, kv_heads))


def split_parts(x: Any, parts: int, num_heads: int) -> Any:
    """(B, T, parts H d) -> (parts, B, H, T, d)."""
    batch, length, width = x.shape
    x = x.reshape(batch, length, parts, num_heads, width // (parts * num_heads))
    return x.permute(2, 0, 3, 1, 4) if isinstance(x, Tensor) else x.transpose(2, 0, 3, 1, 4)


def _flops(inputs, result, settings):
    batch, queries, width = result
    keys = queries if inputs[1] is None else inputs[1][1]
    return batch * queries * keys * (4 * width + 6 * settings["num_heads"])


_key = random.Key(0, 0, 0, 0)
_settings = {"num_heads": 2, "is_causal": False, "dropout_p": 0.0, "key": None}


@composite(
    promotes=(0, 1),
    autocast="lower",
    family="attention",
    samples=each((real, 2, 3, 12), None, None, **_settings)
    | each((real, 2, 3, 12), None, None, **_settings | {"is_causal": True})
    | each((real, 2, 3, 4), (real, 2, 4, 8), (mask, 2, 1, 3, 4), **_settings)
    | each((real, 2, 3, 16), None, (mask, 2, 1, 1, 3), **_settings | {"num_heads": 4, "num_kv_heads": 2})
    | each((real, 1, 3, 12), None, (real, 3, 3), **_settings | {"dropout_p": 0.5, "key": _key}),
    latex=(r"(dQ,\, dK,\, dV) \text{ as in scaled dot-product attention}", r"(dK,\, dV)", r"dS"),
    flops=Flops("queries × keys × (4 × width + 6 × heads)", _flops),
)
def multi_head_attention(
    x, kv, mask, /, num_heads, is_causal=False, dropout_p=0.0, key=None, num_kv_heads=None, scale=None
):
    """Split into heads, attend, merge the heads.

    x (B, T, 3 D) is queries, keys and values packed; or x (B, T, D) is queries and kv (B, S, 2 D) keys and
    values, which may have fewer heads. D = heads × d. mask broadcasts to (B, heads, T, S). Returns (B, T, D).
    """
    q, k, v = split_heads(x, kv, num_heads, num_kv_heads)
    if k.shape[1] != num_heads:
        k, v = (heads.repeat_interleave(num_heads // num_kv_heads, 1) for heads in (k, v))
    scale = scale or 1 / math.sqrt(q.shape[-1])
    heads = scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key)  # (B, heads, T, d)
    return heads.transpose(1, 2).flatten(-2)
