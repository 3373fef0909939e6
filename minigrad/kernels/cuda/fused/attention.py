"""Scaled dot-product attention without a stored matrix of weights, for heads up to 128 wide.

Forward and backward each use cuDNN if it supports the case (`cudnn`), else our own kernel.
"""

from __future__ import annotations

import numpy as np

from ....core.devices import array_module
from ....core.kernels import kernel as register
from ....ops import attention as ops
from ...numpy.attention import empty_heads
from . import cudnn
from .launching import NO_DRAW, accumulator, contiguous, draw, heads, kernel, mask_argument, struct, supports

WIDTHS = 32, 64, 128
PROBLEM = struct("int64", "heads", "queries", "keys", "width", "value_width", "is_causal")


@register(ops.scaled_dot_product_attention, "cuda")
def scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key):
    """softmax(scale q kᵀ) v over the keys where a boolean mask is True; None for a float mask."""
    if not _supports(q, k, v, mask):
        return None
    xp = array_module(q)
    masks = [] if mask is None else [mask.shape[:-2]]
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2], *masks)
    queries = q.shape[-2]
    keys = k.shape[-2]
    width = v.shape[-1]
    if mask is not None:
        mask = _to_4d(xp.broadcast_to(mask, (*lead, queries, keys)))
    q, k, v = (_to_4d(xp.broadcast_to(x, (*lead, *x.shape[-2:]))) for x in (q, k, v))
    drops = draw(key, (*lead, queries, keys), dropout_p)
    y = empty_heads(array_module(q).empty, q, (*q.shape[:3], width))
    pull = _attend(q, k, v, y, mask, is_causal, scale, drops)

    def gradient(g, needs, into=None):
        found = into or [xp.empty(x.shape, x.dtype) for x in (q, k, v)]
        pull(_to_4d(g), *found)
        return *(into or (d.reshape(*lead, *d.shape[2:]) for d in found)), None

    return y.reshape(*lead, queries, width), gradient


def _supports(q, k, v, mask):
    """Whether there is a kernel for these arrays."""
    known = mask is None or mask.dtype == bool
    return q.ndim > 1 and known and supports(q, k, v) and max(q.shape[-1], v.shape[-1]) <= WIDTHS[-1]


def _to_4d(x):
    """x with four axes: extra leading axes are flattened, and missing ones are added."""
    if x.ndim > 4:
        return x.reshape(-1, *x.shape[-3:])
    return x[(None,) * (4 - x.ndim)]


def _attend(q, k, v, y, mask, is_causal, scale, drops):
    """Write y, and return a function that writes the gradients of q, k and v."""
    batch, number, queries, width = q.shape
    keys, value_width = v.shape[2:]
    xp = array_module(q)
    acc = accumulator(q.dtype)
    q, k, v = map(_contiguous_rows, (q, k, v))
    logarithms = xp.empty((batch, number, queries), acc)
    plain = mask is None and drops is NO_DRAW
    problem = np.array([(number, queries, keys, width, value_width, is_causal)], PROBLEM)
    wide = next(w for w in WIDTHS if w >= max(width, value_width))
    rows = 128 * 16 // wide  # per block

    def run(name, length, *arguments):
        function = kernel(q, "attention", name, WIDTH=wide, BITS=int(drops["bits"][0]))
        grid = batch * number, -(-length // rows)
        function(grid, (128,), (*arguments, problem, mask_argument(mask), acc.type(scale), drops))

    if not (plain and cudnn.attention(q, k, v, y, logarithms, is_causal, scale)):
        run("attention", queries, heads(q), heads(k), heads(v), heads(y), logarithms)

    def pull(g, d_q, d_k, d_v):
        into = [d_q, d_k, d_v]
        if plain and cudnn.attention_backward(q, k, v, y, g, logarithms, into, is_causal, scale):
            return
        g = _contiguous_rows(g)
        row_sums = xp.empty_like(logarithms)
        ins = heads(q), heads(k), heads(v)
        run("attention_backward_queries", queries, *ins, heads(y), heads(g), logarithms, row_sums, heads(d_q))
        run("attention_backward_keys", keys, *ins, heads(g), logarithms, row_sums, heads(d_k), heads(d_v))

    return pull


def _contiguous_rows(x):
    """x, or a copy that is contiguous in its last axis."""
    return x if x.strides[-1] == x.itemsize or x.shape[-1] == 1 else contiguous(x)
