"""The wrong rules that students write, and what gradcheck says of each: alone, and inside of a function.

A rule has a single mistake, and gradcheck sees nothing but numbers. The words are a part of a verdict that a
teacher would give.
"""

# ruff: noqa: F811 (rules are called by what they compute, several times)

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any, NamedTuple

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.registry import ops, registry
from minigrad.ops import differentiable

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
ROWS = rng.normal(size=(3, 4))
POSITIVE, POSITIVE_Y = rng.uniform(0.5, 3, (2, 2, 3))
SQUARE, SQUARE_Y = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
QUERIES, KEYS, VALUES = rng.normal(size=(3, 3, 5))
GAIN, SHIFT = rng.normal(size=4), rng.normal(size=4)
IDS = np.array([0, 2, 0, 0, 1])
LABELS = np.array([1, 3, 0])
ONE_HOT = np.eye(4)[LABELS]


class Mistake(NamedTuple):
    title: str
    words: str  # that the verdict has
    rule: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]


MISTAKES: list[Mistake] = []


def mistake(title, words, *arrays):
    def add(rule):
        MISTAKES.append(Mistake(title, words, rule, arrays))
        return rule

    return add


def softmax_of(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sum_of(v, axis=-1):
    return v.sum(axis, keepdims=True)


def mean_of(v, axis=-1):
    return v.mean(axis, keepdims=True)


def sigmoid_of(x):
    return 1 / (1 + np.exp(-x))


# ---------------------------------------------------------------- two factors


@mistake(
    "multiply: both factors exchanged", "have each other's; the derivative uses this input where input", X, Y
)
def multiply(x, y, /):
    return x * y, (lambda g: g * x, lambda g: g * y)


@mistake(
    "multiply: g x for g y, one input", "uses this input where input 1 belongs: g x for g (input 1)", X, Y
)
def multiply(x, y, /):
    return x * y, (lambda g: g * x, lambda g: g * x)


@mistake("multiply by a row: its own factor", "uses this input where input 0 belongs", ROWS, GAIN)
def multiply(x, b, /):
    return x * b, (lambda g: g * b, lambda g: (g * b).sum(0))


@mistake("multiply: g times the value", "uses the output where input 1 belongs: g y for g (input 1)", X, Y)
def multiply(x, z, /):
    return x * z, (lambda g: g * x * z, lambda g: g * x)


@mistake("divide: x / y for -x / y**2", "numeric = analytic x -1 / x, where x is this input", X, POSITIVE)
def divide(x, y, /):
    return x / y, (lambda g: g / y, lambda g: g * x / y)


@mistake("divide: the sign of y's gradient", "sign flipped", X, POSITIVE)
def divide(x, y, /):
    return x / y, (lambda g: g / y, lambda g: g * x / y**2)


@mistake("divide: 1 / y**2, without x", "numeric = analytic x -(input 0)", X, POSITIVE)
def divide(x, y, /):
    return x / y, (lambda g: g / y, lambda g: g / y**2)


@mistake(
    "divide: 1 / x for 1 / y",
    "uses this input where input 1 belongs: g / x for g / (input 1)",
    POSITIVE,
    POSITIVE_Y,
)
def divide(x, y, /):
    return x / y, (lambda g: g / x, lambda g: -g * x / y**2)


@mistake(
    "divide: the roles exchanged",
    "uses this input where input 0 belongs, and the other way round",
    POSITIVE,
    POSITIVE_Y,
)
def divide(x, y, /):
    return x / y, (lambda g: g / y, lambda g: -g * y / x**2)


# ---------------------------------------------------------------- the input and the output


@mistake("sigmoid: x (1 - x)", "uses the input where the output belongs: g x (1 - x) for g y (1 - y)", X)
def sigmoid(x, /):
    return sigmoid_of(x), (lambda g: g * x * (1 - x),)


@mistake("sigmoid: y (1 - x)", "uses the input where the output belongs", X)
def sigmoid(x, /):
    y = sigmoid_of(x)
    return y, (lambda g: g * y * (1 - x),)


@mistake("sigmoid: y (1 + y)", "g y (1 + y) for g y (1 - y)", X)
def sigmoid(x, /):
    y = sigmoid_of(x)
    return y, (lambda g: g * y * (1 + y),)


@mistake("tanh: 1 - x**2", "uses the input where the output belongs: g (1 - x^2) for g (1 - y^2)", X)
def tanh(x, /):
    return np.tanh(x), (lambda g: g * (1 - x * x),)


@mistake("tanh: 1 - y", "numeric = analytic x (1 + y), where y is the output", X)
def tanh(x, /):
    y = np.tanh(x)
    return y, (lambda g: g * (1 - y),)


@mistake("exp: g x", "uses the input where the output belongs: g x for g y", X)
def exp(x, /):
    return np.exp(x), (lambda g: g * x,)


@mistake("exp: the power rule", "the wrong formula: g x exp(x - 1) for g exp(x)", X)
def exp(x, /):
    return np.exp(x), (lambda g: g * x * np.exp(x - 1),)


@mistake("sqrt: 1 / (2 x)", "uses the input where the output belongs: 1/2 g / x for 1/2 g / y", POSITIVE)
def sqrt(x, /):
    return np.sqrt(x), (lambda g: g / (2 * x),)


@mistake("log: 1 / y", "uses the output where the input belongs: g / y for g / x", POSITIVE + 1)
def log(x, /):
    y = np.log(x)
    return y, (lambda g: g / y,)


@mistake("log: g x", "a factor x^2 too many, or a division by it", POSITIVE)
def log(x, /):
    return np.log(x), (lambda g: g * x,)


@mistake("square: 2 y", "uses the output where the input belongs: 2 g y for 2 g x", X)
def square(x, /):
    y = x * x
    return y, (lambda g: g * 2 * y,)


@mistake("softmax: x for y", "uses the input where the output belongs", ROWS)
def softmax(x, /):
    return softmax_of(x), (lambda g: x * (g - sum_of(g * x)),)


# ---------------------------------------------------------------- chains and products


@mistake("sin(3 x): the inner 3", "the inner derivative of a chain is missing", X)
def sine_of_three(x, /):
    return np.sin(3 * x), (lambda g: g * np.cos(3 * x),)


@mistake(
    "sin(x**2): the inner 2 x", "the inner derivative of a chain is missing: numeric = analytic x 2 x", X
)
def sine_of_square(x, /):
    return np.sin(x * x), (lambda g: g * np.cos(x * x),)


@mistake("sin(x**2): the outer derivative at x", "at the input instead of at the inner function", X)
def sine_of_square(x, /):
    return np.sin(x * x), (lambda g: g * np.cos(x) * 2 * x,)


@mistake("exp(tanh x): the inner 1 - tanh**2", "the inner derivative of a chain is missing", X)
def exp_of_tanh(x, /):
    y = np.exp(np.tanh(x))
    return y, (lambda g: g * y,)


@mistake(
    "exp(-x**2): the inner -2 x", "the inner derivative of a chain is missing: numeric = analytic x -2 x", X
)
def gaussian(x, /):
    y = np.exp(-x * x)
    return y, (lambda g: g * y,)


@mistake(
    "sigmoid(w x): the inner w",
    "the inner derivative of a chain is missing: numeric = analytic x (input 1)",
    X,
    Y,
)
def gate(x, w, /):
    y = sigmoid_of(w * x)
    return y, (lambda g: g * y * (1 - y), lambda g: g * y * (1 - y) * x)


@mistake("x sigmoid(x): the second term", "the second term of a product is missing", X)
def silu(x, /):
    s = sigmoid_of(x)
    return x * s, (lambda g: g * s,)


@mistake("x sigmoid(x): the first term", "the first term of a product is missing", X)
def silu(x, /):
    s = sigmoid_of(x)
    return x * s, (lambda g: g * x * s * (1 - s),)


@mistake("x exp(x): the second term", "the second term of a product is missing", X)
def x_exp_x(x, /):
    return x * np.exp(x), (lambda g: g * np.exp(x),)


@mistake("x x: one use", "of the two uses of x in x x, one counts, the other is missing", X)
def square(x, /):
    return x * x, (lambda g: g * x,)


@mistake("GELU: the second term", "the second term of a product is missing", X)
def gelu(x, /):
    cdf = 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))
    return x * cdf, (lambda g: g * cdf,)


