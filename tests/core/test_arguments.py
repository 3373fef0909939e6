"""Arguments that a call cannot use: refused before anything is computed, with an error of ours."""

import inspect
import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.errors import (
    ArgumentError,
    OptionError,
    OutOfMemoryError,
    ShapeError,
    SignatureError,
    SizesError,
)
from minigrad.nn import functional as F
from minitransformer import TrainConfig
from minitransformer.errors import UserError
from minitransformer.text.tokenizer import Tokenizer

X = mg.ones(2, 3)
SGD = mg.optim.SGD([mg.ones(2, requires_grad=True)], lr=0.1)
AROUND: list = [1.0]
AROUND.append(AROUND)

REFUSED = {
    "a list that contains itself": (lambda: mg.tensor(AROUND), ShapeError),
    "an index that contains itself": (lambda: X[(AROUND,)], mg.MinigradError),
    "a tree that contains itself": (lambda: mg.func.grad(lambda x: x)(AROUND), ArgumentError),
    "a size of -3": (lambda: X.reshape(-3), ShapeError),
    "half an index": (lambda: X.select(0, 0.5), ArgumentError),
    "True as an axis": (lambda: X.sum(True), ArgumentError),
    "no axis": (lambda: X.softmax(()), ArgumentError),
    "a correction of NaN": (lambda: X.var(correction=math.nan), OptionError),
    "a word for a flag": (lambda: X.sort(0, "ascending"), ArgumentError),
    "a word for an axis": (lambda: X.diff(0, "zzz"), ArgumentError),
    "a tensor for a dtype": (lambda: X.sum(dtype=mg.ones(2)), ArgumentError),
    "None for a number": (lambda: mg.as_tensor([None], dtype="float32"), mg.DtypeError),
    "a step of a word": (lambda: mg.random.set_step("a"), ArgumentError),
    "a step of -3": (lambda: mg.random.set_step(-3), OptionError),
    "layers of negative sizes": (lambda: nn.Linear(-1, 3), ShapeError),
    "layers of words": (lambda: nn.Linear("a", 2), ArgumentError),
    "norms of negative sizes": (lambda: nn.LayerNorm(-3), ShapeError),
    "norms over None": (lambda: F.layer_norm(X, None), ArgumentError),
    "None as an input": (lambda: F.linear(None, X), mg.DtypeError),
    "an optimizer of 5": (lambda: mg.optim.SGD(5), mg.MinigradError),
    "a state of 3": (lambda: nn.Linear(2, 2).load_state_dict(3), mg.MinigradError),
    "the gradient of 5": (lambda: mg.func.grad(5), ArgumentError),
    "a checkpoint of 3": (lambda: mg.autograd.checkpoint(3, X), ArgumentError),
    "too large an integer": (lambda: mg.arange(2**64), OptionError),
    "too large a matrix": (lambda: mg.eye(10**7), OutOfMemoryError),
    "too many repetitions": (lambda: X.repeat(10**12, 1), OutOfMemoryError),
    "too many classes": (lambda: F.one_hot(mg.tensor([1]), 10**12), OutOfMemoryError),
    "too large a result": (lambda: mg.ones(10**6, 1) + mg.ones(1, 10**8), OutOfMemoryError),
    "an unknown keyword": (lambda: X.sum(zzz=1), SignatureError),
    "an unknown keyword of a layer": (lambda: nn.Linear(2, 2, zzz=1), SignatureError),
    "the least and a setting of an axis": (lambda: mg.min(X, X, True), ArgumentError),
    "a repeated axis of a number": (lambda: mg.tensor(1.0).sum((0, 0)), ShapeError),
    "sizes among sizes": (lambda: X.sum_to_size(1, (2, 3)), SizesError),
    "a largest norm of nan": (lambda: X.renorm(2, 0, math.nan), OptionError),
    "a narrower norm": (lambda: mg.linalg.norm(X.double(), dtype="float32"), mg.DtypeError),
    "a grid of matrices": (lambda: mg.meshgrid(X), ShapeError),
    "weights in two axes": (lambda: X.cov(fweights=X), ShapeError),
    "a range of letters": (lambda: X.histogram(3, range="ab"), ArgumentError),
    "a threshold of a list": (lambda: F.threshold(X, [1.5], 0), ArgumentError),
    "spacings in a tensor": (lambda: mg.gradient(X, spacing=X), ArgumentError),
    "differences with an object": (lambda: X.diff(0, 0, object()), mg.DtypeError),
    "no pairs of axes": (lambda: mg.tensordot(X, X, ()), OptionError),
    "axes in a dictionary": (lambda: mg.linalg.tensorsolve(mg.eye(4), mg.ones(4), {}), mg.DtypeError),
    "more axes than there are": (lambda: mg.linalg.tensorinv(mg.tensor(1.0)), OptionError),
    "a stride of nothing": (lambda: F.unfold(mg.ones(1, 1, 4, 4), 2, stride=[]), OptionError),
    "a number for rows": (lambda: X.index_copy(0, mg.tensor([0]), mg.tensor(1.0)), ShapeError),
    "None in a list": (lambda: mg.ones(2).__setitem__(0, [None]), mg.DtypeError),
    "a copy by an array": (lambda: X.to("float64", copy=X.numpy()), ArgumentError),
    "a parameter with None": (lambda: nn.Parameter(X, None), ArgumentError),
    "an order of 3": (lambda: nn.MultiMarginLoss(p=3), OptionError),
    "a margin of triplets below 0": (lambda: nn.TripletMarginLoss(margin=-1), OptionError),
    "a lower bound of nan": (lambda: F.cosine_similarity(X, X, eps=math.nan), OptionError),
    "learning rates in a tensor": (lambda: mg.optim.lr_scheduler.CyclicLR(SGD, X, 0.5), ShapeError),
    "statistics of other channels": (
        lambda: nn.InstanceNorm1d(3, track_running_stats=True)(mg.ones(1, 2)),
        ShapeError,
    ),
    "a grid of nothing": (lambda: mg.meshgrid(), OptionError),
    "no room for rounding in training": (
        lambda: F.batch_norm(X, None, None, training=True, eps=0),
        OptionError,
    ),
    "a mean of no channels": (lambda: F.local_response_norm(mg.ones(1, 2, 3), 0), OptionError),
    "half of the running statistics": (lambda: F.instance_norm(mg.ones(1, 2, 3), mg.ones(2)), OptionError),
    "the quantile of a number along axis 7": (lambda: mg.tensor(1.0).nanquantile(0.5, 7), mg.RangeError),
    "forms of no features": (lambda: nn.Bilinear(0, 2, 3), OptionError),
    "a deviation of nan": (lambda: mg.normal(0.0, math.nan, (2,)), OptionError),
    "a delta of nan": (lambda: F.huber_loss(X, X, delta=math.nan), OptionError),
    "a string to save": (lambda: mg.save_file({"a": "x"}, "a.safetensors"), mg.FileError),
    "a folder that is none": (lambda: mg.save_file({"a": X}, "/dev/null/x"), mg.FileError),
    "a learning rate of words": (lambda: TrainConfig(lr="x"), UserError),
    "steps of words": (lambda: TrainConfig(steps="a"), UserError),
    "an id that is none": (lambda: Tokenizer.train_char(["ab"]).decode([99]), UserError),
}


