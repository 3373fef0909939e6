"""PyTorch's names and lines (`idioms.toml`): they run to the same values, or say what to use instead."""

import re
from pathlib import Path

import pytest

import minigrad as mg

from .idioms import IDIOMS, NAMES, TABLE, judge_idiom, judge_name

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity]

REASONS = TABLE["fails"]  # why some of them fail


@pytest.fixture(autouse=True)
def flags_may_be_set(monkeypatch):
    """`torch.testing`, which other tests import, makes `torch.backends.cudnn.benchmark = True` an error.

    Lines that choose TF32 would hold for other tests, too.
    """
    checks = torch.backends.ContextProp.__set__.__globals__
    monkeypatch.setitem(checks, "flags_frozen", lambda: False)
    yield
    mg.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("name", NAMES)
def test_common_pytorch_names_exist_or_give_advice(name):
    check(name, judge_name(name))


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: re.sub(r"\s+", " ", idiom.code)[:60])
def test_common_pytorch_lines_run_or_give_advice(idiom):
    check(idiom.code, judge_idiom(idiom))


def check(what, outcome):
    """Nothing fails that has no reason to."""
    assert outcome.verdict != "fails" or what in REASONS, outcome.why


def test_at_least_95_percent_of_idioms_run_or_give_advice():
    assert len(REASONS) <= 0.05 * min(len(NAMES), len(IDIOMS))
    assert set(REASONS) <= {*NAMES, *(idiom.code for idiom in IDIOMS)}


def test_the_docs_state_the_number_of_names_and_lines():
    page = (Path(__file__).parents[3] / "docs" / "results.md").read_text(encoding="utf-8")
    assert f"{len(NAMES)} names and {len(IDIOMS)} lines" in page
