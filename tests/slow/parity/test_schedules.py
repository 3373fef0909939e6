"""Schedules against PyTorch's: rates and momenta of random settings, one after another, together, resumed."""

import copy
import random
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore::UserWarning")]

LIBRARIES = (optim, torch.optim)


def optimizer_of(library, draw):
    make = (lambda p: mg.tensor(p, requires_grad=True)) if library is optim else torch.nn.Parameter
    ps = [make(np.zeros(1) if library is optim else torch.zeros(1, dtype=torch.float64)) for _ in range(2)]
    rates = [draw.choice([0.1, 0.5, 2.0]) for _ in range(2)]
    groups = [{"params": [p], "lr": lr} for p, lr in zip(ps, rates, strict=True)]
    kind = draw.choice(["SGD", "Adam", "RMSprop"])
    return getattr(library, kind)(groups, **({} if kind == "Adam" else {"momentum": 0.7}))


def power(t):
    return 0.9**t


def inverse(t):
    return 1 / (t + 1)


def half(x):
    return 1 / (2 ** ((x + 1) % 3))


def rates(draw, low, high):
    one = lambda: round(draw.uniform(low, high), 3)
    return draw.choice([one(), [one(), one()]])


# what each schedule may be given; `draw` is the same for both libraries
SCHEDULES = {
    "LambdaLR": lambda draw: {"lr_lambda": draw.choice([power, inverse, [power, inverse]])},
    "MultiplicativeLR": lambda draw: {"lr_lambda": draw.choice([inverse, [half, inverse]])},
    "StepLR": lambda draw: {"step_size": draw.randint(1, 5), "gamma": draw.choice([0.1, 0.5, 1.5])},
    "MultiStepLR": lambda draw: {
        "milestones": [draw.randint(0, 12) for _ in range(draw.randint(0, 4))],
        "gamma": draw.choice([0.1, 0.5]),
    },
    "ConstantLR": lambda draw: {"factor": draw.choice([0.2, 1.0]), "total_iters": draw.randint(1, 8)},
    "LinearLR": lambda draw: {
        "start_factor": draw.uniform(0.1, 1), "end_factor": draw.uniform(0, 1),
        "total_iters": draw.randint(1, 9),
    },
    "ExponentialLR": lambda draw: {"gamma": draw.choice([0.5, 0.9, 1.1])},
    "PolynomialLR": lambda draw: {"total_iters": draw.randint(1, 15), "power": draw.choice([0.5, 1.0, 2.0])},
    "CosineAnnealingLR": lambda draw: {"T_max": draw.randint(1, 12), "eta_min": draw.choice([0.0, 0.01])},
    "CosineAnnealingWarmRestarts": lambda draw: {
        "T_0": draw.randint(1, 5), "T_mult": draw.randint(1, 3), "eta_min": draw.choice([0.0, 0.01]),
    },
    "OneCycleLR": lambda draw: {
        **draw.choice([{"total_steps": draw.randint(14, 30)}, {"epochs": 3, "steps_per_epoch": 7}]),
        "max_lr": rates(draw, 0.1, 2), "pct_start": draw.choice([0.1, 0.3, 0.45]),
        "anneal_strategy": draw.choice(["cos", "linear"]), "cycle_momentum": draw.random() < 0.7,
        "base_momentum": rates(draw, 0.5, 0.8), "max_momentum": rates(draw, 0.8, 0.95),
        "div_factor": draw.choice([25.0, 4.0]), "three_phase": draw.random() < 0.5,
    },
    "CyclicLR": lambda draw: {
        "base_lr": rates(draw, 0.01, 0.1), "max_lr": rates(draw, 0.2, 1), "gamma": 0.9,
        "step_size_up": draw.randint(1, 5), "step_size_down": draw.choice([None, 3]),
        "mode": draw.choice(["triangular", "triangular2", "exp_range"]),
        "scale_fn": draw.choice([None, half]), "scale_mode": draw.choice(["cycle", "iterations"]),
        "cycle_momentum": draw.random() < 0.7,
    },
}  # fmt: skip
RESTARTING = ["OneCycleLR", "CyclicLR", "CosineAnnealingWarmRestarts"]
CHAINING = [name for name in SCHEDULES if name not in (*RESTARTING, "LambdaLR")]


