"""Functions that check and read the texts a user passes to a trained run, and pick short example inputs."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import UserError, counted, truncated_repr
from ..files import printable
from ..text.tokenizer import Tokenizer, unused_letter

MAX_SHORT = 16  # the maximum number of tokens in a short example
MAX_CANDIDATES = 200  # how many examples of a split to look at for a short one


def check_texts(run: Any, texts: Sequence[Any], names: Sequence[str]) -> None:
    """Raise a UserError unless there is one non-empty text (or list of words) for each name."""
    expected = " and ".join(names)
    if len(texts) != len(names):
        how = "in quotes" if len(names) == 1 else "each in quotes, or on one line with a tab between them"
        count = counted(len(texts), "text")
        raise UserError(f"{run.folder} reads {expected}, got {count}.\nPass {expected}, {how}.")
    if not (all(isinstance(text, str) for text in texts) or run.task.reads_words):
        raise UserError(
            f"{run.folder} reads texts, got {truncated_repr(texts[0])}.\nPass each text as one string."
        )
    if not all(text.strip() if isinstance(text, str) else text for text in texts):
        raise UserError(f"{run.folder} reads {expected}, got an empty text.\nPass at least one word.")


def check_length(length: int, limit: int, text: str | Sequence[str], most: int | None = 0) -> None:
    """Raise a UserError if an input has more than `limit` tokens.

    `most` is the longest input that the run's model could be trained on; None if it has no limit.
    """
    if length > limit:
        longer = f", or train with --max-length {length} or more" if most is None or length <= most else ""
        text = text if isinstance(text, str) else " ".join(text)
        raise UserError(
            f"the input has {counted(length, 'token')}, but this run takes at most {limit}: {text[:60]!r}.\n"
            f"Shorten it{longer}."
        )


def split_at_marks(text: str, marks: Sequence[str]) -> list[str]:
    """Split a text at the marks in it. The marks are at the odd indices of the result."""
    return re.split(f"({'|'.join(map(re.escape, marks))})", text) if marks else [text]


def marked_ids(tokenizer: Any, text: str, marks: Sequence[str]) -> list[int]:
    """Encode a text in which `marks` are special tokens."""
    return tokenizer.encode_marked(split_at_marks(text, marks))


def with_mark(text: str, mark: str) -> str:
    """Replace the middle word of a text with a mark."""
    words = text.split()
    words[len(words) // 2] = mark
    return " ".join(words)


def without_marks(text: str, marks: Sequence[str]) -> str:
    """The text without marks and repeated spaces."""
    return " ".join(" ".join(split_at_marks(text, marks)[::2]).split()) if marks else text


def make_visible(word: str) -> str:
    """Return the word; quote and escape it if it has no visible characters."""
    is_visible = any(not (c.isspace() or unicodedata.category(c) in ("Cf", "Cc", "Mn")) for c in word)
    return word if is_visible else ascii(word)


def pick_input(
    tokenizer: Any, candidates: Iterable[Sequence[str]], limit: int, is_argument: bool = True
) -> list[list[str]]:
    """Return a list with the first candidate of at most `limit` tokens and without unknown words.

    If there is none, return the candidate with the fewest unknown words, the shortest of several; [] without
    candidates. If `is_argument` is True, skip texts that cannot be a shell argument.
    """

    def cost(texts: Sequence[str]) -> tuple[int, int]:
        try:
            length = sum(len(tokenizer.encode(text)) for text in texts)
        except UserError:  # a character that is not in the vocabulary
            return sys.maxsize, 0
        unknown = sum(len(tokenizer.unknown_words(text)) for text in texts)
        return unknown, max(length - limit, 0)

    best = []
    lowest = (sys.maxsize, 0)
    for texts in candidates:
        if not all(can_be_argument(text) if is_argument else text.strip() for text in texts):
            continue
        if (found := cost(texts)) < lowest:
            best = [list(texts)]
            lowest = found
        if lowest == (0, 0):
            break
    return best


def held_out_first(splits: Mapping[str, Any]) -> Iterator[Any]:
    """Yield some examples of each split, the training split last."""
    for name in ("validation", "test", "train"):
        yield from splits.get(name, ())[:MAX_CANDIDATES]


def can_be_argument(text: str) -> bool:
    """Whether a text is not blank, can be printed, and is not read as an option of a command."""
    return bool(text.strip()) and text.isprintable() and not text.startswith("-")


def inputs_of_run(run: Any) -> list[list[str]]:
    """Return the short inputs in a run's run.json; for an imported run, some words of its vocabulary."""
    record = getattr(run, "record", None)
    if record is not None and record.examples:
        return record.examples
    if run.tokenizer is None or len(run.task.inputs) != 1:
        return []
    tokenizer = run.tokenizer
    mark = next((mark for mark in run.task.marks if mark in tokenizer.token_to_id), "")
    ids = range(tokenizer.first_ordinary_id, tokenizer.vocab_size)
    words = (tokenizer.decode(ids[i : i + 4]).strip() for i in range(0, len(ids), 4))
    return pick_input(tokenizer, ([f"{text} {mark}".strip()] for text in words), MAX_SHORT)


def warn_of_unknown(run: Any, texts: Iterable[str], most: int = 20) -> None:
    """Print a warning that names up to `most` words that are not in the vocabulary, if there are any."""
    unknown_token = run.tokenizer.id_to_token.get(run.tokenizer.unk_id)
    if unknown_token is None:
        return  # `encode` raises an error for such words
    found: list[str] = []
    for text in texts:
        parts = split_at_marks(text, run.task.marks)[::2]
        letter = unused_letter("".join(parts))
        found += [word for word in run.tokenizer.unknown_words(letter.join(parts)) if letter not in word]
    unknown = list(dict.fromkeys(found))
    if unknown:
        others = f", and {counted(len(unknown) - most, 'other')}" if len(unknown) > most else ""
        shown = printable(", ".join(map(make_visible, unknown[:most])))
        print(f"warning: not in the vocabulary, read as {unknown_token}: {shown}{others}", file=sys.stderr)


def word_ids(tokenizer: Tokenizer, word: str) -> list[int]:
    """The token ids of a single word; the id of <UNK> if it has no tokens."""
    return tokenizer.encode(word) or [tokenizer.unk_id or 0]
