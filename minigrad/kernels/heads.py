"""Attention of all heads on views of their packed projections, without copying heads out and back.

`attention_of_heads` decorates the definition, which is in `minitransformer/layers/attention.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.composites import composite
from ..core.costs import Flops
from ..core.devices import array_module, kind_of
from ..core.kernels import kernels_for
from ..core.random import Key
from ..core.user_rules import is_user_defined
from ..ops.attention import scaled_dot_product_attention
from ..ops.samplers import each, mask, real


def attend_to_views(
    x, kv, mask, num_heads, is_causal=False, dropout_p=0.0, key=None, num_kv_heads=None, scale=None
):
    """Run the kernel of `scaled_dot_product_attention` that supports these arrays on views of them.

    Return None if there is none. minigrad's kernels write gradients into views of the projections' gradients.
    """
    shape = x.shape[:2]
    if mask is not None and mask.ndim == 4 and mask.shape[0] not in (1, shape[0]):
        return None  # the result would have the mask's batch size
    rows = shape[0] if kv is None else kv.shape[0]
    if rows != shape[0]:  # the beams of a sentence become further queries of its row
        if is_causal or dropout_p or (mask is not None and (mask.dtype != bool or mask.ndim < 4)):
            return None
        x = x.reshape(rows, -1, x.shape[2])
        if mask is not None:
            mask = array_module(x).broadcast_to(mask, (shape[0], mask.shape[1], shape[1], mask.shape[3]))
            mask = mask.reshape(rows, -1, *mask.shape[1:]).swapaxes(1, 2)
            mask = mask.reshape(*mask.shape[:2], -1, mask.shape[4])
    q, k, v = split_views(x, kv, num_heads, num_kv_heads)
    groups = num_heads // k.shape[1]
    if groups > 1:  # heads that share keys and values
        k = k.repeat(groups, 1)
        v = v.repeat(groups, 1)
    scale = scale or 1 / math.sqrt(q.shape[-1])
    for attend in kernels_for(scaled_dot_product_attention.op, kind_of([x])):
        result = attend(q, k, v, mask, is_causal=is_causal, scale=scale, dropout_p=dropout_p, key=key)
        if result is not None:
            break
    else:
        return None
    heads, pull = result
    width = num_heads * heads.shape[-1]
    empty = array_module(x).empty

    def gradient(g, needs):
        g = _split(g.reshape(*x.shape[:2], width), 1, num_heads)[0]
        d_x = empty(x.shape, x.dtype)
        d_kv = None if kv is None else empty(kv.shape, kv.dtype)
        d_q, d_k, d_v = split_views(d_x, d_kv, num_heads, num_kv_heads)  # views, to be filled
        into = (d_q, d_k, d_v) if groups == 1 else (d_q, empty(k.shape, k.dtype), empty(v.shape, v.dtype))
        if is_user_defined(attend):
            d_mask = _copy_gradients(pull, g, needs, into)
        else:
            d_mask = pull(g, (True, True, True, needs[2]), into)[3]
        if groups > 1:
            for total, parts in zip((d_k, d_v), into[1:], strict=True):
                parts.reshape(rows, -1, groups, *parts.shape[2:]).sum(2, out=total)
        return d_x.reshape(*shape, x.shape[2]), d_kv, d_mask

    return heads.swapaxes(1, 2).reshape(*shape, width), gradient


def _copy_gradients(pull: Any, g: Any, needs: Any, into: Any) -> Any:
    """Copy the gradients of a user's kernel to the arrays `into`, and return the mask's gradient."""
    needed = (True, True, True, needs[2])
    found = pull(g, needed) if callable(pull) else [f and f(g) for f in pull]
    *parts, d_mask = found
    for target, part in zip(into, parts, strict=True):
        target[...] = 0 if part is None else part
    return d_mask


def split_views(x: Any, kv: Any, num_heads: int, num_kv_heads: int | None = None) -> tuple[Any, Any, Any]:
    """The queries, keys and values of each head, (B, H, T, d), as views of the projections."""
    kv_heads = num_kv_heads or num_heads
    if kv is None and kv_heads == num_heads:
        return tuple(_split(x, 3, num_heads))
    if kv is None:
        width = x.shape[2] // (num_heads + 2 * kv_heads) * num_heads
        x, kv = x[..., :width], x[..., width:]
    return (*_split(x, 1, num_heads), *_split(kv, 2, kv_heads))


def _split(x: Any, parts: int, num_heads: int) -> Any:
    """(B, T, parts H d) -> (parts, B, H, T, d)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, parts, num_heads, width // (parts * num_heads)).transpose(2, 0, 3, 1, 4)


def _flops(inputs, result, settings):
    batch, queries, width = result
    keys = queries if inputs[1] is None else inputs[1][1]
    return batch * queries * keys * (4 * width + 6 * settings["num_heads"])


_plain = {"num_heads": 2, "is_causal": False, "dropout_p": 0.0, "key": None}
attention_of_heads: Callable = composite(
    kernel=attend_to_views,
    promotes=(0, 1),
    autocast="lower",
    family="attention",
    samples=each((real, 2, 3, 12), None, None, **_plain)
    | each((real, 2, 3, 12), None, None, **_plain | {"is_causal": True})
    | each((real, 2, 3, 4), (real, 2, 4, 8), (mask, 2, 1, 3, 4), **_plain)
    | each((real, 2, 3, 16), None, (mask, 2, 1, 1, 3), **_plain | {"num_heads": 4, "num_kv_heads": 2})
    | each((real, 1, 3, 12), None, (real, 3, 3), **_plain | {"dropout_p": 0.5, "key": Key(0, 0, 0, 0)})
    | each((real, 4, 3, 4), (real, 2, 4, 8), (mask, 4, 1, 1, 4), **_plain),
    latex=(r"(dQ,\, dK,\, dV) \text{ as in scaled dot-product attention}", r"(dK,\, dV)", r"dS"),
    flops=Flops("queries × keys × (4 × width + 6 × heads)", _flops),
)
