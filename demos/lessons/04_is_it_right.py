# %% [markdown]
# # 4. Is the gradient right?
#
# **How do you know that a gradient is right, without knowing its formula?** (["Attention Is All You
# Need"](https://arxiv.org/abs/1706.03762), sections 3.2.2 and 3.3, is built from the layer that we check.)
#
# A wrong gradient raises no error, and often the loss even falls. You need a second way to compute it, one
# that cannot make the same mistake.
#
# ## A linear layer, by hand
#
# A Transformer consists mostly of *linear layers*: `y = x Wᵀ + b`. Each output is a weighted sum of all
# inputs, plus a bias. Below, two words with three numbers each become two numbers each. The loss is half
# the sum of the squared differences from what we want.
#
# Let g be the gradient of the loss for y. To find the gradient of W[0, 1], ask where this number is used:
# in output 0 of *each* word, times input 1 of that word. What is shared forward is summed backward (lesson
# 3), so the sum runs over words: `gᵀ x`. In the same way b gets the sum of g over words, and x gets `g W`.

# %%
import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad.ops import differentiable
from minitransformer import plots

mg.manual_seed(SEED)
x = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])  # (2 words, 3 inputs)
W = np.array([[0.5, -0.5, 1.0], [1.0, 0.0, 0.5]])  # (2 outputs, 3 inputs)
b = np.array([0.5, -1.0])
wanted = np.array([[1.0, 0.0], [0.0, -1.0]])  # (2 words, 2 outputs)


def loss_of(W):
    return 0.5 * ((x @ W.T + b - wanted) ** 2).sum()


g = x @ W.T + b - wanted  # the slope of half a square is what is squared
by_hand = g.T @ x
print(f"the loss is {loss_of(W)}, and the gradient of W by hand:\n{by_hand}")

# %% [markdown]
# ## Measure it
#
# Move one number up by a little step h, then down by h, and look at the loss:
#
# `slope ≈ (loss(w + h) - loss(w - h)) / 2h`
#
# This knows nothing of formulas. It needs two losses for each number, so nobody trains with it.


# %%
def measured(f, w, h=1e-5, sides=2):
    """The slope of f at each number of w, from both sides or from one."""
    slopes = np.zeros_like(w)
    for place in np.ndindex(w.shape):
        up, down = w.copy(), w.copy()
        up[place] += h
        down[place] -= h * (sides == 2)
        slopes[place] = (f(up) - f(down)) / (sides * h)
    return slopes


print(f"measured:\n{measured(loss_of, W).round(6)}")
assert np.allclose(measured(loss_of, W), by_hand)

# %% [markdown]
# ## How large a step?
#
# Two errors pull in opposite directions.
#
# - If h is large, the loss bends between w - h and w + h, and the slope between them is not the slope at w.
#   A step ten times smaller makes this error 100 times smaller.
# - A computer stores about 16 digits. If h is tiny, the two losses agree in nearly all digits, and their
#   difference is mostly rounding. A step ten times smaller makes this error ten times larger.
#
# We need a loss that bends more: tanh, an S-shaped curve, before the square.

# %%
guess = predict("which step gives the smallest error?", choices=["1e-1", "1e-5", "1e-12"])
words, weight = mg.randn(6, 5, dtype="float64").numpy(), mg.randn(4, 5, dtype="float64").numpy() / 2


def bent_loss(weight):
    return 0.5 * (np.tanh(words.astype(weight.dtype) @ weight.T) ** 2).sum()


bent = np.tanh(words @ weight.T)
right = (bent * (1 - bent**2)).T @ words  # the slope of tanh is 1 - tanh²
forgotten = bent.T @ words  # a slip: the slope of tanh is left out
steps = 10.0 ** -np.arange(1, 13.5, 0.5)


def errors(gradient, sides=2, dtype="float64"):
    return [abs(measured(bent_loss, weight.astype(dtype), h, sides) - gradient).max() for h in steps]


lines = {
    "both sides": errors(right),
    "one side": errors(right, sides=1),
    "both sides, 7 digits (float32)": errors(right, dtype="float32"),
    "a wrong formula": errors(forgotten),
}
at = {"1e-1": lines["both sides"][0], "1e-5": lines["both sides"][8], "1e-12": lines["both sides"][22]}
print("error of both sides:", {step: f"{error:.0e}" for step, error in at.items()})
guess.compare(min(at, key=at.get))
lines = {name: np.maximum(line, 1e-13) for name, line in lines.items()}
figure = plots.curves(
    {"Error of a measured slope": lines}, steps, xlabel="step h", ylabel="largest error",
    xscale="log", yscale="log",
)  # fmt: skip
show(figure, "04-steps")
assert min(lines["both sides"]) < 1e-8
assert min(lines["a wrong formula"]) > 0.01

# %% [markdown]
# Read the picture from right to left: the error falls as the step shrinks, then rises again. That V is how
# a *right* gradient looks. From one side, the error falls with h, not with h². With 7 digits, the least
# error is hundreds of thousands of times larger, so check in float64. (Below 1e-9 seven digits cannot even
# tell w + h from w.) The wrong formula has no V.
#
# ## A tutor
#
# `mg.gradcheck` measures for you. If a gradient is wrong, it also compares the difference with what common
# slips would leave. Below are two rules with a slip. An operation's rule returns its value and a function
# from g to the gradient of its input.
#
# - The ReLU, `max(0, x)`, has slope 0 where x is negative. This one passes g everywhere.
# - *Layer norm* subtracts the mean of a row and divides by its standard deviation s (lesson 10). This one
#   forgets that mean and s depend on x, too: each is a sum over the row, axis 1.


# %%
@differentiable
def wrong_relu(x, /):
    return np.maximum(x, 0), (lambda g: g,)


@differentiable
def wrong_norm(x, /):
    s = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - x.mean(-1, keepdims=True)) / s, (lambda g: g / s,)


rows = mg.randn(4, 6, dtype="float64", requires_grad=True)
for rule in (wrong_relu, wrong_norm):
    report = mg.gradcheck(rule, [rows], raise_exception=False)
    print(f"{rule.__name__}: {report.verdict}")
    assert not report

# %% [markdown]
# ## What a check cannot see
#
# Give the wrong ReLU positive numbers only.

# %%
positive = mg.rand(4, 6, dtype="float64") + 0.1
positive.requires_grad_()
passed = bool(mg.gradcheck(wrong_relu, [positive], raise_exception=False))
print("the wrong ReLU at positive numbers:", "passes" if passed else "fails")
assert passed

# %% [markdown]
# It passes, because there the slope is 1. A check proves something only about the numbers that it tried.
# Zeros, ones, equal rows and symmetric matrices hide mistakes: draw the numbers at random, with both signs.
#
# ## Change one line
#
# Give `measured` a default step of 1e-12. Does the first measurement still agree with the gradient by hand?
#
# <details><summary>Answer</summary>
#
# No. It is off by about 1e-4, and the assertion fails, although the gradient is right. When a check fails,
# look at the size of the error first: a wrong formula is usually off by a good part of the gradient.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn linear`, the three gradients of a linear layer, and
# `minitransformer learn finite_differences`, the measurement itself.
#
# ## Summary
#
# - A gradient can be measured: a small step up, a small step down.
# - Too large a step bends, too small a step rounds; a wrong formula stays wrong at every step.
# - Check at random numbers, in float64.
#
# Next, what it is that a model minimises: `minitransformer lesson 5`
