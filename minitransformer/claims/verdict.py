"""Verdicts, computed from measurements: paired differences over seeds, and their 95% intervals.

The arms of a case share their seeds, so the differences are paired. Their interval is Student's t. A rule

- holds if the whole interval is at or above the smallest effect that counts,
- does not hold if the whole interval is below it,
- cannot be told otherwise; then five seeds more are measured, once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .claim import Claim, Rule

HOLDS, FAILS, DEPENDS, UNKNOWN = "holds", "does not hold", "depends", "cannot tell at this scale"
SEEDS, MOST_SEEDS = 5, 10

# the 97.5% quantiles of Student's t with 1 to 9 degrees of freedom
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Interval:
    """A mean difference and its 95% interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, differences: Sequence[float]) -> Interval:
        """From two to ten differences; infinite ones make the interval infinite."""
        values = np.asarray(differences, dtype=np.float64)
        mean = values.mean()
        if not np.isfinite(values).all():
            return cls(mean, -math.inf, math.inf)
        half = T[len(values) - 2] * values.std(ddof=1) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Finding:
    """A rule in a case: the effect, the higher arm's measure minus the lower one's, and what it says."""

    case: str
    rule: Rule
    effect: Interval
    verdict: str


def finding(rule: Rule, case: str, lower: Sequence[float], higher: Sequence[float]) -> Finding:
    """What the measures of two arms say of a rule; those of one seed stand at the same place."""
    a, b = np.asarray(lower, dtype=np.float64), np.asarray(higher, dtype=np.float64)
    effect = Interval.of(np.log(b) - np.log(a) if rule.ratio else b - a)
    threshold = math.log(rule.by) if rule.ratio else rule.by
    verdict = HOLDS if effect.low >= threshold else FAILS if effect.high < threshold else UNKNOWN
    if rule.ratio:
        effect = Interval(*(math.exp(x) for x in (effect.mean, effect.low, effect.high)))
    return Finding(case, rule, effect, verdict)


def findings(claim: Claim, measured: Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]) -> list[Finding]:
    """All rules in all cases, from (arm, case) -> seed -> measures."""
    found = []
    for case in claim.cases:
        for rule in claim.rules:
            if rule.case in (None, case):
                quantities = [(measured[arm, case], measure) for arm, measure in rule.quantities]
                seeds = sorted(set.intersection(*(set(by_seed) for by_seed, _ in quantities)))
                values = [[by_seed[seed][measure] for seed in seeds] for by_seed, measure in quantities]
                found.append(finding(rule, case, *values))
    return found


def verdict(found: Iterable[Finding]) -> str:
    """The verdict of a claim: of all cases, or that it depends on them."""
    by_case: dict[str, list[str]] = {}
    for each in found:
        by_case.setdefault(each.case, []).append(each.verdict)
    verdicts = {worst(of_rules) for of_rules in by_case.values()}
    if len(verdicts) == 1:
        return verdicts.pop()
    return UNKNOWN if UNKNOWN in verdicts else DEPENDS


def worst(verdicts: Iterable[str]) -> str:
    """That of a case whose rules must all hold."""
    found = set(verdicts)
    return FAILS if FAILS in found else UNKNOWN if UNKNOWN in found else HOLDS
