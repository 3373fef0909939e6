"""Words of scripts without spaces; and texts split into words in the same way as a tagger's training data.

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
APOSTROPHES = str.maketrans({"’": "'"})


def scored_words(text: str) -> list[str]:
    """The words that scores count: parts between spaces, and characters of scripts without spaces."""
    return UNSPACED_CHARACTER.sub(r" \g<0> ", text).split()


def words_with_marks(words: Iterable[str]) -> list[str]:
    """The distinct words of more than one character with punctuation marks, which a splitter must know."""
    return sorted({word for word in words if len(word) > 1 and not all(map(is_letter, word))})


def is_letter(character: str) -> bool:
    """Whether it is a letter, a digit, an underscore or an accent, and not a punctuation mark."""
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


class WordSplitter:
    """Splits a text at spaces, and punctuation marks from words, unless a known word contains them.

    `known` are the words with marks of the training data. In other words, a mark stays inside if a known word
    has it between two letters or digits; an apostrophe also does, except in known beginnings and endings (l',
    's, n't).
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.known = {word.translate(APOSTROPHES) for word in known}
        self.longest = max(map(len, self.known), default=0)
        self.joints = {(False, "'", False)}
        for word in self.known:
            for before, mark, after in zip(word, word[1:], word[2:], strict=False):
                if is_letter(before) and is_letter(after) and not is_letter(mark):
                    self.joints.add((before.isdigit(), mark, after.isdigit()))
        words = {word.casefold() for word in self.known}
        self.beginnings = [word for word in words if word.endswith("'")]
        self.endings = [word for word in words if word.startswith("'") or word == "n't"]

    def split(self, text: str) -> list[str]:
        """The words of a text."""
        return [word for part in text.split() for word in self._split_part(part)]

    def _split_part(self, part: str) -> list[str]:
        """The words of a text without spaces, from left to right."""
        words = []
        start = 0
        folded = part.translate(APOSTROPHES)
        while start < len(part):
            end = max(self._end_of_known(folded, start), self._end_of_word(folded, start))
            end = self._without_clitic(folded, start, end)
            words.append(part[start:end])
            start = end
        return words

    def _end_of_known(self, text: str, start: int) -> int:
        """The end of the longest known word at `start` that does not end before a letter; 0 if there is
        none."""
        for end in range(min(len(text), start + self.longest), start, -1):
            ends_inside = end < len(text) and is_letter(text[end - 1]) and is_letter(text[end])
            if text[start:end] in self.known and not ends_inside:
                return end
        return 0

    def _end_of_word(self, text: str, start: int) -> int:
        """The end of the mark at `start`, or of the letters and the marks that stay between them."""
        end = start + 1
        if not is_letter(text[start]):
            return end
        while end < len(text):
            joint = (text[end - 1].isdigit(), text[end], text[end + 1 : end + 2].isdigit())
            joins = joint in self.joints and end + 1 < len(text) and is_letter(text[end + 1])
            if not is_letter(text[end]) and not joins:
                break
            end += 1
        return end

    def _without_clitic(self, text: str, start: int, end: int) -> int:
        """The end of a word: before a known ending, or after a known beginning."""
        word = text[start:end]
        if word in self.known:
            return end
        word = word.casefold() if len(word.casefold()) == len(word) else word
        lengths = [len(beginning) for beginning in self.beginnings if word.startswith(beginning)]
        lengths += [len(word) - len(ending) for ending in self.endings if word.endswith(ending)]
        return start + min((length for length in lengths if length), default=len(word))
