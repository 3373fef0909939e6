"""The page of claims: its numbers and answers follow from what was measured, and lessons name its claims."""

import json
import math
import os
import re

import numpy as np
import pytest

from minitransformer.claims import CLAIMS, Interval, Rule
from minitransformer.claims.verdict import Finding
from minitransformer.cli.lesson import lessons
from tools import claims
from tools.claims import ANSWERS, PAGE, STORED, Answer, Effect, Run, decide, page, read_runs

CLAIM = CLAIMS["sqrt-dk"]


def test_the_claims_page_is_up_to_date_with_stored_results():
    assert page(read_runs()) == PAGE.read_text(encoding="utf-8"), "write it with: python -m tools.claims"


def test_each_claim_has_two_runs_of_five_or_ten_seeds():
    for runs in read_runs().values():
        seeds = [[list(map(int, each["seeds"])) for each in run.arms] for run in runs]
        for first, of_run in zip((100, 0), seeds, strict=True):
            assert all(each in ([*range(first, first + 5)], [*range(first, first + 10)]) for each in of_run)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.claim)
def test_claim_answers_follow_from_their_intervals(answer):
    """Computed here once more, from the file: yes, no or neither by the first comparison."""
    lines = map(json.loads, STORED.read_text(encoding="utf-8").splitlines())
    arms = next(line["arms"] for line in lines if line["claim"] == answer.claim)  # the first run's arms
    case, *sides = answer.comparisons[0]
    low, high = (
        np.array([seed[measure] for each in arms if (each["arm"], each["case"]) == (arm, case)
                  for seed in each["seeds"].values()])
        for arm, measure in (side.rsplit(": ", 1) for side in sides)
    )  # fmt: skip
    t = {5: 2.776, 10: 2.262}[len(low)]
    half = t * (high - low).std(ddof=1) / math.sqrt(len(low))
    (counts,) = {rule.by for rule in CLAIMS[answer.claim].rules if [rule.lower, rule.higher] == sides}
    mean = (high - low).mean()
    says = {"yes"} if mean - half >= counts else {"no"} if mean + half < counts else {"not decided here"}
    row = re.escape(f"| {answer.question} | **")
    shown = re.search(row + r"([\w, ]+)\*\*: (.*) \|", PAGE.read_text(encoding="utf-8"))
    assert shown[1].lower().removesuffix(", but") in says
    text = shown[2].replace("-", "")
    assert any(f"{abs(mean * size):.{n}f} [" in text for size, n in ((1, 2), (100, 0)))


def run_of(small, large):
    """A run whose effects with 5 seeds are these, in one case and in the other."""
    arms = [
        {"arm": arm, "case": case, "seeds": {str(seed): {"loss": 2 + x} for seed, x in enumerate(effects)}}
        for case, given in (("d_k = 8", small), ("d_k = 64", large))
        for arm, effects in (("divided", [0] * 5), ("not divided", given))
    ]
    return Run(CLAIM, "2026-01-31", 1.0, "a machine", arms)


CLEAR, NONE, NOISY = [0.3, 0.31, 0.32, 0.3, 0.31], [0.0, 0.01, 0.0, -0.01, 0.0], [0.3, -0.2, 0.4, -0.3, 0.1]


@pytest.mark.parametrize(
    ("large", "small", "decided"),
    [
        (CLEAR, CLEAR, "yes"),
        (CLEAR, NONE, "yes, but"),
        (CLEAR, NOISY, "yes, but"),
        (NONE, CLEAR, "no"),
        (NOISY, CLEAR, "not decided here"),
    ],
)
def test_different_measurements_give_a_different_answer(large, small, decided):
    (answer,) = (each for each in ANSWERS if each.claim == CLAIM.name)
    assert decide(*run_of(small, large).compare(answer)) == decided


def test_comparisons_without_a_rule_use_the_first_rule_margin():
    sides = ("not divided: loss", "divided: loss")
    answer = Answer(CLAIM.name, 9, "", "", [("d_k = 8", *sides[::-1]), ("d_k = 64", *sides)])
    first, turned = run_of(CLEAR, CLEAR).compare(answer)
    assert (turned.rule.by, turned.rule.case, turned.effect.mean) == (0.05, "d_k = 64", -first.effect.mean)


@pytest.mark.parametrize(
    ("effect", "unit", "shown"),
    [
        ((1.283, 0.953, 1.612), "nats", "1.28 [0.95, 1.61]"),
        ((-0.094, -0.138, -0.05), "-nats", "0.094 [0.050, 0.138]"),
        ((0.607, 0.505, 0.709), "points", "61 [50, 71]"),
        ((-0.0453, -0.0657, -0.0248), "-points", "4.5 [2.5, 6.6]"),
        ((1.05, 1.0, 1.09), "times", "1.05 [1.00, 1.09]"),
    ],
)
def test_effects_are_formatted_in_their_unit(effect, unit, shown):
    finding = Finding("", Rule("a: loss", "b: loss", by=0.1), Interval(*effect), "holds")
    assert format(Effect(finding), unit) == shown


def test_each_lesson_names_the_claims_that_answer_its_question():
    for answer in ANSWERS:
        text = lessons()[answer.lesson].read_text(encoding="utf-8")
        assert f"`minitransformer claims {answer.claim}`" in text, answer.claim


def test_results_are_stored_with_all_measurements(tmp_path, monkeypatch):
    first, second = runs = read_runs()[CLAIM.name]
    texts = dict.fromkeys(("claim", "question", "setting", "unequal", "verdict", "machine", "code"), "")
    others = {"says": {}, "measures": {}, "rules": [], "depends on": {}, "findings": []}
    for name, run in zip(("a", "b"), runs, strict=True):
        file = tmp_path / name / f"{CLAIM.name}.json"
        file.parent.mkdir()
        kept = {"claim": CLAIM.name, "machine": run.machine, "minutes": run.minutes, "arms": run.arms}
        file.write_text(json.dumps(texts | others | kept), encoding="utf-8")
        os.utime(file, (1_700_000_000, 1_700_000_000))
    monkeypatch.setattr(claims, "CLAIMS", {CLAIM.name: CLAIM})
    monkeypatch.setattr(claims, "STORED", tmp_path / "claims.jsonl")
    claims.store([tmp_path / "a", tmp_path / "b"])
    day = "2023-11-14"
    assert read_runs() == {CLAIM.name: [first._replace(date=day), second._replace(date=day)]}
    with pytest.raises(SystemExit, match=r"has no result of sqrt-dk\."):
        claims.store([tmp_path])
