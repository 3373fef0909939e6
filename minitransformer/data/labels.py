"""Labelled sentences of the phrasebook: kinds of sentences, entities, questions with answers.

The grammar knows what it puts together (`Sentence.parts`), so that every label is right by construction. The
splits are those of the phrasebook, so that no test sentence is ever trained on, whatever the objective.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ..errors import nearest
from .batching import generator
from .datasets import DataError, read_fields, read_lines
from .phrasebook import Pair, Sentence, phrasebook
from .phrasebook.grammar import NEGATION, QUESTION, STATEMENT, Parts
from .phrasebook.lexicon import IL

ANSWERS = 4  # random stream
_TYPES = {
    "person": "people family friends",
    "animal": "animals cattle",
    "food": "food dishes drinks",
    "place": "places",
    "thing": "things clothes openings furniture",
    "topic": "subjects",
    "time": "time",
}
ENTITY_TYPES = {kind: entity for entity, kinds in _TYPES.items() for kind in kinds.split()}


class Labelled(NamedTuple):
    """A text and its class."""

    text: str
    label: str


class Tagged(NamedTuple):
    """Words, with a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class Answered(NamedTuple):
    """A question, a text that answers it, and the answer, which stands somewhere in the text."""

    question: str
    context: str
    answer: str


class AnsweredAt(NamedTuple):
    """A question whose answer begins at a known place of the text, counted in characters from 0."""

    question: str
    context: str
    answer: str
    start: int


@cache
def sentence_splits() -> dict[str, list[Sentence]]:
    """The sentences of the phrasebook whose parts are known, by split; 500 of them are for validation."""
    book = phrasebook()
    known = [pair for pair in book.train if isinstance(pair, Sentence)]
    test = [pair for pair in book.test if isinstance(pair, Sentence)]
    return {"train": known[500:], "validation": known[:500], "test": test}


# ---------------------------------------------------------------- classes


def sentence_kind(sentence: Sentence) -> str:
    """statement, negation or question."""
    return sentence.parts.mode


def object_type(sentence: Sentence) -> str | None:
    """What is acted on: a person, an animal, food, a place or a thing. None without a direct object."""
    for phrase in sentence.parts.rest:
        if phrase.kind and phrase.kind != "time" and not phrase.preposition and sentence.parts.is_clause:
            return ENTITY_TYPES[phrase.kind]
    return None


def labelled(sentences: Iterable[Sentence], target: str = "object") -> list[Labelled]:
    """English sentences with their kind ("kind"), or the type of their object ("object")."""
    classify = {"kind": sentence_kind, "object": object_type}[target]
    return [Labelled(pair[0], label) for pair in sentences if (label := classify(pair)) is not None]


# ---------------------------------------------------------------- entities


def tagged(sentences: Iterable[Sentence]) -> list[Tagged]:
    """English words with entities as BIO tags: B-animal is an entity's first word, I-animal any other."""
    return [
        _tagged(pair) for pair in sentences if pair.parts.subject.english not in ("there", "this", "these")
    ]


def _tagged(sentence: Sentence) -> Tagged:
    parts = sentence.parts
    auxiliary, main, finite = parts.verb
    verbs = {
        QUESTION: ([(auxiliary, "")], [(main, "")]),
        NEGATION: ([], [("cannot" if auxiliary == "can" else f"{auxiliary} not", ""), (main, "")]),
        STATEMENT: ([], [(finite, "")]),
    }
    before, after = verbs[parts.mode]
    rest = [
        (phrase.english.removeprefix(phrase.preposition).strip(), phrase.kind, phrase.preposition)
        for phrase in parts.rest
    ]
    pieces = [*before, (parts.subject.english, parts.subject.kind), *after]
    for english, kind, preposition in rest:
        pieces += [(preposition, ""), (english, kind)]
    tags: list[str] = []
    for english, kind in pieces:
        length = len(english.split())
        entity = ENTITY_TYPES.get(kind, "")
        tags += (
            [f"B-{entity}"] * min(length, 1) + [f"I-{entity}"] * (length - 1) if entity else ["O"] * length
        )
    words = re.findall(r"[\w']+|[^\w\s]", sentence[0])
    return Tagged(tuple(words), tuple(tags + ["O"] * (len(words) - len(tags))))


# ---------------------------------------------------------------- questions


