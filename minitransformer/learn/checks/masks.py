"""Causal and padding masks, together."""

from types import ModuleType
from typing import Any

import numpy as np

from ..checking import Wrong, compare, result_of

LESSON = 8
REASONING = "shapes"
HINTS = (
    "Draw the mask of 4 tokens as a table, a row for each query: which entries are True? Then draw the mask "
    "of the last 2 tokens when the keys of 2 earlier ones are kept.",
    "Key j is visible for the query at position i if j <= i. A column of query positions, (T, 1), compared "
    "with a row of key positions, (S,), is a table (T, S).",
    "keys <= queries, with the queries from `past` on; (ids != pad_id)[:, None, None, :]; and both at once: "
    "causal & padding.",
)
TRUE = "True means that the query may attend to the key."
PAD = 3
IDS = np.array([[5, 0, 7, PAD], [4, PAD, PAD, PAD], [1, 2, 6, 8]])  # here 0 is a word


def check(answer: ModuleType) -> None:
    for length, past in ((4, 0), (2, 3), (1, 0), (1, 4), (3, 1)):
        _check_causal(answer, length, past)
    _check_padding(answer, IDS)
    _check_padding(answer, IDS[1:2, :2])
    _check_decoder(answer, IDS)
    _check_decoder(answer, IDS[:2, :3])
    _check_decoder(answer, IDS[2:, :1])


def _check_causal(answer: ModuleType, length: int, past: int) -> None:
    call = f"causal_mask({length}, past={past})" if past else f"causal_mask({length})"
    right = np.tri(length, past + length, past, dtype=bool)
    mask = answer.causal_mask(length, past)
    compare(
        call,
        mask,
        right,
        {
            "causal_mask is inverted: it is True for the later positions": ~right,
            "causal_mask lets a query see the later positions and hides the earlier ones": (
                np.triu(np.ones((length, past + length)), past)
            ),
            "causal_mask hides a query's own position: t may attend to 0 to t, t included": (
                np.tri(length, past + length, past - 1)
            ),
            "causal_mask lets a query see the next position": np.tri(length, past + length, past + 1),
            "causal_mask is transposed: rows are queries, columns are keys": right.T,
            "causal_mask ignores the past: query 0 stands at position `past`": (
                np.tri(length, past + length)
            ),
            "causal_mask has no columns for the keys of the past": np.tri(length),
            "causal_mask has a row for each token of the past: only the last `length` are queries": (
                np.tri(past + length)
            ),
            "causal_mask gives scores to add, 0 and -inf; booleans are expected": (
                np.where(right, 0.0, -np.inf)
            ),
            "causal_mask has axes for batch and heads: (length, past + length) broadcasts": right[None, None],
            "causal_mask hides nothing: every query sees every key": np.ones_like(right),
        },
        f"Draw it: rows are queries, at positions {list(range(past, past + length))}; columns are keys, at "
        f"{list(range(past + length))}. {TRUE}",
    )
    _check_boolean("causal_mask", mask)


def _check_padding(answer: ModuleType, ids: np.ndarray) -> None:
    is_word = ids != PAD
    right = is_word[:, None, None, :]
    mask = result_of(answer.padding_mask, ids, PAD)
    compare(
        f"padding_mask({ids.tolist()}, pad_id={PAD})",
        mask,
        right,
        {
            "padding_mask is inverted: it is True for padding": ~right,
            "padding_mask takes id 0 for padding: compare with pad_id": (ids != 0)[:, None, None, :],
            "padding_mask has the shape of the ids, (B, S): beside scores (B, heads, T, S) its rows would be "
            "taken for queries": is_word,
            "padding_mask has shape (B, 1, S): beside scores (B, heads, T, S) its batch would be taken for "
            "heads": is_word[:, None],
            "padding_mask hides queries that are padding: the last axis of the scores is the keys": (
                is_word[:, None, :, None]
            ),
            "padding_mask puts its axis of keys before the others": is_word[:, :, None, None],
            "padding_mask repeats the keys for each query: an axis of length 1 broadcasts": (
                np.repeat(right, ids.shape[1], 2)
            ),
            "padding_mask hides every key from queries that are padding: it is about keys only": (
                right & is_word[:, None, :, None]
            ),
            "padding_mask gives scores to add, 0 and -inf; booleans are expected": (
                np.where(right, 0.0, -np.inf)
            ),
        },
        "The scores have shape (B, heads, queries, keys): where in it do the ids' two axes belong? " + TRUE,
    )
    _check_boolean("padding_mask", mask)


def _check_decoder(answer: ModuleType, ids: np.ndarray) -> None:
    causal = np.tri(ids.shape[1], dtype=bool)
    keys = (ids != PAD)[:, None, None, :]
    queries = (ids != PAD)[:, None, :, None]
    mask = result_of(answer.decoder_mask, ids, PAD)
    compare(
        f"decoder_mask({ids.tolist()}, pad_id={PAD})",
        mask,
        causal & keys,
        {
            "decoder_mask allows what one of the masks allows: both must allow it": causal | keys,
            "decoder_mask is True where exactly one of the masks is": causal ^ keys,
            "decoder_mask is inverted": ~(causal & keys),
            "decoder_mask does not hide padding": np.broadcast_to(causal, (len(ids), 1, *causal.shape)),
            "decoder_mask is the causal mask alone": causal,
            "decoder_mask is the padding mask alone: later tokens are visible": keys,
            "decoder_mask lets later tokens be seen": np.broadcast_to(keys, (len(ids), 1, *causal.shape)),
            "decoder_mask also hides every key from queries that are padding": causal & keys & queries,
            "decoder_mask hides queries that are padding, not keys": causal & queries,
            "decoder_mask is True for padding": causal & ~keys,
            "decoder_mask hides the earlier tokens, not the later ones": causal.T & keys,
            "decoder_mask has no axis for the heads": (causal & keys)[:, 0],
            "decoder_mask adds the masks: booleans are expected": causal.astype(int) + keys,
        },
        "A key is visible if it is not later than the query and is not padding.",
    )
    _check_boolean("decoder_mask", mask)


def _check_boolean(name: str, mask: Any) -> None:
    dtype = np.asarray(mask).dtype
    if dtype.kind != "b":
        raise Wrong(
            f"{name} returns numbers of type {dtype}, not booleans",
            "A comparison gives booleans; so does .astype(bool). `&` and `~` mean something else for "
            "numbers, if anything.",
        )
