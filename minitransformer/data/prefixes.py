"""Several text-to-text tasks in one: a prefix of the source names the task (Raffel et al. 2020, section 2.4).

translate English to French: She is happy.      ->  Elle est heureuse.
negate: She is happy.                           ->  She is not happy.
ask: She is happy.                              ->  Is she happy?
summarize: The dog chased a cat. The dog ate.   ->  The dog chased and ate.
question: Who ate? context: We left. Marie ate. ->  Marie
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from .batching import generator
from .labels import make_questions
from .phrasebook import Pair, Sentence, sentence_splits

SUMMARIES = 12  # the number of the random stream
PREFIXES = ("translate English to French", "negate", "ask", "summarize", "question")


@cache
def phrasebook_tasks() -> dict[str, list[Pair]]:
    """The prefixed pairs of all tasks, by split."""
    return {name: make_prefixed_pairs(split) for name, split in sentence_splits().items()}


def make_prefixed_pairs(sentences: Sequence[Sentence]) -> list[Pair]:
    """Return the distinct (prefixed source, target) pairs of all tasks for these sentences."""
    translate, negate, ask, summarize, question = PREFIXES
    pairs = [(f"{translate}: {english}", french) for english, french in sentences]
    for sentence in sentences:
        if sentence.negation:
            pairs.append((f"{negate}: {sentence[0]}", sentence.negation))
            pairs.append((f"{ask}: {sentence[0]}", sentence.question))
    pairs += [(f"{summarize}: {text}", summary) for text, summary in summaries(sentences)]
    pairs += [(f"{question}: {e.question} context: {e.context}", e.answer) for e in make_questions(sentences)]
    return list(dict.fromkeys(pairs))


def summaries(sentences: Sequence[Sentence]) -> list[Pair]:
    """Pairs of two statements about the same subject, and a short summary of both."""
    groups: dict[str, list[Sentence]] = {}
    for sentence in sentences:
        if sentence.asked is not None:
            groups.setdefault(sentence.subject, []).append(sentence)
    draw = generator(0, SUMMARIES, len(sentences))
    pairs = []
    for subject, group in groups.items():
        for first in group if len(group) > 1 else ():
            second = group[int(draw.integers(len(group)))]
            verbs = first.verb[2], second.verb[2]
            if verbs[0] != verbs[1]:
                text = f"{first[0].removesuffix('.')}. {second[0].removesuffix('.')}."
                pairs.append((text, f"{subject[0].upper()}{subject[1:]} {verbs[0]} and {verbs[1]}."))
    return pairs
