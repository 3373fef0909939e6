"""A built-in English-French corpus: thousands of correct pairs, with annotations from the grammar.

Each line of `phrasebook.jsonl.gz` is a pair; `tools/phrasebook` has the grammar that generated them. Every
English sentence has exactly one French translation, so that a model can get all of them right. Where French
needs more information than English gives, the choice is fixed: "you" is `tu`; "I", "you", "we", "they" and
"them" are masculine; the past is the passé composé, except that "was" and "were" are the imperfect; "big" is
`grand`; a question starts with `est-ce que`; a headline's nouns ("Dog bites man") have `un` or `une`. Words
with an ambiguous tense or number ("read", "sheep") are left out. Half of the negations are contracted ("did
not", "didn't"); there are no other contractions.

"it" occurs only in reasons ("because it was too wide"), and is `il` or `elle`, according to the gender of the
noun that it refers to. The adjective decides which of two nouns this is, and `Sentence.reference` has their
positions. The translation of a word with two senses ("bank", "bat", "light") depends on the rest of the
sentence, and `Sentence.sense` has the word's meaning.
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
    """What a pronoun refers to. Fields are indices into `tokens_of` the English and the French sentence."""

    pronoun: tuple[int, int]  # it, he or she; il or elle
    noun: tuple[int, int]  # the noun that the pronoun refers to
    other: tuple[int, int]  # the other noun, which it could refer to


class Sense(NamedTuple):
    """A word with two meanings, such as "bank", and the meaning that it has in the sentence."""

    word: str
    meaning: str
    place: tuple[int, int]  # the word's indices into `tokens_of` the English and the French sentence
    clue: tuple[int, int] | None = None  # the indices of another word that decides, if there is one


class Sentence(tuple[str, str]):
    """An English-French pair, with the grammar's annotations of the English sentence.

    DOCUMENT_SENTENCES have none.
    """

    mode: str = ""  # STATEMENT, NEGATION or QUESTION
    subject: str = ""
    verb: tuple[str, str, str] = ("", "", "")  # auxiliary, infinitive and verb: "does", "see", "sees"
    object: str = ""  # the type of the direct object: person, animal, food, place, thing or topic
    tags: str = ""  # BIO tags of the words; empty for "There is" and "This is"
    negation: str = ""  # the negation of a statement: I do not see the cat
    question: str = ""  # the question of a statement: Do I see the cat?
    asked: tuple[Pair, ...] | None = None  # questions about a statement with answers; empty with "be"
    short: str = ""  # what he, she or it does, in a few words
    reference: Reference | None = None  # what the pronoun in a reason refers to
    sense: Sense | None = None  # the meaning of a word that has two

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
    """Yield the split and the sentence of each line of a file."""
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        row = {name: _tuples(value) for name, value in json.loads(line).items()}
        for name, kind in (("reference", Reference), ("sense", Sense)):
            if name in row:
                row[name] = kind(*row[name])
        yield row.pop("split", ""), Sentence(**row)


@cache
def phrasebook() -> Phrasebook:
    """The corpus, read from its file.

    No sentence of either language occurs twice, the words of the test split occur at least ten times in
    training, and sentences that differ only in the order of their words are in the same split.
    """
    rows = list(read_sentences(FILE))
    train, test = ([pair for found, pair in rows if found == split] for split in ("train", "test"))
    return Phrasebook(train, test)


@cache
def sentence_splits() -> dict[str, list[Sentence]]:
    """The sentences with annotations, by split. 500 of the training sentences are for validation."""
    book = phrasebook()
    known = [pair for pair in book.train if pair.mode]
    return {"train": known[500:], "validation": known[:500], "test": book.test}


def tokens_of(text: str) -> list[str]:
    """The words and punctuation marks of a text, as the word tokenizer splits it: L'IA. -> L' IA ."""
    return re.findall(r"[\w-]+'?|[^\w\s]", text)


def word_forms(text: str) -> list[str]:
    """The words of a text without punctuation marks: J'aime l'IA. -> J' aime l' IA"""
    return re.findall(r"[\w-]+'?", text)
