"""Similar words, analogies and principal components in a table of word vectors.

    nearest_words(model, tokenizer, "king")
    analogy(model, tokenizer, "king", "man", "woman")          # king - man + woman

`vectors` is a table with a row for each token: an array or a Tensor (V, D), an embedding, or a model, whose
embedding is used. `tokens` are the words of the rows: a list, or the model's tokenizer. Similarity is the
cosine of the angle between two vectors: 1 for the same direction, 0 for a right angle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, nn

from ..errors import UserError, check_integer, counted, did_you_mean, truncated_repr
from ..projection import principal_components

SEARCHED = 20_000  # number of words, usually the most frequent, that are compared with a misspelled one


def nearest_words(vectors: Any, tokens: Any, word: str, count: int = 10) -> list[tuple[str, float]]:
    """The `count` words most similar to a word, each with its cosine, the most similar first."""
    table, names = vectors_and_tokens(vectors, tokens)
    rows = _rows_of(names, [word])
    unit = unit_vectors(table)
    return _closest(unit, names, unit[rows[0]], rows, count)


def analogy(vectors: Any, tokens: Any, a: str, b: str, c: str, count: int = 5) -> list[tuple[str, float]]:
    """The `count` words closest to a - b + c, each with its cosine, the closest first.

    For "king", "man", "woman": what is to woman as king is to man? All vectors are normalized to length 1,
    and the three words are excluded from the result (Mikolov et al. 2013, "Linguistic Regularities in
    Continuous Space Word Representations", section 4).
    """
    table, names = vectors_and_tokens(vectors, tokens)
    rows = _rows_of(names, [a, b, c])
    unit = unit_vectors(table)
    sought = unit[rows[0]] - unit[rows[1]] + unit[rows[2]]
    return _closest(unit, names, unit_vectors(sought), rows, count)


def word_similarities(vectors: Any, tokens: Any, words: Sequence[str]) -> Float[np.ndarray, "N N"]:
    """The cosine similarity of each pair of words."""
    unit = unit_vectors(word_vectors(vectors, tokens, words))
    return unit @ unit.T


def word_vectors(vectors: Any, tokens: Any, words: Sequence[str]) -> Float[np.ndarray, "N D"]:
    """The vectors of `words`, one in each row."""
    table, names = vectors_and_tokens(vectors, tokens)
    return table[_rows_of(names, [words] if isinstance(words, str) else words)]


def project_vectors(
    vectors: Any, dims: int = 2
) -> tuple[Float[np.ndarray, "N dims"], Float[np.ndarray, " dims"]]:
    """Project vectors onto their first `dims` principal components.

    Returns the coordinates, and the share of the variance that each component explains. `plots.embeddings`
    draws two components.
    """
    table = _table_of(vectors)
    check_integer("dims", dims, 1, table.shape[1] + 1)
    return principal_components(table, dims)


def unit_vectors(vectors: Float[np.ndarray, "*N D"]) -> Float[np.ndarray, "*N D"]:
    """Normalize vectors to length 1. Zero vectors, such as the vector of padding, are unchanged."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _closest(
    unit: Float[np.ndarray, "V D"],
    tokens: Sequence[str],
    sought: Float[np.ndarray, " D"],
    excluded: Sequence[int],
    count: int,
) -> list[tuple[str, float]]:
    check_integer("count", count, 1)
    cosines = unit @ sought
    cosines[excluded] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: min(count, len(tokens) - len(set(excluded)))]
    return [(tokens[i], float(cosines[i])) for i in best]


# ---------------------------------------------------------------- tables and their tokens


def vectors_and_tokens(vectors: Any, tokens: Any) -> tuple[Float[np.ndarray, "V D"], list[str]]:
    """Return the table as an array, and the token of each row. Raise a UserError if they do not fit."""
    table = _table_of(vectors)
    by_id = getattr(tokens, "id_to_token", None)
    names = list(tokens) if by_id is None else [by_id[i] for i in sorted(by_id)]
    if len(names) != len(table):
        raise UserError(
            f"{counted(len(names), 'token')} for {counted(len(table), 'vector')}.\nPass a token for each row."
        )
    return table, names


def _table_of(vectors: Any) -> Float[np.ndarray, "V D"]:
    vectors = weight_of(vectors) if isinstance(vectors, nn.Module) else vectors
    table = vectors.numpy() if isinstance(vectors, Tensor) else np.asarray(vectors)
    if table.ndim != 2 or not table.size:
        raise UserError(f"word vectors of shape {table.shape}.\nPass an array (words, dimensions).")
    return table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)


def weight_of(module: nn.Module) -> Tensor:
    """The weight of an embedding, or of a model's embedding."""
    weight = getattr(getattr(module, "embedding", module), "weight", None)
    if not isinstance(weight, Tensor):
        raise UserError(
            f"{type(module).__name__} has no table of word vectors.\n"
            f"Pass a model with an `embedding`, an embedding, or an array."
        )
    return weight


def _rows_of(tokens: Sequence[str], words: Sequence[str]) -> list[int]:
    row_of = {token: i for i, token in reversed([*enumerate(tokens)])}
    for word in words:
        if word not in row_of:
            raise UserError(
                f"there is no vector of {truncated_repr(word)}.{did_you_mean(str(word), tokens[:SEARCHED])}\n"
                f"Choose one of the {len(tokens):,} tokens."
            )
    return [row_of[word] for word in words]
