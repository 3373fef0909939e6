"""Embedding: a lookup, and its gradient."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases

LESSON = 6
REASONING = "shapes"
HINTS = (
    "NumPy looks up rows with an array of ids in brackets. For the gradient begin with zeros of the table's "
    "shape: words that do not occur keep 0.",
    "A row gets the sum of g over all places where its word stands. `gradient[ids] += g` does not do that: "
    "with an id that occurs twice, NumPy writes twice to the same old number.",
    "np.add.at(gradient, ids, g) adds for each id. Or a loop over the ids, one by one; or the one-hot rows, "
    "transposed, times g.",
)
ADVICE = "Row v of the gradient is the sum of g over all places with ids == v, and 0 if there is none."
CASES: tuple[tuple[int, int, Any], ...] = (  # V, D, ids; in the first case, wrong axes have the right shape
    (3, 3, [1, 0, 0]), (5, 4, [[1, 3, 1], [0, 1, 3]]), (4, 2, [2]), (4, 3, 3), (3, 2, [[[0, 2], [2, 2]]]),
    (3, 2, [0, 0, 0, 0]), (3, 2, np.zeros((2, 0), int)), (6, 1, [5, 4, 0, 5]),
)  # fmt: skip


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    lookups = [(random.normal(size=(size, width)), np.array(ids)) for size, width, ids in CASES]
    call = lambda table, ids: f"embedding(table, {ids.tolist()}) for a table of shape {table.shape}"
    right = lambda table, ids: table[ids]
    check_cases(answer.embedding, lookups, right, LOOKUP, call, "Each id picks a row of the table.")

    gradients = [
        (random.normal(size=(*np.shape(ids), width)), np.array(ids), size) for size, width, ids in CASES
    ]
    call_back = lambda g, ids, size: f"embedding_gradient(g, {ids.tolist()}, {size}) for g of shape {g.shape}"
    check_cases(answer.embedding_gradient, gradients, _added, SCATTER, call_back, ADVICE)


def _one_hot(ids: np.ndarray, size: int) -> np.ndarray:
    return np.eye(size)[ids.ravel()]


def _rows(g: np.ndarray) -> np.ndarray:
    return g.reshape(-1, g.shape[-1])


def _added(g: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    return _one_hot(ids, size).T @ _rows(g)


def _assigned(g: np.ndarray, ids: np.ndarray, size: int, step: int = 1) -> np.ndarray:
    """The gradient in which an id's row is g at its last position or, with step = -1, at its first."""
    gradient = np.zeros((size, g.shape[-1]))
    for v, row in list(zip(ids.ravel(), _rows(g), strict=True))[::step]:
        gradient[v] = row
    return gradient