def made(library, name, optimizer, draw, **more):
    return getattr(library.lr_scheduler, name)(optimizer, **SCHEDULES[name](draw), **more)


def seen(optimizer, scheduler):
    groups = optimizer.param_groups
    momenta = [g["betas"][0] if "betas" in g else g["momentum"] for g in groups]
    return [*(g["lr"] for g in groups), *momenta, *scheduler.get_last_lr()]


def run(library, seed, make, steps=14):
    """What each step sets, through a saved state half way."""
    draw = random.Random(seed)
    optimizer = optimizer_of(library, draw)
    scheduler = make(library, optimizer, draw)
    log = [seen(optimizer, scheduler)]
    for step in range(steps):
        optimizer.step()
        scheduler.step()
        log.append(seen(optimizer, scheduler))
        if step == steps // 2 and make is not resumed:
            states = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
            draw = random.Random(seed)
            optimizer = optimizer_of(library, draw)
            scheduler = make(library, optimizer, draw)
            for thing, state in zip((optimizer, scheduler), states, strict=True):
                thing.load_state_dict(state)
    return log


def alone(library, optimizer, draw):
    return made(library, draw.choice(list(SCHEDULES)), optimizer, draw)


def together(library, optimizer, draw):
    parts = [made(library, draw.choice(CHAINING), optimizer, draw) for _ in range(draw.randint(1, 3))]
    return library.lr_scheduler.ChainedScheduler(parts)


def one_after_another(library, optimizer, draw):
    count = draw.randint(1, 4)
    parts = [made(library, draw.choice(CHAINING), optimizer, draw) for _ in range(count - 1)]
    parts.append(
        made(library, draw.choice(["LambdaLR", "CosineAnnealingWarmRestarts", *CHAINING]), optimizer, draw)
    )
    milestones = sorted(draw.choices(range(13), k=count - 1))  # 0: the first schedule is never due
    return library.lr_scheduler.SequentialLR(optimizer, parts, milestones)


def resumed(library, optimizer, draw):
    """Made anew for an optimizer that has been scheduled before: its rates are those of this step.

    Left out are those of PyTorch's that go on wrong: StepLR, MultiStepLR and ConstantLR, resumed where they
    multiply, do so once more; CosineAnnealingWarmRestarts forgets the restarts before the last one.
    """
    wrong = ("StepLR", "MultiStepLR", "ConstantLR", "CosineAnnealingWarmRestarts")
    name = draw.choice([name for name in SCHEDULES if name not in wrong])
    settings = draw.random()
    first = made(library, name, optimizer, random.Random(settings))
    for _ in range(draw.randint(1, 6)):
        optimizer.step()
        first.step()
    return made(library, name, optimizer, random.Random(settings), last_epoch=first.last_epoch - 1)


def by_hand(library, optimizer, draw):
    """The user changes a rate after the scheduler was made."""
    scheduler = made(
        library, draw.choice([name for name in CHAINING if name != "MultiplicativeLR"]), optimizer, draw
    )
    optimizer.param_groups[0]["lr"] *= 0.5
    return scheduler


@pytest.mark.parametrize(
    "make", [alone, together, one_after_another, resumed, by_hand], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("block", range(4))
def test_random_schedules_agree(make, block):
    for seed in range(60 * block, 60 * block + 60):
        steps = 8 if make is resumed else 14
        ours, theirs = (run(library, seed, make, steps) for library in LIBRARIES)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, err_msg=f"seed {seed}")


@pytest.mark.parametrize("total", [1, 2, 5, 10])
def test_one_cycle_lr_raises_after_total_steps(total):
    for library, error in zip(LIBRARIES, (mg.errors.OptionError, ValueError), strict=True):
        optimizer = optimizer_of(library, random.Random(0))
        scheduler = library.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=total, pct_start=0.55)
        for _ in range(total):
            optimizer.step()
            scheduler.step()
        with pytest.raises(error):
            scheduler.step()


