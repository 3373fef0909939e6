"""Word vectors in the text formats of word2vec and GloVe, and embeddings that are initialized with them.

    loaded = load_word_vectors("glove.6B.100d.txt")
    nearest_words(*loaded, "king")
    fill_embedding(model, tokenizer, *loaded)

Each line has a word and its numbers, separated by spaces. Files of word2vec begin with a line of two numbers,
the words and the dimensions (Mikolov et al. 2013, "Efficient Estimation of Word Representations in Vector
Space"). Files of GloVe do not (Pennington et al. 2014, "GloVe: Global Vectors for Word Representation").
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from minigrad import nn, no_grad
from minigrad.core.tensor import constant
from minigrad.io import write_atomically

from ..errors import UserError, counted, truncated_repr
from ..files import check_is_text, read_bytes
from .words import vectors_and_tokens, weight_of

WORD_STARTS = " ▁Ġ"  # how tokenizers mark that a token begins a word
MOST_DIGITS = 12  # the most digits of a number in the first line of word2vec's files
LIMIT = 2**33  # bytes; GloVe's largest files have 6 GB


class WordVectors(NamedTuple):
    """A table of vectors, and the word of each row."""

    vectors: Float[np.ndarray, "V D"]
    tokens: list[str]


def load_word_vectors(path: str | Path) -> WordVectors:
    """Read word vectors, as float32, from a text file of word2vec or GloVe.

    Raises a UserError that names the line if the file is not in this format.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(
            f"the path of a file of word vectors is expected, but {truncated_repr(path)} was passed.\n"
            f'Pass a string or a Path, such as "glove.6B.100d.txt".'
        )
    if os.path.isdir(path):
        raise UserError(
            f"{path} is a folder; a text file of word vectors is expected.\n"
            f"Pass the path of a file in it, such as {Path(path) / 'glove.6B.100d.txt'}."
        )
    content = read_bytes(path, LIMIT)
    check_is_text(path, content)
    lines = _lines(path, content)  # an iterator: a list would take ten times the memory of the vectors
    first = next(lines, None)
    if first is None:
        raise UserError(f"{path} is empty.\nPass a file with a word and its numbers on each line.")
    header = _header(path, *first)
    dims = header[1] if header else len(first[1]) - 1
    rows: dict[str, Float[np.ndarray, " D"]] = {}
    for number, columns in lines if header else chain([first], lines):
        word, vector = _word_and_vector(f"line {number} of {path}", columns, dims)
        if word in rows:
            raise UserError(
                f"line {number} of {path} has the word {truncated_repr(word)} again.\n"
                f"Remove one of its lines."
            )
        rows[word] = vector
    if header and len(rows) != header[0]:
        raise UserError(
            f"{path} has {counted(len(rows), 'word')}, its first line says {header[0]:,}.\n"
            f"Download it again, or correct its first line."
        )
    if not rows:
        raise UserError(f"{path} has no vectors: only its first line.\nPass a file with words.")
    return WordVectors(np.stack([*rows.values()]), [*rows])


