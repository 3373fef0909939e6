# %% [markdown]
# # 3. An engine in a hundred lines
#
# **What must an operation remember?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762),
# section 3.3, is the network at the end.)
#
# Lesson 2 took the walk back by hand. Here you build the part of a library that takes it for any
# computation: PyTorch, JAX and minigrad all contain one. This lesson is about code, so read it with the
# code: `minitransformer lesson 3 --code`.
#
# ## A number that remembers
#
# An operation leaves two notes behind: which numbers it was computed from, and for each of them a *slope*,
# how much the result changes when that number does. For a product z = x y, turning x by 1 turns z by y. For
# a sum, both slopes are 1.

# %%
import numpy as np
from engine import Tensor
from lesson import SEED, predict, show

import minigrad as mg


class Number:
    made = 0

    def __init__(self, value, sources=(), slopes=()):
        self.value, self.sources, self.slopes = value, sources, slopes
        self.order = Number.made = Number.made + 1  # sources are always made earlier


def add(x, y):
    return Number(x.value + y.value, (x, y), (1.0, 1.0))


def multiply(x, y):
    return Number(x.value * y.value, (x, y), (y.value, x.value))


x = Number(3.0)
square = multiply(x, x)  # 9
cube = multiply(square, x)  # 27
loss = add(cube, square)  # x³ + x² = 36
print("x³ + x² at 3 is", loss.value, "computed from", [source.value for source in loss.sources])

# %% [markdown]
# ## The walk back
#
# Here x is used three times and x² twice. If you turn x, the loss changes along each of these ways, and the
# changes *add up*. So the engine must do two things:
#
# - **add** what arrives at a number, and
# - **wait** with a number until everything that used it has sent its part.
#
# Walking from the number that was made last to the one made first takes care of the waiting: whatever uses
# a number was made after it.


# %%
def all_before(end):
    """The numbers that `end` was computed from, and itself, the last made first."""
    found, stack = {end}, [end]
    while stack:
        for source in stack.pop().sources:
            if source not in found:
                found.add(source)
                stack.append(source)
    return sorted(found, key=lambda number: -number.order)


def walk_back(end):
    gradients = dict.fromkeys(all_before(end), 0.0)
    gradients[end] = 1.0
    for number in all_before(end):
        for source, slope in zip(number.sources, number.slopes, strict=True):
            gradients[source] += gradients[number] * slope
    return gradients


print("the engine:", walk_back(loss)[x], " school: 3x² + 2x =", 3 * 3.0**2 + 2 * 3.0)
assert walk_back(loss)[x] == 33

# %% [markdown]
# ## Two bugs that raise no error
#
# The first engine writes `=` where `+=` is right. The second does not wait: as soon as a part arrives, it
# sends it on. Try to say what they make of x³ + x², whose slope is 33.


# %%
def overwriting(end):
    gradients = {end: 1.0}
    for number in all_before(end):
        for source, slope in zip(number.sources, number.slopes, strict=True):
            gradients[source] = gradients[number] * slope  # the last part wins
    return gradients


def impatient(end):
    gradients = dict.fromkeys(all_before(end), 0.0)
    gradients[end] = 1.0

    def send(number):
        for source, slope in zip(number.sources, number.slopes, strict=True):
            gradients[source] += gradients[number] * slope
            send(source)  # but more may still arrive at this source

    send(end)
    return gradients


guess = predict("the engine that overwrites: what is its slope of x³ + x² at 3?")
guess.compare(overwriting(loss)[x])
print("the impatient engine:", impatient(loss)[x])
once = multiply(y := Number(2.0), Number(5.0))
print("and 5y, where y is used once:", [walk(once)[y] for walk in (walk_back, overwriting, impatient)])
assert [overwriting(loss)[x], impatient(loss)[x]] == [9, 51]

# %% [markdown]
# If each number is used once, all three agree. A network uses each weight for many examples, so with such
# an engine it would learn, only badly, and nothing would say why. 51 comes about like this: x² first gets 3
# from the cube and sends 3 · 6 = 18 on. Then 1 arrives from the sum, it holds 4, and sends 4 · 6 = 24 on.
# The 3 was sent twice. (The cube sends x another 9: 18 + 24 + 9 = 51.)
#
# ## From numbers to arrays
#
# `demos/lessons/engine.py` is this engine for arrays, in a hundred lines. One thing is new. When a *bias*
# of three numbers is added to four rows of three, NumPy repeats it for each row: it *broadcasts*. Each
# number of the bias is then used four times, so its gradient is the sum over the four rows. **What is
# shared forward is summed backward.**

