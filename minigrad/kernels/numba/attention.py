"""Attention: one loop for a single query, and `heads` for several.

Other arrays use the tiles of `numpy.attention`, with compiled loops for the work on rows.
"""

from __future__ import annotations

import numpy as np

from ...core.kernels import kernel
from ...ops import attention as ops
from ...ops.draws import keep_scale
from ..numpy import attention as tiles
from ..numpy.attention import EXACT, NUMPY, RowWork, attend, empty_heads
from .arrays import is_float32, row_of, rows_of
from .mathematics import F, accumulate, exp_below, inline, largest, loop


@kernel(ops.scaled_dot_product_attention, "numba")
def scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key):
    if not is_float32(q, k, v) or (mask is not None and mask.dtype not in (bool, F)):
        return None
    if q.shape[-2] == 1 and not (is_causal or dropout_p) and _supports_one_query(q, k, v, mask):
        return _attend_from_one(q, k, v, mask, scale)
    if _supports_heads(q, k, v, mask):
        return _attend_by_heads(q, k, v, mask, is_causal, scale, dropout_p, key)
    return attend(LOOPS, q, k, v, mask, is_causal, scale, dropout_p, key)


def _supports_one_query(q, k, v, mask):
    """Whether `_one_query` supports the arrays: several keys in contiguous rows, a boolean mask of keys."""
    if not (q.ndim == k.ndim == 4 and k.shape[2] > 1 and q.shape[:2] == k.shape[:2] and k.shape == v.shape):
        return False
    if not q.strides[3] == k.strides[3] == v.strides[3] == 4:
        return False
    return mask is None or (mask.dtype == bool and mask.shape == (q.shape[0], 1, 1, k.shape[2]))


def _attend_from_one(q, k, v, mask, scale):
    """Attention from one query, as in generation: keys and values are read from their cache without a copy.

    Backward, rarely needed here, uses the tiles.
    """
    y = empty_heads(np.empty, q, q.shape)
    _one_query(q, k, v, _ALL if mask is None else np.ascontiguousarray(mask[:, 0, 0]), F(scale), y)

    def gradient(g, needs, into=None):
        return _backward_by_tiles(g, needs, into, q, k, v, mask, False, scale, 0.0, None)

    return y, gradient


_ALL = np.ones((0, 0), bool)  # stands for a mask under which all keys are visible


def _supports_heads(q, k, v, mask):
    """Whether `heads` supports the arrays: not empty, with equal leading axes that the mask broadcasts to."""
    if not (q.ndim == k.ndim == v.ndim == 4 and q.shape[:2] == k.shape[:2] == v.shape[:2]):
        return False
    if not (q.size and k.size and v.size):
        return False
    if mask is None:
        return True
    batches = zip(mask.shape[-3::-1], q.shape[1::-1], strict=False)  # heads, then sequences
    return mask.ndim <= 4 and all(n in (1, m) for n, m in batches)


def _attend_by_heads(q, k, v, mask, is_causal, scale, dropout_p, key):
    """Attention by `heads`, block by block. If the mask needs a gradient, backward uses the tiles."""
    from . import heads  # here, since the first import compiles its loops

    scores = (*q.shape[:3], k.shape[2])
    q, k, v = map(_contiguous_rows, (q, k, v))
    bias = _NOTHING if mask is None else np.broadcast_to(tiles.as_bias(mask, q.dtype), scores)
    keep = tiles.keep_mask(key, scores, dropout_p) if dropout_p else _ALL_KEPT
    settings = bias, keep, F(keep_scale(dropout_p)), is_causal, F(scale)
    y = empty_heads(np.empty, q, (*q.shape[:3], v.shape[3]))
    heads.attend(q, k, v, *settings, y)

    def gradient(g, needs, into=None):
        if needs[3] and mask is not None:
            return _backward_by_tiles(g, needs, into, q, k, v, mask, is_causal, scale, dropout_p, key)
        d_q, d_k, d_v = [np.empty(x.shape, F) for x in (q, k, v)] if into is None else into
        heads.attend_backward(q, k, v, _contiguous_rows(g), *settings, d_q, d_k, d_v)
        return d_q, d_k, d_v, None

    return y, gradient


def _backward_by_tiles(g, needs, into, *call):
    """Compute the gradients with tiles, after another forward pass."""
    _, pull = attend(LOOPS, *call)
    return pull(g, needs) if into is None else pull(g, needs, into)


def _contiguous_rows(x):
    """x, or a copy that is contiguous along the last axis."""
    return x if x.strides[3] == 4 else np.ascontiguousarray(x)


_NOTHING = np.empty((0, 0, 0, 0), F)
_ALL_KEPT = np.empty((0, 0, 0, 0), bool)


