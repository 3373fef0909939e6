"""A step that is recorded and replayed is the step itself: `mg.capture`, and the products that it needs.

Where there is no GPU, a stand-in records what CuPy is asked for, computes nothing meanwhile, and does it
again in the same memory at each replay (`standin.graphs`).
"""

import ast
import contextlib
import dataclasses
import inspect
import json
import math
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels, nn, optim
from minigrad.core.devices import find_backend
from minigrad.core.errors import ArgumentError, CaptureError, NonFiniteError
from minigrad.io import by_path
from minigrad.kernels.cuda import cublas as ours
from minigrad.kernels.cuda import cublaslt
from minitransformer import (
    GPT,
    GPTConfig,
    TrainConfig,
    Trainer,
    Transformer,
    TransformerConfig,
)
from minitransformer.errors import UserError
from minitransformer.tasks import LanguageModelling, Translation
from minitransformer.text.tokenizer import Tokenizer
from tests.slow import standin
from tests.slow.standin import cublas, emulator
from tests.tiny import PAIRS, TEXT


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
def device(gpu):
    with our_kernels(gpu) as device:
        yield device


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.3), nn.Linear(8, 3))


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


def test_arguments_that_are_equal_and_not_the_same_are_recorded_each(device):
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


def test_the_device_is_that_of_what_is_computed(device):
    weight, calls = mg.ones(4, device=device), []
    step = mg.capture(lambda x: calls.append(1) or weight * x.abs())
    found = [step(np.full(4, i)).numpy()[0] for i in range(6)]
    assert (found, len(calls), step.recordings) == ([0, 1, 2, 3, 4, 5], 3, 1)


def test_indices_find_the_device_too(device):
    table = nn.Embedding(5, 3).to(device)
    step = mg.capture(table)
    for i in range(5):
        np.testing.assert_array_equal(step(np.array([i, 2])).numpy(), table.weight.numpy()[[i, 2]])
    assert step.recordings == 1
    for pick in (lambda ids: table.weight[ids], lambda ids: table.weight.gather(0, ids[:, None])):
        first = mg.capture(pick)(np.array([4, 2]))
        np.testing.assert_array_equal(first.numpy()[:, 0], table.weight.numpy()[[4, 2], 0])


def test_only_data_follows_the_device(device):
    """Parameters that are on another device are a mistake, from the first call on."""
    weight, left = mg.ones(4, device=device), mg.ones(4, requires_grad=True)
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

    for function in (step, raw_step):
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


# ---------------------------------------------------------------- what cannot be captured

MISTAKES = {
    "item": (lambda x, m: x.sum().item(), r"item\(\)"),
    "numpy": (lambda x, m: x.numpy(), r"numpy\(\)"),
    "bool": (lambda x, m: 1 if x.sum() > 0 else 2, r"bool\(tensor\)"),
    "print": (lambda x, m: f"{x}", "printing"),
    "to the CPU": (lambda x, m: x.to("cpu"), "a copy to the CPU"),
    "CuPy's own": (lambda x, m: x[x > 0], "D2H transfers"),
    "a draw": (lambda x, m: x + mg.randn(3, device=x.device), "drawn on the CPU"),
    "a step": (lambda x, m: mg.random.set_step(4), r"set_step\(\)"),
    "an upload": (
        lambda x, m: Raw(x.array + find_backend("cuda").library.asarray([1.0, 2.0, 3.0])),
        "a copy of a NumPy array",
    ),
    "a scaler": (lambda x, m: mg.GradScaler().unscale_(optim.SGD([m.weight])), "GradScaler"),
    "dropout of CuPy": (lambda x, m: unfused_dropout(x), "CuPy's own"),
    "an infinite norm": (
        lambda x, m: optim.clip_grad_norm_(m.weight, 1, error_if_nonfinite=True),
        "D2H transfers",
    ),
}


class Raw:
    def __init__(self, array):
        self.array = array


def unfused_dropout(x):
    with kernels.use("cupy"):
        return nn.functional.dropout(x, 0.5)


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_captured_is_named_with_its_line(name, device):
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
    with pytest.raises(CaptureError, match=r"cuBLAS.* at .*test_steps.py:\d+") as caught:
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
    library = find_backend("cuda").load()
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
    from minigrad.capture.interception import REPLACED

    owners = [owner for owner, _, _ in REPLACED]
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
    assert (p.tolist(), len(drawn)) == ([-2.0] * 3, 3)


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
    return Trainer(model.to(device), task, config, folder, step_runner=mg.capture if capture else None)


def logged(trainer):
    lines = (trainer.folder / "log.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "tokens_per_second"} for line in lines]


def assert_trained_alike(one, other):
    ours, theirs = (as_numpy(trainer.model.state_dict()) for trainer in (one, other))
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value, err_msg=name)
    assert logged(one)[-1] == logged(other)[-1]


def test_a_captured_training_that_fails_says_so_when_it_looks(device, tmp_path):
    trainer = training(
        device, tmp_path, True, "text", lr=1e30, clip_norm=0.0, warmup_steps=0, log_every=4, validate_every=9
    )
    with pytest.raises(NonFiniteError, match=r"step 4: the loss is nan.* first in module"):
        trainer.train()


