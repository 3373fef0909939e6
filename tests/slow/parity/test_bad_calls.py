"""Calls with one bad argument, beside PyTorch: `python -m tests.slow.parity.bad_calls` runs 10,000."""

import tomllib

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's testing package wants it
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


def test_a_bad_argument_is_refused_as_in_pytorch():
    from tests.slow.parity.bad_calls import Tally, draw_calls

    tally = Tally(draw_calls(400, seed=0))
    unlisted = [tally.found.pop(kind, []) for kind in ("not refused", "not caught")]
    assert not any(tally.found.values()), dict(tally.found)
    assert sum(map(len, unlisted)) <= 4, unlisted  # the calls change with every new function
    assert sum(tally.classes.values()) > 200


def test_each_difference_has_a_reason():
    from tests.slow.parity.bad_calls import REASONS

    for entry in tomllib.loads(REASONS.read_text(encoding="utf-8"))["difference"]:
        assert entry["why"]
        assert entry.keys() & {"said", "classes", "tensors"}, "it says of which refusals of PyTorch"
