"""The page of results, written from result files."""

import pytest

from minitransformer.claims import CLAIMS
from tools.claims import PAGE, Row, number, page, read_rows

CLAIM = CLAIMS["sqrt-dk"]
RESULT = {
    "question": "Is a better?", "says": {"A paper, section 1": "a is better"}, "setting": "Made by hand.",
    "measures": {"loss": "nats"}, "unequal": "", "verdict": "holds", "depends on": {}, "minutes": 1.5,
    "machine": "a machine", "code": CLAIM.code,
    "findings": [
        {"case": "", "rule": {"part": "", "ratio": False}, "says": "a: loss at least 0.1 below b: loss",
         "mean": 0.3, "low": 0.2, "high": 0.4, "verdict": "holds"},
    ],
    "arms": [
        {"arm": "a", "case": "", "rate": 0.01, "tuned": {"0.01": 1.0, "0.03": 2.0},
         "seeds": {"0": {"loss": 1.0}, "1": {"loss": 2.0}}},
    ],
}  # fmt: skip


def test_the_page_has_verdict_effect_and_measures():
    text = page([Row(CLAIM, RESULT)])
    assert f"| [{CLAIM.question}](#sqrt-dk) | **holds** |  | 1.5 |" in text
    assert "Of 1 claims 1 hold, 0 do not" in text
    assert "take half (a machine)." in text
    assert "|  | a: loss at least 0.1 below b: loss | 0.3 [0.2, 0.4] | holds |" in text
    assert "| a |  | 0.01 of 0.01, 0.03 | 2 | 1.5 ± 6.4 |" in text
    assert "has changed since" not in text


def test_a_second_run_stands_beside_the_first():
    found = RESULT["findings"][0] | {"mean": 0.2, "low": 0.0, "verdict": "cannot tell at this scale"}
    text = page([Row(CLAIM, RESULT, RESULT | {"findings": [found]})])
    assert f"| [{CLAIM.question}](#sqrt-dk) | **holds** | 0 of 1 | 1.5 |" in text
    assert "| 0.3 [0.2, 0.4] | holds | 0.2 [0, 0.4] | cannot tell at this scale |" in text
    assert "| **holds** | 1 of 1 | 1.5 |" in page([Row(CLAIM, RESULT, RESULT)])


def test_what_a_verdict_depends_on_is_listed():
    result = RESULT | {
        "verdict": "depends",
        "depends on": {"holds": ["small", "large"], "does not hold": ["huge"]},
    }
    text = page([Row(CLAIM, result)])
    assert "| **depends**<br>holds: small; large<br>does not hold: huge |" in text
    assert "- holds: small; large\n- does not hold: huge\n" in text


def test_each_machine_is_named_once():
    other = RESULT | {"machine": "another"}
    assert "take half (a machine; another)." in page([Row(CLAIM, RESULT)] * 2 + [Row(CLAIM, other)])


def test_a_result_of_other_code_says_so():
    assert "has changed since" in page([Row(CLAIM, RESULT | {"code": "0" * 12})])


@pytest.mark.parametrize(
    ("measured", "shown"),
    [
        ([], ""),
        ([10000.0, 10000.0], "10,000"),
        ([1.0, 2.0], "1.5 ± 6.4"),
        ([1.0, None], "not finite with 1 of 2 seeds"),
    ],
)
def test_a_mean_is_shown_with_half_its_interval(measured, shown):
    assert number(measured) == shown


def test_the_page_is_of_the_results_and_they_are_of_this_code():
    rows = read_rows()
    assert [row.claim.name for row in rows] == list(CLAIMS)
    assert page(rows) == PAGE.read_text(encoding="utf-8"), "write it with: python -m tools.claims"
    assert "has changed since" not in page(rows)
