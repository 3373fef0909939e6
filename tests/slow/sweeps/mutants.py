"""Mistakes that students make in a derivative, and what gradcheck says of each.

`python -m tests.slow.sweeps.mutants` prints it; `test_mutants.py` holds the words that each verdict must
have. A rule is wrong in one thing; what it is called is told to gradcheck by nothing but its numbers. Most
are in `tests/checks`; here are those of the documentation, and kinds of mistakes that are not there.
"""

# ruff: noqa: F811 (rules are called by what they compute, several times)

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import minigrad as mg
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

    def check(self):
        """The report on it."""
        before = dict(registry), dict(ops)
        try:
            inputs = [mg.tensor(np.asarray(a, np.float64), requires_grad=True) for a in self.arrays]
            return mg.gradcheck(differentiable(self.rule), inputs, raise_exception=False)
        finally:
            for table, old in zip((registry, ops), before, strict=True):
                table.clear()
                table.update(old)


MISTAKES: list[Mistake] = []


def mistake(title, words, *arrays):
    def add(rule):
        MISTAKES.append(Mistake(title, words, rule, arrays))
        return rule

    return add


def softmax_of(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


# ---------------------------------------------------------------- factors and signs


@mistake("log2 without ln 2", "0.693147 is ln 2, as for base 2", POSITIVE)
def log2(x, /):
    return np.log2(x), (lambda g: g / x,)


@mistake("reduction='mean' with the gradient of 'sum'", "6 is the number of elements of the input", X, Y)
def mean_squared_error(x, y, /):
    return ((x - y) ** 2).mean(), (lambda g: g * 2 * (x - y), lambda g: -g * 2 * (x - y))


@mistake("variance: n where the value has n - 1", "one divides by it, the other by 6", LONG)
def unbiased_variance(x, /):
    return x.var(ddof=1), (lambda g: g * 2 * (x - x.mean()) / x.size,)


# ---------------------------------------------------------------- the chain rule


@mistake("exp(-x**2) without the inner derivative", "numeric = analytic x -2 x", X)
def gaussian(x, /):
    y = np.exp(-x * x)
    return y, (lambda g: g * y,)


@mistake("tanh's derivative 1 - x**2", "uses the input where the output belongs: g (1 - x^2) for", X)
def tanh(x, /):
    return np.tanh(x), (lambda g: g * (1 - x * x),)


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


@mistake(
    "flatten without reshaping back", "not reshaped back: the gradient has shape [6], the input [2, 3]", X
)
def flatten(x, /):
    return x.reshape(-1), (lambda g: g,)


@mistake("a sum whose gradient is not expanded", "not expanded over a reduced axis: axis 1 (length 3)", X)
def sum_of_rows(x, /):
    return x.sum(1), (lambda g: g,)


# ---------------------------------------------------------------- broadcasting, sums


@mistake(
    "softmax's backward without its sum", "missing: a sum over axis 1, along the output, as in softmax", X
)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: g * y,)


@mistake("softmax's sum with the wrong sign", "the sum over axis 1 has the wrong sign", X)
def softmax(x, /):
    y = softmax_of(x)
    return y, (lambda g: y * (g + (g * y).sum(1, keepdims=True)),)


@mistake("batch norm with the unbiased deviation", "one standard deviation divides by it, the", WIDE.T)
def batch_norm(x, /):
    y = (x - x.mean(0)) / x.std(0)
    return y, (lambda g: (g - g.mean(0) - y * (g * y).mean(0)) / x.std(0, ddof=1),)


@mistake("x * x.sum() with the sum's path only", "an element's effect on its own output is missing", LONG)
def times_sum(x, /):
    return x * x.sum(), (lambda g: np.full_like(x, (g * x).sum()),)


# ---------------------------------------------------------------- masks, indices, places


@mistake("dropout's mask and scale forgotten", "the gradient lacks a mask; elsewhere off by a constant", X)
def dropout(x, /):
    return x * MASK / 0.5, (lambda g: g,)


@mistake("an index gradient that overwrites", "contributions overwritten: the input at [0] is used 3", BIAS)
def index(x, /):
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


@mistake("max's gradient to all ties", "wrong at a tie: 2 elements at kinks have the slope", [1.0, 3.0, 3.0])
def largest(x, /):
    return x.max(), (lambda g: g * (x == x.max()),)


# ---------------------------------------------------------------- what a gradient function must not do


@mistake("a gradient that forgets g", "not linear in the upstream gradient g: for input 0 at [0, 0] it is", X)
def square(x, /):
    return x * x, (lambda g: 2 * x,)


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
