"""Relations between queries and keys: the previous token, the same word, punctuation, ...

Each relation takes the T tokens of a sentence and returns a boolean array (T, T), with queries in rows and
keys in columns.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool

from ..errors import check_integer
from .word_files import WORD_STARTS

Relation = Callable[[Sequence[str]], Bool[np.ndarray, "T T"]]

PADDING = ("<PAD>", "[PAD]", "<pad>")
ENDS = ("<END>", "[SEP]", "</s>", "<|endoftext|>", "<eos>")
SPECIAL = re.compile(r"<[^<>]+>|\[[A-Z]+\]")


def previous_token(tokens: Sequence[str]) -> Bool[np.ndarray, "T T"]:
    return np.eye(len(tokens), k=-1, dtype=bool)


def next_token(tokens: Sequence[str]) -> Bool[np.ndarray, "T T"]:
    return np.eye(len(tokens), k=1, dtype=bool)


def same_word(tokens: Sequence[str]) -> Bool[np.ndarray, "T T"]:
    """The other occurrences of the query's token."""
    words = np.array(tokens, dtype=object)
    return (words[:, None] == words) & ~np.eye(len(tokens), dtype=bool)


def first_token(tokens: Sequence[str]) -> Bool[np.ndarray, "T T"]:
    """The first token, such as [CLS] or a start token, for the queries after it."""
    return np.tri(len(tokens), k=-1, dtype=bool) & (np.arange(len(tokens)) == 0)


def punctuation(tokens: Sequence[str]) -> Bool[np.ndarray, "T T"]:
    """Punctuation marks and end tokens."""
    return _these_keys([token in ENDS or _is_mark(token) for token in tokens])


def rare_words(counts: Mapping[str, int], below: int, tokens: Sequence[str]) -> Bool[np.ndarray, "T T"]:
    """The tokens whose number in `counts` is less than `below`, except special tokens."""
    return _these_keys([counts.get(token, 0) < below and not SPECIAL.fullmatch(token) for token in tokens])


def referent(positions: Mapping[int, int | Sequence[int]], tokens: Sequence[str]) -> Bool[np.ndarray, "T T"]:
    """The referents of pronouns. `positions` maps the position of a pronoun to its referent's position or
    positions."""
    found = np.zeros((len(tokens), len(tokens)), dtype=bool)
    for pronoun, of_referent in positions.items():
        keys = [of_referent] if isinstance(of_referent, int) else of_referent
        for position in (pronoun, *keys):
            check_integer(f"a position in a sentence of {len(tokens)} tokens", position, 0, len(tokens))
        found[pronoun, keys] = True
    return found


def _these_keys(keys: Sequence[bool]) -> Bool[np.ndarray, "T T"]:
    """Return a (T, T) mask, each row of which is `keys`."""
    return np.tile(np.array(keys, dtype=bool), (len(keys), 1))


def _is_mark(token: str) -> bool:
    token = token.strip(WORD_STARTS)
    return bool(token) and all(unicodedata.category(character)[0] == "P" for character in token)


RELATIONS: dict[str, Relation] = {
    "previous token": previous_token,
    "next token": next_token,
    "same word": same_word,
    "first token": first_token,
    "punctuation": punctuation,
}
