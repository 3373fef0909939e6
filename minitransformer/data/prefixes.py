"""Several tasks in one, text to text: a prefix names the task (Raffel et al. 2020, 2.4).

translate English to French: She is happy.      ->  Elle est heureuse.
negate: She is happy.                           ->  She is not happy.
ask: She is happy.                              ->  Is she happy?
summarize: The dog chased a cat. The dog ate.   ->  The dog chased and ate.
question: Who ate? context: We left. Marie ate. ->  Marie
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from .batching import generator
from .labels import make_questions, sentence_splits
from .phrasebook import Pair, Sentence
from .phrasebook.grammar import NEGATION, QUESTION, STATEMENT, Parts, join_english

SUMMARIES = 12  # random stream
PREFIXES = ("translate English to French", "negate", "ask", "summarize", "question")


@cache
def phrasebook_tasks() -> dict[str, list[Pair]]:
    """Prefixed pairs of every task, by split."""
    return {name: make_prefixed_pairs(split) for name, split in sentence_splits().items()}


def make_prefixed_pairs(sentences: Sequence[Sentence]) -> list[Pair]:
    """Prefixed pairs of every task."""
    translate, negate, ask, summarize, question = PREFIXES
    pairs = [(f"{translate}: {english}", french) for english, french in sentences]
    for sentence in statements(sentences):
        pairs.append((f"{negate}: {sentence[0]}", in_mode(sentence.parts, NEGATION) + _stop(sentence)))
        pairs.append((f"{ask}: {sentence[0]}", in_mode(sentence.parts, QUESTION)))
    pairs += [(f"{summarize}: {text}", summary) for text, summary in summaries(sentences)]
    pairs += [(f"{question}: {e.question} context: {e.context}", e.answer) for e in make_questions(sentences)]
    return list(dict.fromkeys(pairs))


def statements(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The statements that this grammar can negate and turn into a question."""
    return [
        sentence
        for sentence in sentences
        if sentence.parts.mode == STATEMENT
        and sentence.parts.subject.english not in ("there", "this", "these")
    ]


def in_mode(parts: Parts, mode: str) -> str:
    """The English sentence as a negation or a question."""
    auxiliary, main, _ = parts.verb
    rest = [phrase.english for phrase in parts.rest]
    if mode == NEGATION:
        rest = [re.sub(r"\bsome\b", "any", text) for text in rest]
        words = [parts.subject.english, auxiliary, "not", main, *rest]
    else:
        words = [auxiliary, parts.subject.english, main, *rest]
    text = join_english(*words)
    return text[0].upper() + text[1:] + ("?" if mode == QUESTION else "")


def summaries(sentences: Sequence[Sentence]) -> list[Pair]:
    """Two statements about the same subject, and a short one of what it does in both."""
    groups: dict[str, list[Sentence]] = {}
    for sentence in statements(sentences):
        if sentence.parts.is_clause:
            groups.setdefault(sentence.parts.subject.english, []).append(sentence)
    draw = generator(0, SUMMARIES, len(sentences))
    pairs = []
    for subject, group in groups.items():
        for first in group if len(group) > 1 else ():
            second = group[int(draw.integers(len(group)))]
            verbs = first.parts.verb[2], second.parts.verb[2]
            if verbs[0] != verbs[1]:
                text = f"{first[0].removesuffix('.')}. {second[0].removesuffix('.')}."
                pairs.append((text, f"{subject[0].upper()}{subject[1:]} {verbs[0]} and {verbs[1]}."))
    return pairs


def _stop(sentence: Sentence) -> str:
    return "." if sentence[0].endswith(".") else ""
