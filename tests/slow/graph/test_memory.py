"""Forecasts of memory against what is measured: checkpoints, and what is retained."""

import pytest

import minigrad as mg
from benchmarks.memory import retained_by_ours
from minigrad.autograd import checkpoint
from minigrad.graph import memory
from tests.graph.test_forensics import Deep, gpt, measured, mlp


def test_forecast_savings_match_checkpointing():
    model, loss_of = gpt()
    loss = loss_of()
    before = retained_by_ours(loss, model.parameters())
    ledger = memory(loss, model)
    modules = dict(model.named_modules())
    seen = set()
    for saving in ledger.savings:
        module = modules.get(saving.path)
        if not saving.path or module is None or saving.path == "embedding":
            continue
        plain = module.forward
        module.__dict__["forward"] = lambda *args, plain=plain, **kwargs: checkpoint(plain, *args, **kwargs)
        try:
            after = retained_by_ours(loss_of(), model.parameters())
        finally:
            del module.__dict__["forward"]
        assert before - after == pytest.approx(saving.saves, abs=64), saving
        seen.add(saving.kind)
    assert {"EncoderLayer", "MultiHeadAttention", "FeedForward", "LayerNorm", "Dropout"} <= seen


def test_forecast_peak_with_checkpoints_matches_measurement():
    model = Deep(16, width=128)
    x = mg.randn(512, 128)
    loss_of = lambda: model(x).square().mean()
    plain = memory(loss_of(), model)
    for layer in model.layers:
        layer.__dict__["forward"] = lambda x, f=layer.forward: checkpoint(f, x)
    saving = memory(loss_of(), model)
    kept, peak = measured(model, loss_of)
    assert saving.retained == pytest.approx(kept, abs=2**16)  # and Python's objects
    assert 0.9 * peak < saving.peak <= peak
    assert saving.retained == plain.retained / 2  # inputs of layers, not what tanh holds
    assert saving.peak < plain.peak


@pytest.mark.parametrize("make", [mlp, gpt])
def test_forecast_retained_memory_matches_measurement(make):
    model, loss_of = make()
    loss = loss_of()
    ledger = memory(loss, model)
    constants = sum(v.value.nbytes for v in ledger.graph.vertices if v.kind == "constant")
    ours = retained_by_ours(loss, model.parameters())
    assert ledger.retained <= ours <= ledger.retained + constants + 64  # numbers
    assert ledger.retained == pytest.approx(measured(model, loss_of)[0], rel=0.02)
