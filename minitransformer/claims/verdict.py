"""Verdicts, computed from measurements: paired differences over seeds, and their 95% intervals.

The arms of a case share their seeds, so the differences are paired. Their interval is Student's t. A rule

- holds if the whole interval is at or above the smallest effect that counts,
- does not hold if the whole interval is below it,
- cannot be told otherwise; then five seeds more are measured, once.

The chance that a rule is said to hold whose true effect is smaller is 2.5% for one look at the data, and at
most 5% for two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

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
    def of(cls, differences: ArrayLike) -> Interval:
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

    def __bool__(self) -> bool:
        return self.verdict == HOLDS


def finding(rule: Rule, case: str, lower: Sequence[float], higher: Sequence[float]) -> Finding:
    """What the measures of two arms say of a rule; those of one seed stand at the same place."""
    a, b = np.asarray(lower, dtype=np.float64), np.asarray(higher, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # infinite ones, of models that diverged
        effect = Interval.of(np.log(b) - np.log(a) if rule.ratio else b - a)
    threshold = math.log(rule.by) if rule.ratio else rule.by
    verdict = HOLDS if effect.low >= threshold else FAILS if effect.high < threshold else UNKNOWN
    if rule.ratio:
        effect = Interval(*(math.exp(x) for x in (effect.mean, effect.low, effect.high)))
    return Finding(case, rule, effect, verdict)


def findings(
    claim: Claim, measured: Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]
) -> list[Finding]:
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


def verdicts(found: Iterable[Finding]) -> dict[tuple[str, str], str]:
    """That of each case and part: all of its rules must hold."""
    together: dict[tuple[str, str], set[str]] = {}
    for each in found:
        together.setdefault((each.case, each.rule.part), set()).add(each.verdict)
    return {
        key: FAILS if FAILS in rules else UNKNOWN if UNKNOWN in rules else HOLDS
        for key, rules in together.items()
    }


def verdict(found: Iterable[Finding]) -> str:
    """The verdict of a claim: that of all its cases and parts, or that it depends on them."""
    said = set(verdicts(found).values())
    if {HOLDS, FAILS} <= said:
        return DEPENDS
    return UNKNOWN if UNKNOWN in said else said.pop()


def depends_on(found: Iterable[Finding]) -> str:
    """What a verdict depends on, such as "holds: d_k = 128; does not hold: d_k = 8"; "" if on nothing.

    Cases are named only if the verdicts of some part differ by case, and parts likewise.
    """
    said = verdicts(found)
    if len(set(said.values())) == 1:
        return ""
    names = [(case,) for case, _ in said], [(part,) for _, part in said], list(said)
    for keys in names:  # the cases alone, the parts alone, both
        by_key: dict[tuple[str, ...], set[str]] = {}
        for key, each in zip(keys, said.values(), strict=True):
            by_key.setdefault(key, set()).add(each)
        if all(len(each) == 1 for each in by_key.values()):
            break
    places: dict[str, list[str]] = {}
    for key, (each,) in by_key.items():
        places.setdefault(each, []).append(", ".join(filter(None, key)))
    return "; ".join(
        f"{each}: {' / '.join(places[each])}" for each in (HOLDS, FAILS, UNKNOWN) if each in places
    )
