"""gradcheck names each mistake of the table in planted.py, and no other where a right gradient is changed."""

import re
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.op import Op
from minigrad.core.registry import registry
from minigrad.ops.sample_calls import as_function, floating, samples_of
from tests.slow.sweeps.mutants import MISTAKES


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of mistakes that divide by 0
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_a_planted_mistake_is_named(mistake):
    with np.errstate(all="ignore"):
        report = mistake.check()
    assert not report.passed
    assert mistake.words in report.verdict
    assert report.advice


CHANGES = {
    "off by a constant factor (analytic = 3 x numeric)": lambda g: 3 * g,
    "sign flipped": lambda g: -g,
    "gradient missing (zero": lambda g: 0 * g,
}


@pytest.mark.parametrize("words", CHANGES)
def test_planted_gradient_errors_are_diagnosed_for_every_op(words):
    named = 0
    others = []
    for record in registry.values():
        if not isinstance(record, Op) or not record.samples:
            continue
        with np.errstate(all="ignore"):
            function, inputs = as_function(record, samples_of(record)[0])
            if len(inputs) != 1 or not floating(function(*inputs)):
                continue

            def changed(x, function=function):
                x = x.clone()
                x.register_hook(lambda g: CHANGES[words](g))
                return floating(function(x))

            report = mg.gradcheck(changed, inputs, raise_exception=False)
        named += words in report.verdict
        if not report.passed and words not in report.verdict:
            others.append((record.name, report.verdict))
    assert not others
    assert named > 80


def test_the_docs_show_the_diagnosis_of_each_mistake():
    page = (Path(__file__).parents[3] / "docs" / "your-own.md").read_text(encoding="utf-8")
    assert f"plants {len(MISTAKES)} mistakes" in page
    by_title = {mistake.title: mistake for mistake in MISTAKES}
    assert len(by_title) == len(MISTAKES)
    rows = re.findall(
        r"^\| (.*?) \| (.*?) \|$", page.partition("| mistake |")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert len(rows) > 5
    for title, verdict in rows:
        assert verdict in by_title[title].check().verdict
