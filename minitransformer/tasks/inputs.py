"""What tasks ask of the texts that a user passes to a trained run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import UserError, short
from ..files import printable


def check_texts(run: Any, texts: Sequence[Any], names: Sequence[str]) -> None:
    """Raise a UserError unless there is a text for each name, none of them empty; or a list of words."""
    expected = " and ".join(names)
    if len(texts) != len(names):
        how = "in quotes" if len(names) == 1 else "each in quotes, or on one line with a tab between them"
        given = f"{len(texts)} text{'' if len(texts) == 1 else 's'}"
        raise UserError(f"{run.folder} reads {expected}, got {given}.\nPass {expected}, {how}.")
    if not (all(isinstance(text, str) for text in texts) or run.task.reads_words):
        raise UserError(f"{run.folder} reads texts, got {short(texts[0])}.\nPass each text as one string.")
    if not all(text.strip() if isinstance(text, str) else text for text in texts):
        raise UserError(f"{run.folder} reads {expected}, got an empty text.\nPass at least one word.")


def check_length(length: int, limit: int, text: str | Sequence[str]) -> None:
    """Raise a UserError for an input of more tokens than the run takes."""
    if length > limit:
        text = text if isinstance(text, str) else " ".join(text)
        raise UserError(
            f"an input of {length} tokens, but this run takes at most {limit}: {text[:60]!r}.\nShorten it."
        )


def split_at_marks(text: str, marks: Sequence[str]) -> list[str]:
    """The marks in a text and what stands between them: at odd places, the marks."""
    return re.split(f"({'|'.join(map(re.escape, marks))})", text) if marks else [text]


def marked_ids(tokenizer: Any, text: str, marks: Sequence[str]) -> list[int]:
    """The ids of a text in which these special tokens are special, not read as words."""
    ids: list[int] = []
    for i, part in enumerate(split_at_marks(text, marks)):
        # the space beside a mark is no token: others hold the one before them, or none
        words = part if tokenizer.kind == "char" else part.strip()
        ids += [tokenizer.special_id(part)] if i % 2 else tokenizer.encode(words) if words else []
    return ids


def warn_of_unknown(run: Any, texts: Iterable[str], most: int = 20) -> None:
    """Warn of words that are not in the vocabulary, and name the first of them."""
    parts = (part for text in texts for part in split_at_marks(text, run.task.marks)[::2])
    unknown = list(dict.fromkeys(word for part in parts for word in run.tokenizer.unknown_words(part)))
    if unknown:
        others = f", and {len(unknown) - most:,} others" if len(unknown) > most else ""
        named = printable(", ".join(unknown[:most]))
        print(f"warning: not in the vocabulary, read as <UNK>: {named}{others}", file=sys.stderr)
