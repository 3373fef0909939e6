"""Optimizers and schedules: what they change, what they keep, and schedules worked out by hand."""

import copy
import math
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core.errors import DtypeError, NonFiniteError, OptionError, ShapeError, StateError
from minigrad.optim import cosine_schedule, inverse_sqrt_schedule, paper_schedule
from tests.leaves import vector

MAKERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
}
EACH = pytest.mark.parametrize("make", MAKERS.values(), ids=list(MAKERS))


def parameters():
    rng = np.random.default_rng(0)
    return [nn.Parameter(rng.normal(size=shape).astype(np.float32)) for shape in ((3, 2), (), (4,))]


def train(optimizer, params, steps, first=0):
    for step in range(first, first + steps):
        rng = np.random.default_rng(step)
        for p in params:
            p.grad = mg.tensor(rng.normal(size=p.shape).astype(np.float32)).to(p.dtype)
        optimizer.step()


# ---------------------------------------------------------------- steps


def test_parameters_without_a_gradient_are_not_updated():
    p = nn.Parameter(np.ones(2))
    optimizer = optim.AdamW([p], weight_decay=0.5)
    optimizer.step()
    assert p.tolist() == [1, 1]
    assert optimizer.state_dict()["state"] == {}


def test_loading_a_state_restores_param_group_options():
    make = lambda lr: optim.AdamW([{"params": nn.Parameter(np.ones(2)), "lr": lr}], lr=1.0, betas=(0.8, 0.9))
    before, after = make(0.25), make(0.5)
    for optimizer in (before, after):
        optimizer.add_param_group({"params": [nn.Parameter(np.ones(1))]})
    before.param_groups[0]["weight_decay"] = 0.125
    after.load_state_dict(before.state_dict())
    options = lambda o: [{k: v for k, v in group.items() if k != "params"} for group in o.param_groups]
    assert options(after) == options(before)
    assert [group["lr"] for group in after.param_groups] == [0.25, 1.0]
    with pytest.raises(StateError, match=r"groups of \[1, 1, 1, 1\] parameters, this optimizer of \[1, 1\]"):
        after.load_state_dict({"state": {}, "param_groups": before.state_dict()["param_groups"] * 2})


@EACH
def test_parameter_memory_layout_does_not_change_the_step(make):
    array = np.random.default_rng(0).normal(size=(4, 6))
    strange = [np.asfortranarray(array), np.repeat(array, 2, 1)[:, ::2], array[::-1].copy()[::-1]]
    plain = nn.Parameter(array.copy())
    train(make([plain]), [plain], 3)
    for odd in strange:
        p = nn.Parameter(odd)
        assert p.array is odd
        train(make([p]), [p], 3)
        np.testing.assert_array_equal(p.array, plain.array)
        assert p.array is odd


def test_a_parameter_longer_than_a_block_is_updated_to_its_end():
    n = mg.kernels.numpy.optimizers.BLOCK + 3
    p = nn.Parameter(np.zeros(n))
    p.grad = mg.ones(n, dtype="float64")
    optim.Adam([p], lr=0.5).step()
    np.testing.assert_allclose(p.array, -0.5, rtol=1e-6)


@EACH
def test_step_does_not_change_the_gradient(make):
    p = nn.Parameter(np.ones(2))
    p.grad = mg.tensor(np.array([1.0, -2.0]))
    optimizer = make([p])
    optimizer.step()
    optimizer.step()
    assert p.grad.tolist() == [1, -2]


def test_zero_grad_sets_to_none_or_zero():
    (p, *_) = params = parameters()
    optimizer = optim.SGD(params, lr=0.1)
    train(optimizer, params, 1)
    optimizer.zero_grad(set_to_none=False)
    assert not p.grad.array.any()
    optimizer.zero_grad()
    assert p.grad is None


# ---------------------------------------------------------------- groups


