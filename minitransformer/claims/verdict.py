"""Verdicts, computed from paired differences over seeds, and their 95% confidence intervals.

The arms of a case share their seeds, so the differences are paired. Their interval is that of Student's t. A
rule

- holds if the whole interval is at or above the smallest effect that counts,
- does not hold if the whole interval is below it,
- is undecided otherwise; then five more seeds are measured, once.

If the true effect is smaller than that, the probability that the rule is said to hold is 2.5% with one look
at the data, and at most 5% with two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .claim import Claim, Rule

HOLDS, FAILS, DEPENDS, UNKNOWN = "holds", "does not hold", "depends", "cannot tell at this scale"
ORDER = (HOLDS, FAILS, UNKNOWN)
SEEDS, MOST_SEEDS = 5, 10

# the 97.5% quantiles of Student's t with 1 to 9 degrees of freedom
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Interval:
    """A mean difference and its 95% confidence interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, differences: ArrayLike) -> Interval:
        """Compute the interval of two to ten differences. It is infinite if a difference is not finite."""
        values = np.asarray(differences, dtype=np.float64)
        mean = values.mean()
        if not np.isfinite(values).all():
            return cls(mean, -math.inf, math.inf)
        half = T[len(values) - 2] * values.std(ddof=1) / math.sqrt(len(values))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Finding:
    """The finding on a rule in a case: the effect, `higher` minus `lower` or their ratio, and the verdict."""

    case: str
    rule: Rule
    effect: Interval
    verdict: str

    def __bool__(self) -> bool:
        return self.verdict == HOLDS


def finding(rule: Rule, case: str, lower: Sequence[float], higher: Sequence[float]) -> Finding:
    """Return the finding on a rule, given the measures of both quantities, in the same order of seeds."""
    a, b = np.asarray(lower, dtype=np.float64), np.asarray(higher, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # models that diverged have infinite measures
        effect = Interval.of(np.log(b) - np.log(a) if rule.ratio else b - a)
    threshold = math.log(rule.by) if rule.ratio else rule.by
    verdict = HOLDS if effect.low >= threshold else FAILS if effect.high < threshold else UNKNOWN
    if rule.ratio:
        effect = Interval(*(math.exp(x) for x in (effect.mean, effect.low, effect.high)))
    return Finding(case, rule, effect, verdict)


def findings(
    claim: Claim, measured: Mapping[tuple[str, str], Mapping[int, Mapping[str, float]]]
) -> list[Finding]:
    """Return the findings on all rules in all cases, given (arm, case) -> seed -> measures."""
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
    """Return the verdict of each (case, part), in which all rules must hold."""
    of_part: dict[tuple[str, str], set[str]] = {}
    for each in found:
        of_part.setdefault((each.case, each.rule.part), set()).add(each.verdict)
    return {key: combine_verdicts(rules) for key, rules in of_part.items()}


def combine_verdicts(rules: set[str]) -> str:
    """Combine the verdicts of the rules of a part."""
    return FAILS if FAILS in rules else UNKNOWN if UNKNOWN in rules else HOLDS


def verdict(found: Iterable[Finding]) -> str:
    """Return the verdict of a claim: that of its cases and parts, or DEPENDS if these differ."""
    said = set(verdicts(found).values())
    if {HOLDS, FAILS} <= said:
        return DEPENDS
    return UNKNOWN if UNKNOWN in said else said.pop()


def depends_on(found: Iterable[Finding]) -> dict[str, list[str]]:
    """Return where each verdict applies, such as {"holds": ["d_k = 128"]}; {} if all verdicts agree.

    Cases are listed if they determine the verdict, or parts if they do. Otherwise, cases are listed with the
    parts to which a verdict applies, unless it applies to all of them: "d_k = 8 (loss, saturation)".
    """
    said = verdicts(found)
    if len(set(said.values())) == 1:
        return {}
    places: dict[str, list[str]]
    for names in ([case for case, _ in said], [part for _, part in said]):  # the cases alone, the parts alone
        by_name: dict[str, set[str]] = {}
        for name, each in zip(names, said.values(), strict=True):
            by_name.setdefault(name, set()).add(each)
        if all(len(each) == 1 for each in by_name.values()):
            places = {verdict: [name for name in by_name if verdict in by_name[name]] for verdict in ORDER}
            break
    else:
        cases = dict.fromkeys(case for case, _ in said)
        places = {
            verdict: [*filter(None, (place(said, case, verdict) for case in cases))] for verdict in ORDER
        }
    return {verdict: where for verdict, where in places.items() if where}


def place(said: Mapping[tuple[str, str], str], case: str, verdict: str) -> str:
    """Format a case with its parts that have this verdict; "" if there are none."""
    of_case = {part: each for (other, part), each in said.items() if other == case}
    parts = [part for part, each in of_case.items() if each == verdict]
    if len(parts) == len(of_case):
        return case
    return f"{case} ({', '.join(parts)})" if parts else ""
