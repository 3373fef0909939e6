"""Mistakes that students make in a derivative, and what gradcheck says of each.

`python -m tests.slow.sweeps.mutants` prints it; `test_mutants.py` holds the words that each verdict must
have. A rule is wrong in one thing; what it is called is told to gradcheck by nothing but its numbers.
"""

# ruff: noqa: F811 (rules are called by what they compute, several times)

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import minigrad as mg
from minigrad.core.namespace import namespace
from minigrad.core.op import differentiable
from minigrad.core.registry import ops, registry

rng = np.random.default_rng(0)
X, Y, W = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
SQUARE, SQUARE2 = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
WIDE, LONG = rng.normal(size=(3, 5)), rng.normal(size=7)
POSITIVE = np.exp(X)
BIAS = rng.normal(size=3)
PLACES = np.array([0, 2, 0, 0, 1])  # 0 three times
MASK = np.array([[True, False, True], [True, True, False]])


class Mistake(NamedTuple):
    title: str
    words: str  # that the verdict has
    rule: Callable
    arrays: tuple[np.ndarray, ...]
    order: int
    made_of_ops: bool  # a function of tensors, not a rule

    def check(self):
        """The report on it."""
        before = dict(registry), dict(ops)
        try:
            inputs = [mg.tensor(np.asarray(a, np.float64), requires_grad=True) for a in self.arrays]
            function = self.rule if self.made_of_ops else differentiable(self.rule)
            return mg.gradcheck(function, inputs, order=self.order, raise_exception=False)
        finally:
            for table, old in zip((registry, ops), before, strict=True):
                table.clear()
                table.update(old)


MISTAKES: list[Mistake] = []


def mistake(title, words, *arrays, order=1, made_of_ops=False):
    def add(rule):
        MISTAKES.append(Mistake(title, words, rule, arrays, order, made_of_ops))
        return rule

    return add


