"""A step that is recorded and replayed is the step itself: `mg.capture`, and the products that it needs.

Where there is no GPU, a stand-in records what CuPy is asked for, computes nothing meanwhile, and does it
again in the same memory at each replay (`standin.graphs`).
"""

import ast
import contextlib
import dataclasses
import gc
import inspect
import itertools
import json
import math
import sys
import threading
import time
import tracemalloc
import weakref
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import captured_ops
import captured_programs
import numpy as np
import pytest
import standin
from gpus import gpu_of_kind, gpus
from standin import cublas, emulator
from tiny import PAIRS, TEXT

import minigrad as mg
from minigrad import kernels, nn, optim
from minigrad.devices import gpu as devices
from minigrad.errors import ArgumentError, CaptureError, NonFiniteError, RangeError
from minigrad.io import by_path
from minigrad.kernels.cuda import cublas as ours
from minigrad.kernels.cuda import cublaslt
from minigrad.ops import differentiable
from minigrad.ops.op import ops, registry
from minitransformer import (
    BERT,
    GPT,
    BERTConfig,
    GPTConfig,
    TrainConfig,
    Trainer,
    Transformer,
    TransformerConfig,
)
from minitransformer.errors import UserError
from minitransformer.tasks import LanguageModelling, Translation
from minitransformer.tokenizers import Tokenizer


@contextlib.contextmanager
def our_kernels(gpu):
    """A GPU, or the stand-in for one, with our kernels and cuBLAS."""
    with contextlib.ExitStack() as stack:
        if gpu == "standin":
            if not emulator.compiler():
                pytest.skip("there is neither a GPU nor a C++ compiler (g++, clang++) on this machine")
            stack.enter_context(cublas.installed())
        elif not find_spec("nvmath"):
            pytest.skip("products can be captured with nvmath-python only")
        mg.tensor(0.0, device="cuda")
        stack.enter_context(kernels.use("cuda"))
        yield "cuda"


@pytest.fixture
def on_gpu(gpu):
    with our_kernels(gpu) as device:
        yield device


@pytest.fixture(params=["cpu", *gpus()])
def device(request):
    if request.param == "cpu":
        yield "cpu"
    else:
        with gpu_of_kind(request.param) as gpu, our_kernels(gpu) as device:
            yield device


def same_results(captured, step, *arrays):
    """The captured step gives of float32 arrays what the step gives, bit for bit."""
    given = [mg.tensor(array.astype(np.float32)) for array in arrays]
    for one, other in zip(captured(*given), step(*given), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.3), nn.Linear(8, 3))


def gpt():
    return GPT(GPTConfig(11, 8, 8, 2, 2))


def batches(model, number):
    """NumPy arrays, as a data loader gives them."""
    rng = np.random.default_rng(0)
    for _ in range(number):
        if isinstance(model, GPT):
            ids = rng.integers(0, 11, (2, 7))
            yield ids[:, :-1], ids[:, 1:]
        else:
            yield rng.normal(size=(5, 4)).astype(np.float32), rng.integers(0, 3, 5)


def as_numpy(state):
    """A state's arrays, wherever they are, as NumPy's."""
    bare = lambda x: x.array if isinstance(x, mg.Tensor) else x
    return {name: np.asarray(mg.devices.on_cpu(bare(x))) for name, x in by_path(state)}


class Run:
    """A training; what a captured one must agree with in every bit."""

    def __init__(self, device, make, captured, adam=optim.AdamW, dtype=None, schedule=True, **options):
        mg.manual_seed(3)
        self.device = device
        self.model = make().to(self.device)
        self.optimizer = adam(self.model.parameters(), lr=0.02, **options)
        cycle = {"cycle_momentum": bool(self.optimizer.defaults.keys() & {"betas", "momentum"})}
        self.scheduler = (
            optim.lr_scheduler.OneCycleLR(self.optimizer, 0.02, 20, **cycle) if schedule else None
        )
        self.autocast = mg.autocast(dtype=dtype or "bfloat16", enabled=dtype is not None)
        self.step = mg.capture(self.plain_step, self.device) if captured else self.plain_step
        self.seen = []

    def plain_step(self, x, y):
        self.optimizer.zero_grad()
        with self.autocast:
            logits = self.model(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, -2), y.reshape(-1), label_smoothing=0.1)
        loss.backward()
        norm = optim.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return {"loss": loss, "norm": norm}

    def go(self, steps, set_step=True):
        for i, (x, y) in enumerate(batches(self.model, steps)):
            if set_step:
                mg.random.set_step(i + 1)
            found = (
                self.step(mg.tensor(x), mg.tensor(y))
                if isinstance(self.step, mg.capture)
                else self.step(mg.tensor(x, device=self.device), mg.tensor(y, device=self.device))
            )
            self.seen.append([found["loss"].item(), found["norm"].item()])
        return self


def assert_same(one, other):
    """Two runs are one in every bit."""
    assert one.seen == other.seen
    for a, b in ((one.model, other.model), (one.optimizer, other.optimizer)):
        a, b = as_numpy(a.state_dict()), as_numpy(b.state_dict())
        assert a.keys() == b.keys()
        for name, value in a.items():
            np.testing.assert_array_equal(b[name], value, err_msg=name)
    for p, q in zip(one.model.parameters(), other.model.parameters(), strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), q.grad.numpy())
    if one.scheduler is not None:
        assert one.scheduler.state_dict() == other.scheduler.state_dict()