@pytest.mark.parametrize("how", ["saved", "stopped"])
def test_a_captured_step_that_nobody_has_read_is_read_before_it_is_saved(how, device, tmp_path, monkeypatch):
    never = {"log_every": 99, "validate_every": 99, "checkpoint_every": 99, "steps": 99}
    trainer = training(device, tmp_path, True, "text", lr=1e30, clip_norm=0.0, warmup_steps=0, **never)
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
    assert seen == ["high"] * 3
    assert mg.get_float32_matmul_precision() == "highest"


def test_float16_is_not_captured(device, tmp_path):
    with pytest.raises(UserError, match="float16"):
        training(device, tmp_path, True, "text", precision="float16")


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
    found = ours.product(standin.clad(a), standin.clad(b)).get()
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
            ours.product(x, w.T), ours.affine(x, w, b)
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
        ours.product(x, x)
    assert bindings.handles[asked.handle]["stream"] == asked.stream == one.ptr


def test_the_precision_of_float32_products_is_chosen(blas):
    cupy, bindings = blas
    x = cupy.array(numbers(8, 8).astype(np.float32))
    exact = ours.product(x, x).get()
    mg.set_float32_matmul_precision("high")
    try:
        rounded = ours.product(x, x).get()
    finally:
        mg.set_float32_matmul_precision("highest")
    assert [call[-1] for call in bindings.calls] == [68, 77]
    assert 0 < abs(exact - rounded).max() < 0.05


def test_views_are_not_copied(blas, monkeypatch):
    cupy, bindings = blas
    monkeypatch.setattr(cupy, "array", lambda *a, **k: pytest.fail("a copy"))
    for name in ("transposed", "cut out", "cut out and transposed", "batches of batches", "one head of many"):
        a, b = OPERANDS[name]()
        ours.product(standin.clad(a), standin.clad(b))
    assert len(bindings.calls) == 5


def test_shapes_that_do_not_fit_are_refused(blas):
    with pytest.raises(mg.ShapeError, match="matmul of shapes"):
        mg.ones(2, 3, device="cuda") @ mg.ones(2, 3, device="cuda")


def test_a_gradient_of_norm_of_nan_makes_all_nan(device):
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
            with pytest.raises(RuntimeError, match="D2H transfers"):
                float(z[0])
            with pytest.raises(RuntimeError, match="StreamCapture"):
                cupy.cuda.Device().synchronize()
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


def test_a_nan_in_the_first_call_of_a_captured_function_is_reported(device):
    """detect_anomaly, shadow and capture observe together."""
    w = mg.tensor([0.0, 1.0], requires_grad=True, device=device)
    step = mg.capture(lambda x: (x * w).log().sum())
    with mg.autograd.detect_anomaly(), pytest.raises(NonFiniteError, match=r"^log produced -inf at \[0\]"):
        mg.shadow(lambda: step(np.ones(2, np.float32)))


def test_each_observer_sees_every_call_of_a_captured_function(device):
    w = mg.tensor([2.0, 1.0], requires_grad=True, device=device)

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


def _generates(x):
    yield x


async def _waits(x):
    return x


@pytest.mark.parametrize("given", [3, None, _generates, _waits])
def test_what_is_no_function_is_refused(given):
    with pytest.raises(ArgumentError, match="a function that makes a training step"):
        mg.capture(given)


def test_a_method_is_captured_for_each_object(device):
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


# ---------------------------------------------------------------- on a CPU


@pytest.mark.parametrize("named", [False, True])
def test_on_a_cpu_each_call_is_the_step(named):
    """The same losses, weights and gradients, and as many calls of the function."""
    runs = [Run("cpu", mlp, captured) for captured in (False, True)]
    if not named:
        runs[1].step = mg.capture(runs[1].plain_step)
    calls, compute = [], runs[1].model.forward
    runs[1].model.forward = lambda x: calls.append(1) or compute(x)
    for run in runs:
        mg.manual_seed(3)
        run.go(6)
    assert_same(*runs)
    assert len(calls) == 6
    assert (runs[1].step.recordings, runs[1].step.plan) == (0, None)


def test_on_a_cpu_nothing_of_the_step_is_refused():
    """It may look at numbers, draw, and return what has a graph."""
    w = mg.ones(3, requires_grad=True)

    @mg.capture
    def step(x, *, by):
        loss = (w * x).sum() * (1.0 if x.sum().item() > by["most"] else 2.0) + mg.rand(1).sum() * 0
        return {"loss": loss, "kind": type(x)}

    for i in range(5):
        found = step(np.full(3, i, np.float32), by={"most": 4})
        assert (found["loss"].item(), found["kind"]) == (3 * i * (1 if 3 * i > 4 else 2), mg.Tensor)
        w.grad = None
        found["loss"].backward()
        assert w.grad.tolist() == [i * (1 if 3 * i > 4 else 2)] * 3


@pytest.mark.parametrize("named", [False, True])
def test_on_a_cpu_inputs_that_require_gradients_are_refused_too(named):
    step = mg.capture(lambda x: x * 2, "cpu" if named else None)
    for _ in range(2):
        with pytest.raises(CaptureError, match=r"inputs\[0\] of a captured step requires a gradient"):
            step(mg.ones(2, requires_grad=True))
        assert step(mg.ones(2)).tolist() == [2, 2]


def test_a_training_on_a_cpu_records_nothing(tmp_path):
    plain, asked = (training("cpu", tmp_path / str(asked), asked, "text") for asked in (False, True))
    plain.train()
    asked.train()
    assert_trained_alike(plain, asked)
    assert asked._captured.run_step.plan is None
