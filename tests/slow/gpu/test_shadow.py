"""`mg.shadow`: a step on both devices, and the first op that differs."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core.devices import kind_of
from minigrad.core.kernels import Routine, kernels_for
from minigrad.optim.optimizer import adam_update
from minitransformer import GPT, GPTConfig
from tests.slow.gpu.test_devices import OURS

# ---------------------------------------------------------------- a step on both


def a_step(device, dtype="float32"):
    mg.manual_seed(0)
    model = GPT(GPTConfig(11, 8, 8, 1, 2)).to(device, dtype)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    ids = np.array([[4, 5, 6, 0], [7, 8, 9, 10]])

    def step():
        optimizer.zero_grad()
        logits = model(ids)
        nn.functional.cross_entropy(logits.flatten(0, 1), ids.reshape(-1)).backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return model, step


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_shadow_finds_no_difference_between_devices(gpu, device, dtype):
    _, step = a_step(device, dtype)
    report = mg.shadow(step)
    assert report.passed, report
    assert min(report.operations, report.gradients) >= 20
    assert report.updates
    assert "same on both" in str(report)


def test_shadow_does_not_change_the_step(gpu):
    one, plain = a_step("cuda")
    plain()
    two, watched = a_step("cuda")
    mg.shadow(watched)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def replace_kernel(monkeypatch, record, change):
    """Register `change` of what computes a record on the GPU now, in place of it."""
    array = mg.zeros(1, device="cuda").array
    by_definition = record.definition if isinstance(record, Routine) else record.run_definition
    right = next(iter(kernels_for(record, kind_of([array]))), by_definition)
    monkeypatch.setitem(record.kernels, mg.kernels.kernels(array).name, [change(right)])
    monkeypatch.setattr(record, "in_order", {})


def wrong_value(kernel):
    def broken(*args, **settings):
        value, gradients = kernel(*args, **settings)
        return value * 1.01, gradients

    return broken


def wrong_gradient(kernel):
    def broken(*args, **settings):
        value, gradients = kernel(*args, **settings)
        return value, lambda g, needs: tuple(r if r is None else r * 1.01 for r in gradients(g, needs))

    return broken


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("gelu", wrong_value, r"^gelu at .*layers/\w+\.py:\d+: float32\[2, 4, 32\] differs in \d+ of 256"),
        ("layer_norm", wrong_gradient, r"^the gradient of layer_norm \(recorded at .*, for its input 0"),
    ],
)
def test_shadow_names_the_first_op_that_differs(gpu, monkeypatch, name, fault, words):
    _, step = a_step("cuda")
    replace_kernel(monkeypatch, OURS[name], fault)
    assert re.search(words, mg.shadow(step).first)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shadow_rejects_the_device_of_the_step(gpu, device):
    _, step = a_step(device)
    with pytest.raises(mg.OptionError, match=f"the whole step ran on {device}(:0)?, the device to compare"):
        mg.shadow(step, other=device)


def test_shadow_ignores_work_on_the_other_device(gpu):
    _, step = a_step("cuda")
    alone = mg.shadow(step)
    beside = mg.shadow(lambda: (mg.ones(3) * 2, step()), other="cpu")
    assert str(beside) == str(alone)


def test_shadow_names_an_update_that_differs(gpu, monkeypatch):
    _, step = a_step("cuda")
    replace_kernel(monkeypatch, adam_update, lambda adam: lambda p, *rest: (adam(p, *rest), p.__imul__(1.5)))
    assert mg.shadow(step).first.startswith("AdamW.step of shape")
