"""What a beginner meets: a `.grad` that is None, labels of the wrong shape or dtype, float64 data."""

import inspect
import re
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.op import Op
from minigrad.core.registry import registry
from minigrad.nn import functional as F
from minigrad.ops import differentiable
from minigrad.utils.data import DataLoader


def message(call, error=mg.MinigradError):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


# ---------------------------------------------------------------- `.grad`


def test_grad_of_a_result_warns_and_says_how_a_parameter_stays_a_leaf():
    w = mg.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    w = w - 0.1 * w.grad
    (w * w).sum().backward()
    with pytest.warns(
        UserWarning, match=r"not a leaf: subtract .*\n.*retain_grad.*no_grad\(\): w -= lr"
    ) as said:
        assert w.grad is None
    assert said[0].filename == __file__


def test_grad_does_not_warn_of_leaves_constants_and_retained_gradients():
    x = mg.tensor([1.0], requires_grad=True)
    y = x * 2
    first, second = (mg.ones(2) * x).split(1)
    for tensor in (y, first):
        tensor.retain_grad()
    assert x.grad is mg.ones(1).grad is y.grad is first.grad is None
    (y + first + second).sum().backward()
    assert y.grad.tolist() == first.grad.tolist() == [1.0]
    with pytest.warns(UserWarning, match="not a leaf"):
        second.grad  # noqa: B018
    second.grad = mg.ones(1)  # as in PyTorch, it may be assigned
    assert second.grad.tolist() == [1.0]


@pytest.mark.parametrize("op", [mg.sub, mg.mul, mg.add, mg.div, mg.matmul, mg.maximum])
def test_none_as_an_operand_speaks_of_gradients(op):
    assert "A `.grad` is None before backward()" in message(lambda: op(mg.ones(2), None))


def test_a_state_carried_over_is_to_be_detached():
    w = mg.ones(2, 2, requires_grad=True)
    h = mg.ones(2)

    def step(h):
        h = (h @ w).tanh()
        h.sum().backward()
        return h

    h = step(h)
    assert re.search(
        r"freed it\.\n.*\.detach\(\).*h = h\.detach\(\)", message(lambda: step(h), mg.errors.GraphError)
    )
    step(h.detach())


# ---------------------------------------------------------------- labels and ids


@pytest.mark.needs("breadth")
@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize(
    ("logits", "target", "advice"),
    [
        ((2, 3, 5), mg.zeros(2, 3, dtype="int64"), "logits.reshape(-1, V), target.reshape(-1)"),
        ((4, 5), mg.zeros(4), "target.long()"),
        ((4, 5), mg.zeros(4, 1, dtype="int64"), "target.reshape(4)"),
    ],
)
def test_a_target_that_does_not_fit_says_the_line_to_write(loss, logits, target, advice):
    assert advice in message(lambda: getattr(F, loss)(mg.randn(*logits), target))


@pytest.mark.needs("breadth")
@pytest.mark.parametrize(
    "call",
    [
        lambda ids: nn.Embedding(4, 5)(ids),
        lambda ids: F.one_hot(ids),
        lambda ids: mg.ones(3, 3).gather(0, ids.reshape(1, -1)),
        lambda ids: mg.ones(3, 3)[ids],
        lambda ids: mg.ones(3, 3).index_select(0, ids),
        lambda ids: mg.ones(3).take(ids),
        lambda ids: mg.ones(3).scatter(0, ids, 1.0),
        lambda ids: mg.bincount(ids),
        lambda ids: mg.ones(3, 3).take_along_dim(ids.reshape(1, -1), 0),
    ],
)
def test_float_ids_say_long(call):
    assert ".long()" in message(lambda: call(mg.zeros(2)))


@pytest.mark.parametrize("shape", [(3,), (3, 3, 3), ()])
@pytest.mark.parametrize("fuse", [True, False])
def test_a_table_of_other_axes_is_refused_by_embedding(shape, fuse):
    with mg.fused(fuse):
        assert "The table is a matrix" in message(lambda: F.embedding(mg.tensor([0]), mg.ones(*shape)))


# ---------------------------------------------------------------- float64 data


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (lambda: nn.Linear(3, 2), np.ones((2, 3))),
        (lambda: nn.Conv1d(3, 2, 1), np.ones((2, 3, 4))),
    ],
)
def test_float64_data_that_turns_a_float32_model_to_float64_is_said(make, data):
    model = make()
    with pytest.warns(UserWarning, match=r"float64 data .*\n.*x\.float\(\)") as said:
        result = model(mg.tensor(data))
    assert result.dtype == "float64"
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(mg.tensor(data).float())
        model.double()(mg.tensor(data))


