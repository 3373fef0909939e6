"""Labelled sentences of the phrasebook and of a user's files: classes, entities, and questions with answers.

The phrasebook's grammar labels the sentences that it generates, so every label is correct by construction.
The splits are the phrasebook's, so test sentences are never trained on, whatever the objective.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import did_you_mean
from .batching import generator
from .phrasebook import Sentence, sentence_splits
from .rows import (
    AUTO,
    ROLES,
    BadRow,
    DataError,
    Examples,
    FileFormat,
    convert,
    normal_name,
    read_rows,
    read_table,
    read_texts,
    read_words,
    select,
    texts_of,
)
from .splits import Splits

ANSWERS = 4  # the number of the random stream


class LabelledText(NamedTuple):
    """A text and its class."""

    text: str
    label: str


class TaggedSentence(NamedTuple):
    """Words, with a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class Question(NamedTuple):
    """A question, a text that answers it (`context`), and the answer, which occurs in the text."""

    question: str
    context: str
    answer: str  # the answer that is learned
    start: int | None = None  # where the answer starts in the context, in characters, if known
    others: tuple[str, ...] = ()  # other correct answers

    @property
    def answers(self) -> tuple[str, ...]:
        """All correct answers."""
        return (self.answer, *self.others)


# ---------------------------------------------------------------- classes


def of_sentences(examples: Callable[[list[Sentence], str], list[Any]]) -> Splits:
    """The splits of a task, whose examples are `examples(sentences, name)` for each split of the phrasebook.

    The tokenizer is trained on all sentences of the training split, even if they give no example.
    """
    splits = sentence_splits()
    found = {name: examples(sentences, name) for name, sentences in splits.items()}
    return Splits(found, tokenizer_texts=[english for english, _ in splits["train"]])


def label_sentences(sentences: Iterable[Sentence], target: str = "object") -> list[LabelledText]:
    """English sentences with labels: their kind ("kind"), or the type of their object ("object").

    Sentences without the label are left out.
    """
    labels = {"kind": lambda pair: pair.mode, "object": lambda pair: pair.object}[target]
    return [LabelledText(pair[0], label) for pair in sentences if (label := labels(pair))]


# ---------------------------------------------------------------- entities


def tag_sentences(sentences: Iterable[Sentence]) -> list[TaggedSentence]:
    """English words with entities as BIO tags: B-animal for an entity's first word, I-animal for others."""
    return [
        TaggedSentence(tuple(re.findall(r"[\w']+|[^\w\s]", pair[0])), tuple(pair.tags.split()))
        for pair in sentences
        if pair.tags
    ]


# ---------------------------------------------------------------- questions


def make_questions(sentences: Sequence[Sentence], rounds: int = 1, others: int = 2) -> list[Question]:
    """Questions about statements, with up to `rounds` questions for each statement.

    The context of a question is its statement, among `others` random statements.
    """
    statements = [pair for pair in sentences if pair.asked is not None]
    draw = generator(0, ANSWERS, len(statements))
    examples = []
    for pair in statements * rounds:
        number = int(draw.integers(0, 4))
        if not pair.asked:
            continue
        question, answer = pair.asked[number % len(pair.asked)]
        chosen = [pair]
        while len(chosen) <= others:
            other = statements[int(draw.integers(0, len(statements)))]
            # the question must fit only one statement
            if all(other.subject != one.subject and other.verb[2] != one.verb[2] for one in chosen):
                chosen.append(other)
        texts = [_with_stop(chosen[i][0]) for i in draw.permutation(len(chosen))]
        context = " ".join(texts)
        place = _place(context, texts, _with_stop(pair[0]), answer)
        if context.lower().find(answer.lower()) == place:
            examples.append(Question(question, context, context[place : place + len(answer)]))
    return examples


