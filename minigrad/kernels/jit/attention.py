"""Attention: the tiles of `cpu.attention`, with the work on rows of scores as loops."""

from __future__ import annotations

import numpy as np

from .. import cpu
from ..cpu.attention import EXACT, RowWork, attend
from .arrays import is_float32, rows_of
from .mathematics import F, exp_below, inline, largest, loop


def scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key):
    if not is_float32(q, k, v) or (mask is not None and mask.dtype not in (bool, F)):
        return cpu.scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key)
    return attend(LOOPS, q, k, v, mask, is_causal, scale, dropout_p, key)


def _softmax(scores, causal_offset):
    logarithms = np.empty(scores.shape[:-1], F)
    _softmax_rows(
        rows_of(scores),
        scores.shape[-2],
        -1 if causal_offset is None else causal_offset,
        logarithms.reshape(-1),
    )
    return logarithms


def _recompute(scores, logarithms, causal_offset):
    logs = np.ascontiguousarray(logarithms).reshape(-1)
    _recompute_rows(rows_of(scores), scores.shape[-2], -1 if causal_offset is None else causal_offset, logs)


def _gradient(d_weights, weights, causal_offset):
    _gradient_rows(
        rows_of(d_weights),
        rows_of(weights),
        weights.shape[-2],
        -1 if causal_offset is None else causal_offset,
    )


LOOPS = RowWork(_softmax, _recompute, _gradient)


@inline
def _is_hidden(row):
    """Whether a query may attend to none of the keys; a NaN is not hidden."""
    hidden = 0
    for j in range(row.size):
        hidden += row[j] == F(-np.inf)
    return hidden == row.size


@loop
def _softmax_rows(s, queries, causal_offset, logarithms):
    """exp(s - m) / sum over the visible keys of a row; 0 for the others, and where no key is visible."""
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
            total += s[i, j]
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
    """Divide a row, unless it is 0, by its sum."""
    total = F(0)
    for j in range(row.size):
        total += row[j]
    if total > 0:
        for j in range(row.size):
            row[j] /= total


@loop
def _gradient_rows(d, w, queries, causal_offset):
    """w (d - sum(d w)), in place of d."""
    keys = d.shape[1]
    for i in range(d.shape[0]):
        visible = keys if causal_offset < 0 else min(keys, causal_offset + i % queries + 1)
        total = F(0)
        for j in range(visible):
            total += d[i, j] * w[i, j]
        for j in range(visible):
            d[i, j] = w[i, j] * (d[i, j] - total)
        for j in range(visible, keys):
            d[i, j] = F(0)