ONE = nn.Parameter(np.zeros(1))
BAD = {
    "none": (lambda: optim.SGD([]), "got none"),
    "twice": (lambda: optim.SGD([ONE, ONE]), "more than once"),
    "in two groups": (lambda: optim.SGD([{"params": [ONE]}, {"params": [ONE]}]), "more than once"),
    "computed": (lambda: optim.SGD([mg.ones(1, requires_grad=True) * 2]), "leaf"),
    "no tensor": (lambda: optim.SGD([np.zeros(1)]), "leaf"),
    "integers": (lambda: optim.Adam([mg.arange(3)]), "is int64"),
    "read-only": (lambda: optim.Adam([mg.Tensor(np.broadcast_to(np.float32(1), (3,)))]), "is read-only"),
    "a set": (lambda: optim.SGD({ONE}), "must have an order"),
    "a set in a group": (lambda: optim.SGD([{"params": frozenset([ONE])}]), "must have an order"),
    "a group without": (lambda: optim.Adam([{"lr": 1}]), "needs 'params'"),
    "misspelt": (lambda: optim.SGD([{"params": [ONE], "learning_rate": 1}]), "learning_rate"),
    "one letter off": (lambda: optim.SGD([{"params": [ONE], "weigth_decay": 1}]), "weigth_decay"),
    "a capital": (lambda: optim.SGD([{"params": [ONE], "Lr": 1}]), "Lr"),
    "another optimizer's in capitals": (lambda: optim.SGD([{"params": [ONE], "BETAS": (0.9, 0.9)}]), "BETAS"),
    "another optimizer's": (lambda: optim.SGD([{"params": [ONE], "betas": (0.9, 0.9)}]), "betas"),
    "nesterov": (lambda: optim.SGD(parameters(), nesterov=True), "momentum"),
    "a rate below 0": (lambda: optim.Adam([ONE], lr=-1), "lr must be a non-negative number, got -1"),
    "a rate of text": (lambda: optim.Adam([ONE], lr="0.1"), "got '0.1'"),
    "an eps below 0": (lambda: optim.Adam([ONE], eps=-1e-8), "eps"),
    "one beta": (lambda: optim.Adam([ONE], betas=(0.9,)), "betas must be two numbers"),
    "a beta above 1": (lambda: optim.Adam([ONE], betas=(1.5, 0.9)), "betas must be two numbers"),
    "betas of text": (lambda: optim.Adam([ONE], betas=("a", 0.9)), "betas must be two numbers"),
}


OWN_KEYS = {
    "name": "head", "layer": 3, "lr_scale": 0.5, "weight_decay_factor": 0.1, "tags": ["a", "b"], "note": None,
    "max_momentum": 0.95,
}  # fmt: skip


def test_param_groups_keep_custom_keys(tmp_path):
    optimizer = optim.SGD([{"params": nn.Linear(1, 1).named_parameters(), **OWN_KEYS}], lr=0.5)
    optimizer.add_param_group({"params": [("scale", vector(1.0))], **OWN_KEYS})
    mg.save_file(optimizer.state_dict(), tmp_path / "optimizer.safetensors")
    optimizer.load_state_dict(mg.load_file(tmp_path / "optimizer.safetensors"))
    for group in optimizer.param_groups + optimizer.state_dict()["param_groups"]:
        assert {key: group[key] for key in OWN_KEYS} == OWN_KEYS
    assert [group["param_names"] for group in optimizer.param_groups] == [["weight", "bias"], ["scale"]]


@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW, optim.LBFGS, "own"])
def test_step_hooks_run_once_per_step(kind):
    class Own(optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    p = vector(1.0)
    optimizer = (Own if kind == "own" else kind)([p], lr=0.1)
    seen = []

    def closure():
        seen.append("closure")
        p.grad = mg.ones_like(p)
        return mg.tensor(0.0)

    def use_closure(optimizer, args, kwargs):
        seen.append("before")
        return args, {"closure": closure}

    with optimizer.register_step_pre_hook(use_closure):
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append((o, args, kwargs)))
        optimizer.step()
    assert seen[:2] == ["before", "closure"]
    assert seen[-1] == (optimizer, (optimizer,), {"closure": closure})
    assert len(seen) == 3 or kind is optim.LBFGS
    seen.clear()
    optimizer.step(closure)
    assert seen[-1] == (optimizer, (optimizer, closure), {})
    assert "before" not in seen


