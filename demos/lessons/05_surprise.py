# %% [markdown]
# # 5. Surprise
#
# **What does a model minimise?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762), sections
# 3.4 and 5.4)
#
# A language model gives each word of its vocabulary a *score*: how well it would fit next. Training needs
# one number that says how bad the scores were, once the right word is known. That number is surprise.
#
# ## From scores to probabilities
#
# Softmax, known from lesson 1, makes probabilities of scores: `pᵢ = e^sᵢ / (e^s₁ + e^s₂ + ...)`. The
# exponential makes them positive, the division makes them sum to 1. Here are scores after "I drink".

# %%
import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad.nn import functional as F
from minigrad.ops import differentiable
from minitransformer import plots

mg.manual_seed(SEED)
words = ["tea", "coffee", "water", "soup", "the", "car"]
scores = np.array([2.5, 2.0, 1.0, 0.5, -1.0, -3.0])


def softmax(scores):
    e = np.exp(scores)
    return e / e.sum(-1, keepdims=True)


p = softmax(scores)
for word, score, probability in zip(words, scores, p, strict=True):
    print(f"{word:7} score {score:4.1f}   probability {probability:.3f}")

# %% [markdown]
# ## Surprise is -log p
#
# The loss is minus the logarithm of the probability that the *right* word got. A certain word (p = 1) does
# not surprise: -log 1 = 0. Each halving of p adds the same amount, log 2 = 0.69. Surprises add up: two
# words with p₁ and p₂ have together the probability p₁ p₂, and -log(p₁ p₂) = -log p₁ - log p₂. This loss is
# called *cross-entropy*, and its mean over all words is what a Transformer minimises.

# %%
panels = {"probability": p, "loss if it is right": -np.log(p)}
panels = {name: dict(zip(words, numbers, strict=True)) for name, numbers in panels.items()}
figure = plots.bars(panels, 'The next word after "I drink"')
show(figure, "05-surprise")

# %% [markdown]
# Compare the two panels: a word with a short bar on the left has a long one on the right. If the text goes
# on with "tea", the loss is 0.69. With "car" it is 6.19.
#
# ## What a guesser pays
#
# A model that knows nothing gives each of V words the probability 1/V. Its loss is -log(1/V) = log V,
# whatever the right word. So you know where training must start. The paper's vocabulary has about 37,000
# entries.

# %%
guess = predict("the loss of a guesser among 6 words is log 6 = 1.79. Among 37,000 it is?")
guess.compare(np.log(37_000))
zeros = F.cross_entropy(mg.zeros(1, 37_000, dtype="float64"), [5]).item()
print(f"equal scores for 37,000 words have the loss {zeros:.2f}")
assert np.isclose(zeros, np.log(37_000))

# %% [markdown]
# Read the other way round, e to the power of the loss says among how many words the model hesitates. It is
# called *perplexity*: 37,000 for the guesser, e^0.69 = 2.0 for "tea".
#
# ## Only differences count
#
# Add 1000 to each score. In the softmax, e^1000 appears above and below the line and cancels. But the
# computer has no number as large as e^1000. Subtract the largest score first: it changes nothing, and the
# largest exponential is then e^0 = 1.

# %%
with np.errstate(all="ignore"):
    print("scores + 1000, as the formula says:", softmax(scores + 1000))
shifted = scores + 1000
print("the largest subtracted first:      ", softmax(shifted - shifted.max()).round(3))

# %% [markdown]
# Adding keeps the differences; dividing changes them. Scores can be divided by a number T, the
# *temperature*: small T sharpens the choice, large T flattens it. Lesson 13 writes texts with it.

# %%
for temperature in (0.1, 1.0, 10.0):
    print(f"T = {temperature:4}:", softmax(scores / temperature).round(3))

# %% [markdown]
# ## What the loss tells the scores
#
# The gradient of the loss for the scores is as simple as it could be: **what the model said minus what was
# right**, `p - t`. Here t is 1 for the right word and 0 elsewhere. A wrong word is pushed down by its
# probability, and the right one up by what it lacks to 1.
#
# Why? The loss is log(e^s₁ + e^s₂ + ...) - s_right. The slope of the first part for sᵢ is e^sᵢ divided by
# the sum, which is softmax again. The second part gives -1 for the right word.

