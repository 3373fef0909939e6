"""Scores, each of which is computed by a formula from sums over the test examples.

A `Score` keeps each example's contribution to the sums. From these, bootstrap.py computes confidence
intervals and compares two runs.
"""

from __future__ import annotations

import math
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ..data.labels import are_entities
from ..text.words import scored_words

Sums = Float[np.ndarray, "*resamples sums"]
MAX_STATISTICS = 2**24  # the most numbers to keep by example; of more, only the sums are kept


class Score(float):
    """A float that keeps each example's contribution to the score: `statistics` (examples, sums).

    `formula` names the function in FORMULAS that computes the score from the sums. A Score is pickled and
    copied as a plain float.
    """

    statistics: Float[np.ndarray, "examples sums"]
    formula: str

    def __new__(cls, statistics: Any, formula: str = "mean") -> Score:
        kept = np.asarray(statistics, np.float64)
        score = super().__new__(cls, FORMULAS[formula](kept.sum(0)) if len(kept) else 0.0)
        score.statistics = kept
        score.formula = formula
        return score

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)

    def of(self, examples: Sequence[int] | np.ndarray) -> Score:
        """Return the score of some of the examples."""
        return Score(self.statistics[examples], self.formula)

    def by(self, formula: str) -> Score:
        """Return the score that another formula computes from the same statistics."""
        return Score(self.statistics, formula)


# ---------------------------------------------------------------- formulas: arrays (..., sums) -> (...)


def mean(sums: Sums) -> Any:
    """The first sum divided by the second; NaN for 0 / 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.divide(sums[..., 0], sums[..., 1])


def perplexity_of(sums: Sums) -> Any:
    """exp(mean): the model is as uncertain as if it chose among this many equally likely tokens."""
    loss = mean(sums)
    with np.errstate(over="ignore"):
        return np.where(loss < 700, np.exp(loss), np.inf)


def bits(sums: Sums) -> Any:
    """The mean, converted from nats to bits."""
    return mean(sums) / math.log(2)


def root(sums: Sums) -> Any:
    """The square root of the mean."""
    return np.sqrt(mean(sums))


def f1_of(sums: Sums) -> Any:
    """The harmonic mean of precision (hits / predicted) and recall (hits / expected); 0 without hits."""
    hits, predicted, expected = np.moveaxis(sums, -1, 0)
    return np.where(hits > 0, 2 * hits / np.maximum(predicted + expected, 1), 0.0)


def macro_f1_of(sums: Sums) -> Any:
    """The mean F1 over the classes that occur, given each class's numbers of hits, predicted and expected."""
    classes = sums.reshape(*sums.shape[:-1], -1, 3)
    occurs = classes[..., 1:].sum(-1) > 0
    return (f1_of(classes) * occurs).sum(-1) / np.maximum(occurs.sum(-1), 1)


def sacrebleu_formula(metric: str) -> Callable[[Sums], Any]:
    """Return the formula that computes a sacreBLEU metric ("BLEU" or "CHRF") from summed statistics."""

    def formula(sums: Sums) -> Any:
        import sacrebleu.metrics

        compute = getattr(sacrebleu.metrics, metric)()._compute_score_from_stats
        if sums.ndim == 1:
            return compute(sums.tolist()).score
        return np.array([compute(row).score for row in sums.astype(np.float32)])  # as sacreBLEU resamples

    return formula


FORMULAS: dict[str, Callable[[Sums], Any]] = {
    "mean": mean,
    "perplexity": perplexity_of,
    "bits": bits,
    "root": root,
    "f1": f1_of,
    "macro_f1": macro_f1_of,
    "bleu": sacrebleu_formula("BLEU"),
    "chrf": sacrebleu_formula("CHRF"),
}


def perplexity(loss: float) -> Score:
    """The perplexity of a mean loss."""
    return (loss if isinstance(loss, Score) else Score([(loss, 1)])).by("perplexity")


# ---------------------------------------------------------------- scores of classes, entities and answers


def accuracy(predicted: Sequence[object], expected: Sequence[object]) -> Score:
    """The fraction of correct predictions."""
    return Score([(p == e, 1) for p, e in zip(predicted, expected, strict=True)])


