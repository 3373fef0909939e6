"""A capture puts back what it intercepts, and observers see its calls."""

import ast
import contextlib
import threading
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core.errors import CaptureError, NonFiniteError

# ---------------------------------------------------------------- outside the core


def test_only_the_capture_package_imports_capture():
    folder = Path(mg.__file__).parent
    for file in folder.rglob("*.py"):
        if file.parent == folder / "capture" or file == folder / "__init__.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(alias.name for alias in node.names)]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any("capture" in name.split(".") for name in names), file


@pytest.mark.parametrize("fails", [False, True])
def test_intercepted_functions_are_restored_after_recording(fails, device):
    from minigrad.capture.interception import replaced

    owners = [owner for owner, _, _ in replaced()]
    before = [dict(vars(owner)) for owner in owners]
    generator = mg.random.in_use.generator
    model = nn.Linear(3, 3).to(device)
    optimizer = optim.AdamW(model.parameters())
    during = []

    def step(x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        during.append(optim.Optimizer.step)
        return loss.item() if fails else loss

    captured = mg.capture(step, device)
    for i in range(4):
        with pytest.raises(CaptureError) if fails and i > 1 else contextlib.nullcontext():
            captured(np.ones(3, np.float32))
    assert during[0] is during[1] is optim.Optimizer.step
    assert during[2] is not optim.Optimizer.step
    assert [dict(vars(owner)) for owner in owners] == before
    assert mg.random.in_use.generator is generator


def test_recording_does_not_affect_other_threads(device):
    p = nn.Parameter(mg.ones(3, device="cpu").array)
    optimizer = optim.SGD([p], lr=1.0)
    drawn = []

    def elsewhere():
        p.grad = mg.ones(3)
        optimizer.step()
        drawn.append(mg.rand(2).tolist())

    def step(x):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return x * 2

    captured = mg.capture(step, device)
    for _ in range(4):
        captured(np.ones(3))
    assert (p.tolist(), len(drawn)) == ([-2.0] * 3, 3)


# --- Observers together ---


def test_a_nan_in_the_first_captured_call_is_reported(device):
    """detect_anomaly, shadow and capture observe together."""
    w = mg.tensor([0.0, 1.0], requires_grad=True, device=device)
    step = mg.capture(lambda x: (x * w).log().sum())
    with mg.autograd.detect_anomaly(), pytest.raises(NonFiniteError, match=r"^log produced -inf at \[0\]"):
        mg.shadow(lambda: step(np.ones(2, np.float32)))


def test_each_observer_sees_every_call_of_a_captured_function(device):
    w = mg.tensor([2.0, 1.0], requires_grad=True, device=device)

    @mg.capture
    def step(x):
        w.grad = None
        y = (x * w).sum()
        y.backward()
        return y

    for _ in range(3):  # as many calls as a recording takes
        with mg.autograd.detect_anomaly():
            report = mg.shadow(lambda: step(np.ones(2, np.float32)))
        assert report.passed
        assert (report.operations, report.gradients) == (2, 2)
    assert step.recordings == 0
    for _ in range(3):
        assert step(np.ones(2, np.float32)).item() == 3
    assert step.recordings == 1
    with mg.autograd.detect_anomaly(), pytest.raises(NonFiniteError, match=r"^multiply produced"):
        step(np.full(2, np.finfo(np.float32).max))
