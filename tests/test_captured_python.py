"""What Python does with a step's numbers outside of operations: `mg.capture` follows it, or refuses it.

Four calls are of one batch, the others of new ones: what a plan kept of the first would be wrong in those.
"""

import copy
import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.capture.recorder import same_bits
from minigrad.errors import CaptureError, RangeError
from minigrad.nn import functional as F
from minigrad.ops import differentiable


class State:
    """What a step refers to besides its arguments."""

    def __init__(self):
        mg.manual_seed(0)
        self.w, self.v = nn.Parameter(mg.randn(4, 3)), nn.Parameter(mg.randn(4, 3))
        self.mean, self.array = mg.zeros(4, 4), np.zeros((4, 4), np.float32)
        self.optimizer = optim.SGD([self.w, self.v], lr=0.05)

    def backward(self, x):
        self.w.grad = self.v.grad = None
        loss = ((x @ self.w) ** 2).mean() + (x @ self.v).exp().mean()
        loss.backward()
        return loss

    def numbers(self):
        tensors = (self.w, self.v, self.w.grad, self.v.grad, self.mean)
        return [None if t is None else t.numpy().copy() for t in tensors] + [self.array.copy()]


def batches():
    draw = np.random.default_rng(0)
    batch = lambda ids: (draw.normal(size=(4, 4)).astype(np.float32), np.array(ids))
    return [batch([0, 2, 1, 1])] * 4 + [batch(ids) for ids in ([2, 1, 0, 2], [1, 2, 0, 0], [0, 0, 1, 2])]


def run(step, is_captured):
    """The result of each call, and all numbers after it."""
    state, found = State(), []
    call = lambda x, y: step(state, x, y)
    call = mg.capture(call, "cpu") if is_captured else call
    for x, y in batches():
        result = call(mg.tensor(x), mg.tensor(y))
        found.append([result.numpy().copy(), *state.numbers()])
    return found


def assert_followed(step):
    for one, other in zip(run(step, False), run(step, True), strict=True):
        for x, y in zip(one, other, strict=True):
            assert (x is None) == (y is None)
            assert x is None or same_bits(x, y), (x, y)


# ---------------------------------------------------------------- numbers that no operation computes


def one_gradient(z, x):
    z = z.requires_grad_()
    weight = mg.ones(3, 4, requires_grad=True)
    return mg.autograd.grad((z @ weight * x).tanh().sum(), [z])[0]