@pytest.mark.parametrize(("call", "error"), REFUSED.values(), ids=list(REFUSED))
def test_what_a_call_cannot_use_is_refused(call, error):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).count("\n") == 1, "what is wrong, and what to do"


@pytest.mark.parametrize("name", ["axis", "keepdims", "other", "mat2"])
@pytest.mark.parametrize(
    "call", [X.take, mg.exp, mg.zeros_like, F.gelu], ids=["take", "exp", "zeros", "gelu"]
)
def test_an_unknown_keyword_is_named_as_it_was_written(call, name):
    """Not by the name that other functions have for it."""
    with pytest.raises(SignatureError, match=f"unexpected keyword argument '{name}'"):
        call(X, **{name: 1})


@pytest.mark.parametrize("caught", [TypeError, ValueError, RuntimeError])
def test_an_argument_of_the_wrong_kind_is_caught_as_in_pytorch(caught):
    with pytest.raises(caught, match="dim must be"):
        X.softmax("rows")


def test_draws_are_as_before_after_a_step_that_was_refused():
    with pytest.raises(OptionError):
        mg.random.set_step(-1)
    assert mg.rand(2).shape == (2,)


def test_errors_of_the_users_functions_pass_unchanged():
    class Model(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        nn.Sequential(Model())(X)
    with pytest.raises(KeyError, match="mine"):
        mg.autograd.checkpoint(Model().forward, X)


def test_a_rule_and_a_derived_function_take_settings_of_any_name():
    @mg.ops.differentiable
    def scaled(x, /, factor=1.0, **settings):
        return x * factor + settings.get("offset", 0) + settings.get("axis", 0), (lambda g: g * factor,)

    @mg.ops.derived
    def moved(x, **settings):
        return scaled(x, **settings)

    x = mg.ones(2, requires_grad=True)
    y = scaled(x, 2.0, offset=3.0, axis=1)
    y.sum().backward()
    assert y.tolist() == [6, 6]
    assert x.grad.tolist() == [2, 2]
    assert moved(x, factor=3.0, offset=mg.tensor(2.0)).tolist() == [5, 5]


@pytest.mark.parametrize(
    "call", [lambda: F.mse_loss(X, X, size_average=False), lambda: nn.MSELoss(reduce=True)]
)
def test_old_settings_of_losses_are_answered_by_reduction(call):
    with pytest.raises(SignatureError, match=r'(?s)MSE.*Use reduction="mean"|mse.*Use reduction="mean"'):
        call()


def test_functions_in_place_are_the_methods():
    x = mg.tensor([-1.0, 4.0])
    assert mg.sqrt_(mg.relu_(x)) is x
    assert x.tolist() == [0, 2]


def test_an_unknown_keyword_lists_the_known_ones():
    with pytest.raises(TypeError, match=r"(?s)'zzz'.*dim, keepdim, dtype"):
        X.sum(zzz=1)


# ---------------------------------------------------------------- every function and method


def listed(space):
    """The public functions of a namespace, by name."""
    names = getattr(space, "__all__", None) or [name for name in vars(space) if not name.startswith("_")]
    return {name: vars(space)[name] for name in names if callable(vars(space).get(name))}


def methods():
    """The methods of Tensor, by name."""
    found = {name: inspect.getattr_static(mg.Tensor, name) for name in dir(mg.Tensor) if name[0] != "_"}
    return {name: method for name, method in found.items() if inspect.isfunction(method)}


def named(space):
    """The functions of a namespace, by their full names."""
    return {
        f"{space.__name__}.{name}": function
        for name, function in listed(space).items()
        if not isinstance(function, type)
        and (getattr(function, "__module__", "") or "").startswith("minigrad")
    }


SPACES = {
    "mg": lambda: mg,
    "F": lambda: F,
    "mg.linalg": lambda: mg.linalg,
    "mg.special": lambda: mg.special,
    "nn.init": lambda: nn.init,
}
namespaces = pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))