@mistake("GELU by tanh: the second term", "the second term of a product is missing", X)
def gelu(x, /):
    gate = 0.5 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    return x * gate, (lambda g: g * gate,)


@mistake("power: x**n for n x**(n - 1)", "numeric = analytic x 3 / x", X)
def cube(x, /):
    return x**3, (lambda g: g * x**3,)


@mistake("power: the exponent's logarithm", "numeric = analytic x log(input 0)", POSITIVE, Y)
def power(x, y, /):
    return x**y, (lambda g: g * y * x ** (y - 1), lambda g: g * x**y)


# ---------------------------------------------------------------- softmax and its losses


@mistake("softmax: y g", "missing: a sum over axis 1, along the output, as in softmax", ROWS)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: y * g,)


@mistake("softmax: y (1 - y) g", "only the diagonal of the derivative", ROWS)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: y * (1 - y) * g,)


@mistake("softmax: y (g - sum(g))", "the sum lacks a factor: sum(g y) for sum(g)", ROWS)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: y * (g - sum_of(g)),)


@mistake("softmax: g - sum(g y)", "a factor is missing: numeric = analytic x y", ROWS)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: g - sum_of(g * y),)


@mistake("softmax: y (g - sum(g x))", "uses the input where the output belongs", ROWS)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: y * (g - sum_of(g * x)),)


