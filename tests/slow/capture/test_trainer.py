"""The trainer with `mg.capture`, and capture where there is no GPU."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import CaptureError, NonFiniteError
from minitransformer.errors import UserError
from tests.slow.capture.runs import Run, assert_same, assert_trained_alike, mlp, training

# ---------------------------------------------------------------- the trainer


def test_captured_training_reports_a_nan_loss_when_logging(device, tmp_path):
    trainer = training(
        device, tmp_path, True, "text", lr=1e30, clip_norm=0.0, warmup_steps=0, log_every=4, validate_every=9
    )
    with pytest.raises(NonFiniteError, match=r"step 4: the loss is nan.* first in module"):
        trainer.train()


@pytest.mark.parametrize("how", ["saved", "stopped"])
def test_captured_steps_are_checked_before_saving(how, device, tmp_path, monkeypatch):
    never = {"log_every": 99, "validate_every": 99, "checkpoint_every": 99, "steps": 99}
    trainer = training(device, tmp_path, True, "text", lr=1e30, clip_norm=0.0, warmup_steps=0, **never)
    monkeypatch.setattr(trainer.ranks, "any", lambda flag: trainer.step == 8)
    if how == "saved":
        with np.errstate(all="ignore"):
            for _ in range(8):
                trainer.train_step()
    with pytest.raises(NonFiniteError, match="step 8: the loss is nan"), np.errstate(all="ignore"):
        (trainer.save if how == "saved" else trainer.train)()
    assert not trainer.checkpoints.index


def test_a_captured_training_that_is_stopped_saves_its_last_step(device, tmp_path, monkeypatch):
    trainer = training(device, tmp_path, True, "text", log_every=99, validate_every=99, checkpoint_every=99)
    monkeypatch.setattr(trainer.ranks, "any", lambda flag: trainer.step == 5)
    assert not trainer.train()
    assert trainer.checkpoints.index["last"] == "step-00000005"


def test_captured_products_have_the_chosen_precision(device, tmp_path, monkeypatch):
    trainer = training(device, tmp_path, True, "text", precision="tf32")
    seen = []
    compute = trainer.task.loss
    see = lambda *args: (seen.append(mg.get_float32_matmul_precision()), compute(*args))[1]
    monkeypatch.setattr(trainer.task, "loss", see)
    trainer.train()
    assert seen == ["high"] * 3
    assert mg.get_float32_matmul_precision() == "highest"


def test_float16_is_not_captured(device, tmp_path):
    with pytest.raises(UserError, match="float16"):
        training(device, tmp_path, True, "text", precision="float16")


# ---------------------------------------------------------------- on a CPU


@pytest.mark.parametrize("named", [False, True])
def test_capture_on_a_cpu_matches_the_plain_step(named):
    """The same losses, weights and gradients, and as many calls of the function."""
    runs = [Run("cpu", mlp, captured) for captured in (False, True)]
    if not named:
        runs[1].step = mg.capture(runs[1].plain_step)
    calls = []
    compute = runs[1].model.forward
    runs[1].model.forward = lambda x: calls.append(1) or compute(x)
    for run in runs:
        mg.manual_seed(3)
        run.go(6)
    assert_same(*runs)
    assert len(calls) == 6
    assert (runs[1].step.recordings, runs[1].step.plan) == (0, None)


def test_capture_on_a_cpu_allows_any_operation():
    """It may look at numbers, draw, and return what has a graph."""
    w = mg.ones(3, requires_grad=True)

    @mg.capture
    def step(x, *, by):
        loss = (w * x).sum() * (1.0 if x.sum().item() > by["most"] else 2.0) + mg.rand(1).sum() * 0
        return {"loss": loss, "kind": type(x)}

    for i in range(5):
        found = step(np.full(3, i, np.float32), by={"most": 4})
        assert (found["loss"].item(), found["kind"]) == (3 * i * (1 if 3 * i > 4 else 2), mg.Tensor)
        w.grad = None
        found["loss"].backward()
        assert w.grad.tolist() == [i * (1 if 3 * i > 4 else 2)] * 3


@pytest.mark.parametrize("named", [False, True])
def test_capture_on_a_cpu_rejects_inputs_that_require_grad(named):
    step = mg.capture(lambda x: x * 2, "cpu" if named else None)
    for _ in range(2):
        with pytest.raises(CaptureError, match=r"inputs\[0\] of a captured step requires a gradient"):
            step(mg.ones(2, requires_grad=True))
        assert step(mg.ones(2)).tolist() == [2, 2]


def test_a_training_on_a_cpu_records_nothing(tmp_path):
    plain, asked = (training("cpu", tmp_path / str(asked), asked, "text") for asked in (False, True))
    plain.train()
    asked.train()
    assert_trained_alike(plain, asked)
    assert asked._captured.run_step.plan is None
