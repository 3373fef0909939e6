"""Scaled dot-product attention, a tile of queries at a time.

A tile is as many queries as have their scores in the cache; so memory grows with the length, not with its
square. The weights W are not kept but computed again in backward, from one number a row:
W = exp(S - log sum exp S) (Dao et al. 2022, "FlashAttention", section 3.1). What is done with each row of
scores is three functions, here in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ...random import drop_threshold, keep_mask

TILE = 1 << 18  # scores
LEAST = 64  # queries of a tile, if there are so many: products with fewer rows are slow
LOWEST = {np.dtype(t): t(np.finfo(t).min) for t in (np.float32, np.float64)}


class RowWork(NamedTuple):
    """What is done with rows of scores, in place; `first` is the row's query where attention is causal."""

    softmax: Callable[
        [np.ndarray, int | None], np.ndarray
    ]  # scores -> weights; gives log sum exp of each row
    again: Callable[[np.ndarray, np.ndarray, int | None], None]  # scores and logarithms -> weights
    gradient: Callable[[np.ndarray, np.ndarray, int | None], None]  # (dW, W) -> dS = W (dW - sum(dW W))


@lru_cache(maxsize=16)
def _causal(queries: int, keys: int, dtype: np.dtype) -> np.ndarray:
    """0 where a query may look (at its own place and before), -inf elsewhere."""
    return np.where(np.tri(queries, keys, dtype=bool), 0, -np.inf).astype(dtype)


def _hide_the_future(scores: np.ndarray, first: int | None) -> None:
    """Keys before the tile's first query are seen by all of its queries."""
    if first is not None:
        late = scores[..., first:]
        late += _causal(*late.shape[-2:], late.dtype)


def _softmax(scores: np.ndarray, first: int | None) -> np.ndarray:
    _hide_the_future(scores, first)
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    np.maximum(largest, LOWEST[scores.dtype], out=largest)  # finite where nothing may be seen
    scores -= largest
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    np.maximum(total, 1, out=total)  # which it is, unless nothing may be seen
    scores /= total
    return (np.log(total) + largest)[..., 0]


def _again(scores: np.ndarray, logarithms: np.ndarray, first: int | None) -> None:
    _hide_the_future(scores, first)
    scores -= logarithms[..., None]
    np.exp(scores, out=scores)


def _gradient(d_weights: np.ndarray, weights: np.ndarray, first: int | None) -> None:
    d_weights *= weights
    d_weights -= weights * d_weights.sum(axis=-1, keepdims=True)


NUMPY = RowWork(_softmax, _again, _gradient)


def scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key):
    """softmax(scale q kᵀ + mask) v over the last two axes; a row with nothing to attend to gives zeros."""
    return attend(NUMPY, q, k, v, mask, is_causal, scale, dropout_p, key)


def multi_head_attention(x, memory, mask, num_heads, is_causal, scale, dropout_p, key):
    """Attention of every head: of the projections `x` to themselves, or to those of a `memory`."""
    return attend_heads(NUMPY, x, memory, mask, num_heads, is_causal, scale, dropout_p, key)


def attend_heads(
    work: RowWork,
    x: Any,
    memory: Any,
    mask: Any,
    num_heads: int,
    is_causal: bool,
    scale: float,
    dropout_p: float,
    key: Any,
) -> tuple[np.ndarray, Callable]:
    """`attend`, reading heads where they stand in the projections, and writing where they are to stand."""
    q, k, v = _heads(x, memory, num_heads)
    batch, _, queries, width = q.shape
    y = np.empty((batch, queries, num_heads * width), x.dtype)
    place = _split(y, 1, num_heads)[0]
    _, pull = attend(work, q, k, v, mask, is_causal, scale, dropout_p, key, out=place)

    def gradient(g, needs):
        d_x, d_memory = np.empty(x.shape, x.dtype), None if memory is None else np.empty_like(memory)
        into = _heads(d_x, d_memory, num_heads)
        *_, d_mask = pull(_split(g, 1, num_heads)[0], (True, True, True, needs[2]), into)
        return d_x, d_memory, d_mask

    return y, gradient


