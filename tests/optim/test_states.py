"""States of optimizers, schedules and other objects: what is not a state of this one is refused, whole.

Names and shapes are checked. A state that was refused has changed nothing.
"""

import copy
import inspect
import operator
from functools import reduce

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core.errors import MinigradError
from minigrad.optim import lr_scheduler
from minitransformer import TrainConfig
from minitransformer.training.optimizers import build_optimizer

NOT_STATES = (None, [], {}, {"a": 1}, {"abc.def": 1})


def model(width=2):
    mg.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 3, bias=False), nn.Linear(3, 2, bias=False))


def muon_and_adamw(parameters):
    holder = nn.Module()
    holder.hidden, holder.head = (nn.Linear(2, 2) for _ in range(2))
    holder.hidden.weight, holder.head.weight = parameters
    return build_optimizer(holder, TrainConfig(optimizer="muon"))


CLASSES = {
    name: kind
    for name, kind in vars(optim).items()
    if inspect.isclass(kind) and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer
}
OPTIMIZERS = {name: lambda p, kind=kind: kind(p, lr=0.1) for name, kind in CLASSES.items()} | {
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam with amsgrad": lambda p: optim.Adam(p, amsgrad=True),
    "RMSprop, centered": lambda p: optim.RMSprop(p, momentum=0.5, centered=True),
    "MuonAdamW": muon_and_adamw,
}
SAME_STATE = {  # the names in it
    ("SGD", "SGD with momentum"), ("Adam", "Adam with amsgrad"), ("RMSprop", "RMSprop, centered"),
    ("RAdam", "Adam"), ("RAdam", "AdamW"), ("Adam", "AdamW"), ("Adam with amsgrad", "AdamW"),
}  # fmt: skip
EACH = pytest.mark.parametrize("name", OPTIMIZERS)


def trained(name, steps=3, width=2):
    """An optimizer after some steps, and its parameters."""
    parameters = list(model(width).parameters())
    optimizer = OPTIMIZERS[name](parameters)
    train(optimizer, parameters, steps)
    return optimizer, parameters