@mistake(
    "softmax: the sum over axis 0", "along the wrong axis: the value couples elements along axis 1", ROWS
)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: y * (g - sum_of(g * y, 0)),)


@mistake("softmax: the normalizer", "a normalizer is missing: numeric = analytic / sum(exp(x), axis 1)", ROWS)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: np.exp(x) * (g - sum_of(g * y)),)


@mistake("cross-entropy: the sign", "sign flipped", ROWS, ONE_HOT)
def cross_entropy(x, t, /):
    p = softmax_of(x)
    return -(t * np.log(p)).sum(1).mean(), (lambda g: g * (t - p) / 3, None)


@mistake(
    "cross-entropy: not divided by the batch",
    "3 is the length of axis 0 of the input, as between a mean",
    ROWS,
)
def cross_entropy(x, /):
    p = softmax_of(x)
    return -(ONE_HOT * np.log(p)).sum(1).mean(), (lambda g: g * (p - ONE_HOT),)


@mistake("cross-entropy: exp(x) - one-hot", "uses exp(x) where softmax(x, axis 1) belongs", ROWS)
def cross_entropy(x, /):
    p = softmax_of(x)
    return -(ONE_HOT * np.log(p)).sum(1).mean(), (lambda g: g * (np.exp(x) - ONE_HOT) / 3,)


@mistake("cross-entropy: logits - one-hot", "uses x where softmax(x, axis 1) belongs", ROWS)
def cross_entropy(x, /):
    p = softmax_of(x)
    return -(ONE_HOT * np.log(p)).sum(1).mean(), (lambda g: g * (x - ONE_HOT) / 3,)


@mistake(
    "cross-entropy: softmax over the batch", "uses softmax(x, axis 0) where softmax(x, axis 1) belongs", ROWS
)
def cross_entropy(x, /):
    p = softmax_of(x)
    return -(ONE_HOT * np.log(p)).sum(1).mean(), (lambda g: g * (softmax_of(x, 0) - ONE_HOT) / 3,)


@mistake("cross-entropy: without the one-hot", "in 1 element for each index of axis 0", ROWS)
def cross_entropy(x, /):
    p = softmax_of(x)
    return -(ONE_HOT * np.log(p)).sum(1).mean(), (lambda g: g * p / 3,)


@mistake(
    "cross-entropy: without the targets",
    "a term is missing: numeric = analytic + g x -1/3 (input 1)",
    ROWS,
    ONE_HOT,
)
def cross_entropy(x, t, /):
    p = softmax_of(x)
    return -(t * np.log(p)).sum(1).mean(), (lambda g: g * p / 3, None)


