"""Scaled dot-product attention."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .activations import scaled_keep
from .half import in_single


@lru_cache(maxsize=16)
def _causal(queries, keys, dtype):
    """0 where a query may look (at its own place and before), -inf elsewhere."""
    return np.where(np.tri(queries, keys, dtype=bool), 0, -np.inf).astype(dtype)


def _scores(q, k, mask, is_causal, scale):
    """scale q kᵀ + mask, -inf where a query may not look."""
    scores = q @ k.swapaxes(-1, -2)
    scores *= scale
    if is_causal:
        scores += _causal(q.shape[-2], k.shape[-2], scores.dtype)
    if mask is not None:
        allowed = mask.dtype == bool
        scores = scores + (np.where(mask, 0, -np.inf).astype(scores.dtype) if allowed else mask)
    return scores


@in_single
def scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key):
    """softmax(scale q kᵀ + mask) v over the last two axes; a row with nothing to attend to gives zeros.

    With W the weights: dv = Wᵀ g, dW = g vᵀ, dS = W (dW - sum(dW W)), dq = scale dS k, dk = scale dSᵀ q.
    W grows with the square of the length: without dropout it is not kept but computed again, from one number
    a row, W = exp(S - log sum exp S) (Dao et al. 2022, "FlashAttention", section 3.1).
    """
    w = _scores(q, k, mask, is_causal, scale)
    largest = w.max(axis=-1, keepdims=True, initial=-np.inf)
    largest[largest == -np.inf] = 0
    w -= largest
    np.exp(w, out=w)
    total = w.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    w /= total
    weights = scaled = logarithms = None
    if dropout_p:
        weights, scaled = w, scaled_keep(key, w.shape, dropout_p, w.dtype)
        w = w * scaled
    else:
        logarithms = np.log(total)
        logarithms += largest
    y = w @ v

    def gradient(g, needs):
        w = weights
        if w is None:
            w = _scores(q, k, mask, is_causal, scale)
            w -= logarithms
            np.exp(w, out=w)
        d_v = (w if scaled is None else w * scaled).swapaxes(-1, -2) @ g if needs[2] else None
        if not (needs[0] or needs[1] or needs[3]):
            return None, None, d_v, None
        d_s = g @ v.swapaxes(-1, -2)
        if scaled is not None:
            d_s *= scaled
        d_s *= w
        d_s -= w * d_s.sum(axis=-1, keepdims=True)
        d_mask = d_s.copy() if needs[3] else None
        d_s *= scale
        d_q = d_s @ k if needs[0] else None
        d_k = d_s.swapaxes(-1, -2) @ q if needs[1] else None
        return d_q, d_k, d_v, d_mask

    return y, gradient
