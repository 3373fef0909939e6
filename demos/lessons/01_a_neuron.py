# %% [markdown]
# # 1. A neuron, by hand and by tape
#
# After this lesson you can compute the gradient of a neuron with a pencil, read the same numbers off a
# recorded computation, and say what a learning rate does.
#
# A neuron multiplies each input by a weight, adds a bias, and bends the sum:
#
# $$z = w_1 x_1 + w_2 x_2 + b, \qquad p = \sigma(z) = \frac{1}{1 + e^{-z}}$$
#
# The sigmoid makes a probability of any number $z$. If the right answer is $t$ (1 for yes, 0 for no),
# the loss is how surprised the neuron is by it: $L = -\log p$ if $t = 1$, and $-\log(1 - p)$ if $t =
# 0$.

# %%
# `lesson` is demos/lessons/lesson.py, which all lessons share: `Settings` are what you can change, `predict`
# asks you for a number, and `check` tests that what the text says holds. To run a lesson, also as a notebook,
# install minigrad and minitransformer from a checkout of the repository (docs/start.md).
import math
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg


@dataclass
class Lesson(Settings):
    rate: float = 1.0
    """The learning rate. Try 0.1, 10 and 100."""
    guess: float | None = None
    """Your prediction: the loss after 40 steps."""


settings = read_settings(Lesson)

# %% [markdown]
# ## Forward, by hand
#
# One input, one answer, three parameters. Everything that follows is about these numbers.

# %%
x1, x2 = 1.0, 2.0
w1, w2, b = 0.5, -0.5, 0.5
t = 1.0

z = w1 * x1 + w2 * x2 + b  # 0.5 - 1 + 0.5 = 0
p = 1 / (1 + math.exp(-z))
loss = -math.log(p)
print(f"z = {z:.4f}, p = {p:.4f}, loss = {loss:.4f}")
check("a neuron that knows nothing says 0.5, and its loss is log 2", math.isclose(loss, math.log(2)))

# %% [markdown]
# ## Backward, by hand
#
# How does the loss change when $w_1$ changes a little? It changes $z$, which changes $p$, which changes
# $L$. The chain rule multiplies the three rates. From the end to the front:
#
# | from | to | derivative |
# |---|---|---|
# | $L = -\log p$ | $p$ | $-1/p$ |
# | $p = \sigma(z)$ | $z$ | $p(1 - p)$ |
# | $z = w_1 x_1 + \dots$ | $w_1$ | $x_1$ |
#
# The first two multiply to $p - 1$, which in general is $p - t$: what the neuron said minus what was
# right.

# %%
dL_dp = -1 / p
dL_dz = dL_dp * p * (1 - p)
by_hand = {"w1": dL_dz * x1, "w2": dL_dz * x2, "b": dL_dz * 1.0}
print(by_hand)
check("the two steps through p give p - t", math.isclose(dL_dz, p - t))

# %% [markdown]
# All three are negative: more of each parameter means less loss. The weight of the larger input has the
# larger gradient, because the input is its factor.
#
# ## Backward, by tape
#
# minigrad records each operation while it computes. `backward()` goes through the record from the last
# operation to the first, and does what you just did.

# %%
names = {"w1": w1, "w2": w2, "b": b}
leaves = {name: mg.tensor(value, dtype="float64", requires_grad=True) for name, value in names.items()}

tape_z = leaves["w1"] * x1 + leaves["w2"] * x2 + leaves["b"]
tape_loss = -tape_z.sigmoid().log()
graph = mg.graph.trace(tape_loss, leaves, title="One neuron")
tape_loss.backward()
by_tape = {name: leaf.grad.item() for name, leaf in leaves.items()}
print(by_tape)
show(graph, "01-neuron", settings)
check("the tape gives the numbers that you computed by hand", by_tape == by_hand)

# %% [markdown]
# In the picture, each box is an operation with its value and the gradient that arrived there. Follow it
# from the loss, at the bottom, up to `w1`: the gradients are your table, multiplied row by row.
#
# ## A third way, which knows no calculus
#
# Change $w_1$ by a tiny step, and see how much the loss changes. That is slow (two evaluations for each
# parameter), but it cannot be wrong in the way a formula can. Lesson 4 makes a tutor of it.

# %%
step = 1e-6


def loss_of(w1, w2, b):
    return -math.log(1 / (1 + math.exp(-(w1 * x1 + w2 * x2 + b))))


measured = (loss_of(w1 + step, w2, b) - loss_of(w1 - step, w2, b)) / (2 * step)
print(f"measured {measured:.8f}, by hand {by_hand['w1']:.8f}")
check("the measured slope agrees to 8 digits", abs(measured - by_hand["w1"]) < 1e-8)

# %% [markdown]
# ## Learning
#
# A step of gradient descent subtracts the gradient times the learning rate. The next step needs a new
# gradient.
#
# `backward()` *adds* to `grad`; lesson 2 says why it must. So before each step the old gradient is
# thrown away: `grad = None` here, `optimizer.zero_grad()` in later lessons. If you forget it, nothing
# fails: the gradients of all steps so far add up. It looks like a learning rate that grows with each
# step: the loss falls, then swings or climbs.

# %%
w = mg.tensor(3.0, requires_grad=True)
arrived = []
for _ in range(3):
    (w * w).backward()  # its gradient is 2 * 3 = 6, each time
    arrived.append(w.grad.item())
print("the gradient of w², three times without `grad = None`:", arrived)
check("without `grad = None` gradients add up over steps", arrived == [6.0, 12.0, 18.0])

# %% [markdown]
# Four examples now: the neuron learns OR. It starts from zero weights, so that it says 0.5 to
# everything, and the mean loss starts at $\log 2 \approx 0.693$. A loss that starts anywhere else is
# the first sign of a mistake. (For a choice among V words it must start at $\log V$; lesson 14 checks
# that.)

