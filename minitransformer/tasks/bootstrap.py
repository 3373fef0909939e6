"""Bootstrap confidence intervals, and paired bootstrap tests of differences (Koehn 2004).

A resample draws n of n examples with replacement; its score is computed from the sums of their statistics.
The draws are the same as sacreBLEU's, and depend only on n, so two runs are compared on the same resamples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .scores import FORMULAS, Score

RESAMPLES, SEED = 1000, 12345  # sacreBLEU's defaults
PART = 2**22  # how many numbers to draw at a time


class Difference(NamedTuple):
    """The difference between a score and the baseline's, with its 95% confidence interval and p-value."""

    value: float
    low: float
    high: float
    p_value: float


def resampled_sums(statistics: Float[np.ndarray, "n sums"]) -> Float[np.ndarray, "resamples sums"]:
    """Return the sums of the statistics over each of RESAMPLES resamples of the n examples."""
    n = len(statistics)
    random = np.random.default_rng(SEED)
    parts = []
    rows = max(1, PART // n)
    for start in range(0, RESAMPLES, rows):
        drawn = random.choice(n, size=(min(rows, RESAMPLES - start), n))
        counts = np.stack([np.bincount(row, minlength=n) for row in drawn]).astype(np.float64)
        parts.append(counts @ statistics)
    return np.concatenate(parts)


def resample(scores: Mapping[str, Score]) -> dict[str, np.ndarray]:
    """Compute each score on each resample. Return an array (resamples,) for each name."""
    found: dict[str, np.ndarray] = {}
    for n in {len(score.statistics) for score in scores.values()}:
        same_length = {name: score for name, score in scores.items() if len(score.statistics) == n}
        widths = np.cumsum([score.statistics.shape[1] for score in same_length.values()])
        sums = resampled_sums(np.concatenate([score.statistics for score in same_length.values()], 1))
        parts = np.split(sums, widths[:-1], axis=1)
        found |= {
            name: FORMULAS[s.formula](part)
            for (name, s), part in zip(same_length.items(), parts, strict=True)
        }
    return found


def percentile_interval(values: np.ndarray) -> tuple[float, float]:
    """The interval from the 2.5th to the 97.5th percentile, ignoring NaN; (NaN, NaN) without values."""
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered):
        return (np.nan, np.nan)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def intervals(scores: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """The 95% confidence interval of each `Score` that has several examples."""
    known = {name: s for name, s in scores.items() if isinstance(s, Score) and len(s.statistics) > 1}
    return {name: percentile_interval(values) for name, values in resample(known).items()}


def differences(baseline: Mapping[str, Score], scores: Mapping[str, Score]) -> dict[str, Difference]:
    """Compare the scores present in both mappings with a paired bootstrap test.

    Both must be computed on the same examples.
    """
    names = [name for name in scores if name in baseline]
    before = resample({name: baseline[name] for name in names})
    after = resample({name: scores[name] for name in names})
    found = {}
    for name in names:
        value = scores[name] - baseline[name]
        drawn = after[name] - before[name]
        found[name] = Difference(value, *percentile_interval(drawn), p_value(drawn[~np.isnan(drawn)], value))
    return found


def p_value(drawn: np.ndarray, value: float) -> float:
    """The p-value of a difference `value`, given the differences `drawn` on the resamples.

    As in sacreBLEU, it is how often |drawn| exceeds its own mean by more than |value|. If all of `drawn` are
    0, it is 1; sacreBLEU gives the smallest p-value there.
    """
    if not drawn.any():
        return 1.0
    sizes = np.abs(drawn)
    return (int((sizes - sizes.mean() > abs(value)).sum()) + 1) / (len(sizes) + 1)
