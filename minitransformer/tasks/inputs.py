"""What tasks ask of the texts that a user passes to a trained run."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import UserError, counted, short
from ..files import printable
from ..tokenizers import stand_in


def check_texts(run: Any, texts: Sequence[Any], names: Sequence[str]) -> None:
    """Raise a UserError unless there is a text for each name, none of them empty; or a list of words."""
    expected = " and ".join(names)
    if len(texts) != len(names):
        how = "in quotes" if len(names) == 1 else "each in quotes, or on one line with a tab between them"
        given = counted(len(texts), "text")
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
            f"an input of {counted(length, 'token')}, but this run takes at most {limit}: {text[:60]!r}.\n"
            f"Shorten it."
        )


def split_at_marks(text: str, marks: Sequence[str]) -> list[str]:
    """The marks in a text and what stands between them: at odd places, the marks."""
    return re.split(f"({'|'.join(map(re.escape, marks))})", text) if marks else [text]


def marked_ids(tokenizer: Any, text: str, marks: Sequence[str]) -> list[int]:
    """The ids of a text in which these special tokens are special, not read as words."""
    return tokenizer.encode_marked(split_at_marks(text, marks))


def warn_left_out(count: int, unit: str, why: str) -> None:
    """Warn of examples that are not scored."""
    if count:
        print(f"warning: left out {count:,} {unit} of {why}", file=sys.stderr)


def visible(word: str) -> str:
    """A word; one of spaces alone, or of characters that are not seen, in quotes, by its codes."""
    seen = any(not (c.isspace() or unicodedata.category(c) in ("Cf", "Cc", "Mn")) for c in word)
    return word if seen else ascii(word)


def warn_of_unknown(run: Any, texts: Iterable[str], most: int = 20) -> None:
    """Warn of words that are not in the vocabulary, and name the first of them."""
    found: list[str] = []
    for text in texts:
        parts = split_at_marks(text, run.task.marks)[::2]
        letter = stand_in("".join(parts))
        found += [word for word in run.tokenizer.unknown_words(letter.join(parts)) if letter not in word]
    unknown = list(dict.fromkeys(found))
    if unknown:
        others = f", and {counted(len(unknown) - most, 'other')}" if len(unknown) > most else ""
        named = printable(", ".join(map(visible, unknown[:most])))
        print(f"warning: not in the vocabulary, read as <UNK>: {named}{others}", file=sys.stderr)