def question_of(parts: Parts, number: int) -> tuple[str, str] | None:
    """A question about one part of a statement, and its answer: "What did the dog chase?", "the cat"."""
    auxiliary, main, finite = parts.verb
    subject = parts.subject
    asked: list[tuple[str, str]] = []
    rest = [phrase.english for phrase in parts.rest]
    if subject.person == IL and subject.kind:
        word = "Who" if ENTITY_TYPES[subject.kind] == "person" else "What"
        asked.append((" ".join([word, finite, *rest]), subject.english))
    for i, phrase in enumerate(parts.rest):
        others = " ".join([auxiliary, subject.english, main, *rest[:i], *rest[i + 1 :]])
        entity = ENTITY_TYPES.get(phrase.kind)
        if entity is None:  # a pronoun
            continue
        if entity == "time":
            asked.append((f"When {others}", phrase.english))
        elif not phrase.preposition:
            asked.append((f"{'Who' if entity == 'person' else 'What'} {others}", phrase.english))
        elif phrase.preposition != "to":
            asked.append((f"Where {others}", phrase.english))
    if not asked:
        return None
    question, answer = asked[number % len(asked)]
    return re.sub(r"\ba (?=[aeiou])", "an ", question) + "?", re.sub(r"\ba (?=[aeiou])", "an ", answer)


def answered(sentences: Sequence[Sentence], rounds: int = 1, others: int = 2) -> list[Answered]:
    """Questions about statements, each among `others` statements of the same split; `rounds` for each."""
    statements = [pair for pair in sentences if pair.parts.mode == STATEMENT and pair.parts.is_clause]
    draw = generator(0, ANSWERS, len(statements))
    examples = []
    for pair in statements * rounds:
        found = question_of(pair.parts, int(draw.integers(0, 4)))
        if found is None:
            continue
        question, answer = found
        chosen = [pair]
        while len(chosen) <= others:
            other = statements[int(draw.integers(0, len(statements)))]
            if all(_differ(other.parts, one.parts) for one in chosen):
                chosen.append(other)
        texts = [_with_stop(chosen[i][0]) for i in draw.permutation(len(chosen))]
        context = " ".join(texts)
        place = _place(context, texts, _with_stop(pair[0]), answer)
        if context.lower().find(answer.lower()) == place:
            examples.append(Answered(question, context, context[place : place + len(answer)]))
    return examples


def _differ(one: Parts, other: Parts) -> bool:
    """Whether two statements differ in subject and in verb, so that a question fits one of them."""
    return one.subject.english != other.subject.english and one.verb[2] != other.verb[2]


def _with_stop(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _place(context: str, texts: list[str], text: str, answer: str) -> int:
    """Where the answer of `text` begins in the context."""
    before = " ".join(texts[: texts.index(text)])
    start = len(before) + bool(before)
    return context.lower().find(answer.lower(), start)


# ---------------------------------------------------------------- a user's file


def check_labels(where: str, found: Iterable[str], known: Collection[str]) -> None:
    """Raise a DataError if a file has labels that the training data does not have (`known`)."""
    found = list(found)
    if problem := unknown_labels(found, known):
        names = ", ".join(sorted(known)[:20]) + (", ..." if len(known) > 20 else "")
        hints = (nearest(label, known) for label in dict.fromkeys(found) if label not in known)
        hint = next(filter(None, hints), "")
        raise DataError(
            f"{where} has {problem}.{hint}\n"
            f"The training data has {names}. Fix the other labels, or remove their examples."
        )


def unknown_labels(found: Iterable[str], known: Collection[str]) -> str:
    """What to say of labels that the training data does not have: how many each; empty if there are none."""
    counts = Counter(found)
    unknown = [(label, n) for label, n in counts.most_common() if label not in known]
    if not unknown:
        return ""
    names = [f"{label[:60]!r} ({n:,})" for label, n in unknown[:10]] + (["..."] if unknown[10:] else [])
    share = f"{sum(n for _, n in unknown):,} of {counts.total():,}"
    return f"labels that the training data does not have ({share}): {', '.join(names)}"


def read_labelled(path: str | Path) -> list[Labelled]:
    """The examples of a file with text<TAB>label on each line."""
    return [Labelled(text, label) for _, (text, label) in read_fields(path, "text", "label")]


def is_bio(tag: str) -> bool:
    """Whether a tag is O, B-type or I-type."""
    return tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)


