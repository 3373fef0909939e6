"""A step that is captured and replayed is the step itself: `mg.capture`."""

import contextlib
import math
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core.devices import on_device
from minigrad.core.errors import CaptureError
from tests.slow.capture.runs import Run, as_numpy, assert_captured_is_plain, assert_same, batches, mlp

# ---------------------------------------------------------------- what a replay comes to


def test_replays_continue_the_random_sequence(device):
    def run(wrap):
        mg.manual_seed(7)
        mg.random.set_step(2)
        step = wrap(lambda x: nn.functional.dropout(nn.functional.dropout(x, 0.2), 0.3))
        x = mg.ones(40, device=device)
        found = []
        for i in range(6):
            if i == 4:
                mg.random.set_step(9)
            found.append(step(x).numpy().tolist())
            found.append(nn.functional.dropout(x, 0.5).numpy().tolist())  # a draw between two steps
        assert len({tuple(x) for x in found}) == 12
        return found

    assert_captured_is_plain(device, run)


def test_different_arguments_that_compare_equal_are_separate(device):
    class Setting:
        def __init__(self, number):
            self.number = number

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    scaled = mg.capture(lambda x, by: x / by, device)
    times = mg.capture(lambda x, by: x * by.number, device)
    one, two = Setting(1), Setting(2)
    for _ in range(5):
        with np.errstate(divide="ignore"):
            assert scaled(mg.ones(1), np.float32(0.0)).item() == math.inf
            assert scaled(mg.ones(1), np.float32(-0.0)).item() == -math.inf
        assert times(mg.ones(1), one).item() == 1
        assert times(mg.ones(1), two).item() == 2
    assert scaled.recordings == times.recordings == 2


def test_captured_micro_batches_draw_their_own_rows(device):
    drawn = []
    for captured in (False, True):
        mg.manual_seed(7)

        def parts(x):
            found = []
            for first in (0, 3):
                with mg.random.rows(first):
                    found.append(nn.functional.dropout(x[first : first + 3], 0.5))
            return mg.cat(found)

        step = mg.capture(parts, device) if captured else lambda x: nn.functional.dropout(x, 0.5)
        drawn.append([])
        for i in range(5):
            mg.random.set_step(i)
            drawn[-1].append(step(mg.ones(6, 5, device=device)).numpy().tolist())
    assert drawn[0] == drawn[1]


def test_a_new_shape_dtype_argument_or_seed_records_again(device):
    double = mg.capture(lambda x, factor=2: nn.functional.dropout(x * factor, 0.5), device)

    def calls(*inputs):
        before = double.recordings
        for _ in range(4):
            mg.random.set_step(1)
            found = double(*inputs).numpy()
        return double.recordings - before, found

    x = np.arange(6, dtype=np.float32)
    assert calls(x)[0] == 1
    assert calls(x)[0] == 0
    assert calls(x.reshape(2, 3))[0] == 1
    assert calls(x.astype(np.float64))[0] == 1
    assert calls(x, 3)[0] == 1
    first = calls(x)
    mg.manual_seed(5)
    other = calls(x)
    assert (first[0], other[0]) == (0, 1)
    assert first[1].tolist() != other[1].tolist()
    mg.manual_seed(0)
    assert calls(x)[1].tolist() == first[1].tolist()


def test_steps_of_different_signatures_share_training_state(device):
    def run(wrap):
        mg.manual_seed(3)
        model = mlp().to(device)
        big = nn.Parameter(mg.ones(100, 100, device=device).array)
        optimizer = optim.AdamW([*model.parameters(), big], lr=0.02)

        def step(x, with_big):
            optimizer.zero_grad()
            loss = model(x).square().mean() + (big.square().mean() if with_big else 0)
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        found = []
        for i in range(12):
            mg.random.set_step(i)
            found.append(step(mg.ones(2 + i % 2, 4, device=device) * i, i != 7).item())
        return found, as_numpy(optimizer.state_dict())

    assert_captured_is_plain(device, run)


def test_the_least_recently_used_signatures_are_forgotten(device, monkeypatch):
    w = mg.ones(3, device=device, requires_grad=True)

    def run(x):
        w.grad = None
        (x * w).sum().backward()

    monkeypatch.setattr(sys.modules["minigrad.capture"], "MOST_GRAPHS", 4)
    step = mg.capture(run, device)
    for n in (1, 2, 3, 4, 5, 5, 5, 5):
        for _ in range(3):
            step(np.full((n, 3), n, np.float32))
            assert w.grad.tolist() == [n * n] * 3
    assert step.recordings == 4
    step(np.ones((1, 3), np.float32))  # runs as it is: the first signature was forgotten
    assert step.recordings == 3
    assert w.grad.tolist() == [1, 1, 1]


