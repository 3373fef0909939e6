"""docs/ops.md is the page that the registry makes, and its mathematics can be shown."""

import inspect
import re

import pytest

from minigrad.core.registry import registry
from tools.reference import TARGET, formulas, generate

PAGE = TARGET.read_text(encoding="utf-8")


def test_the_page_is_what_its_generator_writes():
    assert generate() == PAGE, "the ops have changed; run: python -m tools.reference"


def test_every_op_has_an_entry_and_every_link_leads_to_one():
    headings = re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)
    ours = {r.name for r in registry.values() if r.source.__module__.startswith("minigrad.")}
    assert ours <= set(headings)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= anchors
    files = set(re.findall(r"\]\(\.\./([^)]+)\)", PAGE))
    assert all((TARGET.parents[1] / file).is_file() for file in files)


def test_a_formula_is_given_for_arguments_that_are_there():
    for record in registry.values():
        assert len(record.latex) <= len(inspect.signature(record.source).parameters), record.name


@pytest.mark.parametrize("formula", sorted({formula for _, formula in formulas()}))
def test_a_formula_can_be_shown_as_mathml(formula):
    convert = pytest.importorskip("latex2mathml.converter").convert
    shown = convert(formula)
    assert shown.startswith("<math")
    unknown = re.findall(r"\\\w+", re.sub(r"&#x0*5C;", r"\\", shown))
    assert not unknown
    assert formula.count("{") == formula.count("}")