def _heads(x: np.ndarray, memory: np.ndarray | None, num_heads: int) -> tuple[np.ndarray, ...]:
    """Queries, keys and values of each head, as views."""
    if memory is None:
        return tuple(_split(x, 3, num_heads))
    return (*_split(x, 1, num_heads), *_split(memory, 2, num_heads))


def _split(x: np.ndarray, parts: int, num_heads: int) -> np.ndarray:
    """(B, T, parts H d) as a view of shape (parts, B, H, T, d)."""
    width = x.shape[2] // (parts * num_heads)
    return x.reshape(*x.shape[:2], parts, num_heads, width).transpose(2, 0, 3, 1, 4)


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
    out: np.ndarray | None = None,
) -> tuple[np.ndarray, Callable]:
    """The values, and how their gradient goes back: into fresh arrays, or into those that it is given.

    dv = Wᵀ g, dW = g vᵀ, dS = W (dW - sum(dW W)), dq = scale dS k, dk = scale dSᵀ q.
    """
    lead, queries, keys = q.shape[:-2], q.shape[-2], k.shape[-2]
    same = lead == k.shape[:-2] == v.shape[:-2]
    if same and mask is None and not dropout_p and 0 < math.prod(lead) * queries * keys <= TILE:
        return _attend_at_once(work, q, k, v, 0 if is_causal else None, scale, out)
    if mask is not None or not same:
        masks = [] if mask is None else [mask.shape[:-2]]
        lead = np.broadcast_shapes(lead, k.shape[:-2], v.shape[:-2], *masks)
        q, k, v = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (q, k, v))
    added = None if mask is None else np.broadcast_to(_as_numbers(mask, q.dtype), (*lead, queries, keys))
    keep = keep_mask(key, (*lead, queries, keys), dropout_p) if dropout_p else None
    kept = 1 - drop_threshold(dropout_p) / 65536
    tiled = _Tiled(
        work, q, k, v, scale, added, keep, 1 / kept if kept else 0.0, _tiles(lead, queries, keys, is_causal)
    )
    y = np.empty((*lead, queries, v.shape[-1]), q.dtype) if out is None else out
    logarithms = tiled.forward(y)

    def gradient(g, needs, into=None):
        d_q, d_k, d_v = [np.empty(x.shape, x.dtype) for x in (q, k, v)] if into is None else into
        d_mask = np.zeros((*lead, queries, keys), q.dtype) if needs[3] else None
        tiled.backward(g, logarithms, d_q, d_k, d_v, d_mask)
        return d_q, d_k, d_v, d_mask

    return y, gradient