def exact_match(predicted: Sequence[object], expected: Sequence[object]) -> Score:
    """The fraction of texts that are predicted exactly."""
    return accuracy(predicted, expected)


def f1(hits: int, predicted: int, expected: int) -> float:
    """The F1 of counts: the harmonic mean of precision and recall."""
    return float(f1_of(np.array([hits, predicted, expected])))


def rmse(predicted: Sequence[float], expected: Sequence[float]) -> Score:
    """The square root of the mean squared error of numbers."""
    return Score([((p - e) ** 2, 1) for p, e in zip(predicted, expected, strict=True)], "root")


def macro_f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """The unweighted mean of the F1 of each class."""
    classes = {name: i for i, name in enumerate(sorted({*predicted, *expected}))}
    kept = 3 * len(expected) * len(classes) <= MAX_STATISTICS  # if False, only the sums are
    statistics = np.zeros((len(expected) if kept else 1, len(classes), 3))
    for i, (p, e) in enumerate(zip(predicted, expected, strict=True)):
        row = statistics[i if kept else 0]
        row[classes[p], 1] += 1
        row[classes[e], 2] += 1
        row[classes[e], 0] += p == e
    score = Score(statistics.reshape(len(statistics), -1), "macro_f1")
    return score if kept else float(score)


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """The entities (type, start, end) in BIO tags; `end` is exclusive, the type of tags without types is "".

    An I- tag after "O" or another type starts an entity, as in conlleval (Tjong Kim Sang and De Meulder
    2003).
    """
    found = set()
    start = 0
    kind = None
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        inside = name if prefix in ("B", "I") else None
        if kind is not None and (prefix == "B" or inside != kind):
            found.add((kind, start, i))
            kind = None
        if kind is None and inside is not None:
            start = i
            kind = inside
    return found


def tag_accuracy(predicted: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]) -> Score:
    """The fraction of correct tags, over all sentences."""
    pairs = [list(zip(p, e, strict=True)) for p, e in zip(predicted, expected, strict=True)]
    return Score([(sum(p == e for p, e in tags), len(tags)) for tags in pairs])


def entity_f1(predicted: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]) -> Score:
    """The F1 of entities. An entity is correct if its type, start and end are."""
    found = [(entities(p), entities(e)) for p, e in zip(predicted, expected, strict=True)]
    return Score([(len(p & e), len(p), len(e)) for p, e in found], "f1")


def tag_scores(predicted: Sequence[str], expected: Sequence[str]) -> dict[str, Score]:
    """The `accuracy` of the tags of texts and, if the tags mark entities, `entity_f1`.

    Each text's tags are one string, separated by spaces.
    """
    one = [tags.split() for tags in predicted]
    other = [tags.split() for tags in expected]
    scores = {"accuracy": tag_accuracy(one, other)}
    if are_entities(tag for tags in (*one, *other) for tag in tags):
        scores["entity_f1"] = entity_f1(one, other)
    return scores


def answer_words(text: str) -> list[str]:
    """The words of an answer without case, punctuation and articles, as SQuAD compares them.

    See Rajpurkar et al. 2016, 6.1. Unicode is normalized (NFC), so composed and decomposed accents are equal.
    In scripts without spaces between words, such as Chinese, each character is a word.
    """
    text = unicodedata.normalize("NFC", text.lower())
    kept = "".join(c for c in text if c not in string.punctuation)
    return [word for word in scored_words(kept) if word not in ("a", "an", "the")]


def answer_scores(predicted: Sequence[str], expected: Sequence[str | Sequence[str]]) -> dict[str, Score]:
    """The mean `exact_match` of answers and the mean `f1` of their words, over the questions.

    If a question has several right answers, the one with the best score counts, as in SQuAD.
    """
    exact = []
    overlaps = []
    for p, e in zip(predicted, expected, strict=True):
        words = answer_words(p)
        right = [answer_words(answer) for answer in ([e] if isinstance(e, str) else e)]
        exact.append((words in right, 1))
        overlaps.append((max(word_f1(words, other) for other in right), 1))
    return {"exact_match": Score(exact), "f1": Score(overlaps)}


def word_f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """The F1 of words, in any order; 1 if neither side has words."""
    hits = (Counter(predicted) & Counter(expected)).total()
    return 1.0 if not predicted and not expected else f1(hits, len(predicted), len(expected))
