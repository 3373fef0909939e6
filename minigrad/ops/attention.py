"""Scaled dot-product attention ("Attention Is All You Need", section 3.2.1, equation 1)."""

from __future__ import annotations

import math

import numpy as np

from ..core.composites import composite
from ..core.costs import Flops
from ..core.random import Key
from ..core.tensor import constant
from .activations import dropout
from .samplers import cases, mask, real

__family__ = "attention"


def _count(inputs, result, settings):
    *batch, queries, width = result
    keys, depth = inputs[1][-2:]
    return math.prod(batch) * queries * keys * (2 * depth + 2 * width + 6)


_key = Key(0, 0, 0, 0)
_plain = {"is_causal": False, "scale": 0.7, "dropout_p": 0.0, "key": None}
_samples = (
    cases((real, 2, 3), (real, 4, 3), (real, 4, 2), None, **_plain)
    | cases((real, 2, 2, 3), (real, 2, 4, 3), (real, 2, 4, 2), None, **_plain | {"is_causal": True})
    | cases((real, 3, 3), (real, 4, 3), (real, 4, 2), (mask, 3, 4), **_plain)
    | cases((real, 2, 1, 2, 3), (real, 1, 4, 3), (real, 4, 2), (real, 2, 4), **_plain | {"is_causal": True})
    | cases((real, 2, 3), (real, 4, 3), (real, 4, 2), None, **_plain | {"dropout_p": 0.5, "key": _key})
    | cases((real, 2, 3), (real, 0, 3), (real, 0, 2), None, **_plain)
)


@composite(
    autocast="lower",
    promotes=(0, 1, 2),
    samples=_samples,
    latex=(
        r"s\,dS\,k,\quad dS = W \odot (gv^\top - \operatorname{rowsum}(gv^\top \odot W)),"
        r"\; W = \operatorname{softmax}(s\,qk^\top + mask)",
        r"s\,dS^\top q",
        r"W^\top g",
        r"dS",
    ),
    flops=Flops("queries × keys × (2 × width of q + 2 × width of v + 6), for each head", _count),
)
def scaled_dot_product_attention(q, k, v, mask, /, is_causal, scale, dropout_p, key):
    """softmax(scale Q Kᵀ) V over the keys that `mask` allows; zeros for a fully masked query.

    q (..., T, D), k (..., S, D), v (..., S, Dv); mask broadcasts to (..., T, S): boolean (True = may attend),
    or numbers that are added to the scores; None allows all.

    With W the weights, a gradient g of the output gives Wᵀ g for v, dW = g Vᵀ, and through the softmax
    dS = W (dW - rowsum(W dW)): scale dS K for q, scale dSᵀ Q for k.
    """
    scores = q @ k.transpose(-1, -2) * scale
    if not k.shape[-2]:
        return scores @ v  # empty sums
    allowed = constant(np.tri(q.shape[-2], k.shape[-2], dtype=bool), q) if is_causal else None
    if mask is not None and mask.is_floating_point():
        scores = scores + mask.to(scores.dtype)
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