def _added_by_rows(g: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    gradient = np.zeros((size, g.shape[-1]))
    for row, of_row in zip(ids, g, strict=True):
        gradient[row] += of_row
    return gradient


def _counts(ids: np.ndarray, size: int) -> np.ndarray:
    return _one_hot(ids, size).sum(0)[:, None]


def _at_their_place(g: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    """The gradient whose row i is g at position i, whatever the id is."""
    return np.concatenate([_rows(g), np.zeros((size, g.shape[-1]))])[:size]


LOOKUP: dict[str, Callable[..., Any]] = {
    "the ids pick columns of the table: a word's vector is a row": lambda table, ids: table[:, ids],
    "the ids pick columns of the table, as if it were (D, V): a word's vector is a row": (
        lambda table, ids: table.T[ids]
    ),
    "the vectors are in one list: keep the axes of the ids, and add one": lambda table, ids: table[
        ids.ravel()
    ],
    "the ids pick single numbers of the flattened table: each id has a row": (
        lambda table, ids: table.ravel()[ids]
    ),
    "the vectors are multiplied by sqrt(D): models do that after the lookup, this is the lookup alone": (
        lambda table, ids: table[ids] * np.sqrt(table.shape[1])
    ),
    "the sum of the words' vectors; each id has a vector of its own": lambda table, ids: table[ids].sum(-2),
    "the mean of the words' vectors; each id has a vector of its own": lambda table, ids: table[ids].mean(-2),
    "the ids are counted from 1: row 0 is the first": lambda table, ids: table[ids - 1],
    "each row of ids is sorted: the vectors must stay in the order of the ids": (
        lambda table, ids: table[np.sort(ids)]
    ),
    "an id that occurs twice has one vector only: the vectors are those of the different ids": (
        lambda table, ids: table[np.unique(ids)]
    ),
    "only the first row of ids is looked up": lambda table, ids: table[ids[0]],
    "this is the table itself": lambda table, ids: table,
    "these are the one-hot rows; multiply them with the table": lambda table, ids: np.eye(len(table))[ids],
    "the axes are in another order: D comes last": lambda table, ids: np.moveaxis(table[ids], -1, 0),
}
SCATTER: dict[str, Callable[..., Any]] = {
    "a word that occurs twice has the g of its last place only: the contributions must add up": _assigned,
    "a word that occurs twice has the g of its first place only: the contributions must add up": (
        lambda g, ids, size: _assigned(g, ids, size, -1)
    ),
    "a word that occurs twice in one row of ids has one contribution of the row only: `gradient[row] += ...` "
    "with an array of ids writes twice to the same old number": _added_by_rows,
    "the gradient has one number for each word, the sum of D: keep the last axis of g": (
        lambda g, ids, size: _added(g, ids, size).sum(-1)
    ),
    "the gradient is a mean over the places of a word, not their sum": (
        lambda g, ids, size: _added(g, ids, size) / np.maximum(_counts(ids, size), 1)
    ),
    "the gradient is divided by the number of ids: it is a sum": (
        lambda g, ids, size: _added(g, ids, size) / ids.size if ids.size else np.empty(0)
    ),
    "the gradient is counted too often, by the number of the word's places": (
        lambda g, ids, size: _added(g, ids, size) * _counts(ids, size)
    ),
    "this counts each word's places; add up g": (
        lambda g, ids, size: np.broadcast_to(_counts(ids, size), (size, g.shape[-1]))
    ),
    "rows stand in the order of the places, not at the words' ids": _at_their_place,
    "this is g itself: the gradient has the shape of the table": lambda g, ids, size: g,
    "this is g, looked up at the ids, as by one-hot rows that are not transposed: here the way is back, from "
    "the places to the rows of the table": (lambda g, ids, size: g[ids]),
    "g is summed over the places, so that each word gets the sum of all": (
        lambda g, ids, size: np.broadcast_to(_rows(g).sum(0), (size, g.shape[-1]))
    ),
    "g is summed over all places; each word gets only its own": lambda g, ids, size: _rows(g).sum(0),
    "the gradient is transposed: it has shape (V, D), as the table": lambda g, ids, size: (
        _added(g, ids, size).T
    ),
    "the ids are counted from 1: row 0 is the first": lambda g, ids, size: np.roll(
        _added(g, ids, size), -1, 0
    ),
    "the gradient has rows up to the largest id only: it has vocab_size rows": (
        lambda g, ids, size: _added(g, ids, size)[: ids.max() + 1]
    ),
    "the gradient has a row for each word that occurs: the other words have rows, too, of 0": (
        lambda g, ids, size: _added(g, ids, size)[np.unique(ids)]
    ),
    "words that do not occur have 1, not 0": (
        lambda g, ids, size: np.where(_counts(ids, size) > 0, _added(g, ids, size), 1)
    ),
    "zeros: nothing was added": lambda g, ids, size: np.zeros((size, g.shape[-1])),
    "each number is 1 too large: begin with zeros": lambda g, ids, size: _added(g, ids, size) + 1,
    "the sign is turned: contributions are added": lambda g, ids, size: -_added(g, ids, size),
}
