"""A few of the random calls of random_calls.py: what differs from PyTorch's stands in random_calls.toml."""

import pytest

pytest.importorskip("torch", reason="the parity extra is not installed")
pytest.importorskip("expecttest")  # PyTorch's testing package wants it
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

from . import random_calls  # noqa: E402 (imports torch)

# its samples take most of the time
COUNT = 800
NAMES = list(random_calls.ENTRIES)[::2]


def test_random_calls_agree_or_are_listed():
    new, agree = random_calls.run(COUNT, names=NAMES)
    assert agree > 0.7 * COUNT
    said = [f"#{number} {call}: {kind}, {d.said}" for (_, kind), [(number, call, d), *_] in new.items()]
    assert not said, f"{len(said)} of {COUNT}:\n" + "\n".join(said[:10])


def test_known_differences_refer_to_existing_entries():
    bases = {name.partition("/")[0] for name in random_calls.ENTRIES}
    for known in random_calls.KNOWN:
        assert known["reason"]
        calls = known["calls"]
        assert calls or known["said"], known["reason"]
        assert calls.keys() <= random_calls.ENTRIES.keys() | bases, known["reason"]
        for dtypes in calls.values():
            assert set(dtypes.split()) <= {*random_calls.DTYPES, *random_calls.GROUPS, "mixed", "none"}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda y: y * 1.01, "value"),
        (lambda y: y.to("float64"), "dtype"),
        (lambda y: y.unsqueeze(0), "shape"),
        (lambda y: y.detach() + 0 * y, "gradient"),
    ],
)
def test_a_planted_difference_is_found(monkeypatch, change, kind):
    exp = random_calls.ours_of("exp")
    monkeypatch.setattr(random_calls, "ours_of", lambda name: lambda x: change(exp(x)))
    monkeypatch.setattr(random_calls, "forms_of", lambda op: ["function"])
    new, _ = random_calls.run(40, names=["exp"])
    assert ("exp", kind) in new