# ---------------------------------------------------------------- what a replay comes to


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
@pytest.mark.parametrize("make", [mlp, gpt])
def test_replays_are_the_step(make, dtype, device):
    plain, captured = Run(device, make, False, dtype=dtype).go(7), Run(device, make, True, dtype=dtype)
    captured.go(7)
    assert captured.step.recordings == 1
    assert_same(plain, captured)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adam", "options"),
    [
        (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
        (optim.SGD, {}),
        (optim.Adam, {"weight_decay": 0.1}),
        (optim.AdamW, {"amsgrad": True}),
        (optim.RMSprop, {"momentum": 0.9, "centered": True, "eps": 0.1}),
        (optim.Adagrad, {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
        (optim.NAdam, {}),
        (optim.RAdam, {"weight_decay": 0.1}),
    ],
)
def test_optimizers_read_their_numbers_anew(adam, options, device):
    runs = [Run(device, mlp, captured, adam, schedule=False, **options) for captured in (False, True)]
    captured = runs[1].step
    for run in runs:
        mg.manual_seed(1)
        run.go(4)
        for group in run.optimizer.param_groups:
            group["lr"] = 0.1
        run.go(2)
    assert captured.recordings == 1
    assert_same(*runs)


def test_draws_go_on_without_steps_that_are_set(device):
    drawn = []
    for captured in (False, True):
        mg.manual_seed(7)
        mg.random.set_step(2)
        once = lambda x: nn.functional.dropout(nn.functional.dropout(x, 0.2), 0.3)
        step = mg.capture(once, device) if captured else once
        x, found = mg.ones(40, device=device), []
        for i in range(6):
            if i == 4:
                mg.random.set_step(9)
            found.append(step(x).numpy().tolist())
            found.append(nn.functional.dropout(x, 0.5).numpy().tolist())  # a draw between two steps
        drawn.append(found)
    assert drawn[0] == drawn[1]
    assert len({tuple(x) for x in drawn[0]}) == 12


DRAWING = {
    "dropout": lambda x: nn.functional.dropout(nn.functional.dropout(x, 0.2), 0.3),
    "of channels": lambda x: nn.functional.dropout1d(x[None], 0.5),
    "alpha dropout": lambda x: nn.functional.alpha_dropout(x, 0.5, True),
    "in attention": lambda x: nn.functional.scaled_dot_product_attention(
        x[None], x[None], x[None], dropout_p=0.3
    ),
    "by a mask": lambda x: (
        x * mg.Tensor(mg.random.keep_mask(mg.random.next_key("mine"), shape=(30, 5), p=0.5))
    ),
    "in a checkpoint": lambda x: mg.autograd.checkpoint(lambda y: nn.functional.dropout(y, 0.3).tanh(), x),
}


@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("fused", [True, False])
def test_masks_are_drawn_anew_in_each_replay(name, fused):
    """By kernels and by definitions."""

    def once(x):
        x = x.detach().requires_grad_()
        y = DRAWING[name](x)
        y.square().sum().backward()
        return y, x.grad

    drawn = []
    with mg.fused(fused):
        for step in (once, captured := mg.capture(once, "cpu")):
            mg.manual_seed(7)
            drawn.append([[x.numpy().tolist() for x in step(mg.ones(30, 5))] for _ in range(6)])
    assert captured.recordings == 1
    assert drawn[0] == drawn[1]
    assert len({str(x) for x in drawn[0]}) == 6


@pytest.mark.parametrize("name", ["fork_rng", "rows"])
def test_draws_that_are_not_counted_are_not_counted_in_replays(name):
    drawn = []
    for captured in (False, True):
        mg.manual_seed(7)

        def once(x):
            with mg.random.fork_rng() if name == "fork_rng" else mg.random.rows(3):
                return nn.functional.dropout(x, 0.5)

        step = mg.capture(once, "cpu") if captured else once
        drawn.append([step(mg.ones(40)).numpy().tolist() for _ in range(7)])
        assert not mg.random.snapshot().calls
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == drawn[0][-1]


def test_a_graph_from_before_the_step_is_refused():
    """A replay would repeat the gradient of the recording."""
    w = mg.ones(3).requires_grad_()
    h = w * 2

    def step(x):
        w.grad = None
        (h * x).sum().backward(retain_graph=True)
        return w.grad * 1

    captured = mg.capture(step, "cpu")
    for _ in range(2):
        captured(np.ones(3, np.float32))
    with pytest.raises(CaptureError, match=r"multiply .*before the step, at .*test_capture\.py"):
        captured(np.ones(3, np.float32))


def test_backward_of_a_loss_from_before_the_step_is_refused():
    """Nothing of the step flows into it."""
    w, losses = mg.ones(3).requires_grad_(), []

    def step():
        losses[-1].backward()
        return w.grad * 1

    captured = mg.capture(step, "cpu")
    for i in range(3):
        w.grad = None
        losses.append((w * i).sum())
        if i < 2:
            captured()
    with pytest.raises(CaptureError, match=r"sum .*before the step, at .*test_capture\.py"):
        captured()


def test_draws_from_before_the_step_are_not_drawn_again():
    before, state = mg.random.snapshot(), mg.get_rng_state()

    def restored(x):
        mg.random.restore(before)
        return nn.functional.dropout(x, 0.5)

    def under(x):
        with mg.random.replayed(before):
            return nn.functional.dropout(x, 0.5)

    def from_state(x):
        mg.set_rng_state(state)
        return nn.functional.dropout(x, 0.5)

    for step, said in (
        (restored, "from before the step"),
        (under, "from before the step"),
        (from_state, "set_rng_state"),
    ):
        captured = mg.capture(step, "cpu")
        for _ in range(2):
            captured(mg.ones(4))
        with pytest.raises(CaptureError, match=rf"{said}.*, at .*test_capture\.py"):
            captured(mg.ones(4))


@pytest.mark.parametrize("name", ["fork_rng", "rows", "checkpoint"])
def test_a_rule_that_draws_where_draws_are_put_back_is_refused(name):
    """It draws in each replay, in which nothing is put back."""

    @differentiable
    def noisy(x, /):
        keep = mg.random.keep_mask(mg.random.next_key("noise"), x.shape, 0.5)
        return x * keep, (lambda g: g * keep,)

    def step(x):
        w = x.detach().requires_grad_()
        if name == "checkpoint":
            mg.autograd.checkpoint(noisy, w * 1).sum().backward()
            return w.grad
        with mg.random.fork_rng() if name == "fork_rng" else mg.random.rows(2):
            return noisy(x)

    captured = mg.capture(step, "cpu")
    try:
        for _ in range(2):
            captured(mg.ones(4))
        with pytest.raises(CaptureError, match=r"a draw by a rule of your own.*, at .*test_capture\.py"):
            captured(mg.ones(4))
    finally:
        del registry["noisy"], ops["noisy"]


def test_a_refused_first_step_of_a_parameter_leaves_no_state():
    one, late = (nn.Parameter(mg.ones(2)) for _ in range(2))
    optimizer, is_late = optim.Adam([one, late], lr=0.1), False

    @mg.capture
    def step(x):
        optimizer.zero_grad()
        loss = ((one + late if is_late else one) * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step(mg.ones(2))
    before = {p: {k: np.copy(x) for k, x in own.items()} for p, own in optimizer.state.items() if own}
    is_late = True
    with pytest.raises(CaptureError, match="first step in Adam"):
        step(mg.ones(2))
    after = {p: own for p, own in optimizer.state.items() if own}
    assert before.keys() == after.keys() == {one}
    assert all((after[one][k] == x).all() for k, x in before[one].items())


def test_threads_that_observe_steps_leave_modules_as_they_are():
    """The first ends while the second has begun."""
    original, entered, left = vars(nn.Module)["__call__"], threading.Event(), threading.Event()

    def first(x):
        entered.wait(0.2)
        return x * 2

    def second(x):
        entered.set()
        left.wait(0.2)
        return x * 2

    def run(step, then=lambda: None):
        mg.manual_seed(0)  # each thread has its own, and other seeds are other recordings
        step(mg.ones(2))
        then()

    one, two = mg.capture(first, "cpu"), mg.capture(second, "cpu")
    run(one)
    run(two)
    entered.clear()
    threads = [threading.Thread(target=run, args=(one, left.set)), threading.Thread(target=run, args=(two,))]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert vars(nn.Module)["__call__"] is original


def test_after_a_refused_step_the_others_are_captured_as_before():
    """Adam's small parameters lie together: a refused step of more of them leaves it to these."""
    found = []
    for captured in (False, True):
        mg.manual_seed(0)
        one, two, late = (nn.Parameter(mg.randn(4)) for _ in range(3))
        optimizer, added = optim.Adam([one, two, late], lr=0.1), []

        def step(x, one=one, two=two, added=added, optimizer=optimizer):
            optimizer.zero_grad()
            weight = sum(added, one * two)
            loss = (weight * x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        run = mg.capture(step, "cpu") if captured else step
        for rows in (2, 2, 2, 2, 2, 3, 3):
            run(mg.ones(rows, 4))
        added.append(late)
        if captured:
            with pytest.raises(CaptureError, match="first step in Adam"):
                run(mg.ones(3, 4))
        added.clear()
        found.append([run(mg.ones(rows, 4)).item() for rows in (2, 3, 2, 3, 3, 3)])
        assert not captured or run.recordings == 2
    assert found[0] == found[1]


def _changes():
    """Of a model: what happens to it between two steps."""

    def loaded(model):
        state = {name: x * 2 for name, x in model[0].state_dict().items()}
        model[0].load_state_dict(state, assign=True)

    def set_data(model):
        model[0].weight.data = model[0].weight.data * 2

    def unfrozen(model):
        model[0].requires_grad_(True)

    def buffer_replaced(model):
        model[1].running_mean = model[1].running_mean + 1

    def replaced(model):
        model[2] = nn.Tanh()

    def appended(model):
        model.append(nn.Tanh())

    def hooked(model):
        model[2].register_forward_hook(lambda module, args, output: output * 2)

    def set_p(model):
        model[3].p = 0.75

    def set_eps(model):
        model[1].eps = 0.5

    return [loaded, set_data, unfrozen, buffer_replaced, replaced, appended, hooked, set_p, set_eps]


@pytest.mark.slow
@pytest.mark.parametrize("change", _changes(), ids=lambda change: change.__name__)
def test_a_module_that_is_changed_is_recorded_anew(change):
    """Also one of which nothing is trained."""
    found = []
    for captured in (False, True):
        mg.manual_seed(0)
        frozen = nn.Linear(3, 3).requires_grad_(False)
        model = nn.Sequential(frozen, nn.BatchNorm1d(3, momentum=0.0).eval(), nn.ReLU(), nn.Dropout(0.25))
        weight = nn.Parameter(mg.ones(3))

        def step(x, model=model, weight=weight):
            weight.grad = None
            (model(x) * weight).sum().backward()
            return weight.grad * 1

        step = mg.capture(step, "cpu") if captured else step
        for i in range(12):
            if i == 6:
                assert not captured or step.recordings == 1
                change(model)
            found.append((captured, step(np.ones((4, 3), np.float32)).tolist()))
        assert not captured or step.recordings == 1
    assert [x for captured, x in found if captured] == [x for captured, x in found if not captured]


class Parts(nn.Module):
    """A model of containers, and a convolution."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.heads = nn.ModuleDict({"one": nn.Linear(4, 3)})
        self.scales = nn.ParameterList([nn.Parameter(mg.ones(3))])
        self.conv = nn.Conv1d(1, 1, 3, padding=(1,))
        self.dropout = type("Own", (nn.Dropout,), {})(0.25)

    def forward(self, x):
        for layer in self.layers:
            x = self.dropout(layer(x))
        return self.conv((self.heads["one"](x) * self.scales[0])[:, None])


PARTS = {
    "a layer": lambda model: model.layers.__setitem__(1, nn.Linear(4, 4)),
    "one more": lambda model: model.layers.append(nn.Linear(4, 4)),
    "one less": lambda model: model.layers.__delitem__(1),
    "a head": lambda model: model.heads.__setitem__("one", nn.Linear(4, 3)),
    "a parameter": lambda model: model.scales.__setitem__(0, nn.Parameter(mg.full((3,), 2.0))),
    "a tuple": lambda model: setattr(model.conv, "padding", (2,)),
    "a setting of a derived class": lambda model: setattr(model.dropout, "p", 0.5),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_is_changed_is_recorded_anew(name):
    """Containers are not called themselves."""
    found = []
    for captured in (False, True):
        mg.manual_seed(0)
        model = Parts()

        def step(x, model=model):
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        step = mg.capture(step, "cpu") if captured else step
        for i in range(11):
            if i == 6:
                PARTS[name](model)
            loss = step(np.full((2, 4), i + 1.0, np.float32)).item()
            found.append((captured, loss, [p.grad.tolist() for p in model.parameters()]))
        assert not captured or step.recordings == 1
    assert [x for captured, *x in found if captured] == [x for captured, *x in found if not captured]


def test_modules_and_hooks_that_a_step_makes_itself_are_replayed():
    class Making(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.last, self.handle = nn.Linear(4, 3), None, None

        def forward(self, x):
            self.last = nn.Tanh()
            if self.handle is not None:
                self.handle.remove()
            self.handle = self.linear.register_forward_hook(lambda module, args, output: output * 2)
            return self.last(self.linear(x))

    model, same = Making(), Making()
    same.load_state_dict(model.state_dict())
    step, plans = mg.capture(model, "cpu"), []
    for i in range(8):
        x = mg.full((2, 4), float(i))
        assert step(x).tolist() == same(x).tolist()
        plans.append(step.plan)
    assert plans[3] is plans[7] is not None


class Scaled(nn.Module):
    """A user's own module, with settings of its own, which counts its calls."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.scale, self.shape, self.mode, self.calls = 2.0, (1, 2), "plain", 0

    def forward(self, x):
        self.calls += 1
        y = self.linear(x) * self.scale
        return y.expand(*self.shape).relu() if self.mode == "relu" else y


@pytest.mark.parametrize("change", [{"scale": 3.0}, {"mode": "relu"}, {"mode": "relu", "shape": (4, 2)}])
def test_a_setting_of_a_users_own_module_is_recorded_anew(change):
    model, x = Scaled(), np.ones((1, 3), np.float32)
    captured = mg.capture(lambda x: model(x))
    for _ in range(6):
        captured(x)
    assert model.calls == 4  # what it counts itself changes nothing
    for name, value in change.items():
        setattr(model, name, value)
    for _ in range(6):
        np.testing.assert_array_equal(captured(x).array, model(mg.tensor(x)).array)


def test_settings_that_are_made_anew_are_the_same():
    @dataclasses.dataclass(frozen=True)
    class Setting:
        number: float

    step = mg.capture(lambda x, by, some: x * by.number + len(some), "cpu")
    for number in (1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 2.0):
        assert step(mg.ones(1), Setting(number), range(3)).item() == number + 3
    assert len(step.steps) == 2


def test_a_refused_step_leaves_no_gradient_of_a_parameter_that_it_reached_first():
    one, other = (nn.Parameter(mg.ones(2)) for _ in range(2))
    is_bad = False

    @mg.capture
    def step(x):
        loss = ((one + other if is_bad else one) * x).sum()
        loss.backward()
        if is_bad:
            loss.item()
        return loss

    for _ in range(2):
        step(mg.ones(2))
    is_bad, before = True, one.grad.tolist()
    with pytest.raises(CaptureError, match=r"item\(\)"):
        step(mg.ones(2))
    assert other.grad is None
    assert one.grad.tolist() == before


def test_arguments_that_are_equal_and_not_the_same_are_recorded_each():
    class Setting:
        def __init__(self, number):
            self.number = number

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    scaled = mg.capture(lambda x, by: x / by, "cpu")
    times = mg.capture(lambda x, by: x * by.number, "cpu")
    one, two = Setting(1), Setting(2)
    for _ in range(5):
        with np.errstate(divide="ignore"):
            assert scaled(mg.ones(1), np.float32(0.0)).item() == math.inf
            assert scaled(mg.ones(1), np.float32(-0.0)).item() == -math.inf
        assert times(mg.ones(1), one).item() == 1
        assert times(mg.ones(1), two).item() == 2
    assert scaled.recordings == times.recordings == 2


def test_a_module_may_change_to_evaluation_in_the_calls_before_the_recording():
    found = []
    for captured in (False, True):
        model = nn.BatchNorm1d(2)
        step = mg.capture(model, "cpu") if captured else model
        for i in range(9):
            model.train(i % 6 < 2)
            found.append((captured, step(mg.tensor([[0.0, i], [2.0, 3.0]])).tolist()))
        assert not captured or step.recordings == 0  # in training again, for two calls
    assert [x for captured, x in found if captured] == [x for captured, x in found if not captured]


def test_micro_batches_draw_their_rows(device):
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


def test_another_shape_dtype_argument_or_seed_records_anew(device):
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


def test_steps_of_different_shapes_go_on_from_each_other(device):
    found = []
    for captured in (False, True):
        mg.manual_seed(3)
        model = mlp().to(device)
        big = nn.Parameter(mg.ones(100, 100, device=device).array)
        optimizer = optim.AdamW([*model.parameters(), big], lr=0.02)

        def step(x, with_big, model=model, big=big, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).square().mean() + (big.square().mean() if with_big else 0)
            loss.backward()
            optimizer.step()
            return loss

        step = mg.capture(step, device) if captured else step
        for i in range(12):
            mg.random.set_step(i)
            loss = step(mg.ones(2 + i % 2, 4, device=device) * i, i != 7)
            found.append(loss.item())
        found.append(as_numpy(optimizer.state_dict()))
    assert str(found[:13]) == str(found[13:])


def _of_another_dtype(dtype, make):
    def build():
        w = mg.tensor(np.arange(12).reshape(4, 3) / 7 - 0.8, dtype=dtype, requires_grad=True)
        optimizer = make([w])

        def step(x, number):
            optimizer.zero_grad()
            loss = (x.to(dtype) @ w).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step, [w]

    return build


def _one_layer_or_the_other():
    a, b = nn.Linear(4, 2), nn.Linear(4, 2)
    optimizer = optim.AdamW([*a.parameters(), *b.parameters()], 0.05)

    def captured(x, number):
        optimizer.zero_grad()
        loss = (b if number % 2 else a)(x).square().mean()
        loss.backward()
        return loss

    return captured, [*a.parameters(), *b.parameters()], optimizer.step


def _a_step_of_the_gradients_before():
    layer = nn.Linear(4, 2)
    optimizer = optim.SGD(layer.parameters(), 0.05)
    layer(mg.ones(1, 4)).sum().backward()

    def step(x, number):
        optimizer.step()
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        return loss

    return step, list(layer.parameters())


def _what_comes_before_its_weights_change():
    norm = nn.LayerNorm(64)
    optimizer = optim.SGD(norm.parameters(), 0.1)

    def step(x, number):
        x = mg.cat([x] * 16, 1)
        before = norm(x).detach()
        optimizer.zero_grad()
        (norm(x) - x).square().mean().backward()
        optimizer.step()
        return (before * 2.0).sum()

    return step, list(norm.parameters())


def _one_within_another():
    w = mg.ones(4, 2, requires_grad=True)
    optimizer = optim.SGD([w], 0.05)
    inner = mg.capture(lambda x: x.square() + 1, "cpu")

    def step(x, number):
        optimizer.zero_grad()
        loss = (inner(x * 2) @ w).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step, [w]


def _gradients_are_returned():
    w = mg.ones(4, 2, requires_grad=True)

    def step(x, number):
        w.grad = None
        (x @ w).square().mean().backward()
        return w.grad

    return step, [w]


HARD = [
    *(
        pytest.param(_of_another_dtype(dtype, partial(kind, lr=0.01)), id=f"{kind.__name__}-{dtype}")
        for kind in (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad)
        for dtype in ("float32", "float64")
    ),
    _one_layer_or_the_other,
    _a_step_of_the_gradients_before,
    _what_comes_before_its_weights_change,
    _one_within_another,
    _gradients_are_returned,
]


@pytest.mark.slow
@pytest.mark.parametrize("build", HARD)
@pytest.mark.parametrize("shapes", [1, 3])
def test_every_call_is_the_step(build, shapes):
    """The same result, gradients and weights after each call, with and without capture."""
    found = []
    for captured in (False, True):
        mg.manual_seed(5)
        step, weights, *after = build()
        step = mg.capture(step, "cpu") if captured else step
        draw = np.random.default_rng(1)
        for i in range(24):
            x = draw.normal(size=(32 + i % shapes, 4)).astype(np.float32)
            result = step(mg.tensor(x), i % 2)
            numbers = [result, *weights, *(w.grad for w in weights)]
            found.append([None if n is None else n.numpy().tobytes() for n in numbers])
            for do in after:
                do()
    assert found[:24] == found[24:]


def test_a_parameter_of_another_shape_has_gradients_of_its_own():
    layer = nn.Linear(4, 3)

    def run(x, number):
        layer.zero_grad()
        layer(x).sum().backward()

    step = mg.capture(run, "cpu")
    for number, rows in enumerate((3, 5, 5, 2)):
        layer.weight.data = np.ones((rows, 4), np.float32)
        layer.bias.data = np.zeros(rows, np.float32)
        for _ in range(5):
            step(np.full((2, 4), 3, np.float32), number)
            assert layer.weight.grad.tolist() == [[6] * 4] * rows
            assert layer.bias.grad.tolist() == [2] * rows


def test_gradients_of_parameters_that_are_gone_are_freed():
    made = []

    def run(x, number):
        layer = layers[-1]
        layer.zero_grad()
        layer(x).sum().backward()

    layers = []
    step = mg.capture(run, "cpu")
    for number in range(80):
        layers[:] = [nn.Linear(4, 3)]
        made.append(weakref.ref(layers[0].weight))
        for _ in range(3):
            step(np.ones((2, 4), np.float32), number)
    gc.collect()
    assert sum(weight() is not None for weight in made) <= 64


def test_a_wrong_class_in_a_replay_changes_nothing():
    layer = nn.Linear(4, 3)
    optimizer = optim.SGD(layer.parameters(), 0.1)

    def run(x, classes):
        optimizer.zero_grad()
        nn.functional.cross_entropy(layer(x), classes).backward()
        optimizer.step()

    step, x = mg.capture(run, "cpu"), np.ones((2, 4), np.float32)
    for _ in range(4):
        step(x, np.array([0, 2]))
    before = layer.weight.numpy().copy()
    with pytest.raises(RangeError, match="a captured step failed: class 7 with 3 classes"):
        step(x, np.array([0, 7]))
    assert (layer.weight.numpy() == before).all()
    step(x, np.array([0, 2]))
    assert (layer.weight.numpy() != before).any()


def test_the_least_recently_used_signatures_are_forgotten(monkeypatch):
    w = mg.ones(3, requires_grad=True)

    def run(x):
        w.grad = None
        (x * w).sum().backward()

    monkeypatch.setattr(sys.modules["minigrad.capture"], "MOST_PLANS", 4)
    step = mg.capture(run, "cpu")
    for n in (1, 2, 3, 4, 5, 5, 5, 5):
        for _ in range(3):
            step(np.full((n, 3), n, np.float32))
            assert w.grad.tolist() == [n * n] * 3
    assert step.recordings == 4
    step(np.ones((1, 3), np.float32))  # runs as it is: the first signature was forgotten
    assert step.recordings == 3
    assert w.grad.tolist() == [1, 1, 1]


def test_a_recording_leaves_nothing_but_its_plan():
    """Without the garbage collector: what it made are arrays, of which there may be gigabytes."""
    w = mg.ones(256, requires_grad=True)

    def run(x):
        w.grad = None
        y = x
        for _ in range(10):
            y = (y * w).tanh()
        y.sum().backward()

    x = np.ones((256, 256), np.float32)
    other, step = mg.capture(run, "cpu"), mg.capture(run, "cpu")
    for _ in range(3):  # loads and compiles what the recording needs
        other(x)
    step(x)
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        for _ in range(3):
            step(x)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert step.plan.memory < kept < 1.5 * step.plan.memory


def test_a_step_that_waits_for_its_recording_keeps_nothing_that_it_computed():
    """Batches of many shapes: most have come once or twice."""
    made = []

    @mg.capture
    def step(x):
        y = x * 2
        made.append(weakref.ref(y.array))
        return y.sum()

    x = np.ones(100, np.float32)
    for _ in range(2):
        step(x)
    assert len(made) == 2
    assert all(array() is None for array in made)
    step(x)
    assert step.recordings == 1


def test_gradients_of_all_signatures_share_memory():
    for clears in ("before", "after"):
        mg.manual_seed(3)
        model = mlp()
        optimizer = optim.AdamW(model.parameters(), lr=0.02)

        def run(x, model=model, optimizer=optimizer, clears=clears):
            if clears == "before":
                optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            if clears == "after":
                optimizer.zero_grad()

        step = mg.capture(run, "cpu")
        for i in range(12):
            step(np.ones((2 + i % 3, 4), np.float32))
        plans = [each.graph for each in step.steps.values()]
        assert len(plans) == 3
        if clears == "after":  # then there are none to see
            assert not any(plan.gradients for plan in plans)
            continue
        for p in model.parameters():
            first, *others = (plan.gradients[p].array for plan in plans)
            assert all(np.shares_memory(first, other) for other in others)


def test_a_step_that_adds_to_gradients_of_another_signature_keeps_them(device):
    found = []
    for captured in (False, True):
        mg.manual_seed(3)
        model = mlp().to(device)
        optimizer = optim.AdamW(model.parameters(), lr=0.02)

        def run(x, is_first, model=model, optimizer=optimizer):
            if is_first:
                optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            if not is_first:
                optimizer.step()
            return loss

        step = mg.capture(run, device) if captured else run
        for i in range(20):
            for is_first in (True, False):
                rows = 3 if is_first or i % 3 else 5
                found.append(step(mg.ones(rows, 4, device=device) * i, is_first).item())
        found.append(as_numpy(optimizer.state_dict()))
    assert str(found[:41]) == str(found[41:])


@pytest.mark.slow
def test_a_loaded_state_records_anew(device):
    runs = [Run(device, mlp, captured) for captured in (False, True)]
    for run in runs:
        mg.manual_seed(3)
        run.go(5)
        run.optimizer.load_state_dict(as_numpy(run.optimizer.state_dict()))
        run.go(5)
    assert runs[1].step.recordings == 1
    assert_same(*runs)


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
    found = []
    for captured in (False, True):
        mg.manual_seed(3)
        model = mlp().to(device).eval()
        backward = lambda x, model=model: model(x).square().mean().backward()
        step = mg.capture(backward, device) if captured else backward
        for i, (x, _) in enumerate(batches(model, 8)):
            if i % every == 0:
                model.zero_grad()
            step(mg.tensor(x, device=device))
            found.append([p.grad.numpy().tolist() for p in model.parameters()])
    assert found[:8] == found[8:]


def test_running_statistics_go_on(device):
    found = []
    for captured in (False, True):
        model = nn.BatchNorm1d(4).to(device)
        step = mg.capture(model, device) if captured else model
        for x, _ in batches(None, 6):
            step(mg.tensor(x, device=device))
        found.append({name: x.tolist() for name, x in as_numpy(model.state_dict()).items()})
    assert found[0] == found[1]


def python_calls(device):
    """How many calls run the step: two as it is, one is recorded; on the CPU the next has to be the same."""
    return 4 if device == "cpu" else 3


def test_the_device_is_that_of_what_is_computed(device):
    weight, calls = mg.ones(4, device=device), []
    step = mg.capture(lambda x: calls.append(1) or weight * x.abs())
    found = [step(np.full(4, i)).numpy()[0] for i in range(6)]
    assert (found, len(calls), step.recordings) == ([0, 1, 2, 3, 4, 5], python_calls(device), 1)


def test_indices_find_the_device_too(device):
    table = nn.Embedding(5, 3).to(device)
    step = mg.capture(table)
    for i in range(5):
        np.testing.assert_array_equal(step(np.array([i, 2])).numpy(), table.weight.numpy()[[i, 2]])
    assert step.recordings == 1
    for pick in (lambda ids: table.weight[ids], lambda ids: table.weight.gather(0, ids[:, None])):
        first = mg.capture(pick)(np.array([4, 2]))
        np.testing.assert_array_equal(first.numpy()[:, 0], table.weight.numpy()[[4, 2], 0])


def test_only_data_follows_the_device(on_gpu):
    """Parameters that are on another device are a mistake, from the first call on."""
    weight, left = mg.ones(4, device=on_gpu), mg.ones(4, requires_grad=True)
    with pytest.raises(mg.DeviceError, match="different devices"):
        mg.capture(lambda x: weight * (x * left))(np.ones(4))
    with pytest.raises(mg.DeviceError, match="different devices"):
        _ = weight * mg.ones(4)


@pytest.mark.parametrize("named", [False, True])
def test_arrays_come_as_tensors_in_each_call(named, device):
    where = device if named else None
    weight, kinds = mg.ones(3, device=device), []
    step = mg.capture(lambda x: kinds.append(type(x)) or (x.exp() * weight).sum(), where)
    for _ in range(4):
        found = step(np.ones(3)).item()
        assert found == pytest.approx(3 * math.e)
    assert set(kinds) == {mg.Tensor}


def test_inputs_may_be_named(device):
    step = mg.capture(lambda x, *, factor, more: x * factor + more["y"], device)
    found = [step(np.ones(2), factor=2, more={"y": np.full(2, i)}).numpy()[0] for i in range(4)]
    assert (found, step.recordings) == ([2, 3, 4, 5], 1)
    step(np.ones(2), factor=3, more={"y": np.ones(2)})
    assert len(step.steps) == 2


def test_results_are_the_same_tensors_each_time(device):
    step = mg.capture(lambda x: {"twice": x * 2, "name": "x"}, device)
    for i in range(3):
        first = step(np.full(3, i))
    second = step(np.full(3, 9))
    assert second["twice"] is first["twice"]
    assert (first["twice"].numpy().tolist(), first["name"]) == ([18, 18, 18], "x")


def test_constants_stay(device):
    """What comes from the CPU inside a step is copied once, and its memory is nobody else's."""
    table = np.arange(12, dtype=np.float32).reshape(3, 4)

    def step(x):
        y = x + mg.tensor(table, device=device) * 2
        return y.exp() + (y + mg.tensor(table, device=device)).exp()

    def raw_step(x):
        """As a rule does it, which no op sees."""
        return mg.Tensor(x.array + mg.devices.on_device(table, x.device))

    for function in (step, raw_step) if device != "cpu" else (step,):  # NumPy's calls are not seen
        captured = mg.capture(function, device)
        for i in range(5):
            x = np.full((3, 4), i / 10, np.float32)
            expected = function(mg.tensor(x, device=device)).numpy()
            np.testing.assert_array_equal(captured(x).numpy(), expected)


def test_what_a_step_reads_is_kept_for_it(device):
    weights = [mg.full((3,), 2.0, device=device)]
    step = mg.capture(lambda x: x * weights[0], device)
    for _ in range(4):
        step(np.ones(3))
    weights.clear()
    assert step(np.full(3, 5.0)).numpy().tolist() == [10, 10, 10]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("fused", [True, False])
def test_captured_ops_are_the_ops(part, fused):
    """A fifth of the samples of all ops; `python -m tests.captured_ops` takes all."""
    for i, (name, record, sample) in enumerate(captured_ops.cases()[part + 4 * fused :: 40]):
        with mg.fused(fused):
            said = captured_ops.difference(record, sample, "bfloat16" if i % 3 == 0 else "")
        assert not said or (said.startswith("refused") and name.rpartition("-")[0] in captured_ops.REFUSED)


def test_an_op_that_cannot_be_traced_is_kept_whole():
    """Its rule is called as it is, in the forward pass and in the backward pass."""

    @differentiable
    def odd(x, /):
        """x if its sum is above 0, else 2 x."""
        factor = 1.0 if float(x.sum()) > 0 else 2.0
        return x * factor, (lambda g: g * (1.0 if float(x.sum()) > 0 else 2.0),)

    found = []
    for captured in (False, True):
        w = nn.Parameter(np.ones(3, np.float32))
        optimizer = optim.SGD([w], lr=0.1)

        def step(x, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = odd(x * w).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        step = mg.capture(step, "cpu") if captured else step
        found.append([step(mg.full((3,), (-1.0) ** i * (i + 1.0))).item() for i in range(8)] + w.tolist())
    assert found[0] == found[1]
    assert any(name.startswith("odd: Untraceable") for name in step.plan.whole)
    del registry["odd"], ops["odd"]


def test_the_gradient_of_an_op_may_be_a_function_of_numpys():
    """Which knows of no weak references."""

    @differentiable
    def opposite(x, /):
        """-x."""
        return -x, (np.negative,)

    def step(x):
        x = x.detach().requires_grad_()
        (opposite(x) * x).sum().backward()
        return x.grad

    captured = mg.capture(step, "cpu")
    try:
        for i in range(6):
            assert captured(mg.full((3,), i + 1.0)).tolist() == [-2.0 * (i + 1)] * 3
    finally:
        del registry["opposite"], ops["opposite"]


def test_masks_of_padding_are_those_of_each_batch():
    """They are computed from ids by NumPy, which no operation sees."""
    found = []
    for captured in (False, True):
        mg.manual_seed(0)
        model = BERT(BERTConfig(9, 8, 1, 2, 16, max_position_embeddings=6, pad_token_id=0)).eval()
        step = lambda ids, model=model: model.states(ids).square().sum()
        step = mg.capture(step, "cpu") if captured else step
        ids = np.random.default_rng(0).integers(1, 9, (6, 2, 6))
        for i, rows in enumerate(ids):
            rows[0, 2 + i % 4 :] = 0
            found.append(step(mg.tensor(rows)).item())
    assert found[:6] == found[6:]
    assert step.recordings == 1


def test_a_plan_shows_its_calls_and_shares_memory():
    x = np.ones((64, 64), np.float32)
    with kernels.use("numpy"):
        step = mg.capture(lambda x: (((x * 2).exp() + 1).sqrt() * 3).sum(), "cpu")
        for _ in range(3):
            step(x)
    shown = [line.split()[1] for line in repr(step.plan).splitlines()[:-1]]
    assert shown == ["multiply", "exp", "add", "sqrt", "multiply", "add.reduce"]
    assert step.plan.memory < 3 * x.nbytes  # of five results
    buffers = step.plan.buffers
    for a, b in itertools.combinations(buffers, 2):
        at_once = a.first <= b.last and b.first <= a.last
        assert not at_once or a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
    drawn = ElementTree.fromstring(step.plan.to_svg()).findall("{*}rect")[1:]
    assert [rect[0].text for rect in drawn] == [
        f"float32[64, 64], 16 KiB, of {b.name}: calls {b.first} to {b.last}" for b in buffers
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_random_programs_captured_leave_the_same_bits(seed):
    """Every third by its definitions. More of them: python -m tests.captured_programs."""
    with mg.fused(seed % 3 > 0):
        assert not captured_programs.difference(seed)


@pytest.mark.skipif(not find_spec("numba"), reason="numba is not installed")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elementwise_calls_in_a_row_are_one_loop(dtype):
    """Of the same bits, also of NaN, infinities and both zeros."""

    def step(x, b):
        y = (x + b).relu()  # a row for each row
        z = (y * y - x).abs().sqrt() / 3
        return mg.where(z > x, z, x), y, -(z == y).float()

    draw = np.random.default_rng(0)
    captured = mg.capture(step, "cpu")
    for i in range(5):
        x, b = draw.normal(size=(40, 64)).astype(dtype), draw.normal(size=64).astype(dtype)
        x[i, ::3], x[i, 1::3], x[-1], b[:9] = np.nan, np.inf, -b, 0.0
        x[3, :9] = -0.0
        with np.errstate(all="ignore"):
            found, expected = captured(x, b), step(mg.tensor(x), mg.tensor(b))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            np.testing.assert_array_equal(np.signbit(one.numpy()), np.signbit(other.numpy()))
    assert any(call.name.startswith("fused add, maximum") for call in captured.plan.calls)


@pytest.mark.skipif(not find_spec("numba"), reason="numba is not installed")
def test_small_elementwise_calls_of_many_shapes_are_one_call():
    def training():
        mg.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 4), nn.Tanh(), nn.Linear(4, 3))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return model, step

    with kernels.use("jit"):
        (model, step), (same, as_it_is) = training(), training()
        captured = mg.capture(step, "cpu")
        for i in range(20):
            x, y = np.random.default_rng(i).normal(size=(9, 5)).astype(np.float32), np.arange(9) % 3
            assert captured(x, y).item() == as_it_is(mg.tensor(x), mg.tensor(y)).item()
    for one, other in zip(model.parameters(), same.parameters(), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    updates = [call.name for call in captured.plan.calls if "multiply" in call.name]
    assert max(name.count("subtract") for name in updates) == 6  # of all parameters


@pytest.mark.skipif(not find_spec("numba"), reason="numba is not installed")
@pytest.mark.parametrize("approximate", ["tanh", "none"])
def test_loops_and_elementwise_calls_write_over_what_is_not_read_again(approximate):
    w = mg.tensor(np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32), requires_grad=True)
    target = np.arange(64) % 32

    def step(x):
        hidden = nn.functional.gelu(x @ w, approximate=approximate)
        loss = nn.functional.cross_entropy(hidden @ w, mg.tensor(target), label_smoothing=0.1)
        (found,) = mg.autograd.grad(loss * 2 + 1, [w])
        return loss, found

    with kernels.use("jit"):
        captured = mg.capture(step, "cpu")
        for i in range(6):
            same_results(captured, step, np.random.default_rng(i).normal(size=(64, 32)))
    gelu = "_tanh_backward" if approximate == "tanh" else "_exact_backward"
    names = {call.name for call in captured.plan.calls}
    assert {"_cross_entropy_backward_in_place", f"{gelu}_in_place"} <= names


@pytest.mark.parametrize("shape", [(40, 64), (64,)])
def test_what_is_read_again_is_not_written_over(shape):
    def step(x, y):
        z = x * y  # read by the next two, and by the last
        a = z + x
        b = a * z
        b = b - b.mean()
        return b * z, a.sum()

    captured = mg.capture(step, "cpu")
    for i in range(6):
        same_results(captured, step, *np.random.default_rng(i).normal(size=(2, *shape)))


@pytest.mark.skipif(not find_spec("numba"), reason="numba is not installed")
def test_many_small_calls_are_not_compiled_in_one():
    """That takes minutes, and saves little of the step of so large a model."""
    parameters = [mg.tensor(np.ones(3 + i, np.float32), requires_grad=True) for i in range(30)]
    optimizer = optim.SGD(parameters, lr=0.1)

    def step():
        sum((p * p).sum() for p in parameters).backward()
        optimizer.step()
        optimizer.zero_grad()

    with kernels.use("jit"):
        captured = mg.capture(step, "cpu")
        for _ in range(4):
            captured()
    assert max(call.name.count("subtract") for call in captured.plan.calls) == 1


# ---------------------------------------------------------------- what cannot be captured

MISTAKES = {
    "item": (lambda x, m: x.sum().item(), r"item\(\)"),
    "numpy": (lambda x, m: x.numpy(), r"numpy\(\)"),
    "bool": (lambda x, m: 1 if x.sum() > 0 else 2, r"bool\(tensor\)"),
    "print": (lambda x, m: f"{x}", "printing"),
    "to the CPU": (lambda x, m: x.to("cpu"), "a copy to the CPU"),
    "CuPy's own": (lambda x, m: x[x > 0], "StreamCapture|copy to the CPU|shape of whose result"),
    "a draw": (lambda x, m: x + mg.randn(3, device=x.device), "drawn (on the CPU|by NumPy)"),
    "a step": (lambda x, m: mg.random.set_step(4), r"set_step\(\)"),
    "an upload": (
        lambda x, m: Raw(x.array + devices.library.asarray([1.0, 2.0, 3.0])),
        "a copy of a NumPy array",
    ),
    "a scaler": (lambda x, m: mg.GradScaler().unscale_(optim.SGD([m.weight])), "GradScaler"),
    "dropout of CuPy": (lambda x, m: unfused_dropout(x), "CuPy's own"),
    "an infinite norm": (
        lambda x, m: optim.clip_grad_norm_(m.weight, 1, error_if_nonfinite=True),
        "Stream|look at the norm",
    ),
}


ON_GPU_ONLY = ("to the CPU", "an upload", "dropout of CuPy")


class Raw:
    def __init__(self, array):
        self.array = array


def unfused_dropout(x):
    with kernels.use("cupy"):
        return nn.functional.dropout(x, 0.5)


def line_search(x, model):
    optimizer = optim.LBFGS(model.parameters())

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    return optimizer.step(closure)


# what decides by numbers on a user's behalf, and its name
DECIDING = {
    "a module": (
        lambda x, m: m(x),
        lambda: nn.BatchNorm1d(3, momentum=None),
        r"BatchNorm1d\(3, .*momentum=None",
    ),
    "a module in others": (
        lambda x, m: m(x),
        lambda: nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.BatchNorm1d(3, momentum=None))),
        r"BatchNorm1d\(3, .*momentum=None",
    ),
    "an operation": (lambda x, m: m(x).cummax(0).values, lambda: nn.Linear(3, 3), "cummax"),
    "an optimizer": (line_search, lambda: nn.Linear(3, 3), "LBFGS"),
    "a function": (
        lambda x, m: nn.utils.clip_grads_with_norm_(m.parameters(), 1.0, m(x).norm()),
        lambda: nn.Linear(3, 3),
        "clip_grads_with_norm_",
    ),
    "the user": (lambda x, m: m(x).sum().item(), lambda: nn.Linear(3, 3), "^item"),
}


@pytest.mark.parametrize("name", DECIDING)
def test_what_decides_by_numbers_is_named(name):
    decide, make, words = DECIDING[name]
    mg.manual_seed(0)
    model = make()

    def step(x):
        model.zero_grad()
        model(x).square().mean().backward()
        return decide(x, model)

    captured, x = mg.capture(step), np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
    captured(x)
    captured(x)
    with pytest.raises(CaptureError, match=words) as caught:
        captured(x)
    assert f"{__file__}:" in str(caught.value)


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_captured_is_named_with_its_line(name, device):
    if device == "cpu" and name in ON_GPU_ONLY:
        pytest.skip("nothing to refuse on the CPU")
    mistake, words = MISTAKES[name]
    model = nn.Linear(3, 3, bias=False).to(device)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)

    def step(x):
        nn.functional.dropout(x, 0.5)
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        mistake(x, model)

    captured = mg.capture(step, device)
    for _ in range(2):
        captured(np.ones(3, np.float32))
    before = [
        as_numpy(optimizer.state_dict()),
        model.weight.numpy().tolist(),
        model.weight.grad.numpy().tolist(),
    ]
    drawn = mg.random.snapshot()
    for _ in range(2):
        with pytest.raises(CaptureError, match=words) as caught:
            captured(np.ones(3, np.float32))
        said, instead = str(caught.value).split("\n")
        code = inspect.unwrap(unfused_dropout if name == "dropout of CuPy" else mistake).__code__
        lines = range(code.co_firstlineno, code.co_firstlineno + 3)
        assert any(f"{__file__}:{line}, cannot be captured." in said for line in lines), said
        assert instead
        after = [
            as_numpy(optimizer.state_dict()),
            model.weight.numpy().tolist(),
            model.weight.grad.numpy().tolist(),
        ]
        assert str(after) == str(before)
        assert mg.random.snapshot() == drawn
    again = nn.functional.dropout(mg.ones(3, device=device), 0.5)  # the GPU is free for other work
    assert again.numpy().shape == (3,)


def test_a_mistake_of_the_users_own_is_theirs(device):
    def step(x):
        if calls.append(x) or len(calls) > 2:
            raise KeyError("mine")
        return x * 2

    calls, captured = [], None
    captured = mg.capture(step, device)
    for _ in range(2):
        captured(np.ones(2))
    with pytest.raises(KeyError, match="mine"):
        captured(np.ones(2))
    assert mg.tensor([1.0], device=device).sum().item() == 1


def test_products_of_cupy_cannot_be_captured(gpu):
    if gpu != "standin":
        pytest.skip("where nvmath-python is missing")
    captured = mg.capture(lambda x: x @ x, "cuda")
    for _ in range(2):
        captured(np.ones((2, 2), np.float32))
    with pytest.raises(CaptureError, match=r"cuBLAS.* at .*test_capture.py:\d+") as caught:
        captured(np.ones((2, 2), np.float32))
    assert "pip install nvmath-python" in str(caught.value)


@pytest.mark.parametrize("named", [False, True])
def test_inputs_that_require_gradients_are_refused(named, device):
    where = device if named else None
    with pytest.raises(CaptureError, match=r"inputs\[1\]\[0\] of a captured step requires a gradient"):
        mg.capture(lambda x, y: y[0] * 2, where)(1, [mg.ones(2, requires_grad=True)])
    with pytest.raises(CaptureError, match=r'inputs\["y"\]'):
        mg.capture(lambda y: y * 2, where)(y=mg.ones(2, requires_grad=True))


@pytest.mark.parametrize("kind", ["the usual pool", "a pool", "none"])
def test_pinned_memory_comes_from_where_it_came_from(kind, gpu):
    """The user's choice of an allocator for it outlives a recording, also one that failed."""
    library = devices.library or mg.devices.load_cupy()
    usual = library.get_default_pinned_memory_pool()
    pool = {"the usual pool": usual, "a pool": library.cuda.PinnedMemoryPool(), "none": None}[kind]
    library.cuda.set_pinned_memory_allocator(pool and pool.malloc)
    try:
        for mistake in (False, True):
            step = mg.capture(lambda x, mistake=mistake: x.sum().item() if mistake else x * 2, "cuda")
            step(np.ones(2)), step(np.ones(2))
            with pytest.raises(CaptureError) if mistake else contextlib.nullcontext():
                step(np.ones(2))
            found = getattr(library.cuda.alloc_pinned_memory(8).mem, "pool", lambda: None)()
            assert found is pool
    finally:
        library.cuda.set_pinned_memory_allocator(usual.malloc)


def test_a_momentum_begins_before_the_recording(device):
    p, q = (nn.Parameter(mg.ones(2, device=device).array) for _ in range(2))
    optimizer, calls = optim.SGD([p, q], lr=0.1, momentum=0.9), []

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


def test_an_optimizer_of_the_users_own_is_captured(device):
    runs = [Run(device, mlp, captured, Heavy).go(6) for captured in (False, True)]
    assert runs[1].step.recordings == 1
    assert_same(*runs)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Muon"])
def test_gradients_that_lie_in_another_order_are_captured(name):
    """A kernel that takes one axis gets a copy."""
    runs = []
    for captured in (False, True):
        mg.manual_seed(0)
        weight = nn.Parameter(mg.randn(5, 4))
        optimizer = getattr(optim, name)([weight], lr=0.01)

        def step(x, weight=weight, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (mg.cat([weight, weight * 2], 1).T.sin() * x).sum()
            loss.backward()
            optimizer.step()
            return loss

        step, draw = mg.capture(step, "cpu") if captured else step, np.random.default_rng(0)
        losses = [step(mg.tensor(draw.normal(size=(8, 5)))).item() for _ in range(6)]
        assert not weight.grad.array.flags.c_contiguous
        assert not captured or step.recordings == 1
        runs.append((losses, weight.numpy().tolist()))
    assert runs[0] == runs[1]


def test_an_optimizer_may_step_twice_in_a_step(device):
    """Each of its steps in a replay has the numbers of its own count, and of the schedule then."""
    found = []
    for captured in (False, True):
        p = nn.Parameter(mg.ones(3, device=device).array)
        optimizer = optim.AdamW([p], lr=0.1)
        scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        def twice(x, p=p, optimizer=optimizer, scheduler=scheduler):
            for _ in range(2):
                optimizer.zero_grad()
                (p * x).square().sum().backward()
                optimizer.step()
                scheduler.step()

        step = mg.capture(twice, device) if captured else twice
        for i in range(5):
            step(mg.full((3,), i + 1.0, device=device))
        found.append([p.numpy().tolist(), as_numpy(optimizer.state_dict()), scheduler.last_epoch])
    assert str(found[0]) == str(found[1])


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


# ---------------------------------------------------------------- outside the core


def test_nothing_but_the_package_itself_imports_capture():
    folder = Path(mg.__file__).parent
    for file in folder.rglob("*.py"):
        if file.parent == folder / "capture" or file == folder / "__init__.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(alias.name for alias in node.names)]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any("capture" in name.split(".") for name in names), file


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_intercepted_is_as_it_was_after_a_recording(fails, device):
    from minigrad.capture.interception import _replacements

    owners = [owner for owner, _, _ in _replacements(None)]
    before = [dict(vars(owner)) for owner in owners]
    generator = mg.random.in_use.generator
    model = nn.Linear(3, 3).to(device)
    optimizer, during = optim.AdamW(model.parameters()), []

    def step(x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        during.append(optim.Optimizer.step)
        return loss.item() if fails else loss

    captured = mg.capture(step, device)
    for i in range(4):
        with pytest.raises(CaptureError) if fails and i > 1 else contextlib.nullcontext():
            captured(np.ones(3, np.float32))
    assert during[0] is during[1] is optim.Optimizer.step
    assert during[2] is not optim.Optimizer.step
    assert [dict(vars(owner)) for owner in owners] == before
    assert mg.random.in_use.generator is generator


def test_another_thread_runs_as_ever_while_a_step_is_recorded(device):
    p = nn.Parameter(mg.ones(3, device="cpu").array)
    optimizer, drawn = optim.SGD([p], lr=1.0), []

    def elsewhere():
        p.grad = mg.ones(3)
        optimizer.step()
        drawn.append(mg.rand(2).tolist())

    def step(x):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return x * 2

    captured = mg.capture(step, device)
    for _ in range(4):
        captured(np.ones(3))
    calls = python_calls(device)
    assert (p.tolist(), len(drawn)) == ([1.0 - calls] * 3, calls)


# ---------------------------------------------------------------- the trainer


def training(device, folder, capture, kind, **settings):
    mg.manual_seed(0)
    config = dataclasses.replace(
        TrainConfig(steps=8, warmup_steps=2, log_every=2, validate_every=4, checkpoint_every=4), **settings
    )
    if kind == "text":
        tokenizer = Tokenizer.train_char([TEXT])
        task = LanguageModelling(tokenizer, TEXT, TEXT[:60], 6, 4, seed=0)
        model = GPT(GPTConfig(tokenizer.vocab_size, 6, 8, 1, 2))
    else:
        tokenizer = Tokenizer.train_word([side for pair in PAIRS for side in pair])
        task = Translation(tokenizer, PAIRS, PAIRS[:2], 64, 0)
        model = Transformer(TransformerConfig(tokenizer.vocab_size, 8, 2, 16, 1, 1, 0.1))
    return Trainer(model.to(device), task, config, folder, capture=capture)


def logged(trainer):
    lines = (trainer.folder / "log.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "tokens_per_second"} for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings"),
    [("text", {"precision": "bfloat16"}), ("text", {"micro_batches": 2}), ("pairs", {"steps": 6})],
)
def test_a_captured_training_is_the_training(kind, settings, device, tmp_path):
    plain = training(device, tmp_path / "plain", False, kind, **settings)
    plain.train()
    captured = training(device, tmp_path / "captured", True, kind, **settings)
    captured.train()
    assert_trained_alike(plain, captured)
    if kind == "text":
        assert captured._captured.recordings
        half = training(device, tmp_path / "half", True, kind, **settings | {"steps": 4})
        half.train()
        rest = training(device, tmp_path / "half", True, kind, **settings)
        assert rest.resume()
        rest.train()
        assert_trained_alike(plain, rest)


def assert_trained_alike(one, other):
    ours, theirs = (as_numpy(trainer.model.state_dict()) for trainer in (one, other))
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value, err_msg=name)
    assert logged(one)[-1] == logged(other)[-1]


def test_a_captured_training_that_fails_says_so_when_it_looks(device, tmp_path):
    trainer = training(
        device, tmp_path, True, "text", lr=1e30, clip_norm=0.0, warmup_steps=0, log_every=4, validate_every=9
    )
    step = 2 if device == "cpu" else 4  # on the CPU it looks at each step
    with pytest.raises(NonFiniteError, match=rf"step {step}: the loss is nan.* first in module"):
        trainer.train()


@pytest.mark.parametrize("how", ["saved", "stopped"])
def test_a_captured_step_that_nobody_has_read_is_read_before_it_is_saved(how, on_gpu, tmp_path, monkeypatch):
    never = {"log_every": 99, "validate_every": 99, "checkpoint_every": 99, "steps": 99}
    trainer = training(on_gpu, tmp_path, True, "text", lr=1e30, clip_norm=0.0, warmup_steps=0, **never)
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


def test_products_of_a_captured_training_are_as_precise_as_it_says(device, tmp_path, monkeypatch):
    trainer, seen = training(device, tmp_path, True, "text", precision="tf32"), []
    compute = trainer.task.loss
    see = lambda *args: (seen.append(mg.get_float32_matmul_precision()), compute(*args))[1]
    monkeypatch.setattr(trainer.task, "loss", see)
    trainer.train()
    assert seen == ["high"] * python_calls(device)
    assert mg.get_float32_matmul_precision() == "highest"


def test_float16_is_not_captured(device, tmp_path):
    with pytest.raises(UserError, match="float16"):
        training(device, tmp_path, True, "text", precision="float16")


@pytest.mark.slow
def test_capture_changes_nothing_on_the_cpu(cli):
    from tiny import TINY_GPT

    for name, flags in (("plain", ["--no-capture"]), ("captured", [])):
        code, _, err = cli(
            "train", "shakespeare-char-cpu", "--data", "text.txt", "--run-dir", name, *TINY_GPT, *flags
        )
        assert code == 0, err

    first, second = (
        sorted(Path(name).glob("checkpoints/*/model.safetensors"))[-1] for name in ("plain", "captured")
    )
    assert first.read_bytes() == second.read_bytes()


def test_a_step_that_cannot_be_captured_runs_as_it_is(tmp_path):
    """Where nobody asked for capture, the trainer says so and goes on: the same training."""
    plain = training("cpu", tmp_path / "plain", False, "text")
    tried = training("cpu", tmp_path / "tried", None, "text")
    assert tried._captured is not None
    for trainer in (plain, tried):
        loss = trainer.task.loss
        trainer.task.loss = lambda *args, loss=loss: loss(*args) * (1.0 if loss(*args).item() else 2.0)
    lines = []
    tried.console.print = lambda *said, **how: lines.append(said)
    plain.train()
    tried.train()
    assert any("the step is not captured: item(), at " in str(line) for line in lines)
    assert_trained_alike(plain, tried)


# ---------------------------------------------------------------- products


@pytest.fixture
def blas():
    with standin.installed() as cupy, cublas.installed() as bindings, kernels.use("cupy"):
        mg.tensor(0.0, device="cuda")
        yield cupy, bindings


def numbers(*shape):
    return np.random.default_rng(math.prod(shape)).normal(size=shape)


OPERANDS = {
    "matrices": lambda: (numbers(3, 4), numbers(4, 5)),
    "transposed": lambda: (numbers(4, 3).T, numbers(5, 4).T),
    "cut out": lambda: (numbers(6, 9)[1:4, 2:6], numbers(9, 8)[3:7, 1:6]),
    "cut out and transposed": lambda: (numbers(9, 6)[2:6, 1:4].T, numbers(8, 9)[1:6, 3:7].T),
    "every other": lambda: (numbers(3, 8)[:, ::2], numbers(4, 5)[::-1]),
    "a row and a column": lambda: (numbers(1, 4), numbers(4, 1)),
    "a column and a row": lambda: (numbers(3, 9)[:, 2:3], numbers(1, 5)),
    "one number": lambda: (numbers(1, 1), numbers(1, 1)),
    "expanded": lambda: (np.broadcast_to(numbers(4), (3, 4)), np.broadcast_to(numbers(5), (4, 5))),
    "a batch": lambda: (numbers(2, 3, 4), numbers(2, 4, 5)),
    "a batch and a matrix": lambda: (numbers(2, 3, 4), numbers(4, 5)),
    "a transposed batch and a matrix": lambda: (numbers(2, 4, 3).swapaxes(1, 2), numbers(4, 5)),
    "a matrix and a batch": lambda: (numbers(3, 4), numbers(2, 4, 5)),
    "batches of batches": lambda: (numbers(2, 3, 3, 4), numbers(2, 3, 5, 4).swapaxes(-1, -2)),
    "expanded batches": lambda: (numbers(2, 1, 3, 4), numbers(6, 4, 5)),
    "heads side by side": lambda: (
        numbers(2, 7, 3, 4).transpose(0, 2, 1, 3),
        numbers(2, 6, 3, 4).transpose(0, 2, 3, 1),
    ),
    "one head of many": lambda: (numbers(2, 7, 3, 4)[:, :, 1], numbers(2, 4, 5)),
}


def rounded(x, dtype):
    """The array in a dtype, lying in memory as it did."""
    memory = x if x.base is None else x.base if x.base.base is None else x.base.base
    other = memory.astype(dtype, order="C")
    first = (x.ctypes.data - memory.ctypes.data) // x.itemsize
    strides = [step // x.itemsize * other.itemsize for step in x.strides]
    return np.lib.stride_tricks.as_strided(other.reshape(-1)[first:], x.shape, strides)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", OPERANDS)
def test_cublas_is_asked_for_the_product(name, dtype, blas):
    _, bindings = blas
    a, b = (rounded(x, mg.tensor(0.0, dtype=dtype).dtype) for x in OPERANDS[name]())
    found = ours.matmul(standin.clad(a), standin.clad(b)).get()
    assert bindings.calls
    assert found.dtype == a.dtype
    wide = np.float64 if dtype == "float64" else np.float32
    expected = a.astype(wide) @ b.astype(wide)
    np.testing.assert_allclose(
        found.astype(wide), expected.astype(a.dtype).astype(wide),
        rtol={"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype], atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("lt", ["knows", "knows none", "error", "state"])
def test_a_bias_is_added_before_rounding(dtype, lt, blas):
    cupy, bindings = blas
    bindings.lt.knows, bindings.lt.refuses = lt == "knows", lt if lt in ("error", "state") else ""
    dtype = mg.tensor(0.0, dtype=dtype).dtype
    x, w, b = (numbers(*shape).astype(dtype) for shape in ((2, 3, 4), (5, 4), (5,)))
    wide = np.float64 if dtype == np.float64 else np.float32
    for number in (1, 2):
        found = ours.affine(*map(cupy.array, (x, w, b))).get()
        assert found.dtype == dtype
        x, w, b = (a.astype(wide) for a in (x, w, b))
        expected = (x @ w.T + b).astype(dtype).astype(wide)
        np.testing.assert_allclose(found.astype(wide), expected, rtol=1e-5)
        by_lt = lt == "knows" and wide == np.float32
        assert (len(bindings.lt.calls), len(bindings.calls)) == ((number, 0) if by_lt else (0, number))
        x, w, b = (a.astype(dtype) for a in (x, w, b))
        b = -b  # the second time with another bias, on the same plan


@pytest.mark.parametrize("name", ["cut out", "cut out and transposed", "transposed"])
def test_a_bias_is_added_to_products_of_views(name, blas):
    _, bindings = blas
    x, w = (rounded(a, np.dtype(np.float32)) for a in OPERANDS[name]())
    bias = numbers(w.shape[1]).astype(np.float32)
    found = ours.affine(standin.clad(x), standin.clad(w.T), standin.clad(bias)).get()
    np.testing.assert_allclose(found, x @ w + bias, rtol=1e-5, atol=1e-6)
    aligned = not any(a.ctypes.data % 16 for a in (x, w, bias))
    assert len(bindings.lt.calls) == aligned


def test_what_is_not_aligned_goes_without_an_epilogue(blas):
    cupy, bindings = blas
    x, w, b = (cupy.array(numbers(*shape).astype(np.float32)) for shape in ((3, 4), (5, 4), (6,)))
    found = ours.affine(x, w, b[1:]).get()
    assert not bindings.lt.calls
    np.testing.assert_allclose(found, x.get() @ w.get().T + b.get()[1:], rtol=1e-5)


def test_what_describes_a_product_is_destroyed_with_its_plan(blas, monkeypatch):
    """Where cuBLASLt knows no way, when a plan makes room for another, and when all are forgotten."""
    cupy, bindings = blas
    cublaslt._plan.cache_clear()
    things = bindings.lt.things
    x, w, b = (cupy.array(numbers(*shape).astype(np.float32)) for shape in ((600, 4), (5, 4), (5,)))
    bindings.lt.refuses = "state"
    ours.affine(x[:600], w, b)
    assert [list(thing) for thing in things.values()] == [["handle"]]
    bindings.lt.refuses = ""
    for length in range(1, cublaslt.MAX_PLANS + 20):
        ours.affine(x[:length], w, b)
    assert len(things) == 1 + 4 * cublaslt.MAX_PLANS  # of each a description, and three layouts
    cublaslt._plan.cache_clear()
    assert len(things) == 1


def test_streams_work_in_memory_of_their_own(blas):
    """What one stream writes there while it multiplies, no other writes over."""
    cupy, bindings = blas
    x, w, b = (cupy.array(numbers(*shape).astype(np.float32)) for shape in ((3, 4), (5, 4), (5,)))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for stream in streams * 2:
        with stream:
            ours.matmul(x, w.T), ours.affine(x, w, b)
    for workspaces in (bindings.workspaces, bindings.lt.workspaces):
        one, other = (workspaces[stream.ptr] for stream in streams)
        assert len(one) == len(other) == 1
        assert one.isdisjoint(other)
    assert len(bindings.handles) == len(streams)
    assert sum("handle" in thing for thing in bindings.lt.things.values()) == 1


def test_threads_multiply_on_streams_of_their_own(blas):
    """One may begin while another has asked for cuBLAS and not used it yet."""
    cupy, bindings = blas
    x, (one, other) = cupy.array(numbers(3, 3)), (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with one:
        asked = ours.handle_in_use(cupy)
    with other:
        ours.matmul(x, x)
    assert bindings.handles[asked.handle]["stream"] == asked.stream == one.ptr


def test_the_precision_of_float32_products_is_chosen(blas):
    cupy, bindings = blas
    x = cupy.array(numbers(8, 8).astype(np.float32))
    exact = ours.matmul(x, x).get()
    mg.set_float32_matmul_precision("high")
    try:
        rounded = ours.matmul(x, x).get()
    finally:
        mg.set_float32_matmul_precision("highest")
    assert [call[-1] for call in bindings.calls] == [68, 77]
    assert 0 < abs(exact - rounded).max() < 0.05


def test_views_are_not_copied(blas, monkeypatch):
    cupy, bindings = blas
    monkeypatch.setattr(cupy, "array", lambda *a, **k: pytest.fail("a copy"))
    for name in ("transposed", "cut out", "cut out and transposed", "batches of batches", "one head of many"):
        a, b = OPERANDS[name]()
        ours.matmul(standin.clad(a), standin.clad(b))
    assert len(bindings.calls) == 5


def test_shapes_that_do_not_fit_are_refused(blas):
    with pytest.raises(mg.ShapeError, match="matmul of shapes"):
        mg.ones(2, 3, device="cuda") @ mg.ones(2, 3, device="cuda")


def test_a_gradient_of_norm_of_nan_makes_all_nan(on_gpu):
    p, q = (nn.Parameter(np.ones(3, np.float32)).to("cuda") for _ in range(2))
    p.grad = mg.tensor([1.0, math.nan, 2.0], device="cuda")
    q.grad = mg.ones(3, device="cuda")
    norm = optim.clip_grad_norm_([p, q], 0.1)
    assert math.isnan(norm.item())
    assert np.isnan([p.grad.numpy(), q.grad.numpy()]).all()


# ---------------------------------------------------------------- the stand-in finds what is forgotten


def test_the_standin_replays_what_it_noted():
    with standin.installed() as cupy:
        x, y = cupy.ones(3), cupy.zeros(3)
        host = [2.0]
        stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
        with cupy.cuda.using_allocator(pool.malloc), stream:
            stream.begin_capture()
            z = x * host[0]
            y += z
            with pytest.raises(RuntimeError, match="StreamCapture"):
                float(z[0])
            with pytest.raises(RuntimeError, match="Invalidated"):
                stream.end_capture()
            stream.begin_capture()
            z = x * host[0]
            y += z
            graph = stream.end_capture()
        assert y.tolist() == [0, 0, 0]  # nothing was computed yet
        assert np.isnan(z.get()).all()
        graph.launch()
        host[0] = 5.0  # which a replay does not see
        x.fill(10)
        graph.launch()
        assert (y.tolist(), z.tolist()) == ([22, 22, 22], [20, 20, 20])
        del x  # which nobody kept for the graph
        graph.launch()
        assert np.isnan(y.get()).all()
        del pool
        with pytest.raises(AssertionError, match="reserved"):
            graph.launch()


# --- Observers together ---


def test_a_nan_in_the_first_call_of_a_captured_function_is_reported(on_gpu):
    """detect_anomaly, shadow and capture observe together."""
    w = mg.tensor([0.0, 1.0], requires_grad=True, device=on_gpu)
    step = mg.capture(lambda x: (x * w).log().sum())
    with mg.autograd.detect_anomaly(), pytest.raises(NonFiniteError, match=r"^log produced -inf at \[0\]"):
        mg.shadow(lambda: step(np.ones(2, np.float32)))


def test_each_observer_sees_every_call_of_a_captured_function(on_gpu):
    w = mg.tensor([2.0, 1.0], requires_grad=True, device=on_gpu)

    @mg.capture
    def step(x):
        w.grad = None
        y = (x * w).sum()
        y.backward()
        return y

    for _ in range(3):  # as many calls as a recording takes
        with mg.autograd.detect_anomaly():
            report = mg.shadow(lambda: step(np.ones(2, np.float32)))
        assert report.passed
        assert (report.operations, report.gradients) == (2, 2)
    assert step.recordings == 0
    for _ in range(3):
        assert step(np.ones(2, np.float32)).item() == 3
    assert step.recordings == 1
    with mg.autograd.detect_anomaly(), pytest.raises(NonFiniteError, match=r"^multiply produced"):
        step(np.full(2, np.finfo(np.float32).max))


def test_gradients_that_the_step_forgets_lie_where_activations_were():
    def trained(forgets_last):
        mg.manual_seed(0)
        model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(8)])
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            if not forgets_last:
                optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            if forgets_last:
                optimizer.zero_grad()
            return loss

        captured = mg.capture(step)
        losses = [captured(mg.ones(64, 16)).item() for _ in range(6)]
        return captured.plan, model, losses

    plan, model, losses = trained(forgets_last=False)
    smaller, without, same_losses = trained(forgets_last=True)
    assert same_losses == losses
    for p, q in zip(model.parameters(), without.parameters(), strict=True):
        assert p.numpy().tobytes() == q.numpy().tobytes()
    assert all(p.grad is not None for p in model.parameters())
    assert all(q.grad is None for q in without.parameters())
    assert not smaller.gradients
    assert len(plan.gradients) == 16
    gradients = sum(p.grad.nbytes for p in model.parameters())
    assert smaller.memory < plan.memory - gradients / 2


def test_gradients_that_the_step_assigns_are_those_of_each_replay():
    def of_each_call(is_captured, change):
        a, b = mg.tensor([1.0, 2.0], requires_grad=True), mg.tensor([3.0], requires_grad=True)

        def step(x):
            a.grad = b.grad = None
            ((a * x).sum() + (b * x * x).sum()).backward()
            change(a, b)

        run = mg.capture(step, "cpu") if is_captured else step
        found = []
        for i in range(6):
            run(mg.full((2,), i + 2.0))
            found.append([p.grad.numpy().tolist() for p in (a, b)])
        return found

    def halve(a, b):
        a.grad = a.grad / 2

    def swap(a, b):
        a.grad, b.grad = mg.cat([b.grad, b.grad]), a.grad.sum(keepdim=True, dim=0)

    for change in (halve, swap):
        assert of_each_call(True, change) == of_each_call(False, change)

    def constant(a, b):
        a.grad = mg.ones(2)

    def same(a, b):
        b.grad = a.grad

    for change in (constant, same):
        with pytest.raises(CaptureError, match="assigned"):
            of_each_call(True, change)


def test_a_gradient_assigned_to_a_parameter_that_backward_does_not_reach():
    def of_each_call(is_captured, change):
        a, b = mg.tensor([1.0, 2.0], requires_grad=True), mg.tensor([3.0, 4.0], requires_grad=True)
        optimizer = mg.optim.SGD([a, b], lr=0.1)

        def step(x):
            a.grad = b.grad = None
            (a * a * x).sum().backward()
            b.grad = change(a.grad)
            optimizer.step()

        run = mg.capture(step, "cpu") if is_captured else step
        found = []
        for i in range(6):
            run(mg.full((2,), i + 2.0))
            found.append([x.numpy().tolist() for p in (a, b) for x in (p, p.grad)])
        return found

    assert of_each_call(True, lambda g: g * 2) == of_each_call(False, lambda g: g * 2)
    with pytest.raises(CaptureError, match="another parameter's"):
        of_each_call(True, lambda g: g)


def _generates(x):
    yield x


async def _waits(x):
    return x


@pytest.mark.parametrize("given", [3, None, _generates, _waits])
def test_what_is_no_function_is_refused(given):
    with pytest.raises(ArgumentError, match="a function that makes a training step"):
        mg.capture(given)


def test_a_method_is_captured_for_each_object():
    class Training:
        def __init__(self, factor):
            self.factor = factor

        @mg.capture
        def step(self, x):
            return (x * self.factor).sum()

    one, other = Training(1.0), Training(2.0)
    for i in range(5):
        assert (one.step(np.float32([i])).item(), other.step(np.float32([i])).item()) == (i, 2 * i)
    assert Training.step.recordings == 2


def test_dropout_and_the_layers_of_a_model_are_not_kept_whole():
    model = GPT(GPTConfig(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0.1))

    @mg.capture
    def step(ids):
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).reshape(-1, 11), ids[:, 1:].reshape(-1))
        loss.backward()
        return loss

    ids = np.random.default_rng(0).integers(0, 11, (2, 6))
    for _ in range(3):
        model.zero_grad()
        step(ids)
    assert not step.plan.whole