def softmax_of(x, axis=1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# ---------------------------------------------------------------- factors and signs


@mistake("x**2 without its factor 2", "off by a constant factor (analytic = 0.5 x numeric)", X)
def square(x, /):
    return x * x, (lambda g: g * x,)


@mistake("the sign of cos's derivative", "sign flipped", X)
def cosine(x, /):
    return np.cos(x), (lambda g: g * np.sin(x),)


@mistake("x - y with a plus for y", "sign flipped", X, Y)
def minus(x, y, /):
    return x - y, (lambda g: g, lambda g: g)


@mistake("sin(3 x) without the chain rule's 3", "off by a constant factor (analytic = 0.333333 x numeric)", X)
def sine_of_three(x, /):
    return np.sin(3 * x), (lambda g: g * np.cos(3 * x),)


@mistake("log2 without ln 2", "0.693147 is ln 2, as for base 2", POSITIVE)
def log2(x, /):
    return np.log2(x), (lambda g: g / x,)


@mistake("log10 without ln 10", "2.30259 is ln 10, as for base 10", POSITIVE)
def log10(x, /):
    return np.log10(x), (lambda g: g / x,)


@mistake(
    "a mean whose gradient is a sum's", "3 is the length of axis 1 of the input, as between a mean and", X
)
def mean(x, /):
    return x.mean(1), (lambda g: np.repeat(g[:, None], 3, 1),)


@mistake("reduction='mean' with the gradient of 'sum'", "6 is the number of elements of the input", X, Y)
def mean_squared_error(x, y, /):
    return ((x - y) ** 2).mean(), (lambda g: g * 2 * (x - y), lambda g: -g * 2 * (x - y))


@mistake("a loss averaged over the batch twice", "off by a constant factor (analytic = 0.5 x numeric)", X)
def cross_entropy_of_class_0(x, /):
    p = softmax_of(x)
    return -np.log(p[:, 0]).mean(), (lambda g: g * (p - np.eye(3)[[0, 0]]) / 4,)


@mistake("variance: n where the value has n - 1", "one divides by it, the other by 6", LONG)
def unbiased_variance(x, /):
    return x.var(ddof=1), (lambda g: g * 2 * (x - x.mean()) / x.size,)


@mistake(
    "attention's scale 1 / sqrt(d) forgotten", "5 is the length of axis 1 of the input: its square root", WIDE
)
def scores(x, /):
    return x @ WIDE.T / np.sqrt(5), (lambda g: g @ WIDE,)


# ---------------------------------------------------------------- the chain rule


@mistake("exp(-x**2) without the inner derivative", "numeric = analytic x -2 x", X)
def gaussian(x, /):
    y = np.exp(-x * x)
    return y, (lambda g: g * y,)


@mistake("sigmoid's derivative without (1 - y)", "numeric = analytic x (1 - y)", X)
def sigmoid(x, /):
    y = 1 / (1 + np.exp(-x))
    return y, (lambda g: g * y,)


@mistake("tanh's derivative 1 - x**2", "uses the input where the output belongs: g (1 - x^2) for", X)
def tanh(x, /):
    return np.tanh(x), (lambda g: g * (1 - x * x),)


@mistake("x**3 with the power not lowered", "numeric = analytic x 1 / x", X)
def cube(x, /):
    return x**3, (lambda g: g * 3 * x**3,)


@mistake(
    "x / y: the square of y forgotten",
    "a factor is missing: numeric = analytic x 1 / x, where x is this input",
    X,
    POSITIVE,
)
def divide(x, y, /):
    return x / y, (lambda g: g / y, lambda g: -g * x / y)


@mistake("the product rule's second term forgotten", "the second term of a product is missing", X)
def x_exp_x(x, /):
    return x * np.exp(x), (lambda g: g * np.exp(x),)


@mistake("an eps that the gradient forgets", "nearly right: off by at most", X)
def root_mean_square(x, /):
    squares = (x * x).mean(1)
    return np.sqrt(squares + 2e-3), (lambda g: (g / (3 * np.sqrt(squares)))[:, None] * x,)


# ---------------------------------------------------------------- matrices and axes


@mistake("g @ y for g @ y.mT, square", "not transposed: g is multiplied by the derivative", SQUARE, SQUARE2)
def matmul(x, y, /):
    return x @ y, (lambda g: g @ y, lambda g: x.T @ g)


@mistake("g @ y for g @ y.mT, not square", "no gradient: the gradient of matmul", X, W)
def matmul(x, y, /):
    return x @ y, (lambda g: g @ y, lambda g: x.T @ g)


@mistake("x @ g for x.mT @ g", "not transposed: g is multiplied by the derivative", SQUARE, SQUARE2)
def matmul(x, y, /):
    return x @ y, (lambda g: g @ y.T, lambda g: x @ g)


@mistake(
    "a matmul's gradient that is transposed", "transposed (analytic = numeric transposed)", SQUARE, SQUARE2
)
def matmul(x, y, /):
    return x @ y, (lambda g: (g @ y.T).T, lambda g: x.T @ g)


@mistake("a transpose whose gradient is not transposed back", "transposed, or not reshaped back", X)
def transpose(x, /):
    return x.T * 2, (lambda g: g * 2,)


@mistake("a square transpose whose gradient is not transposed back", "transposed (analytic = numeric", SQUARE)
def transpose(x, /):
    return x.T * 2, (lambda g: g * 2,)


@mistake(
    "flatten without reshaping back", "not reshaped back: the gradient has shape [6], the input [2, 3]", X
)
def flatten(x, /):
    return x.reshape(-1), (lambda g: g,)


@mistake("a sum whose gradient is not expanded", "not expanded over a reduced axis: axis 1 (length 3)", X)
def sum_of_rows(x, /):
    return x.sum(1), (lambda g: g,)


@mistake(
    "gradients of x * y swapped", "gradient to the wrong input: input 0 and input 1 have each other's", X, Y
)
def multiply(x, y, /):
    return x * y, (lambda g: g * x, lambda g: g * y)


@mistake(
    "gradients of x @ y swapped", "gradient to the wrong input: input 0 and input 1 have each other's", X, W
)
def matmul(x, y, /):
    return x @ y, (lambda g: x.T @ g, lambda g: g @ y.T)


@mistake("one gradient forgotten (None)", "gradient missing (None where the slope is not)", X, Y)
def multiply(x, y, /):
    return x * y, (lambda g: g * y, None)


@mistake("a product rule without its second term", "a term is missing: numeric = analytic + g x y", POSITIVE)
def x_log_x(x, /):
    y = x * np.exp(-x)
    return y, (lambda g: g * (np.exp(-x) - 2 * y),)


@mistake(
    "softmax's sum over the wrong axis",
    "along the wrong axis: the value couples elements along axis 1",
    SQUARE,
)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: y * (g - (g * y).sum(0, keepdims=True)),)


# ---------------------------------------------------------------- broadcasting, sums


@mistake(
    "a bias that is not summed over the batch", "missing sum over a broadcast axis: axis 0 (length 2)", BIAS
)
def bias(b, /):
    return X + b[None, :] * np.ones((2, 1)), (lambda g: g[:, :, None],)