def _with_stop(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _place(context: str, texts: list[str], text: str, answer: str) -> int:
    """The index in the context at which the answer starts within `text`, one of the texts in the context."""
    before = " ".join(texts[: texts.index(text)])
    start = len(before) + bool(before)
    return context.lower().find(answer.lower(), start)


# ---------------------------------------------------------------- a user's file


def check_labels(where: str, found: Iterable[str], known: Collection[str]) -> None:
    """Raise a DataError if labels found in a file are not among the `known` ones, of the training data."""
    found = list(found)
    if problem := unknown_labels(found, known):
        names = ", ".join(sorted(known)[:20]) + (", ..." if len(known) > 20 else "")
        hints = (did_you_mean(label, known) for label in dict.fromkeys(found) if label not in known)
        hint = next(filter(None, hints), "")
        raise DataError(
            f"{where} has {problem}.{hint}\n"
            f"The training data has {names}. Fix the other labels, or remove their examples."
        )


def unknown_labels(found: Iterable[str], known: Collection[str]) -> str:
    """A message with the labels that the training data does not have, and their counts; "" without any."""
    counts = Counter(found)
    unknown = [(label, n) for label, n in counts.most_common() if label not in known]
    if not unknown:
        return ""
    names = [f"{label[:60]!r} ({n:,})" for label, n in unknown[:10]] + (["..."] if unknown[10:] else [])
    share = f"{sum(n for _, n in unknown):,} of {counts.total():,}"
    return f"labels that the training data does not have ({share}): {', '.join(names)}"


def read_labelled(path: str | Path, how: FileFormat = AUTO) -> Examples:
    """Read the examples of a file with text<TAB>label on each line, or of another format (see rows.py)."""
    examples = read_rows(path, how, "text", "label", make=lambda _, cells: LabelledText(*texts_of(cells)))
    if how.is_plain:
        return examples
    labels, texts = ({example[i] for example in examples} for i in (1, 0))
    if not how.chosen and len(examples) >= 10 and len(labels) > len(examples) // 2:
        order = "2,1" if len(texts) < len(labels) else "1,2"
        raise DataError(
            f"{path}: {len(labels):,} different labels in {len(examples):,} examples, such as "
            f"{min(labels)[:60]!r}.\nName the columns of text and label, such as --columns {order}."
        )
    examples.notes += describe_labels(Path(path).name, "labels", [label for _, label in examples])
    return examples


def describe_labels(file: str, noun: str, found: Sequence[str]) -> list[str]:
    """Lines for the user: the count of each label, and a warning about labels that look like several."""
    counts = Counter(found)
    most = counts.most_common(10)
    others = f" and {len(counts) - len(most):,} others" if len(counts) > len(most) else ""
    lines = [f"{file}: {noun}: " + ", ".join(f"{label} ({n:,})" for label, n in most) + others]
    parts = {label: [part for part in re.split(r"\s*[,;|]\s*", label) if part] for label in counts}
    several = [label for label in counts if len(parts[label]) > 1]
    names = {part for label in several for part in parts[label]}
    if names & counts.keys() or len(names) < len(several):  # False for "Paris, France" and "Rome, Italy"
        listed = ", ".join(f"{label!r:.40} ({counts[label]:,})" for label in several[:5])
        lines.append(
            f"warning: {file}: {noun} that look like several {noun}: {listed}; each is learned as one class "
            f"of its own: if that is not meant, write only one of them"
        )
    return lines


def is_bio(tag: str) -> bool:
    """Whether a tag is O, B-type or I-type."""
    return tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2)


def are_entities(tags: Iterable[str]) -> bool:
    """Whether tags mark entities, with types (O, B-type and I-type) or without (O, B and I)."""
    marks = {*tags} - {"O"}
    return bool(marks) and (all(map(is_bio, marks)) or marks <= {"B", "I"})