def assert_explained(call, what, accepted=False):
    """A call ends in an error of ours, of two lines; or in Python's own about the number of arguments."""
    said = "was accepted"
    try:
        call()
        good = accepted
    except mg.MinigradError as error:
        said = str(error)
        good = said.count("\n") == 1
    except TypeError as error:
        said = str(error)
        good = "argument" in said
    assert good, (what, said)


def test_no_method_takes_an_argument_twice():
    for name, method in methods().items():
        first, *others = inspect.signature(method).parameters.values()
        twice = {first.name: X}
        assert_explained(lambda: getattr(mg.ones(3, 3), name)(**twice), f"x.{name}({first.name}=x)")  # noqa: B023
        if others and others[0].kind is others[0].POSITIONAL_OR_KEYWORD:
            twice = {others[0].name: 1}
            call = lambda: getattr(mg.ones(3, 3), name)(1, **twice)  # noqa: B023
            assert_explained(call, f"x.{name}(1, {others[0].name}=1)")


@namespaces
def test_no_function_takes_its_first_argument_twice(space):
    for name, function in named(space()).items():
        parameters = list(inspect.signature(function).parameters.values())
        if parameters and parameters[0].kind in (0, 1):
            twice = {parameters[0].name: X}
            assert_explained(lambda: function(X, **twice), f"{name}(x, {parameters[0].name}=x)")  # noqa: B023