@mistake(
    "a bias whose first row counts",
    "missing sum over a broadcast axis: only index 0 of the output's axis 0",
    X,
    BIAS,
)
def add(x, b, /):
    return x + b, (lambda g: g, lambda g: g[0])


@mistake(
    "a bias averaged over the batch",
    "3 is the length of axis 0 of the output, as between a mean and",
    WIDE,
    rng.normal(size=5),
)
def add(x, b, /):
    return x + b, (lambda g: g, lambda g: g.mean(0))


@mistake("a sum over an axis too many", "summed over axis 0, which is not broadcast", X)
def double(x, /):
    return x * 2, (lambda g: np.zeros_like(g) + 2 * g.sum(0, keepdims=True),)


@mistake(
    "softmax's backward without its sum", "missing: a sum over axis 1, along the output, as in softmax", X
)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: g * y,)


@mistake(
    "softmax's derivative as y (1 - y)",
    "the value couples elements along axis 1, the gradient does not",
    X,
)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: g * y * (1 - y),)


@mistake("log_softmax's backward without its sum", "along exp(output), as in log_softmax", X)
def log_softmax(x, /):
    return np.log(softmax_of(x)), (lambda g: g,)


@mistake(
    "layer norm's backward without its sums",
    "missing: two sums over axis 1: the mean's and the variance's",
    WIDE,
)
def layer_norm(x, /):
    s = np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return (x - x.mean(1, keepdims=True)) / s, (lambda g: g / s,)


@mistake("layer norm with the mean taken as a constant", "as if a mean or a sum were", WIDE)
def layer_norm(x, /):
    s = np.sqrt(x.var(1, keepdims=True) + 1e-5)
    y = (x - x.mean(1, keepdims=True)) / s
    return y, (lambda g: (g - y * (g * y).mean(1, keepdims=True)) / s,)


@mistake("layer norm with the variance taken as a constant", "as if a variance were a constant", WIDE)
def layer_norm(x, /):
    s = np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return (x - x.mean(1, keepdims=True)) / s, (lambda g: (g - g.mean(1, keepdims=True)) / s,)


@mistake(
    "batch norm with stale statistics", "missing: two sums over axis 0: the mean's and the variance's", WIDE.T
)
def batch_norm(x, /):
    s = np.sqrt(x.var(0) + 1e-5)
    return (x - x.mean(0)) / s, (lambda g: g / s,)


@mistake(
    "x / |x| with the norm taken as a constant",
    "along the input, as if a norm were a constant",
    WIDE,
)
def normalize(x, /):
    r = np.sqrt((x * x).sum(1, keepdims=True))
    return x / r, (lambda g: g / r,)


@mistake(
    "x - mean(x) with the gradient of x",
    "the same for each input, as if a mean or a sum were",
    WIDE,
)
def center(x, /):
    return x - x.mean(1, keepdims=True), (lambda g: g,)


@mistake("softmax's sum with the wrong sign", "the sum over axis 1 has the wrong sign", X)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: y * (g + (g * y).sum(1, keepdims=True)),)


@mistake(
    "layer norm's means over n - 1",
    "the sum over axis 1 is off by a factor (analytic = 1.25",
    WIDE,
)
def layer_norm(x, /):
    s = x.std(1, keepdims=True)
    y = (x - x.mean(1, keepdims=True)) / s
    over_less = lambda v: v.sum(1, keepdims=True) / 4
    return y, (lambda g: (g - over_less(g) - y * over_less(g * y)) / s,)


@mistake("batch norm with the unbiased deviation", "one standard deviation divides by it, the", WIDE.T)
def batch_norm(x, /):
    y = (x - x.mean(0)) / x.std(0)
    return y, (lambda g: (g - g.mean(0) - y * (g * y).mean(0)) / x.std(0, ddof=1),)


@mistake("x * x.sum() with the sum's path only", "an element's effect on its own output is missing", LONG)
def times_sum(x, /):
    return x * x.sum(), (lambda g: np.full_like(x, (g * x).sum()),)


@mistake("logsumexp's gradient spread evenly", "the same for each element along axis 1, but each", X)
def logsumexp(x, /):
    return np.log(np.exp(x).sum(1)), (lambda g: np.repeat(g[:, None], 3, 1),)


@mistake("a norm's gradient that is not divided by it", "x numeric); that is the output", X)
def norm(x, /):
    return np.sqrt((x * x).sum()), (lambda g: g * x,)


