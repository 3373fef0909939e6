"""Messages: the first line says what is wrong, the second what to do; all are minigrad's own."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.errors import (
    DtypeError,
    GraphError,
    MinigradError,
    OptionError,
    RangeError,
    ShapeError,
    SignatureError,
)
from minigrad.core.op import Op
from minigrad.core.registry import registry
from minigrad.nn import functional as F
from tests.leaves import leaf, message

A, B = mg.ones(2, 3), mg.ones(2, 4)
W = mg.ones(5, 3)
IDS = mg.tensor([0, 1])


def used_twice():
    x = mg.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()


# what is done -> the error, and what its first and second line say
MISTAKES = {
    "shapes that clash": (lambda: A + B, ShapeError, r"add\(float32\[2, 3\], float32\[2, 4\]\)",
        "Axis -1 has 3 .* 4"),
    "shapes of masks": (lambda: A.masked_fill(B == 1, 0.0), ShapeError,
        r"mask of shape \(2, 4\) does not broadcast with shape \(2, 3\)", "lengths must be equal"),
    "matrix shapes": (lambda: A @ B, ShapeError, r"matmul of shapes \(2, 3\) and \(2, 4\)", "same length"),
    "matrix and number": (lambda: A @ mg.tensor(1.0), ShapeError, "a number is not a matrix", r"Use \*"),
    "reshape": (lambda: A.reshape(4, 2), ShapeError,
        r"6 elements of shape \(2, 3\) do not fill the shape \(4, 2\)", "must multiply to 6"),
    "expand": (lambda: A.expand(2, 4), ShapeError, r"\(2, 3\) does not broadcast to \(2, 4\)", "length or 1"),
    "repeat": (lambda: A.repeat(2), ShapeError, r"repeat got \(2,\)", "number for each axis"),
    "cat": (lambda: mg.cat([A, A, B]), ShapeError,
        r"shapes \(2, 3\) and \(2, 4\) \(the first and number 2\) cannot be joined along axis 0",
        "equal in every other axis"),
    "stack of nothing": (lambda: mg.stack([]), ShapeError, "no tensors", "at least one"),
    "split": (lambda: A.split([1, 1], 1), ShapeError,
        r"lengths \[1, 1\] add up to 2, but axis 1 has length 3", "add up to 3"),
    "split into zeros": (lambda: A.split(0), OptionError, "at least 1, got 0", "positive integer"),
    "ragged list": (lambda: mg.tensor([[1, 2], [3]]), ShapeError, "this is not a tensor", "one shape"),
    "a shape of names": (lambda: mg.zeros("ab"), ShapeError, "integers", "zeros"),
    "nothing to stack": (lambda: mg.hstack(()), mg.MinigradError, "no tensors", "at least one"),
    "item of many": (lambda: A.item(), ShapeError, r"needs a tensor of one element, got shape \(2, 3\)",
        "index it, or reduce"),
    "truth of many": (lambda: bool(A == 1), ShapeError, r"needs a tensor of one element, got shape \(2, 3\)",
        r"\.all\(\), \.any\(\)"),
    "linear": (lambda: F.linear(B, W), ShapeError, r"linear got .* \(2, 4\) and a weight .* \(5, 3\)",
        r"\(out, in\)"),
    "a linear's bias": (lambda: F.linear(A, W, mg.ones(2)), ShapeError, r"a bias of shape \(2,\)",
        r"a bias \(out,\)"),
    "layer_norm": (lambda: F.layer_norm(A, (4,)), ShapeError, r"\(4,\) got an input of shape \(2, 3\)",
        "last axes"),
    "attention": (lambda: F.scaled_dot_product_attention(A, B, B), ShapeError,
        r"query \(2, 3\), key \(2, 4\)", "same last axis"),
    "attention of vectors": (lambda: F.scaled_dot_product_attention(*[mg.ones(3)] * 3), ShapeError,
        "at least 2 axes", "Reshape"),
    "attention's mask": (lambda: F.scaled_dot_product_attention(A, A, A, mg.ones(3, 3)), ShapeError,
        "scaled_dot_product", "mask that broadcasts"),
    "cross_entropy": (lambda: F.cross_entropy(A, [0]), ShapeError,
        r"\(2, 3\) takes .* \(2,\), got int64 \(1,\)", "axis 1"),
    "an axis": (lambda: A.sum(2), RangeError, "axis 2 of a tensor with 2 axes", "last -1"),
    "an axis of softmax": (lambda: A.softmax(2), RangeError, r"softmax\(float32\[2, 3\], dim=2\): axis 2",
        "count from 0"),
    "an axis to cat": (lambda: mg.cat([A, A], 2), RangeError, "axis 2", "last -1"),
    "an axis twice": (lambda: A.sum((0, -2)), ShapeError, "repeated", "once"),
    "an axis of size()": (lambda: A.size(5), RangeError, r"axis 5 of a tensor of shape \(2, 3\)",
        "count from 0"),
    "an index": (lambda: A[5], RangeError, r"getitem\(float32\[2, 3\], index=5\): index 5 is out of bounds",
        "count from 0"),
    "an index to write": (lambda: A.clone().__setitem__(5, 0), RangeError, "item assignment .* index 5",
        "count from 0"),
    "too many indices": (lambda: A[0, 0, 0], RangeError, "too many indices", "Index with"),
    "gather": (lambda: A.gather(1, np.array([[3]])), RangeError,
        "index 3 is out of range for axis 1 with 3 elements", "Use 0 to 2"),
    "gather's axes": (lambda: A.gather(1, np.array([0])), ShapeError,
        r"index of shape \(1,\) for shape \(2, 3\) along axis 1", "same number"),
    "one_hot": (lambda: F.one_hot(IDS, 1), RangeError, "one_hot: 1 is out of range", "0 to 0"),
    "an id": (lambda: F.embedding([0, 5], W), RangeError,
        r"embedding\(.*: id 5 is out of range for an embedding with 5 rows",
        "count from 0. Use the model's tokenizer, or a larger vocab_size"),
    "an embedding of a vector": (lambda: F.embedding([0], mg.ones(3)), ShapeError, "weight must be a matrix",
        "a row for each id"),
    "max_norm of an integer table": (lambda: F.embedding([0], mg.tensor([[3, 4]]), max_norm=1.0), DtypeError,
        "max_norm needs a floating-point weight, got int64", "float"),
    "a negative id": (lambda: F.embedding([0, -1], W), RangeError, r"embedding\(.*: id -1", "count from 0"),
    "ids that are floats": (lambda: F.embedding([0.0], W), DtypeError, "integers, got float32",
        r"ids\.long\(\)"),
    "a target": (lambda: F.cross_entropy(A, [0, 3]), RangeError, "class 3 is out of range for 3 classes",
        "an output for each"),
    "a negative target": (lambda: F.cross_entropy(A, [0, -1]), RangeError,
        "class -1 is out of range for 3 classes", "count from 0"),
    "targets that are floats": (lambda: F.cross_entropy(A, [0.0, 1.0]), DtypeError, "integers .* float32",
        "index of a class"),
    "an operand that is text": (lambda: A + "one", DtypeError,
        "add takes tensors, arrays and numbers, got str", "mg.tensor"),
    "an operand of text": (lambda: A * ["a", "b", "c"], DtypeError, "multiply takes .* got list",
        "mg.tensor"),
    "an operand that is None": (lambda: A + None, DtypeError, r"add\(float32\[2, 3\], None\)",
        "is None before backward"),
    "text as data": (lambda: mg.tensor("abc"), DtypeError, r"the text \['abc'\]", r"float\(text\)"),
    "an array of text": (lambda: mg.Tensor(np.array(["a"])), DtypeError, r"the text \['a'\]", "tokenizer"),
    "a rate of one's own optimizer": (
        lambda: type("Own", (mg.optim.Optimizer,), {})([A.detach()], {"lr": "0.1"}), DtypeError, "'0.1'",
        r"^Pass float\('0.1'\)\.$"),
    "a probability that is text": (lambda: nn.Dropout("0.1"), DtypeError, "p must be a number",
        r"^Pass float\('0.1'\)\.$"),
    "a rate that is the text nan": (lambda: mg.optim.SGD([A.detach()], "nan"), DtypeError, "got 'nan'",
        "^Pass a number"),
    "a rate that YAML reads as text": (lambda: mg.optim.SGD([A.detach()], "1e-3"), DtypeError, "got '1e-3'",
        "In YAML write 1.0e-3"),
    "an unknown dtype": (lambda: A.to("complex64"), DtypeError, "'complex64' is neither a dtype", "float32"),
    "an unknown word as dtype": (lambda: mg.zeros(2, dtype="floaty"), DtypeError, "unknown dtype 'floaty'",
        "float32"),
    "a mask's value of a vector": (lambda: A.masked_fill(A == 1, leaf([1.0])), OptionError,
        "takes one number", r"mg\.where"),
    "a mask of numbers": (lambda: A.masked_fill(A, 0), DtypeError, "boolean mask, got float32", "mask != 0"),
    "an attention mask of integers": (
        lambda: F.scaled_dot_product_attention(A, A, A, mg.ones(2, 2, dtype="int64")), DtypeError, "int64",
        "mask != 0"),
    "the gradient of integers": (lambda: IDS.requires_grad_(), DtypeError, "only floating .* int64",
        "float32"),
    "negating a boolean": (lambda: -(A == 1), DtypeError, "negative", "Look at"),
    "a boolean as index": (lambda: [1, 2][mg.tensor(1.5)], DtypeError, "integer tensor", r"\.long\(\)"),
    "a missing argument": (lambda: A.softmax(), SignatureError, "softmax.*missing.*dim", r"takes \(x, dim"),
    "an extra argument": (lambda: A.exp(1), SignatureError, r"exp\(\) got 2 arguments", r"takes \(x\)"),
    "an optimizer's argument": (lambda: mg.optim.AdamW([A], learning_rate=1), SignatureError,
        r"AdamW\(\).*learning_rate", r"takes \(params, lr"),
    "a misspelt argument": (lambda: A.sum(dimension=1), SignatureError, "sum.*dimension", "takes x, dim"),
    "the length of a number": (lambda: len(mg.tensor(1.0)), DtypeError, "no length", "item"),
    "walking over a number": (lambda: list(mg.tensor(1.0)), DtypeError, "cannot be iterated over", "item"),
    "a device": (lambda: mg.zeros(2, device="tpu"), OptionError, "unknown device 'tpu'", "cpu"),
    "a reduction": (lambda: F.cross_entropy(A, IDS, reduction="avg"), OptionError, "'avg'", "Choose"),
    "a GELU": (lambda: F.gelu(A, "fast"), OptionError, "'fast'", "Choose"),
    "a norm": (lambda: A.norm("max"), OptionError, "'max'", "math.inf"),
    "in place, larger": (lambda: mg.ones(3).add_(A), ShapeError, r"add_ on a tensor of shape \(3,\)", "fits"),
    "in place, finer": (lambda: mg.tensor([1, 2]).div_(2), DtypeError, "div_ .* int64", "keeps the dtype"),
    "backward of many": (lambda: mg.ones(2, requires_grad=True).backward(), GraphError, r"shape \(2,\)",
        "Reduce"),
    "backward of a constant": (lambda: A.sum().backward(), GraphError, r"shape \(\) has no gradient",
        "requires_grad"),
    "backward again": (used_twice, GraphError, "reached sum .*test_errors.* a second time", "retain_graph"),
    "initializing a vector": (lambda: nn.init.xavier_uniform_(mg.ones(3)), ShapeError, "fan_in and fan_out",
        "out, in"),
}  # fmt: skip


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "readable"])
@pytest.mark.parametrize(("mistake", "error", "what", "remedy"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_explained(mistake, error, what, remedy, fused):
    with mg.fused(fused), pytest.raises(error) as raised:
        mistake()
    assert raised.type.__module__ == "minigrad.core.errors"
    first, second = str(raised.value).split("\n")
    assert re.search(what, first) or not fused, first
    assert re.search(remedy, second) or not fused, second


def test_an_operands_origin_is_named():
    x = mg.ones(2, 3, requires_grad=True).exp()
    named = r"Operand 0 came from exp \(recorded at .*test_errors\.py:\d+\)"
    mistakes = (
        lambda: x + B, lambda: x + np.ones((2, 4)), lambda: x @ x, lambda: x.sum(4), lambda: x[7],
        lambda: x.gather(1, [[3]]),
    )  # fmt: skip
    for mistake in mistakes:
        with pytest.raises(mg.MinigradError, match=named):
            mistake()


def test_errors_name_the_called_function_before_the_failing_op():
    with pytest.raises(ShapeError, match=r"^reshape\(float32\[2, 3\], shape=\(4, 2\)\)"):
        A.reshape(4, 2)
    with pytest.raises(RangeError, match=r"^normalize: vector_norm: .*axis 7"):
        F.normalize(A, dim=7)


def test_errors_subclass_built_in_exceptions():
    for ours, pythons in (
        (ShapeError, ValueError), (DtypeError, TypeError), (RangeError, IndexError),
        (OptionError, ValueError),
        (GraphError, RuntimeError), (mg.StateError, RuntimeError), (mg.FileError, ValueError),
        (mg.MissingFileError, FileNotFoundError), (mg.NonFiniteError, FloatingPointError),
        (mg.GradcheckError, AssertionError),
    ):  # fmt: skip
        assert issubclass(ours, pythons)
        assert issubclass(ours, MinigradError)


def test_no_op_reports_a_tuple_index_error_for_0d_tensors():
    """All ops, on their samples with one array without axes: no message is Python's of a tuple."""
    rng = np.random.default_rng(0)
    wrong = []
    # `F.cross_entropy` checks the target
    ops = [x for x in registry.values() if isinstance(x, Op) and x.samples and x.name != "cross_entropy"]
    for op, sample in [(x, sample) for x in ops for sample in x.samples(rng)]:
        for i, x in enumerate(sample.args):
            if not isinstance(x, np.ndarray) or not x.ndim or not x.size:
                continue
            args = [*sample.args[:i], x.reshape(-1)[0].reshape(()), *sample.args[i + 1 :]]
            args = [mg.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
            try:
                op.call(*args, **sample.kwargs)
            except mg.MinigradError as error:
                if "tuple index" in str(error) or "list index" in str(error):
                    wrong.append((op.name, i, str(error)))
    assert not wrong


@pytest.mark.parametrize("exponent", [mg.tensor(-1), -1, mg.tensor(-2, dtype="int32")])
def test_negative_powers_of_integers_suggest_floats(exponent):
    assert "Use floats" in message(lambda: mg.tensor([2, 3]) ** exponent)