def test_step_hooks_registered_by_a_hook_stay():
    p = vector(1.0)
    p.grad = mg.ones_like(p)
    optimizer = optim.SGD([p], lr=0.1)
    seen = []

    def register(optimizer, args, kwargs):
        handle.remove()
        optimizer.register_step_pre_hook(lambda *args: seen.append("before"))
        optimizer.register_step_post_hook(lambda *args: seen.append("after"))

    handle = optimizer.register_step_pre_hook(register)
    optimizer.step()
    assert seen == ["after"]
    optimizer.step()
    assert seen == ["after", "before", "after"]


@pytest.mark.parametrize(
    "register",
    [
        optim.SGD([vector(1.0)]).register_step_pre_hook,
        optim.SGD([vector(1.0)]).register_step_post_hook,
        nn.ReLU().register_forward_hook,
        vector(1.0).register_hook,
    ],
)
def test_a_hook_must_be_callable(register):
    with pytest.raises(DtypeError, match="a hook must be callable, got int"):
        register(3)


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=list(BAD))
def test_invalid_optimizer_arguments_are_rejected(make, message):
    with pytest.raises(mg.MinigradError, match=message):
        make()


# ---------------------------------------------------------------- state


def test_loaded_optimizer_states_are_row_major_copies():
    p = nn.Parameter(np.zeros((3, 2)))
    p.grad = mg.ones(3, 2, dtype="float64")
    given = np.asfortranarray(np.ones((3, 2)))
    optimizer = optim.Adam([p])
    own = {"exp_avg": given, "exp_avg_sq": given, "step": 1}
    optimizer.load_state_dict({"state": {0: own}, "param_groups": optimizer.state_dict()["param_groups"]})
    p.grad *= 2
    optimizer.step()
    assert (given == 1).all()
    np.testing.assert_allclose(optimizer.state[p]["exp_avg"], 1.1)


# ---------------------------------------------------------------- clipping


def with_gradients(*gradients, dtype="float64"):
    """Parameters that have these gradients."""
    parameters = [nn.Parameter(np.zeros(len(g))).to(dtype) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = mg.tensor(g, dtype=dtype)
    return parameters


@pytest.mark.parametrize("clip", ["at once", "in two steps"])
@pytest.mark.parametrize(
    ("gradients", "norm_type", "norm", "expected"),
    [
        ([[3.0, 0.0], [4.0]], 2, 5, [0.6, 0, 0.8]),
        ([[3.0, 0.0], [4.0]], 3, 91 ** (1 / 3), np.array([3, 0, 4]) / 91 ** (1 / 3)),
        ([[3.0, 0.0], [4.0]], math.inf, 4, [0.75, 0, 1]),
        ([[0.3, 0.0], [0.4]], 2, 0.5, [0.3, 0, 0.4]),
        ([[math.nan], [3.0, 4.0]], 2, math.nan, [math.nan] * 3),  # one makes all NaN
        ([[3.0, -4.0], [math.inf, 5.0]], 2, math.inf, [0, 0, math.nan, 0]),
    ],
)
def test_clip_grad_norm_returns_the_norm_and_scales_gradients(gradients, norm_type, norm, expected, clip):
    parameters = [*with_gradients(*gradients), nn.Parameter(np.zeros(1))]
    if clip == "at once":
        found = optim.clip_grad_norm_(iter(parameters), 1.0, norm_type)
    else:
        found = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None], norm_type)
        nn.utils.clip_grads_with_norm_(parameters, 1.0, found)
    np.testing.assert_allclose(found.item(), norm, rtol=1e-6)
    clipped = [x for p in parameters if p.grad is not None for x in p.grad.tolist()]
    np.testing.assert_allclose(clipped, expected, rtol=1e-5)


