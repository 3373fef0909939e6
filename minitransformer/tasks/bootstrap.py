"""What chance does to a score: intervals and paired differences by the bootstrap (Koehn 2004).

A resample draws as many examples as there are, with replacement, and its score is the formula of their sum.
The draws are sacreBLEU's, a function of the number of examples: two runs are compared on the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .scores import FORMULAS, Score

RESAMPLES, SEED = 1000, 12345  # sacreBLEU's
PART = 2**22  # numbers drawn at a time


class Difference(NamedTuple):
    """A score minus that of the baseline, its 95% interval, and the p-value that it is chance."""

    value: float
    low: float
    high: float
    p_value: float


def resampled_sums(statistics: Float[np.ndarray, "n sums"]) -> Float[np.ndarray, "resamples sums"]:
    """The sums of each resample."""
    n = len(statistics)
    random = np.random.default_rng(SEED)
    parts = []
    rows = max(1, PART // n)
    for start in range(0, RESAMPLES, rows):
        drawn = random.choice(n, size=(min(rows, RESAMPLES - start), n))
        times = np.stack([np.bincount(row, minlength=n) for row in drawn]).astype(np.float64)
        parts.append(times @ statistics)
    return np.concatenate(parts)


def resampled(scores: Mapping[str, Score]) -> dict[str, np.ndarray]:
    """The scores of each resample."""
    found: dict[str, np.ndarray] = {}
    for n in {len(score.statistics) for score in scores.values()}:
        alike = {name: score for name, score in scores.items() if len(score.statistics) == n}
        widths = np.cumsum([score.statistics.shape[1] for score in alike.values()])
        sums = resampled_sums(np.concatenate([score.statistics for score in alike.values()], 1))
        parts = np.split(sums, widths[:-1], axis=1)
        found |= {
            name: FORMULAS[s.formula](part) for (name, s), part in zip(alike.items(), parts, strict=True)
        }
    return found


def percentile_interval(values: np.ndarray) -> tuple[float, float]:
    """The 95% of the values that are not NaN, without a fortieth at each end."""
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered):
        return (np.nan, np.nan)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def intervals(scores: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """The 95% interval of each score that remembers its examples, if there are several."""
    known = {name: s for name, s in scores.items() if isinstance(s, Score) and len(s.statistics) > 1}
    return {name: percentile_interval(values) for name, values in resampled(known).items()}


def differences(baseline: Mapping[str, Score], scores: Mapping[str, Score]) -> dict[str, Difference]:
    """The paired bootstrap test of the scores that both have, of the same examples."""
    names = [name for name in scores if name in baseline]
    before = resampled({name: baseline[name] for name in names})
    after = resampled({name: scores[name] for name in names})
    found = {}
    for name in names:
        value = scores[name] - baseline[name]
        drawn = after[name] - before[name]
        found[name] = Difference(value, *percentile_interval(drawn), p_value(drawn[~np.isnan(drawn)], value))
    return found


def p_value(drawn: np.ndarray, value: float) -> float:
    """How often the size of the difference that is drawn exceeds its mean by more than `value`'s; 1 where
    none differs (for which sacreBLEU gives the smallest value)."""
    if not drawn.any():
        return 1.0
    sizes = np.abs(drawn)
    return (int((sizes - sizes.mean() > abs(value)).sum()) + 1) / (len(sizes) + 1)
