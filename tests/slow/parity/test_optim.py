"""Optimizers against PyTorch's: states, signatures, optimizers of one's own, clipping, a plateau.

Values of all configurations are compared by `test_optim_db.py`, schedules by `test_schedules.py`.
"""

import copy
import inspect
import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

SHAPES = [(3, 4), (4,), (), (2, 1, 3)]
DECOUPLED = {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}
CASES = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05, "maximize": True}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.98), "eps": 1e-4, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True, "betas": (0.5, 0.6)}),
    ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.1, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.3}),
    ("AdamW", {"amsgrad": True, "lr": 0.1, "betas": (0.5, 0.6)}),
    ("RMSprop", {"lr": 0.1, "alpha": 0.7, "weight_decay": 0.1, "momentum": 0.9}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "eps": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {"lr": 0.1, "rho": 0.5, "eps": 0.1, "weight_decay": 0.1}),
    ("Adamax", {"lr": 0.1, "betas": (0.5, 0.9), "eps": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "betas": (0.5, 0.9), "eps": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", DECOUPLED),
    ("RAdam", {"lr": 0.1, "betas": (0.5, 0.9), "eps": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("RAdam", DECOUPLED),
    ("Muon", {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.0, "nesterov": False, "ns_steps": 2}),
    ("Muon", {"lr": 0.1, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 2.0, "adjust_lr_fn": "match_rms_adamw"}),
    ("Muon", {"adjust_lr_fn": "original"}),
]
NAMES = list(dict.fromkeys(name for name, _ in CASES))


def parameters(rng, shapes=SHAPES):
    arrays = [rng.normal(size=shape) for shape in shapes]
    return [nn.Parameter(a.copy()) for a in arrays], [torch.nn.Parameter(torch.tensor(a)) for a in arrays]


def give_gradients(rng, ours, theirs):
    for p, t in zip(ours, theirs, strict=True):
        g = rng.normal(size=p.shape)
        p.grad, t.grad = mg.tensor(g), torch.tensor(g)


def assert_same(ours, theirs):
    for p, t in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.array, t.detach().numpy(), rtol=1e-12, atol=1e-13)


@pytest.fixture
def exact():
    """PyTorch keeps the numbers of NAdam's momentum in the default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(("name", "options"), CASES)
def test_20_optimizer_steps_match_pytorch(name, options, monkeypatch):
    """And one from PyTorch's own state."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # in which PyTorch's Muon multiplies
    shapes = [(3, 4), (6, 2), (5, 5)] if name == "Muon" else SHAPES
    rng = np.random.default_rng(0)
    ours, theirs = parameters(rng, shapes)
    optimizer = getattr(optim, name)(ours, **options)
    reference = getattr(torch.optim, name)(theirs, **options)
    for _ in range(20):
        give_gradients(rng, ours, theirs)
        optimizer.step()
        reference.step()
    assert_same(ours, theirs)
    assert_same_state(optimizer.state_dict(), reference.state_dict())
    again = getattr(optim, name)(copy.deepcopy(ours))
    again.load_state_dict(reference.state_dict())  # PyTorch's own
    give_gradients(rng, ours, theirs)
    for p, twin in zip(ours, again.param_groups[0]["params"], strict=True):
        twin.grad = p.grad
    optimizer.step()
    reference.step()
    again.step()
    assert_same(again.param_groups[0]["params"], theirs)
    assert_same(ours, theirs)


NOT_OURS = {"foreach", "fused", "capturable", "differentiable"}


def assert_same_state(ours, theirs):
    """PyTorch's may have a momentum that is None."""
    assert ours.keys() == theirs.keys()
    for group, expected in zip(ours["param_groups"], theirs["param_groups"], strict=True):
        assert group == {name: value for name, value in expected.items() if name not in NOT_OURS}
    assert ours["state"].keys() == theirs["state"].keys()
    for number, expected in theirs["state"].items():
        expected = {name: value for name, value in expected.items() if value is not None}
        assert ours["state"][number].keys() == expected.keys()
        for name, value in expected.items():
            array = ours["state"][number][name].array
            np.testing.assert_allclose(array, value.numpy(), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_signatures_of_optimizers(name):
    """PyTorch's names and defaults, and the order of those that may be given by position."""
    ours, theirs = (
        [
            (p.name, p.default, p.kind is p.KEYWORD_ONLY)
            for p in inspect.signature(getattr(library, name)).parameters.values()
            if p.name not in {*NOT_OURS, "implementation"}
        ]
        for library in (optim, torch.optim)
    )
    by_position = lambda some: [p[:2] for p in some if p[0] != "maximize"]
    assert by_position(ours) == by_position(theirs)
    assert {p[0] for p in ours} == {p[0] for p in theirs}


BAD = [
    *[(name, {"lr": -1.0}) for name in NAMES],
    *[(name, {"weight_decay": -1.0}) for name in NAMES],
    *[(name, {"eps": -1.0}) for name in NAMES if name != "SGD"],
    *[(name, {"betas": (1.0, 0.9)}) for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam")],
    *[(name, {"betas": (0.9, -0.1)}) for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam")],
    ("SGD", {"momentum": -1.0}), ("RMSprop", {"momentum": -1.0}), ("RMSprop", {"alpha": -1.0}),
    ("Adadelta", {"rho": 1.5}), ("Adadelta", {"rho": -0.5}), ("Adagrad", {"lr_decay": -1.0}),
    ("Adagrad", {"initial_accumulator_value": -1.0}), ("NAdam", {"momentum_decay": -1.0}),
    ("Muon", {}), ("Muon", {"adjust_lr_fn": "none"}),
    ("SGD", {"nesterov": True}), ("SGD", {"lr": "a"}), ("Adam", {"unknown": 1}), ("RMSprop", {"unknown": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), BAD)
def test_optimizers_reject_the_settings_pytorch_rejects(name, settings):
    for library, make in ((optim, mg.ones), (torch.optim, torch.ones)):
        with pytest.raises((ValueError, TypeError)):
            getattr(library, name)([make(1, requires_grad=True)], **settings)


def test_params_that_are_not_a_list_are_rejected():
    for library, make in ((optim, mg.ones), (torch.optim, torch.ones)):
        p = make(1, requires_grad=True)
        for params in (5, p, None):
            with pytest.raises(TypeError):
                library.SGD(params, lr=0.1)
        with pytest.raises(TypeError):
            library.SGD([p], lr=0.1).add_param_group([p])


def own_optimizer(base):
    class Signs(base):
        """As PyTorch's tutorials write them."""

        def __init__(self, params, lr=0.1, decay=0.5):
            super().__init__(params, {"lr": lr, "decay": decay})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        state["step"], state["mean"] = 0, p.grad * 0
                    state["step"] += 1
                    state["mean"].mul_(group["decay"]).add_(p.grad)
                    p.data.add_(state["mean"].sign(), alpha=-group["lr"] / state["step"])

    return Signs


def test_user_optimizers_with_a_step_match_pytorch():
    rng = np.random.default_rng(0)
    ours, theirs = parameters(rng)
    optimizer = own_optimizer(optim.Optimizer)(ours)
    reference = own_optimizer(torch.optim.Optimizer)(theirs)
    for step in range(6):
        give_gradients(rng, ours, theirs)
        optimizer.step()
        reference.step()
        if step == 3:
            again = own_optimizer(optim.Optimizer)(ours, lr=0.7)
            again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            assert again.param_groups[0]["lr"] == 0.1
            assert {int(s["step"]) for s in again.state.values()} == {4}
    assert_same(ours, theirs)


def test_a_closure_computes_the_loss():
    found = []
    for library, optimizers in ((mg, optim), (torch, torch.optim)):
        p = library.tensor([1.0, 2.0], requires_grad=True)
        optimizer = optimizers.SGD([p], lr=0.1)

        def closure(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (p**2).sum()
            loss.backward()
            return loss

        found.append([optimizer.step(closure).item() for _ in range(3)])
    np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("max_norm", [0.0, 1.0, math.inf])
@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_clipping_non_finite_gradients_matches_pytorch(place, bad, norm_type, max_norm):
    values = [[3.0, 4.0], [-5.0]]
    values[place][0] = bad
    found = []
    for library in (mg, torch):
        parameters = [library.zeros(len(v), requires_grad=True) for v in values]
        for p, v in zip(parameters, values, strict=True):
            p.grad = library.tensor(v)
        norm = library.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
        total = library.nn.utils.get_total_norm([p.grad for p in parameters], norm_type)
        library.nn.utils.clip_grad_value_(parameters, 2.0)
        found.append([float(norm), float(total), *(x for p in parameters for x in p.grad.tolist())])
    np.testing.assert_array_equal(*found)


METRICS = [5, 4, 4, 3.9999, 4, 6, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2]


@pytest.mark.parametrize(
    "settings",
    [
        {"patience": 1},
        {"patience": 0, "cooldown": 2, "min_lr": 0.02},
        {"mode": "max", "patience": 2, "factor": 0.5},
        {"threshold_mode": "abs", "threshold": 0.5, "patience": 1},
        {"mode": "max", "threshold": 0.9, "patience": 3, "eps": 0.1},
    ],
)
def test_a_plateau_lowers_the_learning_rate(settings):
    ours, theirs = parameters(np.random.default_rng(0))
    schedule = optim.lr_scheduler.ReduceLROnPlateau(optim.SGD(ours, lr=0.1), **settings)
    expected = torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD(theirs, lr=0.1), **settings)
    for metric in METRICS:
        schedule.step(metric)
        expected.step(metric)
        np.testing.assert_allclose(schedule.get_last_lr(), expected.get_last_lr(), rtol=1e-12)