@pytest.mark.parametrize("norm_type", [2.0, math.inf, 1.0, 3.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_clipping_that_raises_changes_nothing(bad, norm_type):
    (p,) = with_gradients([bad, 5.0])
    for call in (
        lambda: nn.utils.clip_grad_norm_([p], 1.0, norm_type, error_if_nonfinite=True),
        lambda: nn.utils.get_total_norm([p.grad], norm_type, error_if_nonfinite=True),
    ):
        with pytest.raises(NonFiniteError, match=str(bad)):
            call()
        np.testing.assert_array_equal(p.grad.array, [bad, 5.0])
    for clip in (nn.utils.clip_grad_norm_, nn.utils.clip_grads_with_norm_):
        with pytest.raises(OptionError, match="max_norm must be at least 0"):
            clip([p], -1.0, mg.tensor(2.0))
    assert optim.clip_grad_norm_([], 1.0) == 0
    assert optim.clip_grad_norm_(*with_gradients([3.0, 4.0]), 9.0) == 5  # one parameter, not in a list


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1e25), ("float32", 1e-25), ("float64", 1e200), ("float16", 6e4)]
)
def test_gradients_whose_squares_are_out_of_range_are_clipped(dtype, size):
    p, q = with_gradients([0.6 * size], [0.8 * size, 0.0], dtype=dtype)
    assert optim.clip_grad_norm_([p, q], 1.0).item() == pytest.approx(size, rel=1e-3)
    np.testing.assert_allclose(
        [p.grad[0].item(), q.grad[0].item()], np.array([0.6, 0.8]) * min(size, 1.0), 1e-3
    )


# ---------------------------------------------------------------- schedules


@pytest.mark.parametrize("step", [0, 1, 2000, 4000, 16000])
def test_paper_schedule(step):
    expected = min(max(step, 1) * 4000**-1.5, max(step, 1) ** -0.5)  # counted from 1
    assert paper_schedule(step, 512, 4000) == pytest.approx(512**-0.5 * expected, rel=1e-12)
    assert paper_schedule(step, 1, 4000, factor=2) == pytest.approx(2 * expected, rel=1e-12)


@pytest.mark.parametrize(("step", "expected"), [(1, 0.1), (5, 0.5), (10, 1.0), (40, 0.5), (1000, 0.1)])
def test_the_inverse_square_root_schedule(step, expected):
    assert inverse_sqrt_schedule(step, lr=1.0, warmup_steps=10) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "expected"), [(0, 0.25), (2, 0.75), (3, 1.0), (8, 0.55), (13, 0.1), (99, 0.1)]
)
def test_the_cosine_schedule_with_warmup(step, expected):
    given = cosine_schedule(step, lr=1.0, total_steps=13, warmup_steps=3, min_lr=0.1)
    assert given == pytest.approx(expected)


SCHEDULES = optim.lr_scheduler
PARTS = {
    "LambdaLR": lambda o: SCHEDULES.LambdaLR(o, lambda epoch: 0.8**epoch),
    "MultiplicativeLR": lambda o: SCHEDULES.MultiplicativeLR(o, lambda epoch: 0.8),
    "StepLR": lambda o: SCHEDULES.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: SCHEDULES.MultiStepLR(o, [1, 3], 0.5),
    "ConstantLR": lambda o: SCHEDULES.ConstantLR(o, 0.5, 2),
    "LinearLR": lambda o: SCHEDULES.LinearLR(o, 0.5, 1.0, 4),
    "ExponentialLR": lambda o: SCHEDULES.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: SCHEDULES.PolynomialLR(o, 8),
    "CosineAnnealingLR": lambda o: SCHEDULES.CosineAnnealingLR(o, 6),
    "CosineAnnealingWarmRestarts": lambda o: SCHEDULES.CosineAnnealingWarmRestarts(o, 2),
}


def rates_of(optimizer, scheduler, steps):
    """The rates at first and after each step."""
    found = [[group["lr"] for group in optimizer.param_groups]]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        found.append([group["lr"] for group in optimizer.param_groups])
    return found


@pytest.mark.parametrize("last_epoch", [0, 2, 3, 5])
@pytest.mark.parametrize("part", PARTS.values(), ids=list(PARTS))
def test_sequential_lr_resumes_from_last_epoch(part, last_epoch):
    def sequential(optimizer, last_epoch=-1):
        parts = [SCHEDULES.LinearLR(optimizer, 0.1, 1.0, 3), part(optimizer), part(optimizer)]
        return SCHEDULES.SequentialLR(optimizer, parts, [3, 5], last_epoch)

    whole = optim.SGD([vector(1.0)], lr=1.0)
    expected = rates_of(whole, sequential(whole), 9)
    again = optim.SGD([vector(1.0)], lr=expected[last_epoch + 1][0])
    again.param_groups[0]["initial_lr"] = 1.0
    found = rates_of(again, sequential(again, last_epoch), 3)
    assert found == expected[last_epoch + 1 : last_epoch + 5]


