"""Multi-head attention: split, attend, concatenate."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases

LESSON = 9
REASONING = "shapes"
HINTS = (
    "The last axis, D, consists of heads pieces of d_k numbers: a reshape may cut it, (..., T, heads, d_k). "
    "The heads are then an axis, but not where they should be.",
    "Split: reshape to (..., T, heads, d_k), then exchange T and heads. Merge is the same backward: first "
    "exchange, then join the last two axes.",
    "np.swapaxes(x.reshape(*batch, T, heads, d_k), -2, -3); np.swapaxes(x, -2, -3).reshape(*batch, T, "
    "heads * d_k); merge_heads(attention(split_heads(q, heads), ...)).",
)
ADVICE = (
    "Put the number 10 t + c at token t, column c, and print: head 1 has the first d_k columns of all tokens."
)


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    sizes = (((4, 6), 2), ((4, 4), 2), ((2, 3, 6), 3), ((2, 1, 3, 8), 4), ((3, 4), 1), ((1, 4), 4))
    cases: list[tuple[Any, ...]] = [(random.normal(size=shape), heads) for shape, heads in sizes]
    call: Callable[..., str] = lambda x, heads: f"split_heads(x, {heads}) for x of shape {x.shape}"
    check_cases(answer.split_heads, cases, _split, SPLITS, call, ADVICE)

    split = [(_split(x, heads),) for x, heads in cases]
    call = lambda x: f"merge_heads(x) for x of shape {x.shape}"
    check_cases(answer.merge_heads, split, _merge, MERGES, call, ADVICE)

    cases = []
    for batch, queries, keys, width, heads in (((), 3, 3, 6, 2), ((2,), 3, 3, 4, 2), ((2,), 2, 5, 6, 3)):
        q, k, v = (random.normal(size=(*batch, n, width)) for n in (queries, keys, keys))
        cases.append((q, k, v, heads))
    call = lambda q, k, v, heads: (
        f"multi_head(q, k, v, {heads}) for q, k and v of shapes {q.shape}, {k.shape} and {v.shape}"
    )
    check_cases(answer.multi_head, cases, _multi_head, MULTI_HEADS, call, "Split all three, attend, merge.")


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float | None = None) -> np.ndarray:
    scores = q @ k.mT * (scale or 1 / np.sqrt(q.shape[-1]))
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def _split(x: np.ndarray, heads: int) -> np.ndarray:
    return np.swapaxes(_tokens_first(x, heads), -2, -3)


def _tokens_first(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def _pieces(x: np.ndarray, *shape: int) -> np.ndarray:
    """Reshape the last two axes of x."""
    return x.reshape(*x.shape[:-2], *shape)


def _interleaved(x: np.ndarray, heads: int) -> np.ndarray:
    """Split x so that head h has the columns h, h + heads, ..."""
    return np.moveaxis(x.reshape(*x.shape[:-1], x.shape[-1] // heads, heads), -1, -3)


def _merge(x: np.ndarray) -> np.ndarray:
    heads, length, d_k = x.shape[-3:]
    return np.swapaxes(x, -2, -3).reshape(*x.shape[:-3], length, heads * d_k)


def _interleaved_back(x: np.ndarray) -> np.ndarray:
    heads, length, d_k = x.shape[-3:]
    return np.moveaxis(x, -3, -1).reshape(*x.shape[:-3], length, heads * d_k)


def _of_heads(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int, scale: float | None = None
) -> np.ndarray:
    return _attention(_split(q, heads), _split(k, heads), _split(v, heads), scale)


def _multi_head(q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int) -> np.ndarray:
    return _merge(_of_heads(q, k, v, heads))


def _between_heads(q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int) -> np.ndarray:
    """The result if each token's heads attend to each other."""
    of_q, of_k, of_v = (_tokens_first(x, heads) for x in (q, k, v))
    out = _attention(of_q, of_k, of_v)
    return out.reshape(q.shape)


