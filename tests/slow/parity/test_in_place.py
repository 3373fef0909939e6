"""Programs with in-place lines agree with PyTorch in value and gradient, or are refused (`in_place.py`)."""

import collections

import pytest

pytest.importorskip("torch")

from .in_place import run_program


@pytest.mark.parametrize("chains", [False, True], ids=["views", "views of views"])
@pytest.mark.parametrize("first", range(0, 200, 50))
@pytest.mark.filterwarnings("ignore:.*deprecated on 0-D tensors", "ignore:Converting a tensor with")
def test_random_programs_agree_or_are_refused(first, chains):
    verdicts = collections.Counter()
    for seed in range(first, first + 50):
        verdict, program, wrong = run_program(seed, chains=chains)
        assert verdict != "different", "\n".join([*program, wrong])
        if verdict == "refused" and chains:
            assert any(reason in wrong for reason in ("detached", "of a leaf", "share memory", " axes"))
        verdicts[verdict] += 1
    assert verdicts["equal"] + verdicts["no second"] > 30  # of the others PyTorch itself refuses most
    assert verdicts["equal"] > verdicts["no second"]
    assert verdicts["refused"] < (12 if chains else 6)