FOR_NEW_GROUPS = PARTS | {
    "CyclicLR": lambda o: SCHEDULES.CyclicLR(o, 0.1, 0.5, 3, cycle_momentum=False),
    "OneCycleLR": lambda o: SCHEDULES.OneCycleLR(o, 0.5, 10, cycle_momentum=False),
    "SequentialLR": lambda o: SCHEDULES.SequentialLR(
        o, [SCHEDULES.LinearLR(o), SCHEDULES.ExponentialLR(o, 0.9)], [3]
    ),
    "ChainedScheduler": lambda o: SCHEDULES.ChainedScheduler(
        [SCHEDULES.ExponentialLR(o, 0.9), SCHEDULES.StepLR(o, 1, 0.5)]
    ),
}


@pytest.mark.parametrize("make", FOR_NEW_GROUPS.values(), ids=list(FOR_NEW_GROUPS))
def test_schedulers_apply_to_groups_added_later(make):
    """At the same rate as the group that was there, it keeps that rate."""
    optimizer = optim.SGD([vector(1.0)], lr=0.1)
    scheduler = make(optimizer)
    rates_of(optimizer, scheduler, 2)
    first = optimizer.param_groups[0]
    optimizer.add_param_group({"params": [vector(1.0)], "lr": first["lr"], "initial_lr": first["initial_lr"]})
    assert all(a == b for a, b in rates_of(optimizer, scheduler, 3))
    scheduler.load_state_dict(scheduler.state_dict())
    assert len(scheduler.get_last_lr()) == 2


def test_reduce_lr_on_plateau_applies_to_new_groups():
    optimizer = optim.SGD([vector(1.0)], lr=0.1)
    scheduler = SCHEDULES.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, min_lr=0.02)
    optimizer.add_param_group({"params": [vector(1.0)], "lr": 0.03})
    for metric in (1.0, 1.0):
        scheduler.step(metric)
    assert scheduler.get_last_lr() == [0.05, 0.02]
    assert scheduler.last_epoch == 2


# ---------------------------------------------------------------- small parameters, which are updated as one


def small(*values, **settings):
    params = [mg.nn.Parameter(np.full(3, v, np.float32)) for v in values]
    return params, optim.AdamW(params, lr=0.1, **settings)


def step_on(params, optimizer, g=1.0):
    for p in params:
        p.grad = mg.full((3,), g)
    optimizer.step()


def test_replacing_an_entry_of_the_state_takes_effect():
    found = []
    for change in ("replace", "write"):
        (a, b), optimizer = small(1.0, 2.0)
        step_on([a, b], optimizer)
        if change == "replace":
            optimizer.state[a]["exp_avg"] = np.zeros(3, np.float32)
        else:
            optimizer.state[a]["exp_avg"][...] = 0
        step_on([a, b], optimizer)
        found.append([a.numpy().copy(), b.numpy().copy()])
    np.testing.assert_array_equal(found[0], found[1])


def test_a_new_group_keeps_its_initial_lr():
    optimizer = optim.SGD([vector(1.0)], lr=0.1)
    scheduler = SCHEDULES.StepLR(optimizer, 1, 0.5)
    rates_of(optimizer, scheduler, 2)
    optimizer.add_param_group({"params": [vector(1.0)], "lr": 0.01})
    assert rates_of(optimizer, scheduler, 2)[1:] == [[0.0125, 0.005], [0.00625, 0.0025]]
    scheduler = SCHEDULES.LambdaLR(optimizer, [lambda epoch: 1.0, lambda epoch: 0.5])
    optimizer.add_param_group({"params": [vector(1.0)]})
    with pytest.raises(OptionError, match="lr_lambda has 2 values for 3 groups"):
        scheduler.step()
    with pytest.raises(OptionError, match=r"1 values? for 3 groups\."):
        SCHEDULES.LambdaLR(optimizer, [lambda epoch: 1.0])


