"""What `mg.capture` cannot capture is named, with its line."""

import contextlib
import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels, nn, optim
from minigrad.core.devices import find_backend
from minigrad.core.errors import ArgumentError, CaptureError
from tests.slow.capture.runs import as_numpy

# ---------------------------------------------------------------- what cannot be captured

MISTAKES = {
    "item": (lambda x, m: x.sum().item(), r"item\(\)"),
    "numpy": (lambda x, m: x.numpy(), r"numpy\(\)"),
    "bool": (lambda x, m: 1 if x.sum() > 0 else 2, r"bool\(tensor\)"),
    "print": (lambda x, m: f"{x}", "printing"),
    "to the CPU": (lambda x, m: x.to("cpu"), "a copy to the CPU"),
    "CuPy's own": (lambda x, m: x[x > 0], "D2H transfers"),
    "a draw": (lambda x, m: x + mg.randn(3, device=x.device), "drawn on the CPU"),
    "a step": (lambda x, m: mg.random.set_step(4), r"set_step\(\)"),
    "an upload": (
        lambda x, m: Raw(x.array + find_backend("cuda").library.asarray([1.0, 2.0, 3.0])),
        "a copy of a NumPy array",
    ),
    "a scaler": (lambda x, m: mg.GradScaler().unscale_(optim.SGD([m.weight])), "GradScaler"),
    "dropout of CuPy": (lambda x, m: unfused_dropout(x), "CuPy's own"),
    "an infinite norm": (
        lambda x, m: optim.clip_grad_norm_(m.weight, 1, error_if_nonfinite=True),
        "D2H transfers",
    ),
}


class Raw:
    def __init__(self, array):
        self.array = array


def unfused_dropout(x):
    with kernels.use("cupy"):
        return nn.functional.dropout(x, 0.5)


@pytest.mark.parametrize("name", MISTAKES)
def test_uncapturable_operations_are_reported_with_their_line(name, device):
    mistake, words = MISTAKES[name]
    model = nn.Linear(3, 3, bias=False).to(device)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)

    def step(x):
        nn.functional.dropout(x, 0.5)
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        mistake(x, model)

    captured = mg.capture(step, device)
    for _ in range(2):
        captured(np.ones(3, np.float32))
    before = [
        as_numpy(optimizer.state_dict()),
        model.weight.numpy().tolist(),
        model.weight.grad.numpy().tolist(),
    ]
    drawn = mg.random.snapshot()
    for _ in range(2):
        with pytest.raises(CaptureError, match=words) as caught:
            captured(np.ones(3, np.float32))
        said, instead = str(caught.value).split("\n")
        code = inspect.unwrap(unfused_dropout if name == "dropout of CuPy" else mistake).__code__
        lines = range(code.co_firstlineno, code.co_firstlineno + 3)
        assert any(f"{__file__}:{line}, cannot be captured." in said for line in lines), said
        assert instead
        after = [
            as_numpy(optimizer.state_dict()),
            model.weight.numpy().tolist(),
            model.weight.grad.numpy().tolist(),
        ]
        assert str(after) == str(before)
        assert mg.random.snapshot() == drawn
    again = nn.functional.dropout(mg.ones(3, device=device), 0.5)  # the GPU is free for other work
    assert again.numpy().shape == (3,)


def test_errors_raised_by_the_step_propagate(device):
    def step(x):
        if calls.append(x) or len(calls) > 2:
            raise KeyError("mine")
        return x * 2

    calls = []
    captured = None
    captured = mg.capture(step, device)
    for _ in range(2):
        captured(np.ones(2))
    with pytest.raises(KeyError, match="mine"):
        captured(np.ones(2))
    assert mg.tensor([1.0], device=device).sum().item() == 1


def test_capturing_matrix_products_without_nvmath_raises(gpu):
    if gpu != "standin":
        pytest.skip("where nvmath-python is missing")
    captured = mg.capture(lambda x: x @ x, "cuda")
    for _ in range(2):
        captured(np.ones((2, 2), np.float32))
    with pytest.raises(CaptureError, match=r"cuBLAS.* at .*test_mistakes.py:\d+") as caught:
        captured(np.ones((2, 2), np.float32))
    assert "pip install nvmath-python" in str(caught.value)


@pytest.mark.parametrize("named", [False, True])
def test_inputs_that_require_gradients_are_refused(named, device):
    where = device if named else None
    with pytest.raises(CaptureError, match=r"inputs\[1\]\[0\] of a captured step requires a gradient"):
        mg.capture(lambda x, y: y[0] * 2, where)(1, [mg.ones(2, requires_grad=True)])
    with pytest.raises(CaptureError, match=r'inputs\["y"\]'):
        mg.capture(lambda y: y * 2, where)(y=mg.ones(2, requires_grad=True))


@pytest.mark.parametrize("kind", ["the usual pool", "a pool", "none"])
def test_recording_restores_the_pinned_memory_allocator(kind, gpu):
    """The user's choice of an allocator for it outlives a recording, also one that failed."""
    library = find_backend("cuda").load()
    usual = library.get_default_pinned_memory_pool()
    pool = {"the usual pool": usual, "a pool": library.cuda.PinnedMemoryPool(), "none": None}[kind]
    library.cuda.set_pinned_memory_allocator(pool and pool.malloc)
    try:
        for mistake in (False, True):
            step = mg.capture(lambda x, mistake=mistake: x.sum().item() if mistake else x * 2, "cuda")
            step(np.ones(2)), step(np.ones(2))
            with pytest.raises(CaptureError) if mistake else contextlib.nullcontext():
                step(np.ones(2))
            found = getattr(library.cuda.alloc_pinned_memory(8).mem, "pool", lambda: None)()
            assert found is pool
    finally:
        library.cuda.set_pinned_memory_allocator(usual.malloc)


def _generates(x):
    yield x


async def _waits(x):
    return x


@pytest.mark.parametrize("given", [3, None, _generates, _waits])
def test_capture_rejects_non_functions(given):
    with pytest.raises(ArgumentError, match="a function that runs a training step"):
        mg.capture(given)
