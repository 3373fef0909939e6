"""The call after a recording has to be the step that was recorded: what Python changes is found, or refused.

Of each step a second one runs as it is, with a model of its own: all numbers are the same in every bit.
"""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.capture.recorder import same_bits
from minigrad.errors import CaptureError, GraphError
from minigrad.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.first(x).relu())


class World:
    """A model, and what a step counts."""

    def __init__(self):
        mg.manual_seed(0)
        self.model, self.count = Net(), 0
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1)

    def numbers(self):
        weights = list(self.model.parameters())
        return [None if x is None else x.numpy().copy() for p in weights for x in (p, p.grad)]


def run(step, is_captured, between=lambda world, i: None, calls=9):
    world, draw, found = World(), np.random.default_rng(0), []
    call = lambda x, y: step(world, x, y)
    call = mg.capture(call, "cpu") if is_captured else call
    for i in range(calls):
        x, y = draw.normal(size=(6, 5)).astype(np.float32), draw.integers(0, 3, 6)
        between(world, i)
        result = call(mg.tensor(x), mg.tensor(y))
        found.append([result.detach().numpy().copy(), *world.numbers()])
    return found


def assert_same(step, between=lambda world, i: None):
    for one, other in zip(run(step, False, between), run(step, True, between), strict=True):
        for x, y in zip(one, other, strict=True):
            assert (x is None) == (y is None)
            assert x is None or same_bits(x, y)


def refusal(step, between=lambda world, i: None):
    with pytest.raises(CaptureError) as error:
        run(step, True, between)
    return str(error.value)


def backward(world, loss, **settings):
    world.model.zero_grad()
    loss.backward(**settings)
    return loss


# ---------------------------------------------------------------- numbers and choices of Python's

CHANGING = {  # of a world whose count is another in each call
    "a setting": lambda w, x, y: F.cross_entropy(w.model(x), y, label_smoothing=0.5 / w.count),
    "the p of dropout": lambda w, x, y: F.dropout(w.model(x), 0.5 / w.count).sum(),
    "a value": lambda w, x, y: w.model(x).masked_fill(x[:, :3] > 0, w.count).sum(),
    "a slice": lambda w, x, y: w.model(x)[w.count % 4 : w.count % 4 + 2].sum(),
    "alpha": lambda w, x, y: mg.add(w.model(x), x[:, :3], alpha=w.count).square().sum(),
    "a change in place": lambda w, x, y: (w.model(x) * x[:, :3].clone().mul_(1 / w.count)).sum(),
    "NumPy": lambda w, x, y: (w.model(x) * mg.tensor(x.array[:, :3] * np.float32(1 / w.count))).sum(),
    "a bool": lambda w, x, y: F.cross_entropy(w.model(x), y) * (w.count % 2 == 0),
    "a branch": lambda w, x, y: (
        F.cross_entropy(w.model(x), y) + (w.model.first.weight.sum() if w.count % 2 else 0)
    ),
    "a loop": lambda w, x, y: sum(F.cross_entropy(w.model(x), y) for _ in range(w.count % 3 + 1)),
    "an index": lambda w, x, y: w.model(x[mg.tensor([w.count % 6, 0])]).sum(),
}


@pytest.mark.parametrize("name", CHANGING)
def test_what_python_changes_is_refused_with_its_line(name):
    def step(world, x, y):
        world.count += 1
        return backward(world, CHANGING[name](world, x, y))

    assert re.search(r" at .*test_capture_confirmed\.py:\d+", refusal(step))


def test_a_gradient_that_python_changes_is_refused():
    def step(world, x, y):
        world.count += 1
        return backward(world, F.cross_entropy(world.model(x), y), gradient=mg.tensor(1 / world.count))

    assert "not what the call before did" in refusal(step)


def test_a_largest_norm_that_python_changes_is_refused():
    def step(world, x, y):
        world.count += 1
        loss = backward(world, F.cross_entropy(world.model(x), y))
        optim.clip_grad_norm_(world.model.parameters(), 0.1 / world.count)
        return loss

    assert "scale at" in refusal(step)


def test_a_result_that_python_changes_is_refused():
    def step(world, x, y):
        world.count += 1
        backward(world, F.cross_entropy(world.model(x), y))
        return mg.full((2,), float(world.count))

    place = f"{__file__}:{run.__code__.co_firstlineno + 2}"  # the lambda that is captured
    assert refusal(step).startswith(f"a result of the step at {place} is another number")


def test_a_step_without_code_of_its_own_is_named_by_its_type():
    class Step:
        count = 0

        def __getattr__(self, name):
            return self  # of any name

        def __call__(self, x):
            Step.count += 1
            return x * 2, Step.count

    captured = mg.capture(Step(), "cpu")
    for _ in range(3):
        captured(mg.ones(3))
    with pytest.raises(CaptureError, match=r"a result of the step \(Step\) is another number"):
        captured(mg.ones(3))