def test_param_groups_can_be_split_and_merged():
    (a, b), optimizer = small(1.0, 2.0)
    (group,) = optimizer.param_groups
    apart = [{**group, "params": [a]}, {**group, "params": [b]}]
    for g, groups in ((1.0, [group]), (2.0, [group]), (3.0, apart), (4.0, [group])):
        optimizer.param_groups = groups
        step_on([a, b], optimizer, g)
    assert [int(optimizer.state[p]["step"]) for p in (a, b)] == [4, 4]
    for p, start in zip((a, b), (1.0, 2.0), strict=True):
        alone, optimizer = small(start)
        for g in (1.0, 2.0, 3.0, 4.0):
            step_on(alone, optimizer, g)
        np.testing.assert_array_equal(p.numpy(), alone[0].numpy())


def test_parameters_that_share_memory_are_both_updated():
    array = np.ones(3, np.float32)
    a, b = mg.nn.Parameter(array), mg.nn.Parameter(array)
    optimizer = optim.AdamW([a, b], lr=0.1, weight_decay=0.0)
    step_on([a, b], optimizer)
    np.testing.assert_allclose(array, 0.8, rtol=1e-5)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_an_optimizer_is_copied_with_its_parameters(copied):
    (a, b), optimizer = small(1.0, 2.0)
    step_on([a, b], optimizer)
    other = copied(optimizer)
    twins = other.param_groups[0]["params"]
    step_on(twins, other)
    step_on([a, b], optimizer)
    assert twins[0] is not a
    for p, twin in zip((a, b), twins, strict=True):
        np.testing.assert_array_equal(p.numpy(), twin.numpy())


def test_gradients_of_the_wrong_shape_raise_before_any_update():
    params = [mg.nn.Parameter(np.ones(n, np.float32)) for n in (2, 3)]
    optimizer = optim.AdamW(params)
    for p, n in zip(params, (3, 2), strict=True):
        p.grad = mg.ones_like(p)
        p.data = mg.ones(n)
    with pytest.raises(ShapeError, match=r"a parameter of shape \(3,\) has a gradient of shape \(2,\)"):
        optimizer.step()
    assert not optimizer.state


def test_optimizer_state_follows_a_module_to_another_dtype():
    model = mg.nn.Linear(3, 2)
    optimizer = optim.AdamW(model.parameters())
    for dtype in ("float32", "float64"):
        model.to(dtype)
        for p in model.parameters():
            p.grad = mg.ones(*p.shape, dtype=dtype)
        optimizer.step()
    assert {s["exp_avg"].dtype for s in optimizer.state.values()} == {mg.float64}
    assert {int(s["step"]) for s in optimizer.state.values()} == {2}


HARD = {
    "a kink": (lambda p: p.abs().sum(), [2.0, 0.2]),
    "Rosenbrock's": (lambda p: (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2, [-1.2, 1.0]),
}


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize(("function", "start"), HARD.values(), ids=list(HARD))
def test_a_step_of_lbfgs_evaluates_at_most_max_eval_times(function, start, search):
    for max_eval in (2, 3, 5, 30):
        p = vector(*start)
        optimizer = optim.LBFGS([p], lr=0.1, max_eval=max_eval, max_iter=50, line_search_fn=search)
        calls = []

        def closure(p=p, optimizer=optimizer, calls=calls):
            calls.append(1)
            optimizer.zero_grad()
            loss = function(p)
            loss.backward()
            return loss

        for _ in range(3):
            calls.clear()
            optimizer.step(closure)
            assert len(calls) <= max_eval


def test_forgetting_super_init_is_an_error():
    class Forgetful(optim.Optimizer):
        def __init__(self, params):
            self.mine = params

    class ForgetfulSchedule(optim.lr_scheduler.LRScheduler):
        def __init__(self, optimizer):
            self.mine = optimizer

    for use in (Forgetful([]).step, Forgetful([]).zero_grad, ForgetfulSchedule(None).step):
        with pytest.raises(StateError, match=r"super\(\).__init__\(\) of Forgetful\w* has not been called"):
            use()
