"""Scaled dot-product attention with all scores at once."""

from __future__ import annotations

from ...devices import array_module
from ...random import drop_threshold
from ..half import in_single
from .activations import largest
from .draws import keep_mask
from .products import matmul


@in_single
def multi_head_attention(x, memory, mask, num_heads, is_causal, scale, dropout_p, key):
    """Attention of every head: of the projections `x` to themselves, or to those of a `memory`."""
    xp = array_module(x)
    split = lambda a, parts: a.reshape(*a.shape[:2], parts, num_heads, -1).transpose(2, 0, 3, 1, 4)
    joined = lambda heads: xp.stack(heads).transpose(1, 3, 0, 2, 4)  # (B, T, parts, H, d)
    q, k, v = split(x, 3) if memory is None else (*split(x, 1), *split(memory, 2))
    heads, pull = scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key)

    def gradient(g, needs):
        d_q, d_k, d_v, d_mask = pull(split(g, 1)[0], (True, True, True, needs[2]))
        if memory is None:
            return joined([d_q, d_k, d_v]).reshape(x.shape), None, d_mask
        return joined([d_q]).reshape(x.shape), joined([d_k, d_v]).reshape(memory.shape), d_mask

    return joined([heads]).reshape(*x.shape[:2], -1), gradient


@in_single
def scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key):
    """softmax(scale q kᵀ + mask) v over the last two axes; a row with nothing to attend to gives zeros.

    dv = Wᵀ g, dW = g vᵀ, dS = W (dW - sum(dW W)), dq = scale dS k, dk = scale dSᵀ q.
    """
    xp = array_module(q)
    scores = matmul(q * scale, k.swapaxes(-1, -2))
    if is_causal:
        scores = xp.where(xp.tri(*scores.shape[-2:], dtype=bool), scores, -xp.inf)
    if mask is not None:
        scores = xp.where(mask, scores, -xp.inf) if mask.dtype == bool else scores + mask
    scores = scores.astype(q.dtype, copy=False)
    w = xp.exp(scores - xp.maximum(largest(scores, -1), xp.finfo(q.dtype).min))  # finite if nothing is seen
    w /= xp.maximum(w.sum(axis=-1, keepdims=True), 1)
    keep = None
    if dropout_p:
        kept = 1 - drop_threshold(dropout_p) / 65536
        keep = keep_mask(xp, key, w.shape, dropout_p) * q.dtype.type(1 / kept if kept else 0)
    dropped = w if keep is None else w * keep

    def gradient(g, needs):
        d_w = matmul(g, v.swapaxes(-1, -2))
        if keep is not None:
            d_w *= keep
        d_s = w * (d_w - (d_w * w).sum(axis=-1, keepdims=True))
        return (
            matmul(d_s, k) * scale if needs[0] else None,
            matmul(d_s.swapaxes(-1, -2), q) * scale if needs[1] else None,
            matmul(dropped.swapaxes(-1, -2), g) if needs[2] else None,
            d_s if needs[3] else None,
        )

    return matmul(dropped, v), gradient
