"""The wrong rules that students write, and what gradcheck says of each: alone, and inside of a function.

A rule has a single mistake, and gradcheck sees nothing but numbers. The words are a part of a verdict that a
teacher would give.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any, NamedTuple

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops import differentiable

pytestmark = pytest.mark.usefixtures("own_ops")
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
ROWS = rng.normal(size=(3, 4))
POSITIVE, POSITIVE_Y = rng.uniform(0.5, 3, (2, 2, 3))
SQUARE, SQUARE_Y = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
QUERIES, KEYS, VALUES = rng.normal(size=(3, 3, 5))
GAIN, SHIFT = rng.normal(size=4), rng.normal(size=4)
WEIGHT, BIAS = rng.normal(size=(4, 2)), np.ones(2)
IDS = np.array([0, 2, 0, 0, 1])
LABELS = np.array([1, 3, 0])
ONE_HOT = np.eye(4)[LABELS]


class Mistake(NamedTuple):
    title: str
    arrays: tuple[np.ndarray, ...]
    value: Callable[..., Any]  # of the arrays
    gradients: tuple[Callable[..., Any] | None, ...]  # each of g, the output and the arrays
    words: str  # that the verdict has


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sum_of(v, axis=-1):
    return v.sum(axis, keepdims=True)


def mean_of(v, axis=-1):
    return v.mean(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cdf(x):
    return 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def gate(x):
    return 0.5 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def relu(x):
    return np.maximum(x, 0)


def multiply(x, z):
    return x * z


def divide(x, z):
    return x / z


def cross_entropy(x, t=ONE_HOT):
    return -(t * np.log(softmax(x))).sum(1).mean()


def sd(x):
    return np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def normalize(x):
    return (x - mean_of(x)) / sd(x)


def norm(x):
    return np.sqrt(sum_of(x * x))


def normalize_backward(g, x):
    y = normalize(x)
    return (g - mean_of(g) - y * mean_of(g * y)) / sd(x)


def layer_norm(x, gain, shift):
    return normalize(x) * gain + shift


def linear(x, w, b=0.0):
    return x @ w + b


def write_rows(g, y, x):
    out = np.zeros_like(x)
    out[IDS] = g
    return out


def attend(q, k, v):
    return softmax(q @ k.T / np.sqrt(5)) @ v


def scores_gradient(g, q, k, v, scale=5**-0.5):
    p = softmax(q @ k.T / np.sqrt(5))
    dp = g @ v.T
    return scale * p * (dp - sum_of(dp * p))


def weights(q, k):
    return softmax(q @ k.T / np.sqrt(5))


QKV = QUERIES, KEYS, VALUES
G_OF_SHIFT = lambda g, y, x, gain, shift: g.sum(0)
G_OF_X = lambda g, y, x, gain, shift: normalize_backward(g * gain, x)
G_OF_INPUT = lambda g, y, x, w, *b: g @ w.T
G_OF_WEIGHT = lambda g, y, x, w, *b: x.T @ g

# fmt: off
MISTAKES = [Mistake(*row) for row in (
    # two factors
    ("multiply: both factors exchanged", (X, Y), multiply,
     (lambda g, y, x, z: g * x, lambda g, y, x, z: g * z),
     "have each other's; the derivative uses this input where input"),
    ("multiply: g x for g z, one input", (X, Y), multiply,
     (lambda g, y, x, z: g * x, lambda g, y, x, z: g * x),
     "uses this input where input 1 belongs: g x for g (input 1)"),
    ("multiply by a row: its own factor", (ROWS, GAIN), multiply,
     (lambda g, y, x, z: g * z, lambda g, y, x, z: (g * z).sum(0)),
     "uses this input where input 0 belongs"),
    ("multiply: g times the value", (X, Y), multiply,
     (lambda g, y, x, z: g * y, lambda g, y, x, z: g * x),
     "uses the output where input 1 belongs: g y for g (input 1)"),
    ("divide: x / z for -x / z**2", (X, POSITIVE), divide,
     (lambda g, y, x, z: g / z, lambda g, y, x, z: g * x / z),
     "numeric = analytic x -1 / x, where x is this input"),
    ("divide: the sign of z's gradient", (X, POSITIVE), divide,
     (lambda g, y, x, z: g / z, lambda g, y, x, z: g * x / z**2), "sign flipped"),
    ("divide: 1 / z**2, without x", (X, POSITIVE), divide,
     (lambda g, y, x, z: g / z, lambda g, y, x, z: g / z**2), "numeric = analytic x -(input 0)"),
    ("divide: 1 / x for 1 / z", (POSITIVE, POSITIVE_Y), divide,
     (lambda g, y, x, z: g / x, lambda g, y, x, z: -g * x / z**2),
     "uses this input where input 1 belongs: g / x for g / (input 1)"),
    ("divide: the roles exchanged", (POSITIVE, POSITIVE_Y), divide,
     (lambda g, y, x, z: g / z, lambda g, y, x, z: -g * z / x**2),
     "uses this input where input 0 belongs, and the other way round"),
    # the input and the output
    ("sigmoid: x (1 - x)", (X,), sigmoid, (lambda g, y, x: g * x * (1 - x),),
     "uses the input where the output belongs: g x (1 - x) for g y (1 - y)"),
    ("sigmoid: y (1 - x)", (X,), sigmoid, (lambda g, y, x: g * y * (1 - x),),
     "uses the input where the output belongs"),
    ("sigmoid: y (1 + y)", (X,), sigmoid, (lambda g, y, x: g * y * (1 + y),), "g y (1 + y) for g y (1 - y)"),
    ("sigmoid: y, which is also exp's", (X,), sigmoid, (lambda g, y, x: g * y,),
     "a factor is missing: numeric = analytic x (1 - y)"),
    ("tanh: 1 - x**2", (X,), np.tanh, (lambda g, y, x: g * (1 - x * x),),
     "uses the input where the output belongs: g (1 - x^2) for g (1 - y^2)"),
    ("tanh: 1 - x**2, too large for a Jacobian", (rng.normal(size=(3, 140)),), np.tanh,
     (lambda g, y, x: g * (1 - x * x),), "uses the input where the output belongs"),
    ("tanh: 1 - y", (X,), np.tanh, (lambda g, y, x: g * (1 - y),),
     "numeric = analytic x (1 + y), where y is the output"),
    ("exp: g x", (X,), np.exp, (lambda g, y, x: g * x,),
     "uses the input where the output belongs: g x for g y"),
    ("exp: the power rule", (X,), np.exp, (lambda g, y, x: g * x * np.exp(x - 1),),
     "the wrong formula: g x exp(x - 1) for g exp(x)"),
    ("sqrt: 1 / (2 x)", (POSITIVE,), np.sqrt, (lambda g, y, x: g / (2 * x),),
     "uses the input where the output belongs: 1/2 g / x for 1/2 g / y"),
    ("log: 1 / y", (POSITIVE + 1,), np.log, (lambda g, y, x: g / y,),
     "uses the output where the input belongs: g / y for g / x"),
    ("log: g x", (POSITIVE,), np.log, (lambda g, y, x: g * x,),
     "a factor x^2 too many, or a division by it"),
    ("square: 2 y", (X,), np.square, (lambda g, y, x: g * 2 * y,),
     "uses the output where the input belongs: 2 g y for 2 g x"),
    ("softmax: x for y", (ROWS,), softmax, (lambda g, y, x: x * (g - sum_of(g * x)),),
     "uses the input where the output belongs"),
    # chains and products
    ("sin(3 x): the inner 3", (X,), lambda x: np.sin(3 * x), (lambda g, y, x: g * np.cos(3 * x),),
     "the inner derivative of a chain is missing"),
    ("sin(x**2): the inner 2 x", (X,), lambda x: np.sin(x * x), (lambda g, y, x: g * np.cos(x * x),),
     "the inner derivative of a chain is missing: numeric = analytic x 2 x"),
    ("sin(x**2): the outer derivative at x", (X,), lambda x: np.sin(x * x),
     (lambda g, y, x: g * np.cos(x) * 2 * x,), "at the input instead of at the inner function"),
    ("exp(tanh x): the inner 1 - tanh**2", (X,), lambda x: np.exp(np.tanh(x)), (lambda g, y, x: g * y,),
     "the inner derivative of a chain is missing"),
    ("exp(-x**2): the inner -2 x", (X,), lambda x: np.exp(-x * x), (lambda g, y, x: g * y,),
     "the inner derivative of a chain is missing: numeric = analytic x -2 x"),
    ("sigmoid(w x): the inner w", (X, Y), lambda x, w: sigmoid(w * x),
     (lambda g, y, x, w: g * y * (1 - y), lambda g, y, x, w: g * y * (1 - y) * x),
     "the inner derivative of a chain is missing: numeric = analytic x (input 1)"),
    ("x sigmoid(x): the second term", (X,), lambda x: x * sigmoid(x), (lambda g, y, x: g * sigmoid(x),),
     "the second term of a product is missing"),
    ("x sigmoid(x): the first term", (X,), lambda x: x * sigmoid(x),
     (lambda g, y, x: g * y * (1 - sigmoid(x)),), "the first term of a product is missing"),
    ("x exp(x): the second term", (X,), lambda x: x * np.exp(x), (lambda g, y, x: g * np.exp(x),),
     "the second term of a product is missing"),
    ("x x: one use", (X,), np.square, (lambda g, y, x: g * x,),
     "of the two uses of x in x x, one counts, the other is missing"),
    ("GELU: the second term", (X,), lambda x: x * cdf(x), (lambda g, y, x: g * cdf(x),),
     "the second term of a product is missing"),
    ("GELU by tanh: the second term", (X,), lambda x: x * gate(x), (lambda g, y, x: g * gate(x),),
     "the second term of a product is missing"),
    ("power: x**n for n x**(n - 1)", (X,), lambda x: x**3, (lambda g, y, x: g * y,),
     "numeric = analytic x 3 / x"),
    ("power: the exponent's logarithm", (POSITIVE, Y), lambda x, n: x**n,
     (lambda g, y, x, n: g * n * x ** (n - 1), lambda g, y, x, n: g * y),
     "numeric = analytic x log(input 0)"),
    ("power: the exponent", (POSITIVE, Y), lambda x, n: x**n,
     (lambda g, y, x, n: g * x ** (n - 1), lambda g, y, x, n: g * y * np.log(x)),
     "a factor is missing: numeric = analytic x (input 1)"),
    # softmax and its losses
    ("softmax: y g", (ROWS,), softmax, (lambda g, y, x: y * g,),
     "missing: a sum over axis 1, along the output, as in softmax"),
    ("softmax: y (1 - y) g", (ROWS,), softmax, (lambda g, y, x: y * (1 - y) * g,),
     "only the diagonal of the derivative"),
    ("softmax: y (g - sum(g))", (ROWS,), softmax, (lambda g, y, x: y * (g - sum_of(g)),),
     "the sum lacks a factor: sum(g y) for sum(g)"),
    ("softmax: g - sum(g y)", (ROWS,), softmax, (lambda g, y, x: g - sum_of(g * y),),
     "a factor is missing: numeric = analytic x y"),
    ("softmax: y (g - sum(g x))", (ROWS,), softmax, (lambda g, y, x: y * (g - sum_of(g * x)),),
     "uses the input where the output belongs"),
    ("softmax: the sum over axis 0", (ROWS,), softmax, (lambda g, y, x: y * (g - sum_of(g * y, 0)),),
     "along the wrong axis: the value couples elements along axis 1"),
    ("softmax: the normalizer", (ROWS,), softmax, (lambda g, y, x: np.exp(x) * (g - sum_of(g * y)),),
     "a normalizer is missing: numeric = analytic / sum(exp(x), axis 1)"),
    ("cross-entropy: the sign", (ROWS, ONE_HOT), cross_entropy,
     (lambda g, y, x, t: g * (t - softmax(x)) / 3, None), "sign flipped"),
    ("cross-entropy: not divided by the batch", (ROWS,), cross_entropy,
     (lambda g, y, x: g * (softmax(x) - ONE_HOT),),
     "3 is the length of axis 0 of the input, as between a mean"),
    ("cross-entropy: exp(x) - one-hot", (ROWS,), cross_entropy,
     (lambda g, y, x: g * (np.exp(x) - ONE_HOT) / 3,), "uses exp(x) where softmax(x, axis 1) belongs"),
    ("cross-entropy: logits - one-hot", (ROWS,), cross_entropy, (lambda g, y, x: g * (x - ONE_HOT) / 3,),
     "uses x where softmax(x, axis 1) belongs"),
    ("cross-entropy: softmax over the batch", (ROWS,), cross_entropy,
     (lambda g, y, x: g * (softmax(x, 0) - ONE_HOT) / 3,),
     "uses softmax(x, axis 0) where softmax(x, axis 1) belongs"),
    ("cross-entropy: without the one-hot", (ROWS,), cross_entropy, (lambda g, y, x: g * softmax(x) / 3,),
     "in 1 element for each index of axis 0"),
    ("cross-entropy: without the targets", (ROWS, ONE_HOT), cross_entropy,
     (lambda g, y, x, t: g * softmax(x) / 3, None),
     "a term is missing: numeric = analytic + g x -1/3 (input 1)"),
    # layer norm, norms, means
    ("layer norm: the mean's term", (ROWS,), normalize, (lambda g, y, x: (g - y * mean_of(g * y)) / sd(x),),
     "as if a mean or a sum were a constant"),
    ("layer norm: the variance's term", (ROWS,), normalize, (lambda g, y, x: (g - mean_of(g)) / sd(x),),
     "as if a variance were a constant"),
    ("layer norm: both terms", (ROWS,), normalize, (lambda g, y, x: g / sd(x),),
     "the mean's and the variance's part, as if both were constants"),
    ("layer norm: 1 / sd", (ROWS,), normalize, (lambda g, y, x: normalize_backward(g, x) * sd(x),),
     "a normalizer is missing: numeric = analytic / sd(x, axis 1)"),
    ("layer norm: 1 / var", (ROWS,), normalize, (lambda g, y, x: normalize_backward(g, x) / sd(x),),
     "numeric = analytic x sd(x, axis 1)"),
    ("layer norm: gamma", (ROWS, GAIN, SHIFT), layer_norm,
     (lambda g, y, x, gain, shift: normalize_backward(g, x),
      lambda g, y, x, gain, shift: (g * normalize(x)).sum(0), G_OF_SHIFT),
     "g must be multiplied by (input 1) first"),
    ("layer norm: gamma's gradient by x", (ROWS, GAIN, SHIFT), layer_norm,
     (G_OF_X, lambda g, y, x, gain, shift: (g * x).sum(0), G_OF_SHIFT),
     "uses input 0 where normalize(input 0, axis 1) belongs"),
    ("layer norm: gamma's gradient not summed", (ROWS, GAIN, SHIFT), layer_norm,
     (G_OF_X, lambda g, y, x, gain, shift: (g * normalize(x))[:, :, None], G_OF_SHIFT),
     "missing sum over a broadcast axis"),
    ("norm: / |x|", (ROWS,), lambda x: norm(x)[:, 0], (lambda g, y, x: g[:, None] * x,),
     "a normalizer is missing: numeric = analytic / norm(x, axis 1)"),
    ("unit vectors: / |x|", (ROWS,), lambda x: x / norm(x), (lambda g, y, x: g - y * sum_of(g * y),),
     "a normalizer is missing: numeric = analytic / norm(x, axis 1)"),
    ("mean: / n", (ROWS,), lambda x: x.mean(1), (lambda g, y, x: np.repeat(g[:, None], 4, 1),),
     "4 is the length of axis 1 of the input, as between a mean and a sum"),
    ("max: g to each element", (ROWS,), lambda x: x.max(1), (lambda g, y, x: np.repeat(g[:, None], 4, 1),),
     "the same for each element along axis 1, but each has its own"),
    # relu
    ("relu: no mask", (X,), relu, (lambda g, y, x: g,),
     "the gradient lacks a mask, only where the input is negative"),
    ("relu: the mask of g", (X,), relu, (lambda g, y, x: np.where(g > 0.8, g, 0),),
     "not linear in the upstream gradient g"),
    ("relu: y >= 0", (X,), relu, (lambda g, y, x: g * (y >= 0),),
     "the gradient lacks a mask, only where the input is negative"),
    ("relu: x < 0", (X,), relu, (lambda g, y, x: g * (x < 0),), "its mask differs from the value's"),
    ("relu: x < 0, two rows that differ in sign", (np.array([[1.5, -0.5, 2.0], [-1.0, 0.5, -2.5]]),), relu,
     (lambda g, y, x: g * (x < 0),), "its mask differs from the value's"),
    ("relu: g times the output", (X,), relu, (lambda g, y, x: g * y,), "a factor x too many"),
    # linear, embedding, attention
    ("linear: the bias is not summed", (ROWS, WEIGHT, BIAS), linear,
     (G_OF_INPUT, G_OF_WEIGHT, lambda g, y, x, w, b: g[:, :, None]),
     "missing sum over a broadcast axis: axis 0 (length 3)"),
    ("linear: the bias gets the first row", (ROWS, WEIGHT, BIAS), linear,
     (G_OF_INPUT, G_OF_WEIGHT, lambda g, y, x, w, b: g[0]),
     "only index 0 of the output's axis 0 (length 3) counts"),
    ("linear: the weight is not transposed", (SQUARE, SQUARE_Y), linear,
     (lambda g, y, x, w: g @ w, G_OF_WEIGHT), "not transposed: g is multiplied by the derivative"),
    ("linear: g.T @ x for x.T @ g", (SQUARE, SQUARE_Y), linear, (G_OF_INPUT, lambda g, y, x, w: g.T @ x),
     "transposed (analytic = numeric transposed)"),
    ("linear: x @ g for x.T @ g", (SQUARE, SQUARE_Y), linear, (G_OF_INPUT, lambda g, y, x, w: x @ g),
     "not transposed: g is multiplied by the derivative"),
    ("embedding: out[ids] = g", (SQUARE,), lambda x: x[IDS], (write_rows,),
     "contributions overwritten: the input at [0, 0] is used 3 times"),
    ("attention: the scale", QKV, attend,
     (lambda g, y, q, k, v: scores_gradient(g, q, k, v, 1) @ k,
      lambda g, y, q, k, v: scores_gradient(g, q, k, v, 1).T @ q, lambda g, y, q, k, v: weights(q, k).T @ g),
     "5 is the length of axis 1 of the input: its square root is the factor"),
    ("attention: softmax's backward", QKV, attend,
     (lambda g, y, q, k, v: g @ v.T @ k / np.sqrt(5), lambda g, y, q, k, v: (g @ v.T).T @ q / np.sqrt(5),
      lambda g, y, q, k, v: weights(q, k).T @ g),
     "the gradient does not depend on input"),
    ("attention: ds for ds.T", QKV, attend,
     (lambda g, y, q, k, v: scores_gradient(g, q, k, v) @ k,
      lambda g, y, q, k, v: scores_gradient(g, q, k, v) @ q, lambda g, y, q, k, v: weights(q, k).T @ g),
     "the value couples elements along axis 0, the gradient does not"),
    ("attention: p for p.T", QKV, attend,
     (lambda g, y, q, k, v: scores_gradient(g, q, k, v) @ k,
      lambda g, y, q, k, v: scores_gradient(g, q, k, v).T @ q, lambda g, y, q, k, v: weights(q, k) @ g),
     "not transposed: g is multiplied by the derivative"),
    # what has no name
    ("no known pattern", (X,), lambda x: np.sin(x) * np.exp(np.cos(x)),
     (lambda g, y, x: g * np.arctan(x + 2) ** 3,), "no known pattern"),
)]
RIGHT = [Mistake(*row, "") for row in (
    ("multiply", (X, Y), multiply, (lambda g, y, x, z: g * z, lambda g, y, x, z: g * x)),
    ("sigmoid", (X,), sigmoid, (lambda g, y, x: g * y * (1 - y),)),
    ("square", (X,), np.square, (lambda g, y, x: 2 * g * x,)),
)]
# fmt: on


def op_of(one):
    """The op with a rule of this value and these gradients."""

    def planted(*arrays):
        y = one.value(*arrays)
        return y, tuple([f and (lambda g, f=f: f(g, y, *arrays)) for f in one.gradients])

    # an op asks for as many arrays as its rule names
    rules = {1: lambda x, /: planted(x), 2: lambda x, z, /: planted(x, z),
             3: lambda x, z, w, /: planted(x, z, w)}  # fmt: skip
    rule = rules[len(one.arrays)]
    rule.__name__ = "planted"
    return differentiable(rule)


def check(one, inside=False):
    """The report on a rule, or on a function of other inputs that calls it."""
    op = op_of(one)
    inputs = [
        mg.tensor(a, requires_grad=f is not None) for a, f in zip(one.arrays, one.gradients, strict=True)
    ]

    def function(*inputs):
        value = op(*(x * 1.0 if x.requires_grad else x for x in inputs[:-1]))
        return (value * inputs[-1]).tanh().sum()

    with np.errstate(all="ignore"):
        if not inside:
            return mg.gradcheck(op, inputs, raise_exception=False)
        z = mg.tensor(np.array([0.5]), requires_grad=True)
        return mg.gradcheck(function, [*inputs, z], raise_exception=False)


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside"])
@pytest.mark.parametrize("one", MISTAKES, ids=lambda one: one.title)
def test_common_student_mistakes_are_diagnosed(one, inside):
    report = check(one, inside)
    assert not report.passed
    assert one.words in report.verdict
    assert report.advice
    if inside and "not linear" not in one.words:
        assert report.verdict.startswith(("in planted", "missing sum", "no gradient"))
    if one.title == "no known pattern":
        assert "Write the value as steps" in report.advice


@pytest.mark.parametrize("one", RIGHT, ids=lambda one: one.title)
def test_correct_rules_pass_without_a_verdict(one):
    report = check(one)
    assert report.passed
    assert not report.verdict


def test_the_verdict_recognizes_one_hot_class_indices():
    value = lambda x, i: cross_entropy(x, np.eye(4)[i.astype(int)])
    one = Mistake("", (ROWS, LABELS), value, (lambda g, y, x, i: g * softmax(x) / 3, None), "")
    assert "numeric = analytic + g x -1/3 one_hot(input 1)" in check(one).verdict