def train(optimizer, parameters, steps):
    def closure():
        optimizer.zero_grad()
        loss = sum(((p - 0.5) ** 2).sum() for p in parameters)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def content(x):
    """Whatever is in a state, so that two can be compared."""
    if isinstance(x, dict):
        return {key: content(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [content(value) for value in x]
    return np.asarray(x).tolist() if isinstance(x, mg.Tensor | np.ndarray) else x


def places(state, path=()):
    """The path of everything in a state, at any depth."""
    for key, value in state.items() if isinstance(state, dict) else enumerate(state):
        yield (*path, key)
        if isinstance(value, dict | list) and "params" not in path:
            yield from places(value, (*path, key))


def spoiled(state, path, change):
    """A copy of a state with one thing in it changed: removed, replaced, or one more added to it."""
    state = copy.deepcopy(state)
    *holders, key = path
    holder = reduce(operator.getitem, holders, state)
    if change == "remove":
        del holder[key]
    elif change == "replace":
        holder[key] = np.zeros((7, 7))
    elif isinstance(holder[key], dict):
        holder[key][99] = copy.deepcopy(next(iter(holder[key].values())))
    else:
        holder[key].append(holder[key][-1])
    return state


def assert_refused(holder, state, what):
    """Loading the state is an error of two lines, and changes nothing."""
    before = content(holder.state_dict())
    with pytest.raises((MinigradError, ValueError)) as raised:
        holder.load_state_dict(state)
    assert str(raised.value).count("\n") == 1, what
    assert content(holder.state_dict()) == before, what


# ---------------------------------------------------------------- optimizers


@EACH
def test_a_state_that_does_not_fit_is_refused(name):
    optimizer, _ = trained(name)
    state = optimizer.state_dict()
    for bad in NOT_STATES:
        assert_refused(optimizer, bad, bad)
    arrays = [path for path in places(state["state"], ("state",)) if len(path) == 3]
    options = [("param_groups", 0, "lr"), ("param_groups", 0, "params")]
    for path in options + [path for path in arrays if len(state["state"][path[1]]) > 1]:
        assert_refused(optimizer, spoiled(state, path, "remove"), f"without {path}")
    for path in arrays:
        assert_refused(optimizer, spoiled(state, path, "replace"), f"(7, 7) at {path}")
    lists = [("param_groups",), *(("param_groups", i, "params") for i in range(len(state["param_groups"])))]
    for path in [*lists, ("state",)] if arrays else lists:
        assert_refused(optimizer, spoiled(state, path, "add"), f"one more in {path}")
    if arrays:
        assert_refused(optimizer, trained(name, width=5)[0].state_dict(), "the state of a wider model")


@EACH
def test_the_state_of_another_class_is_refused(name):
    optimizer, _ = trained(name)
    for other in OPTIMIZERS.keys() - {name}:
        related = {(name, other), (other, name)} & SAME_STATE
        if not related or (name == "AdamW" and other.startswith("Adam")):  # Adam takes AdamW's, an option
            assert_refused(optimizer, trained(other)[0].state_dict(), f"the state of {other}")


@EACH
@pytest.mark.parametrize("steps", [0, 3])
def test_optimizers_resume_from_their_own_state(name, steps, tmp_path):
    optimizer, parameters = trained(name, steps)
    mg.save_file(optimizer.state_dict(), tmp_path / "state.safetensors")
    for state in (optimizer.state_dict(), mg.load_file(tmp_path / "state.safetensors")):
        others = [nn.Parameter(p.array.copy()) for p in parameters]
        other = OPTIMIZERS[name](others)
        other.load_state_dict(state)
        whole, wholes = copy.deepcopy((optimizer, parameters))
        train(whole, wholes, 2)
        train(other, others, 2)
        for p, q in zip(wholes, others, strict=True):
            np.testing.assert_array_equal(p.array, q.array)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.slow
def test_optimizers_resume_from_a_pytorch_state(name):
    torch = pytest.importorskip("torch")
    start = [p.numpy().copy() for p in model().parameters()]
    theirs = [torch.nn.Parameter(torch.tensor(x)) for x in start]
    optimizer = getattr(torch.optim, name)(theirs, lr=0.1)
    train(optimizer, theirs, 3)
    ours = [nn.Parameter(p.detach().numpy().copy()) for p in theirs]
    mine = OPTIMIZERS[name](ours)
    if name == "LBFGS":  # its state has other names
        assert_refused(mine, optimizer.state_dict(), "PyTorch's LBFGS")
        return
    mine.load_state_dict(optimizer.state_dict())
    train(optimizer, theirs, 2)
    train(mine, ours, 2)
    atol = 1e-2 if name == "Muon" else 1e-6  # PyTorch's orthogonalizes in bfloat16
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=2e-5, atol=atol)


def test_user_optimizers_may_define_their_own_state():
    class Mine(optim.Optimizer):
        def update(self, p, g, state, group):
            state["count"] = np.array(state.get("count", 0) + 1)
            p -= group["lr"] * g

    parameters = list(model().parameters())
    optimizer = Mine(parameters, lr=0.1)
    train(optimizer, parameters, 2)
    other = Mine(parameters, lr=0.5)
    other.load_state_dict(optimizer.state_dict())
    assert content(other.state_dict()) == content(optimizer.state_dict())
    assert_refused(other, {}, "nothing")


class Own(optim.Optimizer):
    """An optimizer written as for PyTorch, with all kinds of things in its state."""

    def step(self, closure=None):
        self.state["global"].setdefault("norms", mg.zeros(1)).add_(1)  # of no parameter
        with mg.no_grad():
            for p in (p for group in self.param_groups for p in group["params"]):
                state = self.state[p]
                if not state:
                    state.update(step=0, count=mg.tensor(0.0), row=mg.zeros(p.shape[0]), last=None, all=[])
                    state.update(m=mg.zeros_like(p), signs=mg.ones_like(p).long(), name="a")
                state["step"] += 1
                state["count"].add_(1)
                state["row"].mul_(0.9).add_(p.grad.square().mean(1))
                state["m"].mul_(0.9).add_(p.grad * state["signs"].mul_(-1))
                state["last"] = p.grad.clone() if state["last"] is None else state["last"]
                state["all"].append(p.grad.clone())
                p.sub_(state["m"] / state["count"] + state["last"] / state["step"] + sum(state["all"]))
                p.div_(state["row"][:, None].sqrt() + 0.1)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("newer", 1)


def test_user_optimizers_resume():
    before, after = (list(model().parameters()) for _ in range(2))
    optimizer, other = Own(before), Own(after)
    for p in (*before, *after):
        p.grad = mg.full(p.shape, 0.5)
    optimizer.step()
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.param_groups[0]["newer"] == 1
    for p, q in zip(before, after, strict=True):
        q.data.copy_(p.data)
        kinds = [{n: type(x) for n, x in o.state[x_].items()} for o, x_ in ((optimizer, p), (other, q))]
        assert kinds[0] == kinds[1]
    for _ in range(2):
        optimizer.step()
        other.step()
    assert [q.tolist() for q in after] == [p.tolist() for p in before]
    assert content(other.state_dict()["state"]) == content(optimizer.state_dict()["state"])


# ---------------------------------------------------------------- schedules

ARGUMENTS = {
    "LambdaLR": (lambda epoch: 0.5,), "MultiplicativeLR": (lambda epoch: 0.5,), "StepLR": (2,),
    "MultiStepLR": ([2, 4],), "ExponentialLR": (0.9,), "CosineAnnealingLR": (5,),
    "CosineAnnealingWarmRestarts": (5,), "OneCycleLR": (0.5, 100), "CyclicLR": (0.1, 0.5),
    "SequentialLR": None, "ChainedScheduler": None,
}  # fmt: skip
SCHEDULES = {
    name: kind
    for name, kind in vars(lr_scheduler).items()
    if inspect.isclass(kind)
    and kind.__module__ == lr_scheduler.LRScheduler.__module__
    and not name.startswith("_")
    and kind is not lr_scheduler.LRScheduler
}
EACH_SCHEDULE = pytest.mark.parametrize("name", SCHEDULES)


def scheduled(name, steps=3):
    optimizer = optim.SGD([mg.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)
    kind = SCHEDULES[name]
    if name in ("SequentialLR", "ChainedScheduler"):
        parts = [lr_scheduler.StepLR(optimizer, 2), lr_scheduler.ExponentialLR(optimizer, 0.9)]
        schedule = kind(optimizer, parts, [2]) if name == "SequentialLR" else kind(parts)
    else:
        schedule = kind(optimizer, *ARGUMENTS.get(name, ()))
    for _ in range(steps):
        advance(schedule)
    return schedule


def advance(schedule):
    optimizer = schedule.optimizer
    optimizer.step()
    schedule.step(*([1.0] if isinstance(schedule, lr_scheduler.ReduceLROnPlateau) else []))


@EACH_SCHEDULE
def test_invalid_scheduler_states_are_rejected(name):
    schedule = scheduled(name)
    state = schedule.state_dict()
    for bad in NOT_STATES:
        assert_refused(schedule, bad, bad)
    for path in places(state):
        older = isinstance(path[-1], str) and path[-1].startswith("_") and path[-1] != "_last_lr"
        older = older or path in (("lr_lambdas",), ("scale_fn",))
        inside = isinstance(path[-1], int) and path[0] in ("milestones", "phases")  # how many is free
        if not older and not inside:
            assert_refused(schedule, spoiled(state, path, "remove"), f"without {path}")
    for other in SCHEDULES.keys() - {name}:
        if not {name, other} <= {"LambdaLR", "MultiplicativeLR"}:  # functions are not part of a state
            assert_refused(schedule, scheduled(other).state_dict(), other)


@EACH_SCHEDULE
def test_schedulers_resume_from_their_own_state(name):
    before, after = scheduled(name), scheduled(name, 0)
    after.load_state_dict(before.state_dict())
    for _ in range(4):
        advance(before)
        advance(after)
        assert after.optimizer.param_groups[0]["lr"] == before.optimizer.param_groups[0]["lr"]
    scheduled(name, 0).load_state_dict(scheduled(name, 0).state_dict())


class Decay:
    """A callable object: its factor is its state."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, step):
        return self.factor**step


class OwnSchedule(lr_scheduler.ExponentialLR):
    """A schedule whose state has a form of its own."""

    def state_dict(self):
        return {"own": super().state_dict()}

    def load_state_dict(self, state_dict):
        super().load_state_dict(state_dict["own"])


OF_OBJECTS = {
    "LambdaLR": lambda o, f: lr_scheduler.LambdaLR(o, f),
    "a list": lambda o, f: lr_scheduler.LambdaLR(o, [f]),
    "MultiplicativeLR": lambda o, f: lr_scheduler.MultiplicativeLR(o, f),
    "CyclicLR": lambda o, f: lr_scheduler.CyclicLR(o, 0.1, 0.5, 2, scale_fn=f, cycle_momentum=False),
    "ChainedScheduler": lambda o, f: lr_scheduler.ChainedScheduler([lr_scheduler.LambdaLR(o, f)]),
    "SequentialLR": lambda o, f: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o), lr_scheduler.LambdaLR(o, f)], [1]
    ),
    "a schedule's own state": lambda o, f: lr_scheduler.ChainedScheduler([OwnSchedule(o, f.factor)]),
}


@pytest.mark.parametrize("make", OF_OBJECTS.values(), ids=list(OF_OBJECTS))
def test_scheduler_states_include_callable_objects(make):
    before, after = (
        make(optim.SGD([mg.ones(2, requires_grad=True)], lr=0.1), Decay(factor)) for factor in (0.5, 0.9)
    )
    advance(before)
    state = copy.deepcopy(before.state_dict())
    after.optimizer.load_state_dict(before.optimizer.state_dict())
    after.load_state_dict(state)
    assert content(after.state_dict()) == content(state)
    for _ in range(3):
        advance(before)
        advance(after)
        assert after.optimizer.param_groups[0]["lr"] == before.optimizer.param_groups[0]["lr"]


def test_loading_an_object_state_into_a_function_raises():
    optimizer = optim.SGD([mg.ones(2, requires_grad=True)], lr=0.1)
    of_object = lr_scheduler.LambdaLR(optimizer, Decay(0.5))
    of_function = lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5)
    assert of_function.state_dict()["lr_lambdas"] == [None]
    assert_refused(of_function, of_object.state_dict(), "the state of an object")
    of_object.load_state_dict(of_function.state_dict())
    assert of_object.lr_lambdas[0].factor == 0.5


@EACH_SCHEDULE
def test_schedulers_resume_from_a_pytorch_state(name):
    torch = pytest.importorskip("torch")
    if name in ("SequentialLR", "ChainedScheduler", "ReduceLROnPlateau"):
        pytest.skip("PyTorch's state has other names, and is refused")
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)
    theirs = getattr(torch.optim.lr_scheduler, name)(optimizer, *ARGUMENTS.get(name, ()))
    for _ in range(3):
        optimizer.step()
        theirs.step()
    ours = scheduled(name, 0)
    ours.optimizer.load_state_dict(optimizer.state_dict())
    ours.load_state_dict(theirs.state_dict())
    for _ in range(4):
        optimizer.step()
        theirs.step()
        ours.step()
        rates = [o.param_groups[0]["lr"] for o in (ours.optimizer, optimizer)]
        assert rates[0] == pytest.approx(rates[1], rel=1e-9)


# ---------------------------------------------------------------- all other objects with a state


class OfGenerator:
    """A random number generator, by the names of the others."""

    def __init__(self, steps):
        self.generator = mg.Generator()
        self.generator.manual_seed(1)
        for _ in range(steps):
            mg.rand(2, generator=self.generator)

    def state_dict(self):
        return {"state": self.generator.get_state()}

    def load_state_dict(self, state):
        self.generator.set_state(state["state"] if isinstance(state, dict) and "state" in state else state)


def scaler(steps):
    made = mg.amp.GradScaler()
    made.good_steps = steps
    return made


OBJECTS = {"module": lambda steps: model(), "scaler": scaler, "generator": OfGenerator}
EACH_OBJECT = pytest.mark.parametrize("name", OBJECTS)


@EACH_OBJECT
@pytest.mark.parametrize("steps", [0, 3])
def test_objects_load_their_own_state(name, steps):
    before, after = OBJECTS[name](steps), OBJECTS[name](0)
    after.load_state_dict(before.state_dict())
    assert content(after.state_dict()) == content(before.state_dict())


def test_invalid_generator_states_are_rejected():
    generator = mg.Generator()
    before = generator.get_state().tolist()
    for text in (
        "[]", "[null, 0, 0, {}]", '[0, "x", 0, {}]', "[0, 0, -1, {}]", "[0, 0, 0, []]", "3", "[" * 9999,
        '[0, 0, 0, {"a": null}]', '{"seed": 0}', "[0, 0, 0, {}, 1]", "[1e400, 0, 0, {}]",
    ):  # fmt: skip
        with pytest.raises(MinigradError, match="not the state of a random number generator"):
            generator.set_state(mg.tensor(np.frombuffer(text.encode(), np.uint8).copy()))
        assert generator.get_state().tolist() == before


@EACH_OBJECT
def test_objects_reject_foreign_states(name):
    holder = OBJECTS[name](3)
    state = holder.state_dict()
    for path in places(state):
        assert_refused(holder, spoiled(state, path, "remove"), f"without {path}")
        assert_refused(holder, spoiled(state, path, "replace"), f"(7, 7) at {path}")
    for other in OBJECTS.keys() - {name}:
        assert_refused(holder, OBJECTS[other](3).state_dict(), other)
