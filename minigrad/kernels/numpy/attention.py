"""Scaled dot-product attention, a tile of queries at a time.

The scores of a tile fit into the processor's cache, so memory grows linearly with the length. The weights W
are not stored. Backward recomputes them from one number per row, W = exp(S - log sum exp S) (Dao et al. 2022,
"FlashAttention", section 3.1). The work on the rows of scores is three functions (`RowWork`), here in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ...core.kernels import kernel
from ...core.sums import BLOCK, ones
from ...ops import attention as ops
from ...ops.draws import keep_mask, keep_scale

TILE = 1 << 18  # scores per tile
MIN_QUERIES = 64  # per tile: matrix products with fewer rows are slow
LARGE, SMALL = 60, 1e-8  # between them exponentials and their sums are exact without subtracting the maximum
EXACT = 8  # beyond it, rounding of log sum exp shows in the weights: at -1e9 no digit is left
LOWEST = {np.dtype(t): t(np.finfo(t).min) for t in (np.float32, np.float64)}


class RowWork(NamedTuple):
    """The in-place operations on rows of scores.

    `causal_offset` is the position of the first row's query among the keys; None if attention is not causal.
    """

    # (scores, causal_offset): replaces the scores with the weights, and returns each row's log sum exp
    softmax: Callable[[np.ndarray, int | None], np.ndarray]
    # (scores, log sum exp, causal_offset): scores -> weights
    recompute: Callable[[np.ndarray, np.ndarray, int | None], None]
    # (dW, W, causal_offset): dW -> dS = W (dW - sum(dW W))
    gradient: Callable[[np.ndarray, np.ndarray, int | None], None]


@lru_cache(maxsize=16)
def _causal(queries: int, keys: int, dtype: np.dtype) -> np.ndarray:
    """0 where a query may attend (up to its own position), -inf elsewhere."""
    return np.where(np.tri(queries, keys, dtype=bool), 0, -np.inf).astype(dtype)


def attention_softmax(scores: np.ndarray, causal_offset: int | None) -> np.ndarray:
    if causal_offset is not None:
        _mask_future(scores, causal_offset)
    if scores.max(initial=-np.inf) < LARGE:  # one maximum of all is faster than the maxima of short rows
        exponentials = np.exp(scores)
        total = _row_sums(exponentials)
        if total.min(initial=1) > SMALL:
            np.divide(exponentials, total, out=scores)
            return np.log(total)[..., 0]
    largest = np.maximum.reduce(scores, axis=-1, keepdims=True, initial=-np.inf)
    np.maximum(largest, LOWEST[scores.dtype], out=largest)  # finite, even if all keys are masked
    scores -= largest
    np.exp(scores, out=scores)
    total = _row_sums(scores)
    np.maximum(total, 1, out=total)  # below 1 only if all keys are masked
    scores /= total
    return (np.log(total) + largest)[..., 0]


def _recompute(scores: np.ndarray, logarithms: np.ndarray, causal_offset: int | None) -> None:
    if causal_offset is not None:
        _mask_future(scores, causal_offset)
    scores -= logarithms[..., None]
    np.exp(scores, out=scores)
    if np.abs(logarithms).max(initial=0) > EXACT:
        total = _row_sums(scores)
        scores /= np.where(total == 0, 1, total)


def _gradient(d_weights: np.ndarray, weights: np.ndarray, causal_offset: int | None) -> None:
    d_weights *= weights
    d_weights -= weights * _row_sums(d_weights)


def _row_sums(x: np.ndarray) -> np.ndarray:
    """Sums over the last axis, which is kept: of short rows by a product with ones, of long ones pairwise."""
    if not 0 < x.shape[-1] <= 8 * BLOCK:
        return np.add.reduce(x, axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # OpenBLAS may report invalid numbers that are not in x
        return (x.reshape(-1, x.shape[-1]) @ ones(x.shape[-1], x.dtype)).reshape(*x.shape[:-1], 1)


def _mask_future(scores: np.ndarray, causal_offset: int) -> None:
    """Add -inf to the scores of keys after each query; keys before the first query are visible to all."""
    late = scores[..., causal_offset:]
    late += _causal(*late.shape[-2:], late.dtype)


NUMPY = RowWork(attention_softmax, _recompute, _gradient)


@kernel(ops.scaled_dot_product_attention, "numpy")
def scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key):
    """softmax(scale q kᵀ + mask) v over the last two axes; zeros for a query whose keys are all masked."""
    integers = mask is not None and mask.dtype.kind in "iu"  # the definition raises for them
    return None if integers else attend(NUMPY, q, k, v, mask, is_causal, scale, dropout_p, key)


def attend(
    work: RowWork,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    is_causal: bool,
    scale: float,
    dropout_p: float,
    key: Any,
) -> tuple[np.ndarray, Callable]:
    """Return the result and its gradient function.

    With a mask or dropout, or more scores than a tile holds, `_Tiled` computes it, otherwise
    `_attend_in_one_tile`. Unlike in other kernels, the gradient function has an argument `into`: the arrays
    that it writes to, by default new ones, since the heads of a projection are views of one array.

    dv = Wᵀ g, dW = g vᵀ, dS = W (dW - sum(dW W)), dq = scale dS k, dk = scale dSᵀ q.
    """
    lead = q.shape[:-2]
    queries = q.shape[-2]
    keys = k.shape[-2]
    same_lead = lead == k.shape[:-2] == v.shape[:-2]
    if same_lead and mask is None and not dropout_p and 0 < math.prod(lead) * queries * keys <= TILE:
        return _attend_in_one_tile(work, q, k, v, 0 if is_causal else None, scale)
    if mask is not None or not same_lead:
        masks = [] if mask is None else [mask.shape[:-2]]
        lead = np.broadcast_shapes(lead, k.shape[:-2], v.shape[:-2], *masks)
        q = np.broadcast_to(q, (*lead, *q.shape[-2:]))
        k = np.broadcast_to(k, (*lead, *k.shape[-2:]))
        v = np.broadcast_to(v, (*lead, *v.shape[-2:]))
    bias = None if mask is None else np.broadcast_to(as_bias(mask, q.dtype), (*lead, queries, keys))
    keep = keep_mask(key, (*lead, queries, keys), dropout_p) if dropout_p else None
    tiles = _tiles(lead, queries, keys, is_causal)
    tiled = _Tiled(work, q, k, v, scale, bias, keep, keep_scale(dropout_p), tiles)
    y = empty_heads(np.empty, q, (*lead, queries, v.shape[-1]))
    logarithms = tiled.forward(y)

    def gradient(g, needs, into=None):
        d_q, d_k, d_v = [np.empty(x.shape, x.dtype) for x in (q, k, v)] if into is None else into
        d_mask = np.zeros((*lead, queries, keys), mask.dtype) if needs[3] and mask is not None else None
        tiled.backward(g, logarithms, d_q, d_k, d_v, d_mask)
        return d_q, d_k, d_v, d_mask

    return y, gradient


class _Tiled(NamedTuple):
    """Attention computed tile by tile; the fields are shared by all tiles."""

    work: RowWork
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    scale: float
    bias: np.ndarray | None  # added to the scores
    keep: np.ndarray | None  # False where dropout zeroes a weight
    dropout_scale: float  # multiplies the weights that are kept
    tiles: tuple[_Tile, ...]

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Write y, and return log sum exp of each row of scores."""
        k, v = self.contiguous_kv()
        logarithms = np.empty(y.shape[:-1], y.dtype)
        for tile in self.tiles:
            w = self.scores(tile, k)
            logarithms[tile.rows] = self.work.softmax(w, tile.causal_offset)
            np.matmul(self.dropout(w, tile), v[tile.visible], out=y[tile.rows])
        return logarithms

    def backward(
        self, g: np.ndarray, logarithms: np.ndarray, d_q: np.ndarray, d_k: np.ndarray, d_v: np.ndarray,
        d_mask: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Write the gradients of q, k, v and, unless None, the mask."""
        k, v = self.contiguous_kv()
        sums_k, sums_v = (d_k, d_v) if k is self.k else (np.empty_like(k), np.empty_like(v))
        for tile in self.tiles:
            w = self.scores(tile, k)
            self.work.recompute(w, logarithms[tile.rows], tile.causal_offset)
            _add(sums_v, tile, self.dropout(w, tile).swapaxes(-1, -2), g[tile.rows])
            d_s = self.dropout(g[tile.rows] @ v[tile.visible].swapaxes(-1, -2), tile)
            self.work.gradient(d_s, w, tile.causal_offset)
            if d_mask is not None:
                d_mask[tile.scores] = d_s
            d_s *= self.scale
            np.matmul(d_s, k[tile.visible], out=d_q[tile.rows])
            _add(sums_k, tile, d_s.swapaxes(-1, -2), self.q[tile.rows])
        if not self.tiles:
            d_k[...] = d_v[...] = 0
        elif sums_k is not d_k:
            d_k[...] = sums_k
            d_v[...] = sums_v

    def contiguous_kv(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values, copied to contiguous arrays if several tiles read them."""
        if self.k.flags.c_contiguous or all(map(attrgetter("is_first"), self.tiles)):
            return self.k, self.v
        return np.ascontiguousarray(self.k), np.ascontiguousarray(self.v)

    def scores(self, tile: _Tile, k: np.ndarray) -> np.ndarray:
        scores = (self.q[tile.rows] * self.scale) @ k[tile.visible].swapaxes(-1, -2)
        return scores if self.bias is None else np.add(scores, self.bias[tile.scores], out=scores)

    def dropout(self, weights: np.ndarray, tile: _Tile) -> np.ndarray:
        return weights if self.keep is None else weights * self.keep[tile.scores] * self.dropout_scale


def _attend_in_one_tile(
    work: RowWork, q: Any, k: Any, v: Any, causal_offset: int | None, scale: float
) -> tuple[np.ndarray, Callable]:
    """`attend` for scores that fit into one tile: short sequences, or one generated token."""
    w = (q * scale) @ k.swapaxes(-1, -2)
    logarithms = work.softmax(w, causal_offset)
    y = np.matmul(w, v, out=empty_heads(np.empty, q, (*q.shape[:-1], v.shape[-1])))

    def gradient(g, needs, into=(None, None, None)):
        d_q, d_k, d_v = into
        w = (q * scale) @ k.swapaxes(-1, -2)
        work.recompute(w, logarithms, causal_offset)
        d_s = g @ v.swapaxes(-1, -2)
        work.gradient(d_s, w, causal_offset)
        d_s *= scale
        d_v = np.matmul(w.swapaxes(-1, -2), g, out=d_v)
        return np.matmul(d_s, k, out=d_q), np.matmul(d_s.swapaxes(-1, -2), q, out=d_k), d_v, None

    return y, gradient


def empty_heads(empty: Callable, q: Any, shape: tuple[int, ...]) -> Any:
    """Allocate an array (..., T, D), with memory laid out (B, T, H, D) if q's is."""
    if len(shape) == q.ndim == 4 and 0 < q.strides[1] < q.strides[2]:
        batch, heads, length, width = shape
        return empty((batch, length, heads, width), q.dtype).swapaxes(1, 2)
    return empty(shape, q.dtype)


def as_bias(mask: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The mask as numbers to add to the scores; a boolean one becomes 0 (may attend) and -inf."""
    return np.where(mask, 0, -np.inf).astype(dtype) if mask.dtype == bool else mask


def _add(total: np.ndarray, tile: _Tile, a: np.ndarray, b: np.ndarray) -> None:
    """Add a @ b to the gradient of the tile's keys (or values); the first tile of these keys sets it."""
    if tile.is_first and tile.visible == tile.keys:
        np.matmul(a, b, out=total[tile.keys])
        return
    if tile.is_first:
        total[tile.keys] = 0
    total[tile.visible] += a @ b


class _Tile(NamedTuple):
    """Indices of some queries of some sequences, of their keys and of their scores."""

    rows: tuple
    keys: tuple  # all keys of these sequences
    visible: tuple  # the keys that these queries may attend to
    scores: tuple
    causal_offset: int | None  # the position of the first query, where attention is causal
    is_first: bool  # whether no earlier tile has the same keys


@lru_cache(maxsize=64)
def _tiles(lead: tuple[int, ...], queries: int, keys: int, is_causal: bool) -> tuple[_Tile, ...]:
    """Tiles of about `TILE` scores, but at least `MIN_QUERIES` queries, in order."""
    return tuple(_cut(lead, queries, keys, is_causal))


def _cut(lead: tuple[int, ...], queries: int, keys: int, is_causal: bool) -> Iterator[_Tile]:
    sizes = (*lead, queries)
    chunks = []
    inner = keys
    for size, least in zip(reversed(sizes), (MIN_QUERIES, *[1] * len(lead)), strict=True):
        chunks.append(max(1, min(size, max(least, TILE // max(inner, 1)))))
        inner *= size
    parts = [
        [slice(start, min(start + chunk, size)) for start in range(0, size, chunk)]
        for size, chunk in zip(sizes, reversed(chunks), strict=True)
    ]
    for *at, rows in product(*parts):
        visible = slice(0, min(keys, rows.stop) if is_causal else keys)
        yield _Tile(
            (*at, rows), (*at, slice(0, keys)), (*at, visible), (*at, rows, visible),
            rows.start if is_causal else None, rows.start == 0,
        )  # fmt: skip