# ---------------------------------------------------------------- layer norm, norms, means


def normalized(x):
    s = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - mean_of(x)) / s, s


@mistake("layer norm: the mean's term", "as if a mean or a sum were a constant", ROWS)
def layer_norm(x, /):
    y, s = normalized(x)
    return y, (lambda g: (g - y * mean_of(g * y)) / s,)


@mistake("layer norm: the variance's term", "as if a variance were a constant", ROWS)
def layer_norm(x, /):
    y, s = normalized(x)
    return y, (lambda g: (g - mean_of(g)) / s,)


@mistake("layer norm: both terms", "the mean's and the variance's part, as if both were constants", ROWS)
def layer_norm(x, /):
    y, s = normalized(x)
    return y, (lambda g: g / s,)


@mistake("layer norm: 1 / sd", "a normalizer is missing: numeric = analytic / sd(x, axis 1)", ROWS)
def layer_norm(x, /):
    y = normalized(x)[0]
    return y, (lambda g: g - mean_of(g) - y * mean_of(g * y),)


@mistake("layer norm: 1 / var", "numeric = analytic x sd(x, axis 1)", ROWS)
def layer_norm(x, /):
    y, s = normalized(x)
    return y, (lambda g: (g - mean_of(g) - y * mean_of(g * y)) / s**2,)


def layer_norm_rule(x_gradient, gain_gradient):
    def layer_norm(x, gain, shift, /):
        y, s = normalized(x)

        def gradient(g):
            g = x_gradient(g, gain)
            return (g - mean_of(g) - y * mean_of(g * y)) / s

        return y * gain + shift, (gradient, lambda g: gain_gradient(g, x, y), lambda g: g.sum(0))

    return layer_norm


mistake("layer norm: gamma", "g must be multiplied by (input 1) first", ROWS, GAIN, SHIFT)(
    layer_norm_rule(lambda g, gain: g, lambda g, x, y: (g * y).sum(0))
)
mistake(
    "layer norm: gamma's gradient by x",
    "uses input 0 where normalize(input 0, axis 1) belongs",
    ROWS,
    GAIN,
    SHIFT,
)(layer_norm_rule(lambda g, gain: g * gain, lambda g, x, y: (g * x).sum(0)))
mistake("layer norm: gamma's gradient not summed", "missing sum over a broadcast axis", ROWS, GAIN, SHIFT)(
    layer_norm_rule(lambda g, gain: g * gain, lambda g, x, y: (g * y)[:, :, None])
)


@mistake("norm: / |x|", "a normalizer is missing: numeric = analytic / norm(x, axis 1)", ROWS)
def norm(x, /):
    return np.sqrt((x * x).sum(1)), (lambda g: g[:, None] * x,)


@mistake("unit vectors: / |x|", "a normalizer is missing: numeric = analytic / norm(x, axis 1)", ROWS)
def unit(x, /):
    r = np.sqrt(sum_of(x * x))
    y = x / r
    return y, (lambda g: g - y * sum_of(g * y),)


@mistake("mean: / n", "4 is the length of axis 1 of the input, as between a mean and a sum", ROWS)
def mean(x, /):
    return x.mean(1), (lambda g: np.repeat(g[:, None], 4, 1),)


@mistake("max: g to each element", "the same for each element along axis 1, but each has its own", ROWS)
def largest(x, /):
    return x.max(1), (lambda g: np.repeat(g[:, None], 4, 1),)


# ---------------------------------------------------------------- relu


@mistake("relu: no mask", "the gradient lacks a mask, only where the input is negative", X)
def relu(x, /):
    return np.maximum(x, 0), (lambda g: g,)


@mistake("relu: the mask of g", "not linear in the upstream gradient g", X)
def relu(x, /):
    return np.maximum(x, 0), (lambda g: np.where(g > 0.8, g, 0),)


