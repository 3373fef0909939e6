"""Scaled dot-product attention that stores no matrix of weights; heads up to 128 wide.

Each half, forward and backward, is cuDNN's where it takes the case (`cudnn`), and else our own kernel's.
"""

from __future__ import annotations

import numpy as np

from ....devices import array_module
from . import cudnn
from .launching import NO_DRAW, accumulator, contiguous, draw, heads, kernel, mask_argument, struct, supports

WIDTHS = 32, 64, 128
PROBLEM = struct("int64", "heads", "queries", "keys", "width", "value_width", "is_causal")


def scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key):
    """softmax(scale q kᵀ) v over the keys that a boolean mask allows; a mask of numbers goes to CuPy."""
    if not _takes(q, k, v, mask):
        return None
    xp = array_module(q)
    masks = [] if mask is None else [mask.shape[:-2]]
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2], *masks)
    queries, keys, width = q.shape[-2], k.shape[-2], v.shape[-1]
    if mask is not None:
        mask = _four(xp.broadcast_to(mask, (*lead, queries, keys)))
    q, k, v = (_four(xp.broadcast_to(x, (*lead, *x.shape[-2:]))) for x in (q, k, v))
    drawn = draw(key, (*lead, queries, keys), dropout_p)
    y = xp.empty((*q.shape[:3], width), q.dtype)
    pull = _attend(q, k, v, y, mask, is_causal, scale, drawn)

    def gradient(g, needs):
        into = [xp.empty(x.shape, x.dtype) for x in (q, k, v)]
        pull(_four(g), *into)
        return *(d.reshape(*lead, *d.shape[2:]) for d in into), None

    return y.reshape(*lead, queries, width), gradient


def multi_head_attention(x, memory, mask, num_heads, is_causal, scale, dropout_p, key):
    """Attention of every head, read where it stands in the projections, and written where it is to stand."""
    xp = array_module(x)
    q, k, v = _heads(x, memory, num_heads)
    if not _takes(q, k, v, mask):
        return None
    batch, _, queries, width = q.shape
    if mask is not None:
        mask = xp.broadcast_to(mask, (batch, num_heads, queries, k.shape[2]))
    drawn = draw(key, (batch, num_heads, queries, k.shape[2]), dropout_p)
    y = xp.empty((batch, queries, num_heads * width), x.dtype)
    pull = _attend(q, k, v, _split(y, 1, num_heads)[0], mask, is_causal, scale, drawn)

    def gradient(g, needs):
        d_x = xp.empty(x.shape, x.dtype)
        d_memory = None if memory is None else xp.empty(memory.shape, memory.dtype)
        pull(_split(g, 1, num_heads)[0], *_heads(d_x, d_memory, num_heads))
        return d_x, d_memory, None

    return y, gradient


def _heads(x, memory, num_heads):
    """Queries, keys and values of each head, as views."""
    if memory is None:
        parts = _split(x, 3, num_heads)
        return parts[0], parts[1], parts[2]
    parts = _split(memory, 2, num_heads)
    return _split(x, 1, num_heads)[0], parts[0], parts[1]


def _split(x, parts, num_heads):
    """(B, T, parts H d) as a view of shape (parts, B, H, T, d)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, parts, num_heads, width // parts // num_heads).transpose(2, 0, 3, 1, 4)


def _takes(q, k, v, mask):
    """Whether there is a kernel for these."""
    known = mask is None or mask.dtype == bool
    return q.ndim > 1 and known and supports(q, k, v) and max(q.shape[-1], v.shape[-1]) <= WIDTHS[-1]


def _four(x):
    """With four axes, however many there were before the last two."""
    if x.ndim > 4:
        return x.reshape(-1, *x.shape[-3:])
    return x[(None,) * (4 - x.ndim)]


def _attend(q, k, v, y, mask, is_causal, scale, drawn):
    """Write y; gives a function that writes the gradients of q, k and v for one of y."""
    (batch, number, queries, width), (keys, value_width) = q.shape, v.shape[2:]
    xp, acc = array_module(q), accumulator(q.dtype)
    q, k, v = map(_columns_together, (q, k, v))
    logarithms = xp.empty((batch, number, queries), acc)
    plain = mask is None and drawn is NO_DRAW
    problem = np.array([(number, queries, keys, width, value_width, is_causal)], PROBLEM)
    wide = next(w for w in WIDTHS if w >= max(width, value_width))
    rows = 128 * 16 // wide  # of a block

    def run(name, length, *arguments):
        function = kernel(q, "attention", name, WIDTH=wide)
        grid = batch * number, -(-length // rows)
        function(grid, (128,), (*arguments, problem, mask_argument(mask), acc.type(scale), drawn))

    if not (plain and cudnn.attention(q, k, v, y, logarithms, is_causal, scale)):
        run("attention", queries, heads(q), heads(k), heads(v), heads(y), logarithms)

    def pull(g, d_q, d_k, d_v):
        into = [d_q, d_k, d_v]
        if plain and cudnn.attention_backward(q, k, v, y, g, logarithms, into, is_causal, scale):
            return
        g, along = _columns_together(g), xp.empty_like(logarithms)
        ins = heads(q), heads(k), heads(v)
        run("attention_backward_queries", queries, *ins, heads(y), heads(g), logarithms, along, heads(d_q))
        run("attention_backward_keys", keys, *ins, heads(g), logarithms, along, heads(d_k), heads(d_v))

    return pull


def _columns_together(x):
    """x, or a copy whose last axis lies together in memory."""
    return x if x.strides[-1] == x.itemsize or x.shape[-1] == 1 else contiguous(x)
