"""Sentences whose meaning is in the order of their words: the dog chased the cat, the cat chased the dog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

from minitransformer.data.phrasebook import Pair, tokens_of

from .choices import BalancedSampler
from .grammar import STATEMENT, Sentence, clause, noun_phrase

CHASERS = ["cat", "dog", "bird", "mouse", "fox", "rabbit", "goat", "man", "boy", "girl"]
HEADLINERS = ["dog", "man", "cat", "woman", "horse", "boy", "bird", "king"]


def combinations(verbs: str, nouns: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{verb} {one} {other}" for verb in verbs.split() for one, other in permutations(nouns, 2))


def chasing_each_other(draw: BalancedSampler) -> Sentence:
    """The dog chased the cat, the cat chased the dog: every pair in both orders."""
    verb, one, other = draw(combinations("chase bite see", CHASERS)).split()
    return clause(STATEMENT, "past", noun_phrase("the", one), verb, noun_phrase("the", other))


def writing_a_headline(draw: BalancedSampler) -> Sentence:
    """Dog bites man, un chien mord un homme."""
    return headline(*draw(combinations("bite see", HEADLINERS)).split())


def headline(verb: str, one: str, other: str) -> Sentence:
    return clause(STATEMENT, "present", noun_phrase("headline", one), verb, noun_phrase("headline", other))


def groups_by_words(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Pairs whose English sentences have the same words in another order, together; most stand alone."""
    groups: dict[tuple[str, ...], list[Pair]] = {}
    for pair in pairs:
        words = tokens_of(pair[0].rstrip(".").lower())
        groups.setdefault(tuple(sorted(words)), []).append(pair)
    return list(groups.values())


def minimal_pairs(pairs: Sequence[Pair]) -> list[tuple[Pair, Pair]]:
    """Sentences with the same words in another order: the dog chased the cat, the cat chased the dog. The
    splits of the phrasebook have both sides of each in the same split."""
    return [
        (one, other) for group in groups_by_words(pairs) for i, other in enumerate(group) for one in group[:i]
    ]
