"""Attention, one head and one block of queries at a time, so that the scores stay in the cache.

The scores are stored as Sᵀ, a row for each key. So a vector holds a key's scores with LANES queries, and the
softmax needs no operation across lanes. Causal attention skips masked keys. Rows and columns are padded with
zeros to whole tiles. Backward recomputes the scores (Dao et al. 2022, "FlashAttention", section 3.1). Each
lane adds up in a fixed order: additions may not be reordered.

`position` of a block is the position of its first query among the keys if attention is causal. Otherwise it
is the number of keys, so that all of its queries see all keys.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, types, void

from .arrays import row_of
from .compiler import compiled
from .mathematics import OPTIONS, F, inline, loop
from .products import ROWS, panel
from .vectors import (
    LANES,
    scale_vector,
    softmax_columns,
    softmax_columns_backward,
    transpose_tile,
    up,
)

# numba's types of 4-d arrays with any layout
READ, BOOLEANS = (types.Array(kind, 4, "A", readonly=True) for kind in (float32, boolean))
WRITTEN = types.Array(float32, 4, "A")
DROPOUT = (BOOLEANS, float32)
QUERIES = 128  # per block


# ---------------------------------------------------------------- copies


@inline
def _padded_rows(x):
    """Zeros of the shape of x[b, h], rounded up to whole vectors."""
    return np.zeros((up(x.shape[2], LANES), up(x.shape[3], LANES)), F)


@loop
def _copy(x, b, h, out):
    whole = x.shape[3] - x.shape[3] % LANES
    for t in range(x.shape[2]):
        row = row_of(x, b, h, t)
        for j in range(0, whole, LANES):
            scale_vector(row.ctypes.data + 4 * j, out.ctypes.data + t * out.strides[0] + 4 * j, F(1))
        for j in range(whole, x.shape[3]):
            out[t, j] = row[j]


@loop
def _copy_back(out, x, b, h, at, rows):
    """x[b, h, at : at + rows] = out[:rows]."""
    whole = x.shape[3] - x.shape[3] % LANES
    for t in range(rows):
        row = row_of(x, b, h, at + t)
        for j in range(0, whole, LANES):
            scale_vector(out.ctypes.data + t * out.strides[0] + 4 * j, row.ctypes.data + 4 * j, F(1))
        for j in range(whole, x.shape[3]):
            row[j] = out[t, j]


@loop
def _scale_rows(x, factors, rows):
    for t in range(rows):
        for j in range(0, x.shape[1], LANES):
            address = x.ctypes.data + t * x.strides[0] + 4 * j
            scale_vector(address, address, factors[t])


@loop
def _transpose(x, scale, out):
    """out = scale xᵀ, tile by tile."""
    for i in range(0, x.shape[0], LANES):
        for j in range(0, x.shape[1], LANES):
            transpose_tile(
                x.ctypes.data + i * x.strides[0] + 4 * j, x.strides[0],
                out.ctypes.data + j * out.strides[0] + 4 * i, out.strides[0], scale,
            )  # fmt: skip


# ---------------------------------------------------------------- products


@inline
def _first(j, position):
    """The first query that sees key j, rounded down to a whole vector."""
    return max(0, j - position) // LANES * LANES


@loop
def _multiply(x, yt, position, keys, columns, out):
    """out = x yᵀ, starting for each key at its `_first` query."""
    for j in range(0, keys, ROWS):
        first = _first(j, position)
        panel(
            x.ctypes.data + j * x.strides[0], x.strides[0], 4,
            yt.ctypes.data + 4 * first, yt.strides[0],
            out.ctypes.data + j * out.strides[0] + 4 * first, out.strides[0],
            columns - first, yt.shape[0], 0,
        )  # fmt: skip


@loop
def _sum_over_keys(w, x, position, keys, queries, out):
    """out = wᵀ x: for each query, a sum over the keys that it sees."""
    for i in range(0, queries, ROWS):
        panel(
            w.ctypes.data + 4 * i, 4, w.strides[0],
            x.ctypes.data, x.strides[0],
            out.ctypes.data + i * out.strides[0], out.strides[0],
            out.shape[1], min(keys, position + i + ROWS), 0,
        )  # fmt: skip


@loop
def _add_sum_over_queries(w, x, position, keys, queries, out):
    """out += w x: for each key, a sum over the queries that see it."""
    for j in range(0, keys, ROWS):
        first = max(0, j - position)  # before it, w is not written
        panel(
            w.ctypes.data + j * w.strides[0] + 4 * first, w.strides[0], 4,
            x.ctypes.data + first * x.strides[0], x.strides[0],
            out.ctypes.data + j * out.strides[0], out.strides[0],
            out.shape[1], queries - first, 1,
        )  # fmt: skip


# ---------------------------------------------------------------- scores and weights


@loop
def _mask(s, bias, b, h, at, position, keys, queries, columns):
    """Add the bias of the queries from `at` on; then set the scores of later keys to -inf."""
    for j in range(keys):
        first = _first(j, position)
        row = s[j, first:columns]
        if bias.size and bias.strides[2] == 0:  # the same for all queries
            shared = bias[b, h, 0, j]
            for t in range(row.size):
                row[t] += shared
        elif bias.size:
            for t in range(queries - first):
                row[t] += bias[b, h, at + first + t, j]
        for t in range(min(j - position - first, row.size)):
            row[t] = F(-np.inf)


@loop
def _softmax(s, position, keys, columns, factors):
    for t in range(0, columns, LANES):
        softmax_columns(
            s.ctypes.data + 4 * t, s.strides[0], min(keys, position + t + LANES), factors.ctypes.data + 4 * t
        )


@loop
def _softmax_backward(s, d, position, keys, columns, factors, scale):
    for t in range(0, columns, LANES):
        softmax_columns_backward(
            s.ctypes.data + 4 * t, d.ctypes.data + 4 * t, s.strides[0], min(keys, position + t + LANES),
            factors.ctypes.data + 4 * t, scale,
        )  # fmt: skip


@loop
def _drop(w, keep, b, h, at, keys, queries, scale):
    """Apply dropout to the weights: zero those that are not kept, and scale the others."""
    for t in range(queries):
        for j in range(keys):
            w[j, t] = w[j, t] * scale if keep[b, h, at + t, j] else F(0)


# ---------------------------------------------------------------- attention


@compiled(void(*[READ] * 4, *DROPOUT, boolean, float32, WRITTEN), **OPTIONS)
def attend(q, k, v, bias, keep, kept_scale, is_causal, scale, y):
    """y = softmax(scale q kᵀ + bias) v; 0 for a query that sees no key.

    Shapes: q (B, H, T, d), k (B, H, S, d), v (B, H, S, e); bias and keep (dropout's mask) (B, H, T, S), or
    empty for none.
    """
    qs = _padded_rows(q)
    ks = _padded_rows(k)
    vs = _padded_rows(v)
    block = min(QUERIES, len(qs))
    qt = np.empty((qs.shape[1], block), F)
    s = np.zeros((len(ks), block), F)
    out, factors = np.empty((block, vs.shape[1]), F), np.empty(block, F)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            _copy(q, b, h, qs)
            _copy(k, b, h, ks)
            _copy(v, b, h, vs)
            for at in range(0, q.shape[2], block):
                queries = min(block, q.shape[2] - at)
                position = at if is_causal else k.shape[2]
                keys = min(k.shape[2], position + up(queries, ROWS))
                columns = up(queries, LANES)
                _transpose(qs[at : at + columns], scale, qt)
                _multiply(ks, qt[: q.shape[3]], position, keys, columns, s)
                _mask(s, bias, b, h, at, position, keys, queries, columns)
                _softmax(s, position, keys, columns, factors)
                if keep.size:
                    _drop(s, keep, b, h, at, keys, queries, kept_scale)
                _sum_over_keys(s, vs, position, keys, queries, out)
                _scale_rows(out, factors, queries)
                _copy_back(out, y, b, h, at, queries)


@compiled(void(*[READ] * 5, *DROPOUT, boolean, float32, *[WRITTEN] * 3), **OPTIONS)
def attend_backward(q, k, v, g, bias, keep, kept_scale, is_causal, scale, d_q, d_k, d_v):
    """Write dv = Wᵀ g, dq = scale dS k, dk = scale dSᵀ q, with dS = W (dW - sum(dW W)), dW = g vᵀ."""
    qs = _padded_rows(q)
    ks = _padded_rows(k)
    vs = _padded_rows(v)
    gs = _padded_rows(g)
    block = min(QUERIES, len(qs))
    qt = np.empty((qs.shape[1], block), F)
    gt = np.empty((gs.shape[1], block), F)
    s, d = np.zeros((len(ks), block), F), np.zeros((len(ks), block), F)
    out_q = np.empty((block, ks.shape[1]), F)
    out_k = np.empty_like(ks)
    out_v = np.empty_like(vs)
    factors = np.empty(block, F)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            _copy(q, b, h, qs)
            _copy(k, b, h, ks)
            _copy(v, b, h, vs)
            _copy(g, b, h, gs)
            out_k[:], out_v[:] = F(0), F(0)
            for at in range(0, q.shape[2], block):
                queries = min(block, q.shape[2] - at)
                position = at if is_causal else k.shape[2]
                keys = min(k.shape[2], position + up(queries, ROWS))
                columns = up(queries, LANES)
                _transpose(qs[at : at + columns], scale, qt)
                _transpose(gs[at : at + columns], F(1), gt)
                _multiply(ks, qt[: q.shape[3]], position, keys, columns, s)
                _mask(s, bias, b, h, at, position, keys, queries, columns)
                _multiply(vs, gt[: v.shape[3]], position, keys, columns, d)
                _softmax(s, position, keys, columns, factors)
                w = s
                if keep.size:
                    w = s.copy()
                    _drop(w, keep, b, h, at, keys, queries, kept_scale)
                    _drop(d, keep, b, h, at, keys, queries, kept_scale)
                _scale_rows(gs[at:], factors, queries)  # dv = Wᵀ g = Eᵀ (factor g), with w = E
                _add_sum_over_queries(w, gs[at:], position, keys, queries, out_v)
                _softmax_backward(s, d, position, keys, columns, factors, scale)
                _sum_over_keys(s, ks, position, keys, queries, out_q)
                _add_sum_over_queries(s, qs[at:], position, keys, queries, out_k)
                _copy_back(out_q, d_q, b, h, at, queries)
            _copy_back(out_k, d_k, b, h, 0, k.shape[2])
            _copy_back(out_v, d_v, b, h, 0, k.shape[2])