@mistake("relu: y >= 0", "the gradient lacks a mask, only where the input is negative", X)
def relu(x, /):
    y = np.maximum(x, 0)
    return y, (lambda g: g * (y >= 0),)


@mistake("relu: x < 0", "its mask differs from the value's", X)
def relu(x, /):
    return np.maximum(x, 0), (lambda g: g * (x < 0),)


@mistake("relu: g times the output", "a factor x too many", X)
def relu(x, /):
    y = np.maximum(x, 0)
    return y, (lambda g: g * y,)


# ---------------------------------------------------------------- linear, embedding, attention


@mistake(
    "linear: the bias is not summed",
    "missing sum over a broadcast axis: axis 0 (length 3)",
    ROWS,
    rng.normal(size=(4, 2)),
    np.ones(2),
)
def linear(x, w, b, /):
    return x @ w + b, (lambda g: g @ w.T, lambda g: x.T @ g, lambda g: g[:, :, None])


@mistake(
    "linear: the bias gets the first row",
    "only index 0 of the output's axis 0 (length 3) counts",
    ROWS,
    rng.normal(size=(4, 2)),
    np.ones(2),
)
def linear(x, w, b, /):
    return x @ w + b, (lambda g: g @ w.T, lambda g: x.T @ g, lambda g: g[0])


@mistake(
    "linear: the weight is not transposed",
    "not transposed: g is multiplied by the derivative",
    SQUARE,
    SQUARE_Y,
)
def linear(x, w, /):
    return x @ w, (lambda g: g @ w, lambda g: x.T @ g)


@mistake("linear: g.T @ x for x.T @ g", "transposed (analytic = numeric transposed)", SQUARE, SQUARE_Y)
def linear(x, w, /):
    return x @ w, (lambda g: g @ w.T, lambda g: g.T @ x)


@mistake("linear: x @ g for x.T @ g", "not transposed: g is multiplied by the derivative", SQUARE, SQUARE_Y)
def linear(x, w, /):
    return x @ w, (lambda g: g @ w.T, lambda g: x @ g)


@mistake("embedding: out[ids] = g", "contributions overwritten: the input at [0, 0] is used 3 times", SQUARE)
def embedding(x, /):
    def gradient(g):
        out = np.zeros_like(x)
        out[IDS] = g
        return out

    return x[IDS], (gradient,)


SCALE = 1 / np.sqrt(5)


def attention_rule(scale=SCALE, softmax_backward=True, flip_keys=False, flip_values=False):
    def attention(q, k, v, /):
        p = softmax_of(q @ k.T / np.sqrt(5))

        def gradients(g, needs):
            dp = g @ v.T
            ds = scale * (p * (dp - sum_of(dp * p)) if softmax_backward else dp)
            return ds @ k, (ds if flip_keys else ds.T) @ q, (p if flip_values else p.T) @ g

        return p @ v, gradients

    return attention


QKV = QUERIES, KEYS, VALUES
mistake(
    "attention: the scale", "5 is the length of axis 1 of the input: its square root is the factor", *QKV
)(attention_rule(scale=1))
mistake("attention: softmax's backward", "the gradient does not depend on input", *QKV)(
    attention_rule(softmax_backward=False)
)
mistake("attention: ds for ds.T", "the value couples elements along axis 0, the gradient does not", *QKV)(
    attention_rule(flip_keys=True)
)
mistake("attention: p for p.T", "not transposed: g is multiplied by the derivative", *QKV)(
    attention_rule(flip_values=True)
)


# ---------------------------------------------------------------- the checks


