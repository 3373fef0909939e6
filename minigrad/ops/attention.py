"""Scaled dot-product attention ("Attention Is All You Need", section 3.2.1, equation 1)."""

from __future__ import annotations

import math

import numpy as np

from ..tensor import Tensor
from .activations import dropout
from .record import composite


@composite(promotes=(0, 1, 2))
def scaled_dot_product_attention(q, k, v, mask, /, is_causal, scale, dropout_p, key):
    """softmax(scale Q Kᵀ) V, over the keys that `mask` allows; a query that may see nothing gives zeros.

    q (..., T, D), k (..., S, D), v (..., S, Dv); mask broadcasts to (..., T, S): boolean (True = may attend),
    or numbers that are added to the scores; None allows all.
    """
    scores = q @ k.transpose(-1, -2) * scale
    allowed = Tensor(np.tri(q.shape[-2], k.shape[-2], dtype=bool)) if is_causal else None
    if mask is not None and mask.is_floating_point():
        scores = scores + mask
    elif mask is not None:
        allowed = mask if allowed is None else mask & allowed
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    largest = scores.detach().amax(-1, keepdim=True)
    e = (scores - largest.masked_fill(largest == -math.inf, 0.0)).exp()
    total = e.sum(-1, keepdim=True)
    weights = e / total.masked_fill(total == 0, 1.0)
    if dropout_p:
        weights = dropout(weights, dropout_p, key)
    return weights @ v
