"""Attention over heads with the kernel of the arrays' device, which reads and writes views."""

from __future__ import annotations

import math

from minigrad.core.devices import array_module, kind_of
from minigrad.core.kernels import kernel, kernels_for
from minigrad.core.user_rules import is_users
from minigrad.ops.attention import scaled_dot_product_attention

from .attention_op import multi_head_attention, split_heads, split_parts


@kernel(multi_head_attention)
def attend_to_views(
    x, kv, mask, num_heads, is_causal=False, dropout_p=0.0, key=None, num_kv_heads=None, scale=None
):
    """The library's own attention kernel, on views of the projections.

    It writes its gradients into views of the projections' gradients, which a kernel that a user registers
    cannot do. If there is one, this returns None, and the definition of `multi_head_attention` calls it.
    """
    if mask is not None and mask.ndim == 4 and mask.shape[0] not in (1, x.shape[0]):
        return None  # the result has the mask's batch
    q, k, v = split_heads(x, kv, num_heads, num_kv_heads)
    groups = num_heads // k.shape[1]
    if groups > 1:  # of heads that share keys and values
        k = k.repeat(groups, 1)
        v = v.repeat(groups, 1)
    result = _attend(q, k, v, mask, is_causal, scale or 1 / math.sqrt(q.shape[-1]), dropout_p, key)
    if result is None:
        return None
    heads, pull = result
    empty = array_module(x).empty

    def gradient(g, needs):
        d_x = empty(x.shape, x.dtype)
        d_kv = None if kv is None else empty(kv.shape, kv.dtype)
        d_heads = split_heads(d_x, d_kv, num_heads, num_kv_heads)  # views that `pull` fills
        into = d_heads if groups == 1 else (d_heads[0], empty(k.shape, k.dtype), empty(v.shape, v.dtype))
        *_, d_mask = pull(split_parts(g, 1, num_heads)[0], (True, True, True, needs[2]), into)
        if groups > 1:
            for total, parts in zip(d_heads[1:], into[1:], strict=True):
                parts.reshape(len(g), -1, groups, *parts.shape[2:]).sum(2, out=total)
        return d_x, d_kv, d_mask

    return heads.swapaxes(1, 2).reshape(*x.shape[:2], num_heads * q.shape[-1]), gradient


def _attend(q, *rest):
    """Run the library's first kernel that supports these arrays; None if there is none, or a user's."""
    for attend in kernels_for(scaled_dot_product_attention.op, kind_of([q])):
        if is_users(attend):
            return None
        result = attend(q, *rest)
        if result is not None:
            return result
    return None