def check(one, inside):
    """The report on a mistake: of the rule, or of a function of other inputs that calls it."""
    before = dict(registry), dict(ops)
    rule = differentiable(one.rule)
    inputs = [mg.tensor(np.asarray(a, np.float64), requires_grad=a is not ONE_HOT) for a in one.arrays]

    def function(*inputs):
        z = inputs[-1]
        value = rule(*(x * 1.0 if x.requires_grad else x for x in inputs[:-1]))
        return (value * z).tanh().sum()

    try:
        with np.errstate(all="ignore"):
            if not inside:
                return mg.gradcheck(rule, inputs, raise_exception=False)
            z = mg.tensor(np.array([0.5]), requires_grad=True)
            return mg.gradcheck(function, [*inputs, z], raise_exception=False)
    finally:
        for table, old in zip((registry, ops), before, strict=True):
            table.clear()
            table.update(old)


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside"])
@pytest.mark.parametrize("one", MISTAKES, ids=lambda one: one.title)
def test_a_students_mistake_is_named(one, inside):
    report = check(one, inside)
    assert not report.passed
    assert one.words in report.verdict
    assert report.advice
    if inside and "not linear" not in one.words:
        assert report.verdict.startswith((f"in {one.rule.__name__}", "missing sum", "no gradient"))


RIGHT = {
    "multiply": (lambda x, z: (x * z, (lambda g: g * z, lambda g: g * x)), (X, Y)),
    "sigmoid": (lambda x: (sigmoid_of(x), (lambda g: g * sigmoid_of(x) * (1 - sigmoid_of(x)),)), (X,)),
    "square": (lambda x: (x * x, (lambda g: 2 * g * x,)), (X,)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_rule_has_no_verdict(name):
    rule, arrays = RIGHT[name]
    if len(arrays) == 1:
        one = Mistake(name, "", lambda x, /: rule(x), arrays)
    else:
        one = Mistake(name, "", lambda x, z, /: rule(x, z), arrays)
    report = check(one, inside=False)
    assert report.passed
    assert not report.verdict


def verdict_of(rule, *arrays):
    return check(Mistake("", "", rule, arrays), inside=False).verdict


def test_a_formula_is_found_in_an_array_too_large_for_a_jacobian():
    def tanh(x, /):
        return np.tanh(x), (lambda g: g * (1 - x * x),)

    assert "uses the input where the output belongs" in verdict_of(tanh, rng.normal(size=(3, 140)))


def test_class_indices_are_known_as_one_hot_rows():
    def cross_entropy(x, labels, /):
        p = softmax_of(x)
        target = np.eye(4)[labels.astype(int)]
        return -(target * np.log(p)).sum(1).mean(), (lambda g: g * p / 3, None)

    before = dict(registry), dict(ops)
    try:
        x = mg.tensor(ROWS, requires_grad=True)
        report = mg.gradcheck(differentiable(cross_entropy), [x, mg.tensor(LABELS)], raise_exception=False)
    finally:
        for table, old in zip((registry, ops), before, strict=True):
            table.clear()
            table.update(old)
    assert "numeric = analytic + g x -1/3 one_hot(input 1)" in report.verdict


def test_sigmoids_derivative_is_not_taken_for_a_chain():
    def sigmoid(x, /):  # g y is also the gradient of exp(u)
        y = sigmoid_of(x)
        return y, (lambda g: g * y,)

    def power(x, z, /):  # z is missing, not a term of x times x^(z - 1)
        return x**z, (lambda g: g * x ** (z - 1), lambda g: g * x**z * np.log(x))

    assert verdict_of(sigmoid, X).startswith("a factor is missing: numeric = analytic x (1 - y)")
    assert verdict_of(power, POSITIVE, Y) == "a factor is missing: numeric = analytic x (input 1)"


def test_a_wrong_mask_is_not_taken_for_a_missing_term():
    def relu(x, /):
        return np.maximum(x, 0), (lambda g: g * (x < 0),)

    signs = np.array([[1.5, -0.5, 2.0], [-1.0, 0.5, -2.5]])  # two rows, which differ in sign
    assert "its mask differs from the value's" in verdict_of(relu, signs)


def test_no_pattern_has_advice_on_what_to_do():
    def odd(x, /):
        return np.sin(x) * np.exp(np.cos(x)), (lambda g: g * np.arctan(x + 2) ** 3,)

    report = check(Mistake("", "", odd, (X,)), inside=False)
    assert report.verdict.startswith("no known pattern")
    assert "Write the value as steps" in report.advice


def table() -> str:
    return "\n".join(f"{one.title}\n    {check(one, inside=False).verdict}" for one in MISTAKES)


if __name__ == "__main__":
    print(table())