def test_a_refused_call_leaves_everything_as_it_was():
    world = World()

    @mg.capture
    def step(x):
        world.count += 1
        world.optimizer.zero_grad()
        loss = world.model(F.dropout(x, 0.5)).sum() * max(world.count, 3)
        loss.backward()
        world.optimizer.step()
        return loss

    x = np.ones((6, 5), np.float32)
    for _ in range(3):
        step(x)
    before, draws = world.numbers(), mg.random.snapshot()
    with pytest.raises(CaptureError):
        step(x)
    assert all(map(same_bits, world.numbers(), before))
    assert mg.random.snapshot() == draws


# ---------------------------------------------------------------- optimizers


def train(world, x, y):
    world.optimizer.zero_grad()
    loss = F.cross_entropy(world.model(x), y)
    loss.backward()
    world.optimizer.step()
    return loss


def test_an_option_that_the_step_sets_is_refused():
    def step(world, x, y):
        world.count += 1
        world.optimizer.param_groups[0]["lr"] = 0.05 * world.count**-0.5
        return train(world, x, y)

    assert refusal(step).startswith("lr of SGD at ")


def test_a_bound_method_of_a_schedule_is_refused():
    def step(world, x, y):
        loss = train(world, x, y)
        world.callback()
        return loss

    def between(world, i):
        if i == 0:
            world.callback = optim.lr_scheduler.ExponentialLR(world.optimizer, 0.5).step

    assert refusal(step, between).startswith("a step of a scheduler, at ")


def test_an_option_that_changes_outside_the_step_is_that_of_each_call():
    def between(world, i):
        world.optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)

    assert_same(train, between)


@pytest.mark.parametrize("changing", [3, 5])
def test_an_optimizer_with_a_step_of_its_own(changing):
    class MySGD(optim.Optimizer):
        @mg.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    p.data -= group["lr"] * p.grad

    def between(world, i):
        if i == 0:
            world.optimizer = MySGD(world.model.parameters(), lr=0.1)
        world.optimizer.param_groups[0]["lr"] = 0.1 if i < changing else 0.01

    assert_same(train, between)


# ---------------------------------------------------------------- what changes between calls


def fgsm(world, x, y):
    x.requires_grad_()
    backward(world, F.cross_entropy(world.model(x), y))
    return x.detach() + 0.1 * x.grad.sign()


def doubled(world, x, y):
    x.requires_grad_()
    x.register_hook(lambda g: g * 2)
    return mg.autograd.grad(F.cross_entropy(world.model(x), y), [x])[0]


def transposed(world, x, y):
    return x.t_().sum(0)


@pytest.mark.parametrize("step", [fgsm, doubled, transposed])
def test_what_a_step_does_to_its_arguments_ends_with_the_call(step):
    assert_same(step)


def features(world, x, y):
    return backward(world, F.cross_entropy(world.model(x), y))


def unfreeze(world, i):
    world.model.first.requires_grad_(i >= 5)


def replace(world, i):
    if i == 5:
        world.model.last.weight.data = world.model.last.weight.numpy() * 2


@pytest.mark.parametrize("between", [unfreeze, replace])
def test_a_parameter_that_changes_between_calls(between):
    assert_same(features, between)


def test_evaluation_between_calls():
    def step(world, x, y):
        return backward(world, F.cross_entropy(world.model.last(world.dropout(world.model.first(x))), y))

    def between(world, i):
        if i == 0:
            world.dropout = nn.Sequential(nn.Dropout(0.5), nn.ReLU())
        world.dropout.train(i < 5)

    assert_same(step, between)


def test_a_gradient_made_outside_for_a_parameter_that_had_none():
    def step(world, x, y):
        for p in world.model.first.parameters():
            p.grad = None
        loss = world.model.first(x).square().sum()
        loss.backward()
        world.optimizer.step()
        return loss

    def between(world, i):
        if i == 5:
            world.model.last(mg.ones(1, 8)).sum().backward()

    assert_same(step, between)


def test_a_gradient_that_a_result_keeps():
    def step(world, x, y):
        h = world.model.first(x)
        h.retain_grad()
        backward(world, F.cross_entropy(world.model.last(h.relu()), y))
        return h.grad.abs().sum(1)

    assert_same(step)


def test_backward_outside_of_the_step_is_an_error():
    layer, head = nn.Linear(5, 4), nn.Linear(4, 3)
    step = mg.capture(layer, "cpu")
    for i in range(6):
        loss = head(step(np.ones((2, 5), np.float32))).sum()
        if i < 2:
            loss.backward()
        else:
            with pytest.raises(
                GraphError, match=r"a result of a captured step.*\n.*backward\(\) in the step"
            ):
                loss.backward()


