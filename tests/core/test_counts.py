"""Messages that count: one thing is named in the singular."""

import pytest

from minitransformer.errors import counted, counted_units, singular


@pytest.mark.parametrize(("units", "unit"), [
    ("pairs", "pair"), ("texts", "text"), ("rows", "row"), ("sentences", "sentence"), ("images", "image"),
    ("questions", "question"), ("characters", "character"), ("documents", "document"), ("lists", "list"),
    ("queries", "query"), ("boxes", "box"), ("classes", "class"), ("batches", "batch"),
    ("prefixes", "prefix"),
])  # fmt: skip
def test_units_are_singular_for_a_count_of_one(units, unit):
    assert singular(units) == unit
    assert counted_units(1, units) == f"1 {unit}"
    assert counted_units(2000, units) == f"2,000 {units}"
    assert counted(1, unit) == f"1 {unit}"