def attention_softmax(scores, causal_offset):
    if not _are_contiguous(scores):
        return NUMPY.softmax(scores, causal_offset)
    logarithms = np.empty(scores.shape[:-1], F)
    _softmax_rows(
        rows_of(scores),
        scores.shape[-2],
        -1 if causal_offset is None else causal_offset,
        logarithms.reshape(-1),
    )
    return logarithms


def _recompute(scores, logarithms, causal_offset):
    if not _are_contiguous(scores):
        return NUMPY.recompute(scores, logarithms, causal_offset)
    logs = np.ascontiguousarray(logarithms).reshape(-1)
    _recompute_rows(rows_of(scores), scores.shape[-2], -1 if causal_offset is None else causal_offset, logs)


def _gradient(d_weights, weights, causal_offset):
    if not _are_contiguous(d_weights, weights):
        return NUMPY.gradient(d_weights, weights, causal_offset)
    _gradient_rows(
        rows_of(d_weights),
        rows_of(weights),
        weights.shape[-2],
        -1 if causal_offset is None else causal_offset,
    )


def _are_contiguous(*scores):
    """Whether the loops support these scores: float32 and contiguous."""
    return is_float32(*scores) and all(each.flags.c_contiguous for each in scores)


LOOPS = RowWork(attention_softmax, _recompute, _gradient)


@inline
def _is_hidden(row):
    """Whether all keys of a query are masked; NaN counts as visible."""
    hidden = 0
    for j in range(row.size):
        hidden += row[j] == F(-np.inf)
    return hidden == row.size


@loop
def _one_query(q, k, v, mask, scale, y):
    """softmax(scale q kᵀ) v for each sequence and head; 0 if no key is visible."""
    keys, width = k.shape[2], k.shape[3]
    weights = np.empty(keys, F)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            query, out = row_of(q, b, h, 0), row_of(y, b, h, 0)
            for s in range(keys):
                key = row_of(k, b, h, s)
                total = F(0)
                for j in range(width):
                    total = accumulate(total, query[j] * key[j])
                weights[s] = total * scale
            if mask.size:
                for s in range(keys):
                    weights[s] = weights[s] if mask[b, s] else F(-np.inf)
            out[:] = F(0)
            m = largest(weights)
            total = F(0)
            if m == F(-np.inf) and _is_hidden(weights):
                continue
            for s in range(keys):
                weights[s] = exp_below(weights[s] - m)
                total = accumulate(total, weights[s])
            for s in range(keys):
                value = row_of(v, b, h, s)
                weight = weights[s] / total
                for j in range(width):
                    out[j] += weight * value[j]


@loop
def _softmax_rows(s, queries, causal_offset, logarithms):
    """exp(s - m) / sum over the visible keys of a row; 0 for other keys, and if no key is visible."""
    keys = s.shape[1]
    for i in range(s.shape[0]):
        visible = keys if causal_offset < 0 else min(keys, causal_offset + i % queries + 1)
        m = largest(s[i, :visible])
        if m == F(-np.inf) and _is_hidden(s[i, :visible]):
            logarithms[i] = F(np.inf)
            s[i] = F(0)
            continue
        total = F(0)
        for j in range(visible):
            s[i, j] = exp_below(s[i, j] - m)
            total = accumulate(total, s[i, j])
        scale = F(1) / total
        for j in range(visible):
            s[i, j] *= scale
        for j in range(visible, keys):
            s[i, j] = F(0)
        logarithms[i] = m + np.log(total)


@loop
def _recompute_rows(s, queries, causal_offset, logarithms):
    """exp(s - log sum exp s)."""
    keys = s.shape[1]
    for i in range(s.shape[0]):
        visible = keys if causal_offset < 0 else min(keys, causal_offset + i % queries + 1)
        shift = logarithms[i]
        for j in range(visible):
            s[i, j] = exp_below(s[i, j] - shift)
        if abs(shift) > EXACT:
            _scale_to_1(s[i, :visible])
        for j in range(visible, keys):
            s[i, j] = F(0)


@inline
def _scale_to_1(row):
    """Divide a row by its sum, unless that is 0."""
    total = F(0)
    for j in range(row.size):
        total = accumulate(total, row[j])
    if total > 0:
        for j in range(row.size):
            row[j] /= total


@loop
def _gradient_rows(d, w, queries, causal_offset):
    """d = w (d - sum(d w)), in place."""
    keys = d.shape[1]
    for i in range(d.shape[0]):
        visible = keys if causal_offset < 0 else min(keys, causal_offset + i % queries + 1)
        total = F(0)
        for j in range(visible):
            total = accumulate(total, d[i, j] * w[i, j])
        for j in range(visible):
            d[i, j] = w[i, j] * (d[i, j] - total)
        for j in range(visible, keys):
            d[i, j] = F(0)