# %%
s = mg.tensor(scores[None], requires_grad=True)  # (1 position, 6 words)
F.cross_entropy(s, [1]).backward()  # coffee was right
target = np.array([0, 1, 0, 0, 0, 0])
print("gradient:", s.grad.numpy()[0].round(3))
print("p - t:   ", (p - target).round(3))
assert np.allclose(s.grad.numpy()[0], p - target)

# %% [markdown]
# The gradient sums to 0: what the right word gains is taken from the others.
#
# Inside attention, softmax stands without a logarithm, and needs a gradient of its own. Let y be the shares
# and g what arrives at them. Since log yᵢ = sᵢ - log(e^s₁ + e^s₂ + ...), the slope of log yᵢ for sⱼ is 1 -
# yⱼ if i = j, and -yⱼ if not. Times yᵢ, that is the slope of yᵢ. Weighted with g and added up, it becomes
# `yⱼ gⱼ - yⱼ Σ gᵢ yᵢ`, or `y (g - sum(g y))`. A common slip is to write `g y`, as if the sum below the line
# were a constant. The check of lesson 4 sees it.


# %%
@differentiable
def wrong_softmax(x, /):
    e = np.exp(x - x.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    return y, (lambda g: g * y,)


rows = mg.randn(3, 6, dtype="float64", requires_grad=True)
report = mg.gradcheck(wrong_softmax, [rows], raise_exception=False)
print("verdict on g y:", report.verdict)
assert not report

# %% [markdown]
# ## Why not squared errors?
#
# Suppose that a model is sure of a wrong word: score 10, all others 0. With the loss ½ Σ (p - t)², g is p -
# t, and of softmax's gradient p (g - sum(g p)) almost nothing is left: the right word's p is nearly 0, and
# the wrong word's g nearly equals the sum.

# %%
sure = np.array([10.0, 0, 0, 0, 0, 0])
said, t = softmax(sure), np.array([0, 1, 0, 0, 0, 0])
g = said - t
for name, gradient in (("cross-entropy", g), ("squared error", said * (g - (g * said).sum()))):
    print(f"{name}: the right word is pushed up by {-gradient[1]:.5f}")
assert -g[1] > 1000 * -(said * (g - (g * said).sum()))[1]

# %% [markdown]
# The surer the mistake, the less a squared error corrects it. Cross-entropy pushes hardest there.
#
# ## A target that is not quite sure
#
# To reach p = 1, a score would have to grow without end. The paper trains with *label smoothing* (section
# 5.4): the right word keeps 0.9, and the last 0.1 is spread evenly over all V words, so t is 0.9 + 0.1 / V
# for the right one. The loss is then -Σ tᵢ log pᵢ: the surprise of each word, weighted by how much it is
# wanted. The gradient is still p - t, and it is 0 at finite scores. The loss can no longer reach 0.

# %%
wanted = 0.9 * t + 0.1 / len(words)
print("wanted:", wanted.round(3))
print(f"the right score ends {np.log(wanted[1] / wanted[0]):.2f} above the others,", end=" ")
print(f"with a loss of {-(wanted * np.log(wanted)).sum():.2f}")

# %% [markdown]
# ## Change one line
#
# Make the score of "tea" 5.0. What happens to the probability of "car", whose score you did not touch?
#
# <details><summary>Answer</summary>
#
# It falls from 0.0020 to 0.0003: all probabilities share one sum. So a loss on one word trains the scores
# of all words.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn softmax` and `minitransformer learn cross_entropy`: the two gradients, from an
# empty function.
#
# ## Summary
#
# - The loss is -log of the probability that the right word got: the surprise.
# - A model that knows nothing has the loss log V.
# - The gradient for the scores is what was said minus what was right.
#
# Next, what a word is to a model: `minitransformer lesson 6`
