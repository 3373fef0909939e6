"""Splits texts into words: for scores, and in the same way as a tagger's training data.

A file of tagged words shows which punctuation marks are part of a word (U.S., don't, well-known, 3.14) and
which are separate words. `words_with_marks` collects these words; `WordSplitter` splits other texts the same
way.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from .tokenizer_presets import UNSPACED

UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")


def scored_words(text: str) -> list[str]:
    """The words of a text, for scores. In scripts without spaces, each character is a word."""
    return UNSPACED_CHARACTER.sub(r" \g<0> ", text).split()


def words_with_marks(words: Iterable[str]) -> list[str]:
    """The distinct words that contain punctuation marks and have more than one character, sorted."""
    return sorted({word for word in words if len(word) > 1 and re.search(r"\W", _fold(word))})


def _fold(text: str) -> str:
    """Replace typographic apostrophes with "'", and combining marks with "_", which matches `\\w`."""
    return "".join("_" if unicodedata.category(c)[0] == "M" else "'" if c == "’" else c for c in text)


class WordSplitter:
    """Splits a text at spaces, and separates punctuation marks from words unless a known word contains them.

    `known` are the words of the training data that contain marks. Within an unknown word, a mark is kept if a
    known word has it between two characters of the same kinds, letters or digits. An apostrophe is also kept,
    but known beginnings and endings (l', 's, n't) become separate words.
    """

    def __init__(self, known: Iterable[str]) -> None:
        known = sorted(map(_fold, known), key=len, reverse=True)
        one_of = lambda words: "|".join(map(re.escape, words)) or "(?!)"
        like = lambda c: r"\d" if c.isdigit() else r"[^\W\d]"  # matches a digit or a letter
        joints = {("a", "'", "a")}.union(*(re.findall(r"(?=(\w)(\W)(\w))", word) for word in known))
        inside = "|".join(sorted({rf"(?<={like(a)}){re.escape(x)}(?={like(b)})" for a, x, b in joints}))
        inside = rf"(?:\w|{inside})"
        beginnings = one_of(word for word in known if word.endswith("'"))
        endings = one_of(word for word in known if word[0] == "'" or word.lower() == "n't")
        self.word = re.compile(
            rf"(?:{one_of(known)})(?!(?<=\w){inside})"
            rf"|(?i:{beginnings})(?=\w)|\w{inside}*?(?=(?i:{endings})(?!{inside}))|\w{inside}*|\S"
        )

    def split(self, text: str) -> list[str]:
        """The words of a text."""
        return [text[found.start() : found.end()] for found in self.word.finditer(_fold(text))]