SPLITS: dict[str, Callable[..., Any]] = {
    "the tokens are mixed: a reshape to (heads, T, d_k) alone gives a head some tokens, whole": (
        lambda x, heads: _pieces(x, heads, x.shape[-2], x.shape[-1] // heads)
    ),
    "the heads are after the tokens, (T, heads, d_k): exchange these two axes": _tokens_first,
    "head h has columns h, h + heads, h + 2 heads, ...: it has d_k columns side by side": _interleaved,
    "d_k and heads are exchanged: there are `heads` pieces of D / heads numbers": lambda x, heads: _split(
        x, x.shape[-1] // heads
    ),
    "the last two axes are exchanged: (heads, T, d_k), not (heads, d_k, T)": lambda x, heads: (
        _split(x, heads).mT
    ),
    "all axes are in the wrong order: (heads, T, d_k)": lambda x, heads: np.swapaxes(
        _tokens_first(x, heads), -1, -3
    ),
    "the heads are at the front of the batch: they come after it, before the tokens": lambda x, heads: (
        np.moveaxis(_tokens_first(x, heads), -2, 0)
    ),
    "T stays first, and the last two axes are exchanged: exchange T and heads": (
        lambda x, heads: _tokens_first(x, heads).mT
    ),
    "axes 0 and 1 are exchanged, counted from the left: with a batch they are others, so use -2 and -3": (
        lambda x, heads: np.swapaxes(_tokens_first(x, heads), 0, 1)
    ),
    "axes 1 and 2 are exchanged, counted from the left: without a batch they are others, so use -2 and -3": (
        lambda x, heads: np.swapaxes(_tokens_first(x, heads), 1, 2)
    ),
    "x is transposed, then reshaped to (heads, T, d_k), which mixes tokens and columns": (
        lambda x, heads: _pieces(x.mT.copy(), heads, x.shape[-2], x.shape[-1] // heads)
    ),
    "x comes back as it was": lambda x, heads: x,
    "each head has all columns: it has D / heads of them": lambda x, heads: np.stack([x] * heads, -3),
    "the heads are in the wrong order: head 1 has the first columns": lambda x, heads: _split(x, heads)[
        ..., ::-1, :, :
    ],
    "the tokens are cut into heads: each head has all tokens, and a part of their columns": lambda x, heads: (
        _pieces(x, heads, x.shape[-2] // heads, x.shape[-1])
    ),
}
MERGES: dict[str, Callable[..., Any]] = {
    "the tokens are mixed: exchange heads and tokens before the reshape, so that a token's heads are side by "
    "side": lambda x: x.reshape(*x.shape[:-3], x.shape[-2], -1),
    "the heads are interleaved: all of head 1 comes first, then head 2": _interleaved_back,
    "heads and tokens are exchanged, but the heads are not joined": (lambda x: np.swapaxes(x, -2, -3)),
    "the last two axes were exchanged, not heads and tokens": lambda x: x.mT.reshape(
        *x.shape[:-3], x.shape[-2], -1
    ),
    "T and heads are joined into one axis: join heads and d_k": lambda x: np.swapaxes(x, -2, -3).reshape(
        *x.shape[:-3], -1, x.shape[-1]
    ),
    "T and heads are taken for each other: x is (..., heads, T, d_k), and the result has T rows": (
        lambda x: np.swapaxes(x, -2, -3).reshape(*x.shape[:-2], -1)
    ),
    "the sum over the heads: they are put side by side": lambda x: x.sum(-3),
    "the mean over the heads: they are put side by side": lambda x: x.mean(-3),
    "only the first head": lambda x: x[..., 0, :, :],
    "x comes back as it was": lambda x: x,
    "the heads are in the wrong order: head 1 comes first": lambda x: _merge(x[..., ::-1, :, :]),
    "the heads are put one below the other: side by side, as columns": lambda x: x.reshape(
        *x.shape[:-3], -1, x.shape[-1]
    ),
}
MULTI_HEADS: dict[str, Callable[..., Any]] = {
    "this is one head: split before attention": lambda q, k, v, heads: _attention(q, k, v),
    "the heads are not merged": lambda q, k, v, heads: _of_heads(q, k, v, heads),
    "each token attends to its own heads: the tokens must be the axis before the last": _between_heads,
    "the keys are taken for the values": lambda q, k, v, heads: _multi_head(q, k, k, heads),
    "keys and values are exchanged": lambda q, k, v, heads: _multi_head(q, v, k, heads),
    "queries and keys are exchanged": lambda q, k, v, heads: _multi_head(k, q, v, heads),
    "the queries are taken for keys and values, too": lambda q, k, v, heads: _multi_head(q, q, q, heads),
    "these are the values, split and merged: attend in between": lambda q, k, v, heads: v,
    "the scores are divided by the square root of D: a head's dot product has d_k terms": (
        lambda q, k, v, heads: _merge(_of_heads(q, k, v, heads, q.shape[-1] ** -0.5))
    ),
    "the number of heads is taken for d_k": lambda q, k, v, heads: _multi_head(q, k, v, q.shape[-1] // heads),
    "the queries are taken for the keys": lambda q, k, v, heads: _multi_head(q, q, v, heads),
    "v is not split: each head then takes all columns of the values": lambda q, k, v, heads: _merge(
        _attention(_split(q, heads), _split(k, heads), v[..., None, :, :])
    ),
    "the heads are put one below the other: merge puts them side by side": lambda q, k, v, heads: (
        np.concatenate(list(np.moveaxis(_of_heads(q, k, v, heads), -3, 0)), -2)
    ),
    "the heads' sum: put them side by side": lambda q, k, v, heads: _of_heads(q, k, v, heads).sum(-3),
    "the heads' mean: put them side by side": lambda q, k, v, heads: _of_heads(q, k, v, heads).mean(-3),
}
