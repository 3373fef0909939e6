"""Verdicts from measurements made by hand."""

import math

import pytest

from minitransformer.claims.claim import Claim, Rule
from minitransformer.claims.verdict import (
    DEPENDS,
    FAILS,
    HOLDS,
    UNKNOWN,
    Interval,
    depends_on,
    finding,
    findings,
    verdict,
)

RULE = Rule("a: loss", "b: loss", by=0.1)


def test_confidence_intervals_use_student_t():
    # mean 2, standard deviation 1, three values: 2 +- 4.303 / sqrt(3)
    interval = Interval.of([1, 2, 3])
    assert interval.mean == 2
    assert interval.low == pytest.approx(2 - 4.303 / math.sqrt(3))
    assert interval.high == pytest.approx(2 + 4.303 / math.sqrt(3))


@pytest.mark.parametrize(
    ("lower", "verdict"),
    [
        ([0.5, 0.6, 0.7], HOLDS),
        ([0.98, 1.08, 1.18], FAILS),
        ([1.5, 1.6, 1.7], FAILS),
        ([0.2, 0.9, 1.6], UNKNOWN),
    ],
)
def test_a_rule_holds_only_if_its_whole_interval_does(lower, verdict):
    assert finding(RULE, "", lower, [1.0, 1.1, 1.2]).verdict == verdict


def test_differences_are_paired_by_seed():
    far_apart = [1.0, 5.0, 9.0]
    found = finding(RULE, "", far_apart, [x + 0.2 for x in far_apart])
    assert found.verdict == HOLDS
    assert found.effect.low == pytest.approx(0.2)
    assert found.effect.high == pytest.approx(0.2)


def test_a_ratio_compares_logarithms():
    rule = Rule("a: loss", "b: loss", by=2, ratio=True)
    found = finding(rule, "", [1, 10, 100], [3, 30, 300])
    assert found.effect.mean == pytest.approx(3)
    assert found.effect.low == pytest.approx(3)
    assert found.verdict == HOLDS
    assert finding(rule, "", [1, 10, 100], [1.5, 15, 150]).verdict == FAILS


def test_a_negative_effect_sets_a_noninferiority_margin():
    rule = Rule("a: loss", "b: loss", by=-0.1)
    assert finding(rule, "", [1.05, 1.06, 1.05], [1, 1, 1]).verdict == HOLDS
    assert finding(rule, "", [1.25, 1.26, 1.25], [1, 1, 1]).verdict == FAILS


def test_infinite_measures_give_an_unknown_verdict():
    assert finding(RULE, "", [1, 1, 1], [2, math.inf, 2]).verdict == UNKNOWN


GOOD, BAD, UNCLEAR = [0.5, 0.6, 0.7], [1.5, 1.6, 1.7], [0.2, 0.9, 1.6]


def claim_of(**record):
    record = {"cases": ("small", "large"), "rules": (RULE,)} | record
    return Claim("name", "Is it?", {}, "", {"loss": "nats"}, ("a", "b"), measure=lambda trial: {}, **record)


def measured(**lower):
    """The other arm has 1.0, 1.1, 1.2 in each case."""
    of_seeds = lambda values: {seed: {"loss": value} for seed, value in enumerate(values)}
    return {
        (arm, case): of_seeds(values if arm == "a" else [1.0, 1.1, 1.2])
        for case, values in lower.items()
        for arm in "ab"
    }


@pytest.mark.parametrize(
    ("small", "large", "expected", "on"),
    [
        (GOOD, GOOD, HOLDS, {}),
        (BAD, BAD, FAILS, {}),
        (UNCLEAR, UNCLEAR, UNKNOWN, {}),
        (GOOD, BAD, DEPENDS, {HOLDS: ["small"], FAILS: ["large"]}),
        (BAD, UNCLEAR, UNKNOWN, {FAILS: ["small"], UNKNOWN: ["large"]}),
    ],
)
def test_verdict_depends_on_cases_that_differ(small, large, expected, on):
    found = findings(claim_of(), measured(small=small, large=large))
    assert verdict(found) == expected
    assert depends_on(found) == on


def test_rules_of_a_part_must_all_hold_but_parts_may_differ():
    rules = lambda *parts: [
        Rule("a: loss", "b: loss", by=0.1, part=parts[0]),
        Rule("b: loss", "a: loss", by=0.1, part=parts[1]),
    ]
    small = lambda *parts: findings(claim_of(rules=rules(*parts), cases=("small",)), measured(small=GOOD))
    assert verdict(small("", "")) == FAILS
    found = small("better", "worse")
    assert verdict(found) == DEPENDS
    assert depends_on(found) == {HOLDS: ["better"], FAILS: ["worse"]}


def test_cases_whose_parts_agree_are_named_without_parts():
    rules = (
        Rule("a: loss", "b: loss", by=0.1, part="better"),
        Rule("b: loss", "a: loss", by=-9, part="much the same"),
    )
    found = findings(claim_of(rules=rules), measured(small=GOOD, large=BAD))
    assert depends_on(found) == {HOLDS: ["small", "large (much the same)"], FAILS: ["large (better)"]}


def test_rules_of_one_case_do_not_apply_to_others():
    claim = claim_of(rules=(Rule("a: loss", "b: loss", by=0.1, case="large"),))
    assert [each.case for each in findings(claim, measured(small=BAD, large=GOOD))] == ["large"]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (RULE, "a: loss at least 0.1 below b: loss"),
        (Rule("a: loss", "b: loss", by=-0.1), "a: loss at most 0.1 above b: loss"),
        (Rule("a: loss", "b: loss", by=2, ratio=True), "a: loss lower than b: loss by a factor of 2"),
        (Rule("a: loss", "b: loss", by=0.8, ratio=True), "a: loss at most 1.25 times b: loss"),
    ],
)
def test_rules_are_described_in_words(rule, text):
    assert str(rule) == text