@mistake("a power's exponent without the logarithm", "numeric = analytic x log(input 0)", POSITIVE, Y)
def power(x, y, /):
    return x**y, (lambda g: g * y * x ** (y - 1), lambda g: g * x**y)


@mistake("a convolution's kernel not flipped", "not transposed: g is multiplied by the derivative", LONG)
def convolution(x, /):
    return np.convolve(x, BIAS, "same"), (lambda g: np.convolve(g, BIAS, "same"),)


@mistake("cumsum's gradient not reversed", "not transposed: g is multiplied by the derivative", LONG)
def cumsum(x, /):
    return np.cumsum(x), (lambda g: np.cumsum(g),)


# ---------------------------------------------------------------- masks, indices, places


@mistake("a mask forgotten in backward", "the gradient lacks a mask", X)
def masked(x, /):
    return np.where(MASK, x * x, 0.0), (lambda g: g * 2 * x,)


@mistake(
    "relu with the gradient of the identity",
    "the gradient lacks a mask, only where the input is neg",
    X,
)
def relu(x, /):
    return np.maximum(x, 0), (lambda g: g,)


@mistake(
    "dropout's mask and scale forgotten",
    "the gradient lacks a mask; elsewhere off by a constant",
    X,
)
def dropout(x, /):
    return x * MASK / 0.5, (lambda g: g,)


@mistake("dropout with another mask in backward", "its mask differs from the value's", X)
def dropout(x, /):
    return x * MASK, (lambda g: g * ~MASK,)


_draws = np.random.default_rng(1)


@mistake("dropout that draws again in backward", "not deterministic: the gradient of input 0", LONG)
def dropout(x, /):
    return x * 1.0, (lambda g: g * (_draws.random(x.shape) < 0.5),)


@mistake(
    "an index gradient that overwrites", "contributions overwritten: the input at [0] is used 3 times", BIAS
)
def index(x, /):
    def gradient(g):
        out = np.zeros_like(x)
        out[PLACES] = g
        return out

    return x[PLACES], (gradient,)


@mistake(
    "an embedding's gradient that overwrites", "contributions overwritten: the input at [0, 0] is used 3", W
)
def embedding(x, /):
    def gradient(g):
        out = np.zeros_like(x)
        out[PLACES] = g
        return out

    return x[PLACES], (gradient,)


@mistake("a slice that is put back one off", "shifted by 1 along axis 0", LONG)
def tail(x, /):
    def gradient(g):
        out = np.zeros_like(x)
        out[2:] = g[:5]
        return out

    return x[1:], (gradient,)


@mistake("a flip that is not undone", "the right numbers in the wrong places", X)
def flip(x, /):
    return np.flip(x, 1) ** 2, (lambda g: g * 2 * np.flip(x, 1),)


@mistake("a roll that is undone the wrong way", "not transposed: g is multiplied by the derivative", LONG)
def roll(x, /):
    return np.roll(x, 1), (lambda g: np.roll(g, 1),)


@mistake("max's gradient to all ties", "wrong at a tie: 2 elements at kinks have the slope", [1.0, 3.0, 3.0])
def largest(x, /):
    return x.max(), (lambda g: g * (x == x.max()),)


@mistake("leaky relu with another slope", "analytic = 2 x numeric), only where the input is negative", X)
def leaky_relu(x, /):
    return np.where(x > 0, x, 0.1 * x), (lambda g: g * np.where(x > 0, 1.0, 0.2),)


@mistake("abs without its sign", "sign flipped (analytic = -numeric), only where the input is negative", X)
def absolute(x, /):
    return np.abs(x), (lambda g: g * np.ones_like(x),)


# ---------------------------------------------------------------- points where there is no derivative


@mistake(
    "relu with slope 2 at its kink", "wrong only at a kink: there is no derivative at [1]", [-1.0, 0.0, 2.0]
)
def relu(x, /):
    return np.maximum(x, 0), (lambda g: g * np.where(x == 0, 2.0, x > 0),)


@mistake("0 / 0 in the norm of zeros", "the gradient is nan at [0]", [0.0, 0.0])
def norm(x, /):
    r = np.sqrt((x * x).sum())
    return r, (lambda g: g * x / r,)


@mistake("a `where` whose other branch is not finite", "the gradient is nan at [0, 0]", [[0.0, 1.0, -2.0]])
def safe_log(x, /):
    y = np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), 0.0 * x)
    return y, (lambda g: g * (x > 0) * (1 / (x * (x > 0))) + 0.0,)


@mistake("sqrt at 0", "the function is not finite one step away, at the edge of its domain", [0.0, 4.0])
def root(x, /):
    return np.sqrt(x), (lambda g: g / (2 * np.sqrt(x)),)


