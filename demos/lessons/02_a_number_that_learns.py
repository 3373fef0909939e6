# %% [markdown]
# # 2. A number that learns
#
# **How does a computer know which way to turn a number?** (["Attention Is All You
# Need"](https://arxiv.org/abs/1706.03762) trains 65 million numbers, section 5.3. We begin with three.)
#
# Think of a model as a box with dials. For each example it gives an answer, and a *loss* says how bad the
# answer is. Learning means to turn every dial a little so that the loss falls. The only question is which
# way.
#
# ## The smallest model: a neuron
#
# A *neuron* multiplies each input by a number of its own, its *weight*, and adds one more number, the
# *bias*:
#
# `z = w1 x1 + w2 x2 + b`
#
# The *sigmoid*, `p = 1 / (1 + e^-z)`, turns any z into a probability between 0 and 1. Here the right answer
# is yes. The loss is `-log p`. It is 0 if the neuron is sure of yes, and grows as yes seems less probable.

# %%
import math

from lesson import predict, show

import minigrad as mg

x1, x2 = 1.0, 2.0  # the inputs
w1, w2, b = 0.5, -0.5, 0.5  # the three dials


def loss_of(w1, w2, b):
    z = w1 * x1 + w2 * x2 + b
    p = 1 / (1 + math.exp(-z))
    return -math.log(p)


print("z = 0.5 · 1 - 0.5 · 2 + 0.5 =", w1 * x1 + w2 * x2 + b)
print("p = 1 / (1 + e^-0) = 0.5, so the loss is -log 0.5 =", round(loss_of(w1, w2, b), 4))

# %% [markdown]
# ## First way: try it
#
# Turn one dial up by 0.001 and look at the loss. The change of the loss, divided by 0.001, is a *slope*:
# how much the loss changes for each unit of turning. All slopes together are called the *gradient*.

# %%
h = 0.001
slopes = {
    "w1": (loss_of(w1 + h, w2, b) - loss_of(w1, w2, b)) / h,
    "w2": (loss_of(w1, w2 + h, b) - loss_of(w1, w2, b)) / h,
    "b": (loss_of(w1, w2, b + h) - loss_of(w1, w2, b)) / h,
}
print("tried: ", {name: round(slope, 3) for name, slope in slopes.items()})

# %% [markdown]
# All three are negative: turn any dial *up* and the loss falls. w2 has the largest slope because its input
# is the largest: x2 = 2 passes each turn of w2 on twice.
#
# This way always works, but it computes the loss once more for each dial. With 65 million dials, one turn
# of all of them would take 65 million losses.
#
# ## Second way: the chain rule
#
# Turning w1 by 1 turns z by x1. Turning z by 1 turns p by p (1 - p). Turning p by 1 turns the loss by -1/p.
# So turning w1 turns the loss by the *product* of the three rates. That is the *chain rule*:
#
# | from the loss back to | rate | here |
# |---|---|---|
# | p | -1 / p | -2 |
# | z | times p (1 - p) | -2 · 0.25 = -0.5 |
# | w1 | times x1 | -0.5 · 1 = -0.5 |
# | w2 | times x2 | -0.5 · 2 = -1 |
# | b | times 1 | -0.5 |
#
# One walk from the loss back to the dials gives all slopes at once. A library such as minigrad records each
# operation while it computes, and `backward()` takes this walk.

# %%
dials = {name: mg.tensor(value, requires_grad=True) for name, value in (("w1", w1), ("w2", w2), ("b", b))}
z = dials["w1"] * x1 + dials["w2"] * x2 + dials["b"]
loss = -z.sigmoid().log()
graph = mg.graph.trace(loss, dials, title="One neuron")
loss.backward()
show(graph, "02-neuron")
gradient = {name: dial.grad.item() for name, dial in dials.items()}
print("walked:", gradient)
assert gradient == {"w1": -0.5, "w2": -1.0, "b": -0.5}
assert all(abs(slopes[name] - gradient[name]) < 0.001 for name in dials)

# %% [markdown]
# In the picture, each box is an operation with its value. Below the value stands the gradient that arrived
# there. Follow it from the loss to w2 and you read the table above.
#
# ## Turn, and turn again
#
# One step of learning subtracts the gradient times a *learning rate* from each dial. If a slope is
# negative, its dial goes up. Then the gradient is computed anew, because the slopes have changed.
#
# The task: four examples, and the answer is yes if any input is 1 (OR). All dials start at 0, so the neuron
# says 0.5 to everything, with a loss of log 2 = 0.693. A neuron that knows nothing starts there.

# %%
inputs = mg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype="float64")
answers = mg.tensor([0.0, 1.0, 1.0, 1.0], dtype="float64")


def train(rate, steps=40):
    """The mean loss before each step, and after the last."""
    dials = mg.zeros(3, dtype="float64", requires_grad=True)  # w1, w2, b
    losses = []
    for _ in range(steps + 1):
        p = (inputs @ dials[:2] + dials[2]).sigmoid().clamp(1e-12, 1 - 1e-12)  # log 0 is infinite
        loss = -(answers * p.log() + (1 - answers) * (1 - p).log()).mean()
        losses.append(loss.item())
        dials.grad = None  # forget the last step's gradient
        loss.backward()
        with mg.no_grad():
            dials -= rate * dials.grad
    return losses


losses = {rate: train(rate) for rate in (0.1, 1.0, 10.0)}
for rate, each in losses.items():
    print(f"rate {rate:4}: loss", *(f"{each[step]:.3f}" for step in (0, 1, 2, 10, 40)), "(steps 0 1 2 10 40)")
guess = predict("with rate 100, is the loss after one step higher than at the start?", choices=["yes", "no"])
losses[100.0] = train(100.0)
guess.compare("yes" if losses[100.0][1] > losses[100.0][0] else "no")
print("rate  100: loss", *(f"{losses[100.0][step]:.3f}" for step in (0, 1, 2, 10, 40)))
assert losses[0.1][40] > losses[1.0][40] > losses[10.0][40]

# %% [markdown]
# A slope is true only near the place where it was measured. A small step goes downhill, if slowly. A large
# one overshoots: with rate 100 the first step makes the loss ten times as high, before it finds its way
# back. Choosing the rate is the first thing to try when a model does not learn.
#
# ## Change one line
#
# Remove `dials.grad = None`. `backward()` *adds* to the gradient. What will the loss do with rate 1?
#
# <details><summary>Answer</summary>
#
# No error is raised. The gradients of all steps pile up, as if the rate grew with each step. On this easy
# task it even looks better: with rate 1 the loss falls to 0.000. With rate 10 it already rises on the way,
# and in a larger model it swings or climbs. In PyTorch, the line is `optimizer.zero_grad()`.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn multiply` writes a file in which you write the two slopes of a product. A tutor
# checks them.
#
# ## Summary
#
# - The gradient says for each number how the loss changes when it is turned.
# - The chain rule multiplies slopes on the way back, and finds all of them in one walk.
# - Learning subtracts the gradient times a learning rate, again and again.
#
# Next, the library that walks back, written by you: `minitransformer lesson 3`
