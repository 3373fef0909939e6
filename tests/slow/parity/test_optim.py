"""Optimizers, clipping, schedules, layers and initialization against PyTorch's."""

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
OPTIONS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.05},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
    ],
    "Adam": [{"lr": 0.1}, {"lr": 0.1, "betas": (0.8, 0.98), "eps": 1e-4, "weight_decay": 0.1}, {}],
    "AdamW": [{"lr": 0.1}, {"lr": 0.1, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.3}, {}],
    "RMSprop": [
        {},
        {"lr": 0.1, "alpha": 0.7, "weight_decay": 0.1, "momentum": 0.9},
        {"alpha": 0.5, "centered": True, "eps": 0.1},
        {"centered": True, "momentum": 0.5, "eps": 0.1},
    ],
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}],
    "Adadelta": [{}, {"lr": 0.1, "rho": 0.5, "eps": 0.1, "weight_decay": 0.1}],
    "Adamax": [{}, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 0.1, "weight_decay": 0.1}],
    "NAdam": [
        {},
        {"lr": 0.1, "betas": (0.5, 0.9), "eps": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ],
    "RAdam": [
        {},
        {"lr": 0.1, "betas": (0.5, 0.9), "eps": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ],
}
MUON = [
    {},
    {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.0, "nesterov": False, "ns_steps": 2},
    {"lr": 0.1, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 2.0, "adjust_lr_fn": "match_rms_adamw"},
    {"adjust_lr_fn": "original"},
]
for some in OPTIONS.values():
    some.append({**some[-1], "maximize": True})
OPTIONS["Adam"] += [
    {"amsgrad": True, "lr": 0.1},
    {"amsgrad": True, "weight_decay": 0.1, "maximize": True, "betas": (0.5, 0.6)},
    {"weight_decay": 0.1, "decoupled_weight_decay": True},
]
OPTIONS["AdamW"] += [{"amsgrad": True, "lr": 0.1, "betas": (0.5, 0.6)}]
CASES = [
    pytest.param(name, options, id=f"{name}-{i}")
    for name, some in OPTIONS.items()
    for i, options in enumerate(some)
]


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
def test_twenty_steps(name, options):
    take_steps(name, options, SHAPES)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("options", MUON)
def test_twenty_steps_of_muon(options, monkeypatch):
    """PyTorch multiplies in bfloat16, here in the gradients' dtype."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    take_steps("Muon", options, [(3, 4), (6, 2), (5, 5)])


def take_steps(name, options, shapes):
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


@pytest.mark.parametrize("name", [*OPTIONS, "Muon"])
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
    *[(name, {"lr": -1.0}) for name in OPTIONS],
    *[(name, {"weight_decay": -1.0}) for name in OPTIONS],
    *[(name, {"eps": -1.0}) for name in OPTIONS if name != "SGD"],
    *[(name, {"betas": (1.0, 0.9)}) for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam")],
    *[(name, {"betas": (0.9, -0.1)}) for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam")],
    ("SGD", {"momentum": -1.0}), ("RMSprop", {"momentum": -1.0}), ("RMSprop", {"alpha": -1.0}),
    ("Adadelta", {"rho": 1.5}), ("Adadelta", {"rho": -0.5}), ("Adagrad", {"lr_decay": -1.0}),
    ("Adagrad", {"initial_accumulator_value": -1.0}), ("NAdam", {"momentum_decay": -1.0}),
    ("Muon", {}), ("Muon", {"adjust_lr_fn": "none"}),
    ("SGD", {"nesterov": True}), ("SGD", {"lr": "a"}), ("Adam", {"unknown": 1}), ("RMSprop", {"unknown": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), BAD)
def test_settings_that_pytorch_refuses(name, settings):
    for library, make in ((optim, mg.ones), (torch.optim, torch.ones)):
        with pytest.raises((ValueError, TypeError)):
            getattr(library, name)([make(1, requires_grad=True)], **settings)


def test_what_is_no_list_of_parameters():
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


def test_an_optimizer_of_the_users_own_with_a_step():
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


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("name", list(OPTIONS))
def test_groups_with_options_of_their_own(name):
    rng = np.random.default_rng(0)
    ours, theirs = parameters(rng)

    def groups(p):
        return [{"params": p[:2], "weight_decay": 0.5}, {"params": p[2:], "lr": 0.3}]

    optimizer = getattr(optim, name)(groups(ours), lr=0.1)
    reference = getattr(torch.optim, name)(groups(theirs), lr=0.1)
    for step in range(5):
        give_gradients(rng, ours, theirs)
        if step == 2:
            ours[0].grad = theirs[0].grad = None  # no gradient, no change, not even decay
        optimizer.step()
        reference.step()
    assert_same(ours, theirs)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("norm_type", [2.0, math.inf])
def test_clipping(scale, norm_type):
    rng = np.random.default_rng(0)
    ours, theirs = parameters(rng)
    give_gradients(rng, ours, theirs)
    for p, t in zip(ours[1:], theirs[1:], strict=True):
        p.grad, t.grad = p.grad * scale, t.grad * scale
    ours[0].grad = theirs[0].grad = None
    norm = optim.clip_grad_norm_(ours, 1.0, norm_type)
    np.testing.assert_allclose(
        norm, torch.nn.utils.clip_grad_norm_(theirs, 1.0, norm_type).item(), rtol=1e-12
    )
    assert_same([p.grad for p in ours[1:]], [t.grad for t in theirs[1:]])


@pytest.mark.parametrize("max_norm", [0.0, 1.0, math.inf])
@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_clipping_of_what_is_not_finite(place, bad, norm_type, max_norm):
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


def schedulers(library, optimizer):
    scheduler = library.lr_scheduler
    return {
        "cosine": lambda: scheduler.CosineAnnealingLR(optimizer, T_max=6, eta_min=0.01),
        "lambda": lambda: scheduler.LambdaLR(optimizer, lambda t: 0.9**t),
        "lambdas": lambda: scheduler.LambdaLR(optimizer, [lambda t: 0.9**t, lambda t: 1 / (t + 1)]),
        "multiplied": lambda: scheduler.MultiplicativeLR(optimizer, lambda t: 1 - 1 / (t + 1)),
        "step": lambda: scheduler.StepLR(optimizer, 3, gamma=0.5),
        "milestones": lambda: scheduler.MultiStepLR(optimizer, [5, 2], gamma=0.5),
        "exponential": lambda: scheduler.ExponentialLR(optimizer, 0.8),
        "constant": lambda: scheduler.ConstantLR(optimizer, 0.5, total_iters=3),
        "linear": lambda: scheduler.LinearLR(optimizer, 0.25, 0.75, total_iters=4),
        "polynomial": lambda: scheduler.PolynomialLR(optimizer, 6, power=2.0),
        "restarts": lambda: scheduler.CosineAnnealingWarmRestarts(optimizer, 2, eta_min=0.01),
        "longer restarts": lambda: scheduler.CosineAnnealingWarmRestarts(optimizer, 1, 2),
        "one cycle": lambda: scheduler.OneCycleLR(optimizer, 0.7, total_steps=10),
        "one linear cycle": lambda: scheduler.OneCycleLR(
            optimizer, [0.7, 0.3], epochs=2, steps_per_epoch=6, anneal_strategy="linear", three_phase=True
        ),
        "sequence": lambda: scheduler.SequentialLR(
            optimizer,
            [scheduler.LinearLR(optimizer, 0.1, total_iters=3), scheduler.CosineAnnealingLR(optimizer, 5),
             scheduler.ExponentialLR(optimizer, 0.5)],
            [3, 7],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("kind", schedulers(torch.optim, None))
def test_schedules(kind):
    rng = np.random.default_rng(0)
    ours, theirs = parameters(rng)
    groups = [{"params": ours[:1], "lr": 0.5}, {"params": ours[1:]}]
    references = [{"params": theirs[:1], "lr": 0.5}, {"params": theirs[1:]}]
    optimizer = optim.SGD(groups, lr=0.1, momentum=0.9)
    reference = torch.optim.SGD(references, lr=0.1, momentum=0.9)
    schedule = schedulers(optim, optimizer)[kind]()
    expected = schedulers(torch.optim, reference)[kind]()
    for _ in range(9):
        np.testing.assert_allclose(schedule.get_last_lr(), expected.get_last_lr(), rtol=1e-9)
        momenta = [[group["momentum"] for group in o.param_groups] for o in (optimizer, reference)]
        np.testing.assert_allclose(*momenta, rtol=1e-9)
        give_gradients(rng, ours, theirs)
        optimizer.step()
        reference.step()
        schedule.step()
        expected.step()


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


LAYERS = {
    "Linear": (4, 3),
    "Linear without bias": (4, 3, False),
    "Embedding": (5, 2),
    "LayerNorm": (4,),
    "LayerNorm of two axes": ((2, 4),),
    "LayerNorm without affine": (4, 1e-5, False),
    "LayerNorm without bias": (4, 1e-5, True, False),
}


def layers(library):
    return {name: getattr(library, name.split()[0])(*args) for name, args in LAYERS.items()}


def test_layers_have_pytorchs_names_shapes_and_dtypes():
    for name, reference in layers(torch.nn).items():
        state = layers(nn)[name].state_dict()
        assert {k: (v.shape, str(v.dtype)) for k, v in state.items()} == {
            k: (tuple(v.shape), str(v.dtype).removeprefix("torch."))
            for k, v in reference.state_dict().items()
        }


def test_layers_compute_what_pytorchs_do():
    x = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    for name, reference in layers(torch.nn).items():
        layer = layers(nn)[name]
        layer.load_state_dict({k: v.numpy() for k, v in reference.state_dict().items()})
        given = np.array([[1, 4], [0, 0]]) if name == "Embedding" else x
        np.testing.assert_allclose(
            layer(mg.tensor(given)).array,
            reference(torch.tensor(given)).detach().numpy(),
            rtol=1e-5,
            atol=1e-6,
        )


def test_states_are_nested_under_the_same_names():
    def network(library):
        block = library.Sequential(library.Linear(2, 3), library.ReLU(), library.Linear(3, 2))
        return library.ModuleList([block, copy.deepcopy(block)])

    assert list(network(nn).state_dict()) == list(network(torch.nn).state_dict())


def spread(draw):
    """(smallest, largest, standard deviation) of many draws."""
    values = np.asarray(draw)
    return values.min(), values.max(), values.std()


@pytest.mark.parametrize("name", ["xavier_uniform_", "xavier_normal_", "kaiming_uniform_"])
def test_initialization_spreads_alike(name):
    ours = getattr(nn.init, name)(mg.empty(300, 200))
    theirs = getattr(torch.nn.init, name)(torch.empty(300, 200))
    seen = slice(2, None) if "normal" in name else slice(None)
    np.testing.assert_allclose(spread(ours.array)[seen], spread(theirs.numpy())[seen], rtol=0.02)


def test_layers_begin_within_pytorchs_bounds():
    torch.manual_seed(0)
    for ours, theirs in (
        (nn.Linear(100, 300), torch.nn.Linear(100, 300)),
        (nn.Embedding(300, 100), torch.nn.Embedding(300, 100)),
    ):
        for p, t in zip(ours.parameters(), theirs.parameters(), strict=True):
            np.testing.assert_allclose(p.array.std(), t.detach().numpy().std(), rtol=0.1)
            np.testing.assert_allclose(np.abs(p.array).max(), t.detach().abs().max().item(), rtol=0.25)
    assert np.abs(nn.Linear(100, 300).weight.array).max() <= 0.1