@pytest.mark.parametrize(
    "value", [X.numpy().copy(), [1.0], 1.0, None, mg.Tensor, np], ids=lambda x: type(x).__name__
)
@namespaces
def test_functions_in_place_change_tensors_only(space, value):
    for name, function in named(space()).items():
        if name.endswith("_"):
            assert_explained(lambda: function(value), f"{name}({type(value).__name__})")  # noqa: B023
            assert_explained(lambda: function(value, X), f"{name}({type(value).__name__}, x)")  # noqa: B023


@pytest.mark.parametrize("value", [mg.Tensor, int, len, np, object()], ids=lambda x: f"{x!r:.20}")
def test_a_class_a_function_or_a_module_is_not_an_operand(value):
    for info in mg.ops.registry.values():
        for args in ((value,), (value, value), (X, value)):
            is_dtype = value is int and len(args) == 2  # x.astype(int)
            assert_explained(
                lambda: info.call(*args),  # noqa: B023
                f"{info.name}{args}",
                accepted=is_dtype or info.name in ("clone", "contiguous"),
            )


def test_clamp_without_a_limit_is_refused():
    with pytest.raises(OptionError, match="clamp needs min or max"):
        mg.tensor([1.0]).clamp()


@pytest.mark.parametrize("function", [lambda x: x.sum(0, axis=1), lambda x: mg.sum(x, dim=0, axis=1)])
def test_one_setting_under_two_names_is_refused(function):
    with pytest.raises((OptionError, TypeError)):
        function(mg.zeros(2, 3))


def test_a_diagonal_is_an_integer():
    with pytest.raises(mg.DtypeError, match="diagonal must be an integer"):
        mg.ones(2, 2).tril(2.5)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x: mg.autograd.grad(x.sum(), 1.0), "inputs must be tensors, got float"),
        (lambda x: mg.autograd.grad(1.0, x), "outputs must be tensors, got float"),
        (lambda x: mg.autograd.grad([x * 1, x * 2], x, np.ones(2)), "2 outputs need"),
        (lambda x: mg.func.grad(lambda x: x.sum(), "a")(x), "argnums must be an integer or several"),
        (lambda x: mg.arange(float("nan")), "no finite length"),
        (lambda x: mg.randperm(2.5), "n must be an integer, got 2.5"),
        (lambda x: mg.randperm(-1), "non-negative integers"),
        (lambda x: mg.nn.Linear(-1, 3), r"at least 0, got \(3, -1\).\nPass non-negative integers."),
    ],
)
def test_a_mistake_is_explained(call, what):
    with pytest.raises(mg.MinigradError, match=what):
        call(mg.ones(2, requires_grad=True))


def test_argnums_may_be_a_numpy_number():
    assert mg.func.grad(lambda x, y: x * y, np.int64(1))(2.0, 3.0).item() == 2.0


def test_operands_and_settings_may_be_given_by_pytorchs_names():
    x, y = mg.tensor([1.0, 2.0]), mg.tensor([3.0, 4.0])
    assert mg.add(input=x, other=y, alpha=2).tolist() == [7, 10]
    assert x.mul(other=y).tolist() == [3, 8]
    assert x.pow(exponent=2).tolist() == mg.pow(x, exponent=mg.tensor([2.0, 2.0])).tolist() == [1, 4]
    assert mg.where(condition=x > 1, input=x, other=y).tolist() == [3, 2]
    assert mg.addcmul(x, tensor1=x, tensor2=y).tolist() == [4, 10]
    assert mg.mm(input=x[None], mat2=y[:, None]).item() == 11
    assert mg.softmax(input=x, dim=0).shape == mg.lerp(input=x, end=y, weight=0.5).shape == (2,)
    assert mg.reshape(input=x, shape=(2, 1)).shape == mg.permute(input=x[None], dims=(1, 0)).shape == (2, 1)
    with pytest.raises(OptionError, match="under two names"):
        mg.add(input=x, x=x, other=y)


def test_a_missing_argument_is_named_as_one():
    with pytest.raises(
        TypeError, match=r"softmax.*missing.*'dim'[\s\S]*It takes \(x, dim, dtype=None\)"
    ) as raised:
        mg.softmax(mg.ones(2))
    assert "locals" not in str(raised.value)
