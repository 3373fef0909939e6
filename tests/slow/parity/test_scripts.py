"""Training scripts written for PyTorch run with nothing but their imports changed, to the same losses."""

import pytest

torch = pytest.importorskip("torch")


from .scripts import both  # noqa: E402

pytestmark = pytest.mark.parity

STEPS = 30
TOLERANCE = {"float64": 1e-8, "float32": 1e-4}  # relative to the largest number of each series


@pytest.fixture(autouse=True)
def one_thread():
    """More would wait for each other: the tensors are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", both.NAMES)
def test_a_script_written_for_pytorch_gives_the_same_losses(name, dtype):
    state = both.initial_state(name, dtype)
    theirs = both.run(name, "torch", dtype, STEPS, state)
    ours = both.run(name, "minigrad", dtype, STEPS, state)
    assert len(theirs.history[next(iter(theirs.history))]) >= STEPS
    assert both.largest_difference(ours.history, theirs.history) < TOLERANCE[dtype]
    if dtype == "float64":  # in float32, Adam turns roundings of gradients that should be 0 into whole steps
        assert both.largest_difference(ours.state, theirs.state) < TOLERANCE[dtype]


def test_only_import_lines_are_rewritten():
    for name in both.NAMES:
        before = (both.HERE / f"{name}.py").read_text(encoding="utf-8").splitlines()
        after = both.rewrite_imports("\n".join(before)).splitlines()
        changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        assert changed
        assert all(a.startswith(("import torch", "from torch")) for a, _ in changed)
        assert not any(word in line for line in after for word in ("import torch.", "from torch"))