def test_fractions_of_an_epoch_in_warm_restarts():
    found = []
    for library in LIBRARIES:
        optimizer = optimizer_of(library, random.Random(0))
        scheduler = library.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, 2)
        log = []
        for i in range(20):
            scheduler.step(i / 4)
            log.append([*scheduler.get_last_lr(), scheduler.last_epoch])
        for _ in range(4):
            scheduler.step()
            log.append([*scheduler.get_last_lr(), scheduler.last_epoch])
        found.append(log)
    np.testing.assert_allclose(*found, rtol=1e-9)


def own_schedule(base):
    class Warmup(base):
        def __init__(self, optimizer, steps, last_epoch=-1):
            self.steps = steps
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            return [lr * min(1.0, (self.last_epoch + 1) / self.steps) for lr in self.base_lrs]

    return Warmup


def test_user_schedulers_with_a_closed_form_match_pytorch():
    found = []
    for library in LIBRARIES:

        class Decay(library.lr_scheduler.LRScheduler):
            def get_lr(self):
                factor = 0.9 if self.last_epoch else 1.0
                return [group["lr"] * factor for group in self.optimizer.param_groups]

            def _get_closed_form_lr(self):
                return [lr * 0.9**self.last_epoch for lr in self.base_lrs]

        optimizer = optimizer_of(library, random.Random(0))
        parts = [library.lr_scheduler.ConstantLR(optimizer, 0.1, 9), Decay(optimizer)]
        scheduler = library.lr_scheduler.SequentialLR(optimizer, parts, [2])
        log = []
        for _ in range(5):
            optimizer.step()
            scheduler.step()
            log.append(scheduler.get_last_lr())
        found.append(log)
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize("name", ["LRScheduler", "_LRScheduler"])
def test_user_schedulers_with_get_lr_match_pytorch(name):
    make = lambda library, optimizer, draw: own_schedule(getattr(library.lr_scheduler, name))(optimizer, 5)
    ours, theirs = (run(library, 0, make) for library in LIBRARIES)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


REFUSED = {
    "no optimizer": lambda s, o: s.StepLR(3, 1),
    "resumed without a first rate": lambda s, o: s.StepLR(o, 1, last_epoch=3),
    "too many rates": lambda s, o: s.OneCycleLR(o, [0.1, 0.2, 0.3], total_steps=3),
    "too many functions": lambda s, o: s.LambdaLR(o, [power] * 3),
    "no steps": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=0),
    "a share above 1": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=3, pct_start=1.5),
    "a strategy": lambda s, o: s.OneCycleLR(o, 0.1, total_steps=3, anneal_strategy="exp"),
    "no momentum": lambda s, o: s.OneCycleLR(without_momentum(s), 0.1, total_steps=3),
    "no momentum to cycle": lambda s, o: s.CyclicLR(without_momentum(s), 0.1, 0.2),
    "a mode": lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="square"),
    "a factor": lambda s, o: s.ConstantLR(o, factor=2.0),
    "a start of 0": lambda s, o: s.LinearLR(o, start_factor=0.0),
    "milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [3]),
    "another optimizer": lambda s, o: s.SequentialLR(o, [s.StepLR(copy.deepcopy(o), 1)], []),
    "nothing to chain": lambda s, o: s.ChainedScheduler([]),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "least rates": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1] * 3),
    "a plateau's factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
}


def without_momentum(schedulers):
    return optim.Adagrad([mg.ones(1, requires_grad=True)]) if schedulers is optim.lr_scheduler else (
        torch.optim.Adagrad([torch.ones(1, requires_grad=True)])
    )  # fmt: skip


@pytest.mark.parametrize("make", REFUSED.values(), ids=list(REFUSED))
def test_calls_rejected_by_pytorch_are_rejected(make):
    for library, errors in zip(LIBRARIES, (mg.errors.MinigradError, Exception), strict=True):
        optimizer = optimizer_of(library, random.Random(0))
        with warnings.catch_warnings(), pytest.raises(errors):
            make(library.lr_scheduler, optimizer)