def read_tagged(path: str | Path, how: FileFormat = AUTO) -> Examples:
    """Read the sentences of a file with word<TAB>tag on each line, and a blank line after each sentence.

    Other formats are read, too (see rows.py). If one tag is B-type or I-type, all tags must be BIO tags.
    """
    sentences = read_words(path, how)
    tags = [tag for sentence in sentences for _, _, tag in sentence]
    if any(tag != "O" and is_bio(tag) for tag in tags) and not all(map(is_bio, tags)):
        where, tag = next(
            (where, tag) for sentence in sentences for where, _, tag in sentence if not is_bio(tag)
        )
        raise DataError(
            f"{where}: the tag {tag[:60]!r} is not O, B-type or I-type, as others of the file are.\n"
            f"Write all tags in BIO."
        )
    examples = [TaggedSentence(*map(tuple, list(zip(*sentence, strict=True))[1:])) for sentence in sentences]
    if how.is_plain:
        return Examples(examples)
    if not how.chosen and ({*tags} == {"_"} or len({*tags}) > max(50, len(tags) // 10)):
        raise DataError(
            f"{path}: {len({*tags}):,} different tags of {len(tags):,} words, such as {tags[0]!r:.60}.\n"
            f"Name the columns of word and tag, such as --columns form,xpos or --columns 1,2."
        )
    return Examples(examples, [*sentences.notes, *describe_labels(Path(path).name, "tags", tags)])


def read_answered(path: str | Path, how: FileFormat = AUTO) -> Examples:
    """Read the examples of a file with question<TAB>context<TAB>answer on each line.

    Other formats are read, too, such as SQuAD's JSON, where a question may have several correct answers.
    Questions without an answer are left out.
    """
    table = read_table(path, how, "question", "context", "answer")
    names = how.chosen or ROLES["answer"]
    answers = [i for i, x in enumerate(table.names or ()) if normal_name(x) in names]
    kept = [row for row in table.rows if isinstance(row[1], BadRow) or all(row[1][i] != [] for i in answers)]
    if left_out := len(table.rows) - len(kept):
        table.rows = kept
        table.notes.append(f"warning: {table.path.name}: questions without an answer, left out: {left_out:,}")
    return convert(table, select(table, "start"), lambda _, cells: _answered_row(*cells))


def _answered_row(question: Any, context: Any, answer: Any, start: Any) -> Question:
    """Make a Question from the cells of a row. Raise a BadRow if they are not valid.

    `answer` is a text, a dict with "text" and "answer_start" as in SQuAD, or a list of these, of which the
    first is learned. `start` is the answer's place in the context, in characters, or empty.
    """
    answer, *others = answer if isinstance(answer, list) else [answer]
    start = start[0] if isinstance(start, list) and start else start
    if isinstance(answer, dict):
        answer, start = answer.get("text"), answer.get("answer_start", start)
    others = [each.get("text") if isinstance(each, dict) else each for each in others]
    if wrong := [text for text in (question, context, answer, *others) if not isinstance(text, str)]:
        raise BadRow(f"expected texts, found {wrong[0]!r:.60}")
    place = None
    if start not in (None, "", []):
        if not str(start).isdecimal():
            raise BadRow(f"the answer starts at {start!r:.20}, which is not a number")
        place = int(start) - (len(context) - len(context.lstrip())) + len(answer) - len(answer.lstrip())
    question, context, answer, *others = map(str.strip, (question, context, answer, *others))
    different = tuple(each for each in dict.fromkeys(others) if each not in ("", answer))
    example = Question(question, context, answer, place, different)
    if problem := answer_problem(example):
        raise BadRow(problem)
    return example


def answer_problem(example: Question) -> str:
    """A message if the answer is empty, or does not occur in the context at its `start`; otherwise ""."""
    if not example.answer.strip():
        return "the answer is empty"
    at = "" if example.start is None else f" at {example.start}"
    missing = f"the answer {example.answer[:60]!r} does not occur in its context{at}"
    return "" if answer_places(example) else missing


def answer_places(example: Question) -> list[tuple[int, int]]:
    """The (start, end) of each occurrence of the answer in its context, or of the one at `start` if known.

    If there is none, occurrences that differ in case, spaces or Unicode form count.
    """
    _, context, answer, start, _ = example
    exact = [(m.start(), m.start() + len(answer)) for m in re.finditer(f"(?={re.escape(answer)})", context)]
    exact = [place for place in exact if start in (None, place[0])]
    if exact:
        return exact
    folded, places = _fold_text(context)
    matches = re.finditer(re.escape(_fold_text(answer)[0].strip()), folded)
    found = [(places[m.start()], places[m.end()]) for m in matches if m[0]]
    return [place for place in found if start in (None, place[0])]


def _fold_text(text: str) -> tuple[str, list[int]]:
    """Normalize the case, spaces and Unicode form of a text. Return it with the original index of each
    character, and of the end."""
    parts = []
    places = []
    # the starts of runs of spaces, and of characters with their combining marks
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


def read_documents(path: str | Path, how: FileFormat = AUTO) -> Examples:
    """Read the documents of a file with a sentence on each line, and a blank line after each document.

    In a table, each row is a sentence.
    """
    lines = read_texts(path, how)
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line.strip())
        else:
            found.append([])
    texts = [document for document in found if document]
    if not texts:
        raise DataError(f"{path} has no sentences.\nWrite a sentence on each line.")
    return Examples(texts, lines.notes)


# ---------------------------------------------------------------- documents


def documents(sentences: Iterable[Sentence], language: int = 0) -> list[list[str]]:
    """Group sentences into documents by their subjects: all sentences of a document have the same one."""
    groups: dict[str, list[str]] = {}
    for pair in sentences:
        groups.setdefault(pair.subject, []).append(pair[language])
    return list(groups.values())