def _lines(path: str | Path, content: bytes) -> Iterator[tuple[int, list[str]]]:
    """The number and the columns of each line that is not blank.

    Lines end only at "\\n", and columns only at spaces and tabs, because words may contain other white space.
    """
    for number, line in enumerate(io.BytesIO(content), 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise UserError(
                f"line {number} of {path} is not UTF-8.\n"
                f"Save it as UTF-8. If it is in word2vec's binary format, save it in the text format."
            ) from None
        if text := text.rstrip(" \t\r\n"):
            yield number, [column for column in text.replace("\t", " ").split(" ") if column]


def _header(path: str | Path, number: int, columns: list[str]) -> tuple[int, int] | None:
    """The numbers of words and dimensions in word2vec's first line; None if there is no such line."""
    if len(columns) != 2 or not all(column.isascii() and column.isdigit() for column in columns):
        return None
    for what, digits in zip(("words", "dimensions"), columns, strict=True):
        problem = f"a number of {len(digits):,} digits" if len(digits) > MOST_DIGITS else digits
        if len(digits) > MOST_DIGITS or (what == "dimensions" and int(digits) == 0):
            raise UserError(
                f"line {number} of {path} says how many {what} there are: {problem}, expected a "
                f"number from 1 to {10**MOST_DIGITS - 1:,}.\n"
                f"Correct the line, or remove it: without it, lines are counted."
            )
    return int(columns[0]), int(columns[1])


def _word_and_vector(place: str, columns: list[str], dims: int) -> tuple[str, Float[np.ndarray, " dims"]]:
    """Split a line's columns into a word and a vector, the last `dims` columns.

    Words of GloVe may contain spaces, such as ". . .". `place` names the line in errors.
    """
    split = len(columns) - dims
    if len(columns) == 1:
        expected = f"{dims:,}" if dims else "one or more"
        raise UserError(
            f"{place} has no numbers after the word {truncated_repr(columns[0])}, expected {expected}.\n"
            f"Write a word and its numbers, separated by spaces, such as: king 0.1 -0.2 0.3"
        )
    if split < 1 or (split > 1 and all(map(_is_number, columns[1:split]))):
        raise UserError(
            f"{place} has {counted(len(columns) - 1, 'number')}, expected {dims:,}.\n"
            f"Give each word as many numbers as the first."
        )
    try:
        numbers = [float(column) for column in columns[split:]]
    except ValueError:
        wrong = next(column for column in columns[split:] if not _is_number(column))
        raise UserError(
            f"{place} has {truncated_repr(wrong)} where a number is expected.\n"
            f"Write a word and its numbers, separated by spaces."
        ) from None
    with np.errstate(over="ignore"):
        vector = np.array(numbers).astype(np.float32)
    if not np.isfinite(vector).all():
        raise UserError(f"{place} has a number that is not finite in float32.\nRemove the line.")
    return " ".join(columns[:split]), vector


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def save_word_vectors(path: str | Path, vectors: Any, tokens: Any, header: bool = True) -> None:
    """Write word vectors to a text file in the format of word2vec, or of GloVe if `header` is False.

    `vectors` is an array or Tensor (V, D), an embedding or a model; `tokens` is a list of V words or a
    tokenizer. `load_word_vectors` reads the same float32 numbers from the file.
    """
    table, names = vectors_and_tokens(vectors, tokens)
    seen: set[str] = set()
    for word in names:
        if not word or word in seen or not {" ", "\t", "\n", "\r"}.isdisjoint(word):
            problem = "is twice among the tokens" if word in seen else "is empty or has white space"
            raise UserError(
                f"the token {truncated_repr(word)} {problem}: a text file of vectors cannot hold it.\n"
                f"Leave it out, with its vector."
            )
        seen.add(word)
    lines = [f"{len(table)} {table.shape[1]}"] if header else []
    for word, vector in zip(names, table.astype(np.float32), strict=True):
        lines.append(" ".join([word, *map(str, vector)]))
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


@no_grad()
def fill_embedding(embedding: nn.Module, tokenizer: Any, vectors: Any, tokens: Any) -> int:
    """Initialize the rows of an embedding, or a model's, from a table of word vectors. Return their number.

    `vectors` and `tokens` are the table and its words. A tokenizer's mark for the start of a word, such as
    "▁", is ignored. Rows of tokens that are not in the table do not change. An embedding that multiplies by
    sqrt(d_model), as in the paper, also multiplies the new rows.
    """
    table, words = vectors_and_tokens(vectors, tokens)
    _, names = vectors_and_tokens(embedding, tokenizer)
    weight = weight_of(embedding)
    if weight.shape[1] != table.shape[1]:
        raise UserError(
            f"vectors of {counted(table.shape[1], 'dimension')} for an embedding of {weight.shape[1]:,}.\n"
            f"Make a model whose width is {table.shape[1]}, or project the vectors: project_vectors."
        )
    row_of = {word: i for i, word in enumerate(words)}
    found = {i: row_of[name] for i, token in enumerate(names) if (name := _word_of(token)) in row_of}
    if found:
        weight[[*found]] = constant(table[[*found.values()]], weight)
    return len(found)


def _word_of(token: str) -> str:
    """The token without the mark for the start of a word."""
    return token.lstrip(WORD_STARTS) or token