# ---------------------------------------------------------------- which objects, and what is left


def test_an_option_that_the_step_sets_beside_a_schedule_is_refused():
    def step(world, x, y):
        world.count += 1
        world.optimizer.param_groups[0]["weight_decay"] = 0.01 * world.count
        loss = train(world, x, y)
        world.schedule.step()
        return loss

    def between(world, i):
        if i == 0:
            world.schedule = optim.lr_scheduler.StepLR(world.optimizer, 3)

    assert refusal(step, between).startswith("weight_decay of SGD at ")


def test_a_gradient_that_the_step_leaves_only_in_some_calls_is_refused():
    def step(world, x, y):
        world.count += 1
        loss = backward(world, F.cross_entropy(world.model(x), y))
        if world.count % 2:
            world.model.first.weight.grad = None
        return loss

    assert ".grad of shape (8, 5)" in refusal(step)


def test_optimizers_in_turn_are_refused():
    def step(world, x, y):
        world.count += 1
        loss = backward(world, F.cross_entropy(world.model(x), y))
        (world.optimizer, world.other)[world.count % 2].step()
        return loss

    def between(world, i):
        if i == 0:
            world.other = optim.SGD(world.model.parameters(), lr=0.01)

    assert "has other arguments" in refusal(step, between)


def test_tensors_that_are_written_in_turn_are_refused():
    def step(world, x, y):
        world.count += 1
        world.sums[world.count % 2].add_(1)
        return backward(world, F.cross_entropy(world.model(x), y))

    def between(world, i):
        if i == 0:
            world.sums = [mg.zeros(2), mg.zeros(2)]

    assert "has other arguments" in refusal(step, between)


def test_results_of_another_structure_are_refused():
    world = World()

    @mg.capture
    def step(x):
        world.count += 1
        return {f"loss {world.count}": (x * 2).sum()}

    for _ in range(3):
        step(np.ones(3))
    with pytest.raises(CaptureError, match="structure"):
        step(np.ones(3))


def test_a_layer_that_computes_nothing_in_evaluation():
    def step(world, x, y):
        return backward(world, F.cross_entropy(world.model.last(world.dropout(world.model.first(x))), y))

    def between(world, i):
        if i == 0:
            world.dropout = nn.Dropout(0.5)
        world.dropout.train(i >= 6)

    assert_same(step, between)


# ---------------------------------------------------------------- honest steps


def adversarial(world, x, y):
    """Its first backward adds to gradients that the call before has left."""
    x = x.clone().requires_grad_()
    F.cross_entropy(world.model(x), y).backward()
    return train(world, (x + 0.1 * x.grad.sign()).detach(), y)


def filled(world, x, y):
    z = mg.empty(6, 3)
    z.copy_(x[:, :3])
    return backward(world, (world.model(x) * z).sum())


def with_a_function(world, x, y):
    signed = np.piecewise(x.array, [x.array < 0, x.array >= 0], [lambda v: -v, lambda v: v])
    return backward(world, F.cross_entropy(world.model(mg.tensor(signed)), y))


@pytest.mark.parametrize("step", [adversarial, filled, with_a_function])
def test_steps_that_are_the_same_in_each_call(step):
    assert_same(step)


def test_a_weight_that_is_replaced_between_calls():
    def between(world, i):
        if i == 3:
            world.old = world.model.last.weight.array
            world.model.last.weight.data = world.old * 2
        if i == 6:
            world.old = None

    assert_same(train, between)


def test_a_step_that_has_become_the_same_is_captured():
    world = World()

    @mg.capture
    def step(x):
        world.count += 1
        return (x * min(world.count, 4)).sum()

    refused, x = 0, np.ones(3)
    for _ in range(12):
        try:
            step(x)
        except CaptureError:
            refused += 1
    assert (refused, step.recordings) == (1, 1)


def test_a_refused_call_leaves_schedules_as_they_were():
    world = World()
    parts = [optim.lr_scheduler.ConstantLR(world.optimizer), optim.lr_scheduler.StepLR(world.optimizer, 2)]
    schedule = optim.lr_scheduler.ChainedScheduler(parts)

    @mg.capture
    def step(x):
        world.count += 1
        loss = backward(world, world.model(x).sum() * max(world.count, 3))
        world.optimizer.step()
        schedule.step()
        return loss

    x = np.ones((6, 5), np.float32)
    for _ in range(3):
        step(x)
    before = [
        schedule.last_epoch,
        *(part.last_epoch for part in parts),
        world.optimizer.param_groups[0]["lr"],
    ]
    with pytest.raises(CaptureError):
        step(x)
    after = [schedule.last_epoch, *(part.last_epoch for part in parts), world.optimizer.param_groups[0]["lr"]]
    assert after == before
