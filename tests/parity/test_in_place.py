"""Programs with in-place lines agree with PyTorch in value and gradient, or are refused (`in_place.py`)."""

import collections

import pytest

pytest.importorskip("torch")

from .in_place import run_program


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs_agree_or_are_refused(first):
    verdicts = collections.Counter()
    for seed in range(first, first + 50):
        verdict, program, wrong = run_program(seed)
        assert verdict != "different", "\n".join([*program, wrong])
        verdicts[verdict] += 1
    assert verdicts["equal"] > 30  # of the others PyTorch itself refuses most
    assert verdicts["refused"] < 6
