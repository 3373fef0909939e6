"""Arguments that a call cannot use: refused before anything is computed, with an error of ours."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.errors import (
    ArgumentError,
    DtypeError,
    GraphError,
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
AROUND: list = [1.0]
AROUND.append(AROUND)

REFUSED = {
    "a tree that contains itself": (lambda: mg.func.grad(lambda x: x)(AROUND), ArgumentError),
    "a ragged index": (lambda: X[([[0], [0, 1]],)], mg.RangeError),
    "an argument twice": (lambda: mg.exp(X, x=X), SignatureError),
    "True as an axis": (lambda: X.sum(True), ArgumentError),
    "a sum to another size": (lambda: X.sum_to_size(4), ShapeError),
    "a view of nothing": (lambda: X.view(), SignatureError),
    "sizes among sizes": (lambda: X.sum_to_size(1, (2, 3)), SizesError),
    "a tensor as the dtype of another": (lambda: mg.zeros(2, dtype=X), ArgumentError),
    "a copy by an array": (lambda: X.to("float64", copy=X.numpy()), ArgumentError),
    "an optimizer of 5": (lambda: mg.optim.SGD(5), mg.MinigradError),
    "a string to save": (lambda: mg.save_file({"a": "x"}, "a.safetensors"), mg.FileError),
    "a size of -3": (lambda: X.reshape(-3), ShapeError),
    "half an index": (lambda: X.select(0, 0.5), ArgumentError),
    "a correction of NaN": (lambda: X.var(correction=math.nan), OptionError),
    "a word for a flag": (lambda: X.sort(0, "ascending"), ArgumentError),
    "a tensor for a dtype": (lambda: X.sum(dtype=mg.ones(2)), ArgumentError),
    "a step of -3": (lambda: mg.random.set_step(-3), OptionError),
    "norms over None": (lambda: F.layer_norm(X, None), ArgumentError),
    "None as an input": (lambda: F.linear(None, X), DtypeError),
    "an array to change in place": (lambda: mg.relu_(X.numpy()), mg.MinigradError),
    "a checkpoint of 3": (lambda: mg.autograd.checkpoint(3, X), ArgumentError),
    "too large an integer": (lambda: mg.arange(2**64), OptionError),
    "too large a matrix": (lambda: mg.eye(10**7), OutOfMemoryError),
    "too many repetitions": (lambda: X.repeat(10**12, 1), OutOfMemoryError),
    "too large a result": (lambda: mg.ones(10**6, 1) + mg.ones(1, 10**8), OutOfMemoryError),
    "an unknown keyword of a layer": (lambda: nn.Linear(2, 2, zzz=1), SignatureError),
    "weights in two axes": (lambda: X.cov(fweights=X), ShapeError),
    "a quantile of a matrix": (lambda: X.quantile(X), ShapeError),
    "a grid of matrices": (lambda: mg.meshgrid(X), ShapeError),
    "the trace of a vector": (lambda: mg.trace(mg.ones(2)), ShapeError),
    "the diagonal of a cube": (lambda: mg.diag(mg.ones(1, 1, 1)), ShapeError),
    "a row of another length": (lambda: X.select_scatter(mg.ones(2), 0, 1), ShapeError),
    "a diagonal of another length": (lambda: X.diagonal_scatter(mg.ones(3)), ShapeError),
    "an identity of a vector": (lambda: nn.init.eye_(mg.ones(3)), ShapeError),
    "a delta of a matrix": (lambda: nn.init.dirac_(X), ShapeError),
    "a largest norm of nan": (lambda: X.renorm(2, 0, math.nan), OptionError),
    "a narrower norm": (lambda: mg.linalg.norm(X.double(), dtype="float32"), DtypeError),
    "None in a list": (lambda: mg.ones(2).__setitem__(0, [None]), DtypeError),
    "an order of 3": (lambda: nn.MultiMarginLoss(p=3), OptionError),
    "a margin of triplets below 0": (lambda: nn.TripletMarginLoss(margin=-1), OptionError),
    "statistics of other channels": (lambda: nn.InstanceNorm1d(3, track_running_stats=True)(mg.ones(1, 2)),
        ShapeError),
    "no room for rounding in training": (lambda: F.batch_norm(X, None, None, training=True, eps=0),
        OptionError),
    "half of the running statistics": (lambda: F.instance_norm(mg.ones(1, 2, 3), mg.ones(2)), OptionError),
    "a deviation of nan": (lambda: mg.normal(0.0, math.nan, (2,)), OptionError),
    "a delta of nan": (lambda: F.huber_loss(X, X, delta=math.nan), OptionError),
    "a folder that is none": (lambda: mg.save_file({"a": X}, "/dev/null/x"), mg.FileError),
    "a learning rate of words": (lambda: TrainConfig(lr="x"), UserError),
    "steps of words": (lambda: TrainConfig(steps="a"), UserError),
    "an id that is none": (lambda: Tokenizer.train_char(["ab"]).decode([99]), UserError),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error"), REFUSED.values(), ids=list(REFUSED))
def test_invalid_arguments_are_rejected_with_advice(call, error):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).count("\n") == 1, "what is wrong, and what to do"


@pytest.mark.parametrize("name", ["axis", "keepdims", "other", "mat2"])
@pytest.mark.parametrize(
    "call", [X.take, mg.exp, mg.zeros_like, F.gelu], ids=["take", "exp", "zeros", "gelu"]
)
def test_unknown_keywords_are_reported_by_their_own_name(call, name):
    """Not by the name that other functions have for it."""
    with pytest.raises(SignatureError, match=f"unexpected keyword argument '{name}'"):
        call(X, **{name: 1})


@pytest.mark.parametrize("caught", [TypeError, ValueError, RuntimeError])
def test_argument_errors_can_be_caught_as_in_pytorch(caught):
    with pytest.raises(caught, match="dim must be"):
        X.softmax("rows")


def test_errors_in_user_functions_propagate_unchanged():
    class Model(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        nn.Sequential(Model())(X)
    with pytest.raises(KeyError, match="mine"):
        mg.autograd.checkpoint(Model().forward, X)


def test_user_ops_accept_arbitrary_keyword_settings():
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


def test_in_place_functions_match_the_methods():
    x = mg.tensor([-1.0, 4.0])
    assert mg.sqrt_(mg.relu_(x)) is x
    assert x.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("call", "error", "what"),
    [
        (lambda x: mg.autograd.grad(x.sum(), 1.0), DtypeError, "inputs must be tensors, got float"),
        (lambda x: mg.autograd.grad(1.0, x), DtypeError, "outputs must be tensors, got float"),
        (lambda x: mg.autograd.grad([x * 1, x * 2], x, np.ones(2)), OptionError, "2 outputs need"),
        (lambda x: mg.autograd.grad(x.sum(), X), GraphError, "does not require a gradient"),
        (lambda x: x.backward(np.ones(3)), ShapeError, r"shape \(3,\), the tensor \(2,\)"),
        (lambda x: x.unsqueeze_(0), GraphError, "shape of a leaf"),
        (lambda x: setattr(x, "data", 5), DtypeError, "cannot hold int64"),
        (lambda x: X.register_hook(print), GraphError, "does not require one"),
        (lambda x: X.retain_grad(), GraphError, "does not require one"),
        (
            lambda x: mg.func.grad(lambda x: x.sum(), "a")(x),
            SizesError,
            "argnums must be an integer or several",
        ),
        (lambda x: mg.manual_seed(-1), OptionError, "seed.*-1"),
        (lambda x: mg.manual_seed(2**64), OptionError, f"seed.*{2**64}"),
        (lambda x: mg.manual_seed("a"), OptionError, "seed.*'a'"),
        (lambda x: mg.arange(math.nan), OptionError, "no finite length"),
        (lambda x: mg.randperm(2.5), ArgumentError, "n must be an integer, got 2.5"),
        (lambda x: mg.randperm(-1), ShapeError, "non-negative integers"),
        (lambda x: nn.Linear(-1, 3), ShapeError, r"at least 0, got \(3, -1\).\nPass non-negative integers."),
        (lambda x: nn.Sequential([nn.ReLU()]), DtypeError, "Sequential holds modules, got list"),
        (lambda x: nn.BatchNorm2d(8)(mg.ones(2, 4, 3, 3)), ShapeError, r"got 4 channels .* of shape \(8,\)"),
        (lambda x: nn.MSELoss(reduction="average"), OptionError, "'average'"),
        (lambda x: nn.MSELoss(reduce=True), SignatureError, r'MSE[\s\S]*Use reduction="mean"'),
        (lambda x: F.mse_loss(X, X, size_average=False), SignatureError, r'mse[\s\S]*Use reduction="mean"'),
        (lambda x: mg.optim.AdamW(nn.Linear(2, 2)), OptionError, "takes parameters, got Linear"),
        (lambda x: mg.where(X, 1.0, 2.0), DtypeError, "where needs a boolean condition, got float32"),
        (lambda x: mg.stack([x, X]), ShapeError, r"stack\(\[float32\[2\], float32\[2, 3\]\]"),
        (lambda x: (X == 1) @ (X == 1).T, DtypeError, "Convert them"),
        (lambda x: F.hardtanh(X == 1), DtypeError, "booleans"),
        (lambda x: F.glu(X), ShapeError, "even axis"),
        (lambda x: F.prelu(X, mg.ones(2)), ShapeError, "1 or 3 elements"),
        (lambda x: mg.ones(2, dtype="uint8").add_(300), DtypeError, "300 out of bounds for uint8"),
        (lambda x: mg.zeros(2, dtype="int64").normal_(), DtypeError, "needs a floating tensor, got int64"),
        (lambda x: mg.zeros(2).bernoulli_(2), OptionError, "p of bernoulli_ must be from 0 to 1, got 2"),
        (lambda x: mg.zeros(2).uniform_(1, 0), OptionError, "high of uniform_ must be finite and at least 1"),
    ],
)
def test_a_mistake_is_explained(call, error, what):
    with pytest.raises(error, match=what):
        call(mg.ones(2, requires_grad=True))


def test_argnums_accepts_numpy_integers():
    assert mg.func.grad(lambda x, y: x * y, np.int64(1))(2.0, 3.0).item() == 2.0


def test_ops_accept_the_argument_names_of_pytorch():
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
