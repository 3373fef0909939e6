"""A built-in English-French corpus: thousands of correct pairs, and what a grammar knows of each.

Each line of `phrasebook.jsonl.gz` is a pair; `tools/phrasebook` has the grammar that drew them. Every English
sentence has exactly one French translation, so that a model can get all of them right. Where French needs
more information than English gives, the choice is fixed: "you" is `tu`; "I", "you", "we", "they" and "them"
are masculine; the past is the passé composé, and only "was" and "were" are the imperfect; "big" is `grand`; a
question starts with `est-ce que`; a headline's nouns ("Dog bites man") have `un` or `une`. Words with an
ambiguous tense or number ("read", "sheep") are left out. Half of the negations are contracted ("did not",
"didn't"), and nothing else.

"it" occurs in reasons only ("because it was too wide"), and is `il` or `elle` by the gender of the noun that
it stands for; the adjective says which of two nouns that is, and `Sentence.reference` where they are. A word
with two senses ("bank", "bat", "light") is translated by the rest of its sentence, and `Sentence.sense` has
its meaning.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("phrasebook.jsonl.gz")
STATEMENT, NEGATION, QUESTION = "statement", "negation", "question"

Pair = tuple[str, str]  # English, French

DOCUMENT_SENTENCES: tuple[Pair, ...] = (  # always in the training split
    ("I love you", "Je t'aime"),
    ("I love AI", "J'aime l'IA"),
    ("I love cats.", "J'aime les chats."),
    ("The cat sat on the mat", "Le chat s'est assis sur le tapis"),
    ("The dog chased the cat", "Le chien a poursuivi le chat"),
)


class Reference(NamedTuple):
    """What a pronoun refers to: places of words in English and in French, as `tokens_of` counts them."""

    pronoun: tuple[int, int]  # it, he or she; il or elle
    noun: tuple[int, int]  # the one that it stands for
    other: tuple[int, int]  # the one that it could be mistaken for


class Sense(NamedTuple):
    """A word with two meanings, and which of them it has: "bank" of money or of a river."""

    word: str
    meaning: str
    place: tuple[int, int]  # in English and in French, as `tokens_of` counts
    clue: tuple[int, int] | None = None  # where the word that decides is, if it is another


class Sentence(tuple[str, str]):
    """A pair, with what the grammar knows of its English side (nothing of DOCUMENT_SENTENCES)."""

    mode: str = ""  # STATEMENT, NEGATION or QUESTION
    subject: str = ""
    verb: tuple[str, str, str] = ("", "", "")  # does, see (as in "does she see"), sees
    object: str = ""  # the type of its direct object: person, animal, food, place, thing or topic
    tags: str = ""  # BIO tags of its words; none for "There is", "This is"
    negation: str = ""  # a statement's negation: I do not see the cat
    question: str = ""  # a statement's question: Do I see the cat?
    asked: tuple[Pair, ...] | None = None  # a statement's questions with answers; none with "be"
    short: str = ""  # what he, she or it does, in a few words
    reference: Reference | None = None  # what the pronoun in a reason refers to
    sense: Sense | None = None  # the sense of a word that has two

    def __new__(cls, english: str, french: str, **columns: Any) -> Sentence:
        self = super().__new__(cls, (english, french))
        vars(self).update(columns)
        return self


@dataclass(frozen=True)
class Phrasebook:
    train: list[Sentence]
    test: list[Sentence]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def read_sentences(path: Path) -> Iterator[tuple[str, Sentence]]:
    """The split and the sentence of each line of a file."""
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        row = {name: _tuples(value) for name, value in json.loads(line).items()}
        for name, kind in (("reference", Reference), ("sense", Sense)):
            if name in row:
                row[name] = kind(*row[name])
        yield row.pop("split", ""), Sentence(**row)


@cache
def phrasebook() -> Phrasebook:
    """The corpus. No sentence of either language occurs twice, the words of the test split occur at least ten
    times in training, and sentences that differ only in the order of their words are in the same split."""
    rows = list(read_sentences(FILE))
    train, test = ([pair for found, pair in rows if found == split] for split in ("train", "test"))
    return Phrasebook(train, test)


@cache
def sentence_splits() -> dict[str, list[Sentence]]:
    """The sentences of which more is known than their texts, by split; 500 of them are for validation."""
    book = phrasebook()
    known = [pair for pair in book.train if pair.mode]
    return {"train": known[500:], "validation": known[:500], "test": book.test}


def tokens_of(text: str) -> list[str]:
    """Words and punctuation marks, as the word tokenizer splits them: L'IA. -> L' IA ."""
    return re.findall(r"[\w-]+'?|[^\w\s]", text)


def word_forms(text: str) -> list[str]:
    """J'aime l'IA. -> J' aime l' IA"""
    return re.findall(r"[\w-]+'?", text)