def test_float64_data_is_said_once_for_a_model_and_at_the_users_line():
    class Model(nn.Sequential):
        pass

    model = Model(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3):
            model(np.ones((2, 3)))
    assert len(said) == 1
    assert said[0].filename == __file__


# ---------------------------------------------------------------- axes that are not there


SCALAR = mg.tensor(1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mg.cat([SCALAR, SCALAR]),
        lambda: mg.cat([SCALAR, mg.ones(2)]),
        lambda: SCALAR.select(0, 0),
        lambda: SCALAR.narrow(0, 0, 1),
        lambda: SCALAR.unflatten(0, (1, 1)),
        lambda: SCALAR.take_along_dim(mg.tensor([0]), 0),
        lambda: mg.hstack(()),
        lambda: mg.linalg.cross(mg.ones(5, 3), mg.ones(5, 3), dim=2),
        lambda: F.embedding(mg.tensor([0]), mg.ones(3)),
        lambda: F.scaled_dot_product_attention(mg.ones(3), mg.ones(3), mg.ones(3)),
        lambda: F.linear(SCALAR, mg.ones(2, 2)),
    ],
)
def test_no_message_is_that_of_a_tuple(call):
    said = message(call)
    assert "tuple index" not in said
    assert "\n" in said


def test_each_op_of_tensors_without_axes_speaks_of_axes():
    """All ops, on their samples with one array without axes: no message is Python's of a tuple."""
    rng, wrong = np.random.default_rng(0), []
    for key, info in registry.items():
        for sample in info.samples(rng) if isinstance(info, Op) and info.samples else ():
            for i, x in enumerate(sample.args):
                if not isinstance(x, np.ndarray) or not x.ndim or not x.size:
                    continue
                args = [*sample.args[:i], x.reshape(-1)[0].reshape(()), *sample.args[i + 1 :]]
                args = [mg.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
                if key == "cross_entropy":  # `F.cross_entropy` checks the target
                    continue
                try:
                    info.call(*args, **sample.kwargs)
                except mg.MinigradError as error:
                    if "tuple index" in str(error) or "list index" in str(error):
                        wrong.append((key, i, str(error)))
    assert not wrong


@pytest.mark.parametrize("exponent", [mg.tensor(-1), -1, mg.tensor(-2, dtype="int32")])
def test_integers_to_a_negative_power_ask_for_floats(exponent):
    assert "Use floats" in message(lambda: mg.tensor([2, 3]) ** exponent)


# ---------------------------------------------------------------- batches, rules, help


@pytest.mark.parametrize(
    "examples",
    [[mg.ones(2), mg.ones(3)], [np.ones(2), np.ones(3)], [[1, 2], [3]], [(mg.ones(2), 1), (mg.ones(3), 0)]],
)
def test_examples_of_different_shapes_are_to_be_padded(examples):
    said = message(lambda: next(iter(DataLoader(examples, batch_size=2))), mg.errors.ShapeError)
    assert "Pad them" in said
    assert "collate_fn" in said


def test_one_gradient_is_singular():
    @differentiable
    def product(x, y, /):
        return x * y, (lambda g: g * y,)

    @differentiable
    def product2(x, y, /):
        return x * y, lambda g, needs: (g * y,)

    x = mg.ones(2, requires_grad=True)
    try:
        assert "returned 1 gradient.\n" in message(lambda: product(x, x))
        assert "returned 1 gradient for 2 arrays" in message(lambda: product2(x, x).sum().backward())
    finally:
        for name in [name for name, info in registry.items() if info.source.__module__ == __name__]:
            del registry[name]


@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "relu", "sigmoid", "silu", "exp", "matmul", "logsumexp"]
)
def test_help_has_the_derivative_and_the_source_is_the_definition(name):
    function = getattr(mg, name)
    assert re.search(r"d/d|gradient|derivative|d[A-Z] =", inspect.getdoc(function))
    assert f"def {name}(" in inspect.getsource(function)
    assert "dtype" in inspect.signature(function).parameters or "softmax" not in name


def test_a_method_that_replaces_one_of_the_librarys_is_named():
    class Layer(nn.Linear):
        def parameters(self):
            return list(super().parameters())

    said = message(lambda: Layer(2, 3))
    assert "Layer.parameters() got an unexpected keyword argument 'recurse'" in said
    assert "same arguments" in said
