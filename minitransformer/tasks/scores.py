"""Scores of classes, entities and answers, from their definitions."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence


def accuracy(predicted: Sequence[object], expected: Sequence[object]) -> float:
    """The share that is right."""
    return sum(p == e for p, e in zip(predicted, expected, strict=True)) / max(len(expected), 1)


def f1(hits: int, predicted: int, expected: int) -> float:
    """The harmonic mean of precision, hits / predicted, and recall, hits / expected; 0 without hits."""
    return 2 * hits / (predicted + expected) if hits else 0.0


def macro_f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """The mean over the classes of each one's F1; a rare class counts as much as a frequent one."""
    hits = Counter(e for p, e in zip(predicted, expected, strict=True) if p == e)
    n_predicted, n_expected = Counter(predicted), Counter(expected)
    classes = n_predicted.keys() | n_expected.keys()
    return sum(f1(hits[c], n_predicted[c], n_expected[c]) for c in classes) / max(len(classes), 1)


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """The entities of BIO tags: type, start, end. An I- after another type starts one, as in conlleval
    (Tjong Kim Sang and De Meulder 2003)."""
    found = set()
    start, kind = 0, ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        name = name if prefix in ("B", "I") else ""
        if kind and (prefix == "B" or name != kind):
            found.add((kind, start, i))
            kind = ""
        if name and not kind:
            start, kind = i, name
    return found


def entity_f1(predicted: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]) -> float:
    """F1 of entities: right is one whose type and both ends are right."""
    hits = n_predicted = n_expected = 0
    for p, e in zip(predicted, expected, strict=True):
        one, other = entities(p), entities(e)
        hits += len(one & other)
        n_predicted += len(one)
        n_expected += len(other)
    return f1(hits, n_predicted, n_expected)


def answer_words(text: str) -> list[str]:
    """Words without case, punctuation and articles, as SQuAD compares them (Rajpurkar et al. 2016, 6.1)."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def answer_scores(predicted: Sequence[str], expected: Sequence[str]) -> dict[str, float]:
    """`exact_match` of answers and `f1` of their words, each the mean over the questions."""
    exact = total = 0.0
    for p, e in zip(predicted, expected, strict=True):
        one, other = Counter(answer_words(p)), Counter(answer_words(e))
        exact += answer_words(p) == answer_words(e)
        both_empty = not one and not other
        total += 1.0 if both_empty else f1((one & other).total(), one.total(), other.total())
    n = max(len(expected), 1)
    return {"exact_match": exact / n, "f1": total / n}
