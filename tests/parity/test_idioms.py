"""PyTorch's names and lines (`idioms.toml`): they run here, to the same values, or say what to use instead."""

import re

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.parity

from .idioms import IDIOMS, NAMES, TABLE, judge_idiom, judge_name

REASONS = TABLE["fails"]  # of what fails


@pytest.mark.parametrize("name", NAMES)
def test_name(name):
    check(name, judge_name(name))


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: re.sub(r"\s+", " ", idiom.code)[:60])
def test_idiom(idiom):
    check(idiom.code, judge_idiom(idiom))


def check(what, outcome):
    """What is listed as failing fails, and nothing else does."""
    assert (outcome.verdict == "fails") == (what in REASONS), outcome.why


def test_nineteen_of_twenty_run_or_say_what_to_use():
    assert len(REASONS) <= 0.05 * min(len(NAMES), len(IDIOMS))
    assert set(REASONS) <= {*NAMES, *(idiom.code for idiom in IDIOMS)}