LOSSES = {
    "nll_loss": lambda z, x, y: F.nll_loss(F.log_softmax(z, -1), y),
    "cross_entropy": lambda z, x, y: F.cross_entropy(z, y, weight=mg.tensor([0.2, 0.3, 0.5])),
    "one_hot": lambda z, x, y: (z * F.one_hot(y, 3)).sum(),
    "tensor of a tensor": lambda z, x, y: (mg.tensor(x)[:, :3] * z).sum(),
    "multi_margin_loss": lambda z, x, y: F.multi_margin_loss(z, y),
    "gather": lambda z, x, y: z.gather(1, y[:, None]).sum(),
    "x[y]": lambda z, x, y: (z[y] ** 2).sum(),
    "x[arange, y]": lambda z, x, y: z[mg.arange(4), y].sum(),
    "x[number]": lambda z, x, y: (z[y[0]] ** 2).sum(),
    "x[argmax]": lambda z, x, y: (z[x[:, 0].argmax()] ** 2).sum(),
    "x[i] in a loop": lambda z, x, y: sum((z[i] ** 2).sum() for i in y),
    "x[mg.argsort]": lambda z, x, y: (z[mg.argsort(x[:, 0])] * mg.arange(4.0)[:, None]).sum(),
    "x[meshgrid]": lambda z, x, y: z[mg.meshgrid(y, y, indexing="ij")[0], 0].sum(),
    "index_select": lambda z, x, y: z.index_select(0, y).square().sum(),
    "index_add": lambda z, x, y: (mg.zeros(4, 3).index_add(0, y, z) ** 2).sum(),
    "scatter_add": lambda z, x, y: (mg.zeros(4, 3).scatter_add(0, y[:, None].expand(4, 3), z) ** 2).sum(),
    "take_along_dim": lambda z, x, y: mg.take_along_dim(z, y[:, None], 1).sum(),
    "max": lambda z, x, y: z.max(1).values.square().sum(),
    "sort": lambda z, x, y: (z.sort(1).values * mg.arange(3.0)).sum(),
    "topk": lambda z, x, y: z.topk(2, 1).values.square().sum(),
    "median": lambda z, x, y: z.median(1).values.sum(),
    "quantile": lambda z, x, y: z.quantile(0.5),
    "max_pool2d": lambda z, x, y: F.max_pool2d(z[None, None], 2).sum(),
    "searchsorted": lambda z, x, y: (z * mg.searchsorted(mg.tensor([-1.0, 0.0]), x)[:, :3]).sum(),
    "isin": lambda z, x, y: (z * mg.isin(y, mg.tensor([1, 2]))[:, None]).sum(),
    "stack of rows": lambda z, x, y: (mg.stack([mg.tensor(r) for r in x])[:, :3] * z).sum(),
    "NumPy's functions": lambda z, x, y: (
        mg.tensor(np.where(y.array == 1, 2.0, x.array[:, 0])) * z[:, 0]
    ).sum(),
    "NumPy's methods": lambda z, x, y: (z[x.array[:, 0].argsort()] * mg.arange(4.0)[:, None]).sum(),
    "NumPy's mean": lambda z, x, y: z.sum() * mg.tensor(x.array.mean() - x.array.std(0)).sum(),
    "NumPy's sort": lambda z, x, y: (z[:, 0] * mg.tensor(np.sort(x.array, 0)[0])).sum(),
    "one element": lambda z, x, y: z[0, y[0]] + z[1, y[1]],
    "elements in a loop": lambda z, x, y: sum(z[i, c] for i, c in enumerate(y)),
    "rows of an array": lambda z, x, y: sum((mg.tensor(r)[:3] * z[0]).sum() for r in x.array),
    "logdet": lambda z, x, y: mg.logdet(z.T @ z + x.T[:3] @ x[:, :3]),
    "svd": lambda z, x, y: (z * mg.tensor(np.linalg.svd(x.array).U)[:, :3]).sum(),
    "copy": lambda z, x, y: (z * mg.tensor(copy.deepcopy(x.array))[:, :3]).sum(),
    "bfloat16": lambda z, x, y: F.silu(z.to("bfloat16")).float().square().sum(),
    "a gradient of one operand": lambda z, x, y: (z * one_gradient(z.detach(), x)).sum(),
    "named results": lambda z, x, y: (z * mg.tensor(np.linalg.qr(x.array).R)[:, :3]).sum(),
    "several results": lambda z, x, y: (z[:, 0] * mg.tensor(np.divmod(x.array, 0.3)[1][0])).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_indices_and_arrays_are_those_of_each_call(name):
    def step(state, x, y):
        state.w.grad = None
        loss = LOSSES[name](x @ state.w, x, y)
        loss.backward()
        state.optimizer.step()
        return loss

    assert_followed(step)


NUMBERS = itertools.count(0.5)


def increased(array):
    result = np.zeros((4, 4), np.float32)
    result += array
    return result


def filled(array):
    result = np.zeros(4)
    result[:] = array[0]
    return result


DECISIONS = {
    "if allclose": lambda z, x: z.sum() if mg.allclose(x, x + 1) else z.mean(),
    "if array": lambda z, x: z.sum() if x.array.max() > 0 else z.mean(),
    "float": lambda z, x: z.sum() * float(x.array.sum()),
    "number of nonzeros": lambda z, x: z.sum() * mg.nonzero(x > 0).shape[0],
    "number of classes": lambda z, x: z.sum() * mg.unique(x).shape[0],
    "NumPy's nonzeros": lambda z, x: z.sum() * len(np.nonzero(x > 0)[0]),
    "NumPy's mask": lambda z, x: z.sum() * x.array[x.array > 0].sum(),
    "NumPy's item assignment": lambda z, x: z.sum() * mg.tensor(filled(x.array)).sum(),
    "NumPy's index": lambda z, x: z.sum() * mg.tensor(np.arange(9.0)[x.array.argsort(1)]).sum(),
    "where=": lambda z, x: z.sum() * np.add(x.array, 1, where=x.array > 0, out=np.zeros((4, 4), "f")).sum(),
    "NumPy's repeat": lambda z, x: z.sum() * np.repeat(np.arange(4), x.array[0].argsort()).sum(),
    "from_dlpack": lambda z, x: mg.tensor(np.from_dlpack(x)).sum() * z.sum(),
    "list": lambda z, x: mg.tensor(x.array.tolist()).sum() * z.sum(),
    "array of numbers": lambda z, x: mg.tensor(np.array([x.array[0, 0], 1.0])).sum() * z.sum(),
    "elements": lambda z, x: z.sum() * sum(1.0 for v in x.array[0] if v > 0),
    "unpacked": lambda z, x: z.sum() * max(x.array[0]),
    "slice": lambda z, x: z.sum() * mg.tensor(x.array[: x.array.argmax() + 1]).sum(),
    "setting": lambda z, x: (z.masked_fill(z > 0, x.array.min())).sum(),
    "out by position": lambda z, x: z.sum() * np.cumsum(x.array, 0, None, np.empty((4, 4), "f")).sum(),
    "+=": lambda z, x: z.sum() * increased(x.array).sum(),
    "from_numpy": lambda z, x: z.sum() * mg.from_numpy(np.ones((4, 4), "f")).mul_(x).sum(),
    "another number": lambda z, x: z.sum() * next(NUMBERS),
    "round": lambda z, x: z.sum() * round(x.array.sum()),
    "range": lambda z, x: sum(z.sum() for _ in range(x.argmax())),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_what_python_decides_by_numbers_is_refused_with_its_line(name):
    with pytest.raises(CaptureError, match=r"at .*test_captured_python\.py:\d+"):
        run(lambda state, x, y: DECISIONS[name](x @ state.w, x), True)


def test_an_object_that_is_returned_is_refused():
    step = mg.capture(lambda x: object(), "cpu")
    step(np.zeros(2))
    step(np.zeros(2))
    with pytest.raises(CaptureError, match="a result of type object"):
        step(np.zeros(2))


def test_a_refusal_that_the_step_catches_is_a_refusal():
    def step(state, x, y):
        try:
            factor = x.sum().item()
        except Exception:
            factor = 1.0
        return (x @ state.w).sum() * factor

    with pytest.raises(CaptureError, match=r"item\(\), at"):
        run(step, True)


def test_checks_of_the_library_are_made_in_each_replay():
    step = mg.capture(lambda z, y: F.nll_loss(z, y), "cpu")
    z = np.zeros((4, 3), np.float32)
    for _ in range(4):
        step(z, np.array([0, 2, 1, 1]))
    with pytest.raises((CaptureError, RangeError), match=r"without mg\.capture the error names the line"):
        step(z, np.array([0, 3, 1, 1]))
    assert step(z, np.array([0, 2, 1, 1])).item() == 0


def test_what_is_wrong_while_it_is_recorded_is_an_error_of_its_own():
    step = mg.capture(lambda z, y: F.nll_loss(z, y), "cpu")
    z = np.zeros((4, 3), np.float32)
    for _ in range(2):
        step(z, np.array([0, 2, 1, 1]))
    with pytest.raises(RangeError, match="3 is out of range"):
        step(z, np.array([0, 3, 1, 1]))


def test_another_shape_of_what_numpy_computes_is_an_error():
    step = mg.capture(lambda x: mg.tensor(x.array.repeat(x.array)).sum(), "cpu")
    for _ in range(4):
        step(np.array([1, 2]))
    with pytest.raises(CaptureError, match=r"of shape \(4,\), and was of \(3,\)"):
        step(np.array([2, 2]))


def test_gradients_with_a_graph_of_their_own_are_refused():
    def penalty(state, x, y):
        x = x.clone().requires_grad_()
        (g,) = mg.autograd.grad((x @ state.w).exp().sum(), [x], create_graph=True)
        (g.norm() ** 2).backward()
        return g.sum()

    with pytest.raises(CaptureError, match=r"create_graph=True\), at .*captured_python\.py:\d+"):
        run(penalty, True)


def test_mg_func_of_detached_parameters():
    def step(state, x, y):
        state.w.grad = mg.func.grad(lambda w: ((x @ w) ** 2).mean())(state.w.detach())
        state.optimizer.step()
        return x.sum()

    assert_followed(step)


@differentiable
def by_the_first(x, /):
    top = np.full(4, x[0, 0]) + np.frompyfunc(lambda v: v, 1, 1)(x).astype(np.float32)[0]
    table = np.arange(9.0, dtype=np.float32)[np.clip(x.astype(int), 0, 8)]
    return x * top * table, (lambda g: g * top * table,)


def test_rules_of_ones_own_are_run_in_each_replay():
    def step(state, x, y):
        state.w.grad = None
        loss = by_the_first((x @ state.w).sigmoid().repeat(2, 2)[:4, :4] * 3).tanh().sum()
        loss.backward()
        return loss

    assert_followed(step)


def test_a_parameter_that_is_frozen_later_is_noticed():
    def steps():
        model = nn.Linear(2, 1, dtype=np.float32)
        with mg.no_grad():
            model.weight.fill_(1.0)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return model, step

    (one, plain), (other, step) = steps(), steps()
    other.load_state_dict(one.state_dict())
    step = mg.capture(step, "cpu")
    for i in range(12):
        for model in (one, other):
            model.weight.requires_grad_(not 4 <= i < 8)
        x = np.float32([[1, 2], [3, i]]) / 10
        plain(mg.tensor(x))
        step(x)
        assert same_bits(one.weight.array, other.weight.array)


def test_arrays_that_the_step_returns_are_those_of_each_call():
    step = mg.capture(lambda x: ((x.array * 2).mean(), {"most": x.array.argmax(-1)}, mg.ones(2)), "cpu")
    for i in range(6):
        x = np.roll(np.float32([[1, 2, 3 + i]]), i)
        mean, found, ones = step(x)
        assert (mean, found["most"], ones.tolist()) == ((x * 2).mean(), x.argmax(-1), [1, 1])


# ---------------------------------------------------------------- changes in place


def in_place(change):
    """A step that changes a parameter by `change(state, x, y)` after its backward pass."""

    def step(state, x, y):
        loss = state.backward(x)
        with mg.no_grad():
            change(state, x, y)
        return loss

    return step


def set_array(state, x, y):
    state.w.array -= 0.1 * state.w.grad.array
    state.v.array[...] = state.v.array - 0.1 * state.v.grad.array


def set_element(state, x, y):
    state.mean[0] += x[0]
    state.mean[y, 1] = x[:, 1]


def average(state, x, y):
    state.mean.array *= 0.9
    state.mean.array += 0.1 * x.array
    np.subtract(state.w.array, 1, out=state.w.array)


CHANGES = {
    "add_ with alpha": lambda state, x, y: state.w.add_(state.w.grad, alpha=-0.1),
    "sub_ with alpha": lambda state, x, y: state.w.sub_(state.w.grad, alpha=0.1),
    "fill_": lambda state, x, y: state.mean[1].fill_(x.mean()),
    "a part": lambda state, x, y: state.w[:2].sub_(state.w.grad[:2]),
    "data": lambda state, x, y: state.w.data.sub_(state.w.grad),
    "array": set_array,
    "elements": set_element,
    "average": average,
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_in_place_are_made_once_in_each_call(name):
    assert_followed(in_place(CHANGES[name]))


def test_a_parameter_that_the_step_has_sliced_is_changed_once():
    def step(state, x, y):
        state.w.grad = None
        loss = ((x[:, :2] @ state.w[:2]) ** 2).mean()
        loss.backward()
        with mg.no_grad():
            state.w.sub_(state.w.grad * 0.1)
            x[:1] += 1
        return loss + x.sum()

    assert_followed(step)


def test_constants_that_the_step_makes_and_changes():
    def step(state, x, y):
        h = mg.zeros(4)
        h += x[0]
        h *= mg.ones(4).add_(x[1])
        rows = mg.zeros(4, 4)
        for i in range(4):
            rows[i] = x[i] * i
        rows[y, 0] = x[:, 1]
        used = mg.full((4, 3), 0.05)
        before = (used * x[:, :3]).sum()
        used.scatter_(1, y[:, None], 0.9)
        used[0] += x[0, :3]
        return (
            before + (used * x[:, :3]).sum() + (h * rows * mg.tensor([1.0, 2.0, 3.0, 4.0]).add_(x[2])).sum()
        )

    assert_followed(step)


def test_another_array_for_a_tensor_is_refused():
    def step(state, x, y):
        loss = state.backward(x)
        state.w.grad.data = state.w.grad.data / 2
        return loss

    with pytest.raises(CaptureError, match=r"another array for a tensor, at .*captured_python"):
        run(step, True)


# ---------------------------------------------------------------- gradients that are assigned


def before_another_backward(state, x):
    state.w.grad = state.w.grad / 2
    ((x @ state.w) ** 2).sum().backward()


def swap(state, x):
    state.w.grad, state.v.grad = state.v.grad, state.w.grad


def from_zeros(state, x):
    state.w.grad = mg.zeros(4, 3)
    ((x @ state.w) ** 2).sum().backward()


def of_grad(state, x):
    state.w.grad = mg.autograd.grad(((x @ state.w) ** 2).sum(), [state.w])[0]


def clip(state, x):
    g = state.w.grad.array
    g *= np.minimum(1, 1 / np.sqrt((g * g).sum()))


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.NAdam])
def test_gradients_of_an_optimizer_that_maximizes(kind):
    def steps():
        w = nn.Parameter(mg.ones(4))
        optimizer = kind([w], lr=0.1, maximize=True)

        def step(x):
            optimizer.zero_grad()
            loss = -(x * w).square().sum()
            loss.backward()
            optimizer.step()
            return w

        return step

    one, other = steps(), mg.capture(steps(), "cpu")
    for i in range(6):
        x = np.float32([1, 2, 3, 4]) / (i + 1)
        assert same_bits(one(mg.tensor(x)).array, other(x).array)


def test_a_hook_that_changes_a_gradient_in_place_runs_once():
    def step(state, x, y):
        hook = state.w.register_hook(lambda g: g.mul_(0.5))
        loss = state.backward(x)
        hook.remove()
        return loss

    assert_followed(step)


def test_clip_grad_value():
    def step(state, x, y):
        loss = state.backward(x)
        nn.utils.clip_grad_value_([state.w, state.v], 0.1)
        state.optimizer.step()
        return loss

    assert_followed(step)


@pytest.mark.parametrize("assign", [before_another_backward, swap, from_zeros, of_grad, clip])
@pytest.mark.parametrize("steps", [True, False])
def test_gradients_that_a_step_assigns(assign, steps):
    def step(state, x, y):
        loss = state.backward(x)
        assign(state, x)
        if steps:
            state.optimizer.step()
        return loss

    assert_followed(step)


def test_a_gradient_from_elsewhere_is_refused_with_its_line():
    def step(state, x, y):
        state.w.grad = mg.ones(4, 3)
        return (x @ state.v).sum()

    with pytest.raises(CaptureError, match=r"assigned at .*captured_python\.py:\d+ is not computed"):
        run(step, True)


def test_a_loop_is_compiled_while_a_step_is_recorded(monkeypatch):
    """Of a batch of one the gradient is a read-only view at first, and an array of its own when recorded."""
    numba = pytest.importorskip("numba")
    from minigrad.kernels.jit import activations

    fresh = numba.njit(activations._exact_backward.py_func)  # which has no compiled code on the disk
    monkeypatch.setattr(activations, "_exact_backward", fresh)
    w = nn.Parameter(mg.ones(4, 8))

    def step(x):
        w.grad = None
        loss = F.gelu(x @ w).mean(0).square().sum()
        loss.backward()
        return loss

    with mg.kernels.use("jit"):
        captured = mg.capture(step, "cpu")
        for i in range(5):
            x = np.full((1, 4), i, np.float32)
            assert captured(x).item() == step(mg.tensor(x)).item()


@pytest.mark.parametrize("dtype", [mg.bfloat16, mg.float16, mg.float32, mg.float64])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.1),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: optim.SGD(p, lr=0.1, maximize=True),
        lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True, eps=1e-3),
        lambda p: optim.Adam(p, lr=0.1, eps=1e-3),
    ],
)
def test_a_changing_lr_in_each_dtype(dtype, make):
    def numbers(is_captured):
        mg.manual_seed(0)
        w = nn.Parameter(mg.randn(4, 3).to(dtype))
        optimizer = make([w])

        def step(x, y):
            optimizer.zero_grad()
            F.cross_entropy((x.to(dtype) @ w).float(), y).backward()
            optimizer.step()

        step = mg.capture(step, "cpu") if is_captured else step
        for i, (x, y) in enumerate(batches() * 3):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + 0.37 * i)
            step(mg.tensor(x), mg.tensor(y))
            yield w.array.copy()

    assert all(map(same_bits, numbers(False), numbers(True)))