# %%
INPUTS = mg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype="float64")
OR = mg.tensor([0.0, 1.0, 1.0, 1.0], dtype="float64")


def train(rate, targets=OR, steps=40, start=(0.0, 0.0, 0.0)):
    """The parameters w1, w2, b and the loss before each step, and after the last."""
    parameters = mg.tensor(start, dtype="float64", requires_grad=True)
    losses = []
    for _ in range(steps + 1):
        p = (INPUTS @ parameters[:2] + parameters[2]).sigmoid()
        p = p.clamp(1e-12, 1 - 1e-12)  # log(0) is infinite
        loss = -(targets * p.log() + (1 - targets) * (1 - p).log()).mean()
        losses.append(loss.item())
        parameters.grad = None  # forget the last step's
        loss.backward()
        with mg.no_grad():
            parameters -= rate * parameters.grad
    return parameters.numpy(), losses


guess = predict(
    f"it starts at 0.693. With a learning rate of {settings.rate:g}, what is the loss after 40 steps?",
    settings.guess,
)
learned, losses = train(settings.rate)
guess.compare(losses[-1])
check("the loss of a neuron that knows nothing is log 2", math.isclose(losses[0], math.log(2)))


# %%
def picture(rate):
    """The loss at each step for several rates, and the line on which the neuron says 0.5."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for each in sorted({0.1, rate, 10.0}):
        left.plot(train(each)[1], label=f"rate {each:g}", lw=3 if each == rate else 1)
    left.axhline(math.log(2), color="grey", ls=":", label="log 2: knows nothing")
    left.set(xlabel="step", ylabel="mean loss", ylim=(0, 0.8))
    left.legend()
    w1, w2, b = train(rate)[0]
    right.scatter(*INPUTS.numpy().T, c=OR.numpy(), cmap="coolwarm", s=90, edgecolor="black")
    line = np.linspace(-0.5, 1.5, 2)
    right.plot(line, -(w1 * line + b) / w2, "k--")
    right.set(
        title="dashed: the neuron says 0.5",
        xlabel="$x_1$",
        ylabel="$x_2$",
        xlim=(-0.5, 1.5),
        ylim=(-0.5, 1.5),
    )
    show(figure, "01-learning", settings)


control(picture, settings, rate=(0.05, 20.0))
if settings.rate == 1.0:
    check(
        "after 40 steps it answers all four right",
        losses[-1] < 0.35 and ((INPUTS.numpy() @ learned[:2] + learned[2] > 0) == OR.numpy()).all(),
    )

# %% [markdown]
# ## Where you will meet it again
#
# "Attention Is All You Need", section 3.3, equation 2:
#
# > FFN(x) = max(0, xW₁ + b₁)W₂ + b₂
#
# Each column of W₁, with its number in b₁, is one neuron: it multiplies, adds a bias, and bends. It
# bends with max(0, z), the ReLU, where ours bends with the sigmoid.
#
# ## What goes wrong: a dead neuron
#
# A ReLU has slope 0 where $z < 0$. A neuron whose $z$ is negative for *all* inputs gets no gradient, so
# it never changes, so it stays dead. Here is one: its bias starts at -10. Without the ReLU, that
# start learns. (The loss is the squared error, as $p$ may be above 1.)

# %%
bad_start = (1.0, 1.0, -10.0)


def fit(bend, steps=40):
    """The parameters and squared errors of a neuron that begins at the bad start."""
    parameters = mg.tensor(bad_start, dtype="float64", requires_grad=True)
    losses = []
    for _ in range(steps + 1):
        loss = ((bend(INPUTS @ parameters[:2] + parameters[2]) - OR) ** 2).mean()
        losses.append(loss.item())
        parameters.grad = None
        loss.backward()
        with mg.no_grad():
            parameters -= 0.1 * parameters.grad
    return parameters.numpy(), losses


dead, dead_losses = fit(mg.relu)
_, straight_losses = fit(lambda z: z)
print(f"with ReLU: loss {dead_losses[0]:.2f} at the start, {dead_losses[-1]:.2f} after 40 steps")
print(f"without:   loss {straight_losses[0]:.2f} at the start, {straight_losses[-1]:.2f} after 40 steps")
check("a dead neuron does not change at all", np.array_equal(dead, bad_start))
check("without the ReLU, the same start learns", straight_losses[-1] < straight_losses[0] / 10)

# %% [markdown]
# ## What one neuron cannot do
#
# XOR is 1 if exactly one input is 1. No straight line separates its four points, so no learning rate
# helps. The best that the neuron can do is to know nothing. Two layers of neurons can: lesson 2 trains
# them, on your own engine.

# %%
XOR = mg.tensor([0.0, 1.0, 1.0, 0.0], dtype="float64")
_, xor_losses = train(settings.rate, XOR, start=mg.randn(3, dtype="float64").numpy() * 0.1, steps=400)
print(f"XOR: the loss after 400 steps is {xor_losses[-1]:.4f}; log 2 is {math.log(2):.4f}")
if settings.rate <= 2:
    check("on XOR the loss stays at log 2", abs(xor_losses[-1] - math.log(2)) < 1e-3)

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 1`: the gradients of a product, the rule that this whole lesson rests on.
# 2. By hand: with $t = 0$ instead of 1, what are the three gradients at the same parameters? Predict
#    their signs first. Then change `t` (and the loss) above.
#
# ## Read next
#
# - `minigrad/core/arithmetic.py`, `multiply`: the value, and one gradient for each factor.
# - `minigrad/core/backward.py`, `walk_back`: the loop that you did by hand.
# - Next lesson: `demos/lessons/02_an_engine.py`