def read_tagged(path: str | Path) -> list[Tagged]:
    """The sentences of a file with word<TAB>tag on each line, and a blank line after each sentence.

    This is CoNLL-2003's format: columns are separated by tabs or spaces, the first is the
    word and the last its tag. If one tag is B-type or I-type, all others must be so too, or O.
    """
    sentences: list[list[tuple[str, str]]] = [[]]
    tags: dict[str, str] = {}  # and where each first occurs
    for where, line in read_lines(path):
        columns = line.split()
        if not columns:
            sentences.append([])
        elif len(columns) == 1:
            raise DataError(
                f"{where}: expected word<TAB>tag, found {line[:60]!r}.\nFix the line, or remove it."
            )
        elif columns[0] != "-DOCSTART-":
            sentences[-1].append((columns[0], columns[-1]))
            tags.setdefault(columns[-1], where)
    if any(tag != "O" and is_bio(tag) for tag in tags):
        for tag, where in tags.items():
            if not is_bio(tag):
                raise DataError(
                    f"{where}: the tag {tag[:60]!r} is not O, B-type or I-type, as others of the file are.\n"
                    f"Write all tags in BIO."
                )
    examples = [
        Tagged(tuple(word for word, _ in sentence), tuple(tag for _, tag in sentence))
        for sentence in sentences
        if sentence
    ]
    if not examples:
        raise DataError(
            f"{path} has no words.\nWrite word<TAB>tag on each line, a blank line between sentences."
        )
    return examples


def read_answered(path: str | Path) -> list[Answered]:
    """The examples of a file with question<TAB>context<TAB>answer on each line."""
    examples = []
    for where, (question, context, answer) in read_fields(path, "question", "context", "answer"):
        example = Answered(question, context, answer)
        check_answer(where, example)
        examples.append(example)
    return examples


def check_answer(where: str, example: Answered | AnsweredAt) -> None:
    """Raise a DataError for an answer that does not stand in its context, or not where the data says."""
    if not example.answer.strip():
        raise DataError(
            f"{where}: the answer is empty.\nRemove the question: each needs an answer in its context."
        )
    if not answer_places(example):
        at = f" at {example.start}" if isinstance(example, AnsweredAt) else ""
        raise DataError(
            f"{where}: the answer {example.answer[:60]!r} does not occur in its context{at}.\n"
            f"Write it as the context has it, or remove the question."
        )


def answer_places(example: Answered | AnsweredAt) -> list[tuple[int, int]]:
    """Where an answer may begin and end in its context: at its `start`, if the data has it; else wherever
    the context has it, and if it has it nowhere, wherever it does with other capitals, spaces or accents."""
    context, answer = example.context, example.answer
    start = example.start if isinstance(example, AnsweredAt) else None
    exact = [(m.start(), m.start() + len(answer)) for m in re.finditer(f"(?={re.escape(answer)})", context)]
    exact = [place for place in exact if start in (None, place[0])]
    if exact:
        return exact
    folded, places = _folded(context)
    matches = re.finditer(re.escape(_folded(answer)[0].strip()), folded)
    found = [(places[m.start()], places[m.end()]) for m in matches if m[0]]
    return [place for place in found if start in (None, place[0])]


def _folded(text: str) -> tuple[str, list[int]]:
    """A text without differences of case, spaces and Unicode forms, and where each character (and the end)
    comes from."""
    parts, places = [], []
    # a run of spaces, or a character with its accents
    starts = [
        i
        for i, c in enumerate(text)
        if not unicodedata.combining(c) and not (i and c.isspace() and text[i - 1].isspace())
    ]
    for start, end in pairwise([*starts, len(text)]):
        part = unicodedata.normalize("NFKC", text[start:end]).casefold()
        parts.append(" " if part.isspace() else part)
        places += [start] * len(parts[-1])
    return "".join(parts), [*places, len(text)]


def read_documents(path: str | Path) -> list[list[str]]:
    """The documents of a file with a sentence on each line, and a blank line after each document."""
    found: list[list[str]] = [[]]
    for _, line in read_lines(path):
        if line.strip():
            found[-1].append(line.strip())
        else:
            found.append([])
    texts = [document for document in found if document]
    if not texts:
        raise DataError(f"{path} has no sentences.\nWrite a sentence on each line.")
    return texts


# ---------------------------------------------------------------- documents


def documents(sentences: Iterable[Pair], language: int = 0) -> list[list[str]]:
    """Sentences grouped by who they are about: in a document, each is about the subject of the one before."""
    groups: dict[str, list[str]] = {}
    for pair in sentences:
        key = pair.parts.subject.english if isinstance(pair, Sentence) else pair[0].split()[0]
        groups.setdefault(key, []).append(pair[language])
    return list(groups.values())