def test_the_lr_of_a_parameter_whose_gradient_has_another_dtype():
    def step(state, x, y):
        loss = state.backward(x)
        state.w.grad = state.w.grad.double()
        state.optimizer.step()
        return loss

    assert_followed(step)


def with_statistics(update):
    """A rule that updates a mean, and how often it and its gradient have run; a step of it."""

    def steps():
        w, mean, runs = nn.Parameter(mg.ones(4, 3)), mg.zeros(3), {"rule": 0, "gradient": 0}

        @differentiable
        def centred(z, /):
            runs["rule"] += 1
            update(mean, z.mean(0))

            def gradient(g):
                runs["gradient"] += 1
                return g - g.mean(0)

            return z - z.mean(0), (gradient,)

        def step(x):
            w.grad = None
            loss = centred(x @ w).square().sum()
            loss.backward()
            return loss

        return step, mean, runs

    return steps(), steps()


def set_array(mean, z):
    mean.array[...] = 0.9 * mean.array + 0.1 * z


@pytest.mark.parametrize("update", [set_array, lambda mean, z: mean.mul_(0.9).add_(mg.tensor(0.1 * z))])
def test_running_statistics_of_a_rule_of_ones_own(update):
    (one, mean, _), (other, captured_mean, _) = with_statistics(update)
    other = mg.capture(other, "cpu")
    for x, _ in batches():
        one(mg.tensor(x))
        other(x)
        assert same_bits(mean.array, captured_mean.array)