# %%
rows, bias = Tensor(np.ones((4, 3))), Tensor(np.zeros(3))
(rows + bias).sum().backward()
print("4 rows share a bias. Shape", bias.grad.shape, "gradient", bias.grad)
assert bias.grad.tolist() == [4, 4, 4]

# %% [markdown]
# ## Neurons in two layers learn XOR
#
# XOR is 1 if exactly one of two inputs is 1. One neuron cannot learn it: no straight line separates the two
# answers. The paper's feed-forward network (equation 2) can:
#
# `FFN(x) = max(0, x W₁ + b₁) W₂ + b₂`
#
# Each column of W₁ is a neuron. `max(0, z)`, called *ReLU*, bends its line. We train sixteen such neurons,
# and compare each gradient of our engine with minigrad's.

# %%
X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])  # (4 examples, 2 inputs)
XOR = np.array([[0.0], [1.0], [1.0], [0.0]])  # (4, 1)


def first_weights(hidden=16):
    draw = np.random.default_rng(SEED)
    return [draw.normal(size=(2, hidden)), np.zeros(hidden), draw.normal(size=(hidden, 1)), np.zeros(1)]


def loss_of(weights, inputs, targets=XOR):
    W1, b1, W2, b2 = weights
    predicted = (inputs @ W1 + b1).relu() @ W2 + b2  # (4, 1)
    return ((predicted - targets) ** 2).mean(), predicted


def train(targets, steps=500, rate=0.1):
    weights = [Tensor(array) for array in first_weights()]
    for _ in range(steps):
        loss, predicted = loss_of(weights, Tensor(X), targets)
        for each in weights:
            each.grad = None
        loss.backward()
        for each in weights:
            each.array -= rate * each.grad
    return loss.array, predicted.array[:, 0]


loss, predicted = train(XOR)
print(f"the loss is {loss:.4f}, and the answers are", predicted.round(2) + 0.0)
ours = [Tensor(array) for array in first_weights()]
theirs = [mg.tensor(array, requires_grad=True) for array in first_weights()]
loss_of(ours, Tensor(X))[0].backward()
loss_of(theirs, mg.tensor(X))[0].backward()
gap = max(abs(a.grad - b.grad.numpy()).max() for a, b in zip(ours, theirs, strict=True))
print(f"the largest difference between our gradients and minigrad's: {gap:.0e}")
assert gap < 1e-12

names = ("W1", "b1", "W2", "b2")
small = {
    name: mg.tensor(array, requires_grad=True) for name, array in zip(names, first_weights(2), strict=True)
}
graph = mg.graph.trace(loss_of(small.values(), mg.tensor(X))[0], small, title="FFN, and its loss")
show(graph, "03-xor")

# %% [markdown]
# The picture has the whole network, for two neurons. Read it from the top: each box has the shape of its
# array, and a square with its numbers, orange above 0 and blue below. Each knows the boxes above it and its
# slopes; `backward()` starts at the bottom.
#
# ## A third bug that raises no error
#
# Someone stores the four answers as a row, shape (4,), where the predictions have shape (4, 1). NumPy
# broadcasts: every prediction meets *every* answer, 16 differences in all.

# %%
loss, predicted = train(XOR[:, 0])
print(f"with answers of shape (4,): the loss is {loss:.4f}, and the answers are", predicted.round(2) + 0.0)
assert abs(predicted - 0.5).max() < 0.05

# %% [markdown]
# The loss falls, to 0.25, and stays there: each prediction is pulled towards all four answers, and their
# mean is 0.5. When a loss stops early, print the shapes first.
#
# ## Change one line
#
# In `multiply`, swap the two slopes. What is the slope of x³ + x² then?
#
# <details><summary>Answer</summary>
#
# For x · x nothing changes. For x² · x, the slope of x² becomes 9 where 3 is right, and that of x 3 where 9
# is right. x² gets 9 + 1 = 10, sends 10 · 6 = 60 to x, and x has 63 in all. Only a comparison with a second
# way finds such a slip: lesson 4.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn walk_back`, the loop above from an empty function. Then
# `minitransformer learn unbroadcast`, the sum over shared rows.
#
# ## Summary
#
# - An operation remembers what it was computed from, and a slope for each.
# - The walk back adds what arrives, and waits until everything has arrived.
# - What is shared forward is summed backward.
#
# Next, how to know that a gradient is right: `minitransformer lesson 4`