# ---------------------------------------------------------------- what a gradient function must not do


@mistake("a gradient that forgets g", "not linear in the upstream gradient g: for input 0 at [0, 0] it is", X)
def square(x, /):
    return x * x, (lambda g: 2 * x,)


@mistake("g**2 for g", "not linear in the upstream gradient g", X)
def square(x, /):
    return x * x, (lambda g: g**2 * 2 * x,)


@mistake("relu by the sign of g", "not linear in the upstream gradient g", POSITIVE)
def relu(x, /):
    return np.maximum(x, 0), (lambda g: np.where(g > 0, g, 0),)


@mistake("the input changed in place", "input mutated: the function changed input 0", X, made_of_ops=True)
def double(x):
    with mg.no_grad():
        x *= 2
    return x + 0


@mistake("a saved array changed in place", "changed in place: a second backward pass over the graph", X)
def exponential(x, /):
    y = np.exp(x)
    kept = y.copy()

    def gradient(g):
        np.multiply(kept, g, out=kept)
        return kept.copy()

    return y, (gradient,)


@mistake("the output changed in place", "changed in place: the gradient changed output 0", X)
def exponential(x, /):
    y = np.exp(x)

    def gradient(g):
        y[:] = y * g
        return y.copy()

    return y, (gradient,)


@mistake("g changed in place", "changed in place: the gradient changed the upstream gradient g", X)
def double(x, /):
    def gradient(g):
        g *= 2
        return g

    return x * 2, (gradient,)


@mistake(
    "an array that is kept is returned", "the gradient of input 0 shares memory with another array", LONG
)
def total(x, /):
    ones = np.zeros_like(x)

    def gradient(g):
        ones[:] = g
        return ones

    return x.sum(), (gradient,)


total.__module__ = "minigrad.planted"  # as the library's: what a user's rule keeps is copied


@mistake("float32 within the value", "computed in float32: every number of the value is a float32 number", X)
def sine(x, /):
    return np.sin(x.astype(np.float32)).astype(np.float64), (lambda g: g * np.cos(x),)


@mistake("float32 within the gradient", "computed in float32: every number of the gradient of input 0", X)
def sine(x, /):
    return np.sin(x), (lambda g: (g * np.cos(x)).astype(np.float32),)


@mistake("an op that draws", "not deterministic: output 0 at [", X)
def noisy(x, /):
    keep = _draws.random(x.shape) < 0.5
    return x * keep, (lambda g: g * keep,)


# ---------------------------------------------------------------- functions of ops, and the second order


@mistake(
    "x * x.detach()",
    "of the two uses of x in x x, one counts, the other is missing; its operation has the right",
    X,
    made_of_ops=True,
)
def detached(x):
    return x * x.detach()


@mistake(
    "a loss through .numpy()",
    "each of its 3 operations has the right gradient, so a part",
    X,
    made_of_ops=True,
)
def through_numpy(x):
    return (x.exp() / x.numpy().max()).sum()


@mistake("a wrong op among right ones", "in wrong_sine (recorded at", X, made_of_ops=True)
def composed(x):
    @differentiable
    def wrong_sine(x, /):
        return np.sin(x), (lambda g: -g * np.cos(x),)

    return wrong_sine(x.exp()).sum()


@mistake(
    "a second derivative that is wrong", "right at first order, wrong at second: gradient missing", X, order=2
)
def square(x, /):
    kept = getattr(x, "array", x)  # a constant, as far as the second derivative can tell
    return x * x, (lambda g: g * (2 * kept),)


@mistake(
    "a second derivative that is half", "right at first order, wrong at second: off by a constant", X, order=2
)
def cube(x, /):
    xp = namespace(x)
    return x**3, (lambda g: g * 3 * x * xp.stop_gradient(x),)


@mistake(
    "a jump at order 2 with a slope of its own", "wrong at second: wrong only at a jump", [0.0, 1.0], order=2
)
def relu(x, /):
    xp = namespace(x)
    return xp.maximum(x, 0.0), (lambda g: g * ((x > 0) + 5 * (x - xp.stop_gradient(x)) * (x == 0)),)


def table() -> str:
    """A line for each mistake and its verdict, as Markdown."""
    lines = ["| mistake | verdict |", "|---|---|"]
    for one in MISTAKES:
        verdict = one.check().verdict.replace("|", "\\|")
        lines.append(f"| {one.title} | {verdict} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
    print(f"\n{len(MISTAKES)} mistakes")