def test_a_rule_of_ones_own_and_its_gradient_run_once_in_each_call():
    (step, _, runs), _ = with_statistics(set_array)
    step = mg.capture(step, "cpu")
    for i, (x, _) in enumerate(batches(), 1):
        step(x)
        assert runs == {"rule": i, "gradient": i}


def test_what_is_known_of_shapes_ends_with_their_plans():
    step = mg.capture(lambda x: x * 2, "cpu")
    for n in range(200):
        step(np.ones(n, np.float32))
    assert len(step.keys) == len(step.steps) < 200


def test_other_kernels_are_recorded_anew():
    pytest.importorskip("numba")
    x = np.random.default_rng(0).normal(size=(4, 500)).astype(np.float32) * 9
    step = mg.capture(lambda x: F.softmax(x, -1), "cpu")
    for name in ("jit", "numpy", "jit"):
        with mg.kernels.use(name):
            for _ in range(4):
                assert same_bits(F.softmax(mg.tensor(x), -1).array, step(x).array)
    assert step.recordings == 2


def test_draws_go_on_after_a_step_that_failed_as_without_capture():
    def losses(is_captured):
        mg.manual_seed(0)
        step = lambda x, y: F.cross_entropy(F.dropout(x, 0.5), y)
        step = mg.capture(step, "cpu") if is_captured else step
        for i, (x, y) in enumerate(batches()):
            if i == 4:
                with pytest.raises(RangeError):
                    step(mg.tensor(x), mg.tensor(y + 9))
            yield step(mg.tensor(x), mg.tensor(y)).item()

    assert list(losses(False)) == list(losses(True))