class _Tiled(NamedTuple):
    """Attention tile by tile, and what all tiles have in common."""

    work: RowWork
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    scale: float
    added: np.ndarray | None  # to the scores
    keep: np.ndarray | None  # of the weights
    amplify: float  # what is kept of them
    tiles: tuple[_Tile, ...]

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Write y; gives log sum exp of each row of scores."""
        k, v = self.together()
        logarithms = np.empty(y.shape[:-1], y.dtype)
        for tile in self.tiles:
            w = self.scores(tile, k)
            logarithms[tile.rows] = self.work.softmax(w, tile.first)
            np.matmul(self.dropped(w, tile), v[tile.seen], out=y[tile.rows])
        return logarithms

    def backward(
        self, g: np.ndarray, logarithms: np.ndarray, d_q: np.ndarray, d_k: np.ndarray, d_v: np.ndarray,
        d_mask: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Write the gradients."""
        k, v = self.together()
        sums_k, sums_v = (d_k, d_v) if k is self.k else (np.empty_like(k), np.empty_like(v))
        for tile in self.tiles:
            w = self.scores(tile, k)
            self.work.again(w, logarithms[tile.rows], tile.first)
            _add(sums_v, tile, self.dropped(w, tile).swapaxes(-1, -2), g[tile.rows])
            d_s = self.dropped(g[tile.rows] @ v[tile.seen].swapaxes(-1, -2), tile)
            self.work.gradient(d_s, w, tile.first)
            if d_mask is not None:
                d_mask[tile.scores] = d_s
            d_s *= self.scale
            np.matmul(d_s, k[tile.seen], out=d_q[tile.rows])
            _add(sums_k, tile, d_s.swapaxes(-1, -2), self.q[tile.rows])
        if not self.tiles:
            d_k[...] = d_v[...] = 0
        elif sums_k is not d_k:
            d_k[...], d_v[...] = sums_k, sums_v

    def together(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values; where several tiles read them, as copies that lie together, which nobody keeps."""
        if all(tile.begins for tile in self.tiles) or self.k.flags.c_contiguous:
            return self.k, self.v
        return np.ascontiguousarray(self.k), np.ascontiguousarray(self.v)

    def scores(self, tile: _Tile, k: np.ndarray) -> np.ndarray:
        scores = (self.q[tile.rows] * self.scale) @ k[tile.seen].swapaxes(-1, -2)
        return scores if self.added is None else np.add(scores, self.added[tile.scores], out=scores)

    def dropped(self, weights: np.ndarray, tile: _Tile) -> np.ndarray:
        return weights if self.keep is None else weights * self.keep[tile.scores] * self.amplify


def _attend_at_once(
    work: RowWork, q: Any, k: Any, v: Any, first: int | None, scale: float, out: np.ndarray | None
) -> tuple[np.ndarray, Callable]:
    """`attend` where one tile is all: of short sequences, or of a token that is being generated."""
    w = (q * scale) @ k.swapaxes(-1, -2)
    logarithms = work.softmax(w, first)
    y = np.matmul(w, v, out=out)

    def gradient(g, needs, into=(None, None, None)):
        d_q, d_k, d_v = into
        w = (q * scale) @ k.swapaxes(-1, -2)
        work.again(w, logarithms, first)
        d_s = g @ v.swapaxes(-1, -2)
        work.gradient(d_s, w, first)
        d_s *= scale
        d_v = np.matmul(w.swapaxes(-1, -2), g, out=d_v)
        return np.matmul(d_s, k, out=d_q), np.matmul(d_s.swapaxes(-1, -2), q, out=d_k), d_v, None

    return y, gradient


def _as_numbers(mask: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """What is added to scores: 0 where one may attend, -inf elsewhere; a mask of numbers as it is."""
    return np.where(mask, 0, -np.inf).astype(dtype) if mask.dtype == bool else mask


def _add(total: np.ndarray, tile: _Tile, a: np.ndarray, b: np.ndarray) -> None:
    """Add a @ b to what keys have, or begin with it."""
    if tile.begins:
        total[tile.keys] = 0
    if tile.begins and tile.seen == tile.keys:
        np.matmul(a, b, out=total[tile.seen])
    else:
        total[tile.seen] += a @ b


class _Tile(NamedTuple):
    """Some queries of some of the leading indices: where they, their keys and their scores stand."""

    rows: tuple
    keys: tuple
    seen: tuple
    scores: tuple
    first: int | None  # the place of the first query among all, where attention is causal
    begins: bool  # whether no tile before has the same keys


@lru_cache(maxsize=64)
def _tiles(lead: tuple[int, ...], queries: int, keys: int, is_causal: bool) -> tuple[_Tile, ...]:
    """All queries, in order, as many at a time as have `TILE` scores, but `LEAST` if there are so many."""
    return tuple(_cut(lead, queries, keys, is_causal))


def _cut(lead: tuple[int, ...], queries: int, keys: int, is_causal: bool) -> Iterator[_Tile]:
    sizes = (*lead, queries)
    chunks, inner = [], keys
    for size, least in zip(reversed(sizes), (LEAST, *(1 for _ in lead)), strict=True):
        chunks.append(max(1, min(size, max(least, TILE // max(inner, 1)))))
        inner *= size
    parts = [
        [slice(start, min(start + chunk, size)) for start in range(0, size, chunk)]
        for size, chunk in zip(sizes, reversed(chunks), strict=True)
    ]
    for *at, rows in product(*parts):
        seen = slice(0, min(keys, rows.stop) if is_causal else keys)
        yield _Tile(
            (*at, rows), (*at, slice(0, keys)), (*at, seen), (*at, rows, seen),
            rows.start if is_causal else None, rows.start == 0,
        )  # fmt: skip