def test_gradients_accumulate_across_signatures(device):
    def run(wrap):
        mg.manual_seed(3)
        model = mlp().to(device)
        optimizer = optim.AdamW(model.parameters(), lr=0.02)

        def step(x, is_first):
            if is_first:
                optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            if not is_first:
                optimizer.step()
            return loss

        step = wrap(step)
        found = []
        for i in range(20):
            for is_first in (True, False):
                rows = 3 if is_first or i % 3 else 5
                found.append(step(mg.ones(rows, 4, device=device) * i, is_first).item())
        return found, as_numpy(optimizer.state_dict())

    assert_captured_is_plain(device, run)


def test_gradients_may_be_cleared_at_the_end_of_the_step(device):
    p = nn.Parameter(mg.ones(3, device=device).array)
    optimizer = optim.SGD([p], lr=0.25)

    def step(x):
        (p * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    captured = mg.capture(step, device)
    for _ in range(6):
        captured(np.ones(3, np.float32))
        assert p.grad is None
    assert (p.tolist(), captured.recordings) == ([-0.5] * 3, 1)


@pytest.mark.parametrize("every", [1, 2, 100])
def test_gradients_may_be_cleared_outside_the_step(every, device):
    def run(wrap):
        mg.manual_seed(3)
        model = mlp().to(device).eval()
        step = wrap(lambda x: model(x).square().mean().backward())
        found = []
        for i, (x, _) in enumerate(batches(model, 8)):
            if i % every == 0:
                model.zero_grad()
            step(mg.tensor(x, device=device))
            found.append([p.grad.numpy().tolist() for p in model.parameters()])
        return found

    assert_captured_is_plain(device, run)


def test_replays_update_running_statistics(device):
    def run(wrap):
        model = nn.BatchNorm1d(4).to(device)
        step = wrap(model)
        for x, _ in batches(None, 6):
            step(mg.tensor(x, device=device))
        return {name: x.tolist() for name, x in as_numpy(model.state_dict()).items()}

    assert_captured_is_plain(device, run)


def test_capture_infers_the_device_from_the_computation(device):
    weight = mg.ones(4, device=device)
    calls = []
    step = mg.capture(lambda x: calls.append(1) or weight * x.abs())
    found = [step(np.full(4, i)).numpy()[0] for i in range(6)]
    assert (found, len(calls), step.recordings) == ([0, 1, 2, 3, 4, 5], 3, 1)


def test_capture_infers_the_device_from_indexing(device):
    table = nn.Embedding(5, 3).to(device)
    step = mg.capture(table)
    for i in range(5):
        np.testing.assert_array_equal(step(np.array([i, 2])).numpy(), table.weight.numpy()[[i, 2]])
    assert step.recordings == 1
    for pick in (lambda ids: table.weight[ids], lambda ids: table.weight.gather(0, ids[:, None])):
        first = mg.capture(pick)(np.array([4, 2]))
        np.testing.assert_array_equal(first.numpy()[:, 0], table.weight.numpy()[[4, 2], 0])


def test_capture_does_not_move_parameters_to_the_device(device):
    """Parameters that are on another device are a mistake, from the first call on."""
    weight = mg.ones(4, device=device)
    left = mg.ones(4, requires_grad=True)
    with pytest.raises(mg.DeviceError, match="different devices"):
        mg.capture(lambda x: weight * (x * left))(np.ones(4))
    with pytest.raises(mg.DeviceError, match="different devices"):
        _ = weight * mg.ones(4)


@pytest.mark.parametrize("named", [False, True])
def test_captured_steps_receive_arrays_as_tensors(named, device):
    where = device if named else None
    weight = mg.ones(3, device=device)
    kinds = []
    step = mg.capture(lambda x: kinds.append(type(x)) or (x.exp() * weight).sum(), where)
    for _ in range(4):
        found = step(np.ones(3)).item()
        assert found == pytest.approx(3 * math.e)
    assert set(kinds) == {mg.Tensor}


def test_captured_steps_accept_keyword_inputs(device):
    step = mg.capture(lambda x, *, factor, more: x * factor + more["y"], device)
    found = [step(np.ones(2), factor=2, more={"y": np.full(2, i)}).numpy()[0] for i in range(4)]
    assert (found, step.recordings) == ([2, 3, 4, 5], 1)
    step(np.ones(2), factor=3, more={"y": np.ones(2)})
    assert len(step.steps) == 2


def test_replays_return_the_same_tensors(device):
    step = mg.capture(lambda x: {"twice": x * 2, "name": "x"}, device)
    for i in range(3):
        first = step(np.full(3, i))
    second = step(np.full(3, 9))
    assert second["twice"] is first["twice"]
    assert (first["twice"].numpy().tolist(), first["name"]) == ([18, 18, 18], "x")


def test_constants_of_a_captured_step_are_kept(device):
    """What comes from the CPU inside a step is copied once, and its memory is nobody else's."""
    table = np.arange(12, dtype=np.float32).reshape(3, 4)

    def step(x):
        y = x + mg.tensor(table, device=device) * 2
        return y.exp() + (y + mg.tensor(table, device=device)).exp()

    def raw_step(x):
        """As a rule does it, which no op sees."""
        return mg.Tensor(x.array + on_device(table, x.device))

    for function in (step, raw_step):
        captured = mg.capture(function, device)
        for i in range(5):
            x = np.full((3, 4), i / 10, np.float32)
            expected = function(mg.tensor(x, device=device)).numpy()
            np.testing.assert_array_equal(captured(x).numpy(), expected)


def test_captured_steps_keep_the_tensors_they_read_alive(device):
    weights = [mg.full((3,), 2.0, device=device)]
    step = mg.capture(lambda x: x * weights[0], device)
    for _ in range(4):
        step(np.ones(3))
    weights.clear()
    assert step(np.full(3, 5.0)).numpy().tolist() == [10, 10, 10]


def test_creating_momentum_while_recording_raises(device):
    p, q = (nn.Parameter(mg.ones(2, device=device).array) for _ in range(2))
    optimizer = optim.SGD([p, q], lr=0.1, momentum=0.9)
    calls = []

    def step():
        calls.append(1)
        optimizer.zero_grad()
        (p if len(calls) < 3 else p * q).sum().backward()
        optimizer.step()

    captured = mg.capture(step, device)
    captured(), captured()
    with pytest.raises(CaptureError, match="first momentum"):
        captured()


class Heavy(optim.Optimizer):
    """As a user writes one: its state is made in its first update."""

    def __init__(self, params, lr):
        super().__init__(params, lr=lr)

    def update(self, p, g, state, group):
        if "sum" not in state:
            state["sum"] = g * 0
        state["sum"] += g
        p -= self.hyperparameters_for(p, state, group)[0] * state["sum"]


def test_user_optimizers_can_be_captured(device):
    runs = [Run(device, mlp, captured, Heavy).go(6) for captured in (False, True)]
    assert runs[1].step.recordings == 1
    assert_same(*runs)


def test_an_optimizer_may_step_twice_in_a_step(device):
    """Each of its steps in a replay has the numbers of its own count, and of the schedule then."""

    def run(wrap):
        p = nn.Parameter(mg.ones(3, device=device).array)
        optimizer = optim.AdamW([p], lr=0.1)
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        def twice(x):
            for _ in range(2):
                optimizer.zero_grad()
                (p * x).square().sum().backward()
                optimizer.step()
                scheduler.step()

        step = wrap(twice)
        for i in range(5):
            step(mg.full((3,), i + 1.0, device=device))
        return p.numpy().tolist(), as_numpy(optimizer.state_dict()), scheduler.last_epoch

    assert_captured_is_plain(device, run)


@pytest.mark.parametrize("named", [False, True])
def test_anomalies_are_found_in_every_call(named, device):
    """While an observer sees each result the step runs as it is; without one it is recorded and replayed."""
    where = device if named else None
    weight = mg.ones(2, device=device, requires_grad=True)
    step = mg.capture(lambda x: (weight * x).log().sum().backward(), where)
    for _ in range(2):
        for _ in range(4):
            with mg.autograd.detect_anomaly(), pytest.raises(mg.NonFiniteError, match="log produced nan"):
                step(np.full(2, -1.0))
        for i in range(4):
            weight.grad = None
            with mg.autograd.detect_anomaly() if i == 3 else contextlib.nullcontext():
                step(np.ones(2))
            assert weight.grad.tolist() == [1, 1]
        assert step.recordings == 1


def test_clipping_by_a_nan_norm_makes_all_gradients_nan(device):
    p, q = (nn.Parameter(np.ones(3, np.float32)).to("cuda") for _ in range(2))
    p.grad = mg.tensor([1.0, math.nan, 2.0], device="cuda")
    q.grad = mg.ones(3, device="cuda")
    norm = optim.clip_grad_norm_([p, q], 0.1)
    assert math.isnan(norm.item())
    assert np.isnan([p.grad.numpy(), q.grad.numpy()]).all()


def test_captured_methods_record_per_object(device):
    class Training:
        def __init__(self, factor):
            self.factor = factor

        @mg.capture
        def step(self, x):
            return (x * self.factor).sum()

    one, other = (Training(mg.tensor(x, device=device)) for x in (1.0, 2.0))
    for i in range(5):
        assert (one.step(np.float32([i])).item(), other.step(np.float32([i])).item()) == (i, 2 * i)
    assert Training.step.recordings == 2
