# %% [markdown]
# # 9. Many heads, and their size
#
# **Why eight small heads instead of a large one, and why divide by √d_k?** (["Attention Is All You
# Need"](https://arxiv.org/abs/1706.03762), sections 3.2.1 and 3.2.2)
#
# ## Split, attend, put together
#
# A head returns an average (lesson 1). If a word needs two others, their average does not say which was
# which. So the paper cuts each query, key and value into h pieces of d_k = d / h numbers. Each piece is a
# *head*, which attends on its own. The results are put side by side again, and a last matrix, W_O, mixes
# them.

# %%
import math

import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import MultiHeadAttention, ablate_heads, plots, record_attention, score_heads
from minitransformer.claims.three_relations import LETTERS, NAMES, OneLayer, errors, held_out, train_layer

mg.manual_seed(SEED)


def split(x, h):
    """(T, d) -> (h, T, d_k): head 1 takes the first d_k numbers of each word, and so on."""
    T, d = x.shape
    return x.reshape(T, h, d // h).transpose(0, 1)


T, d, h = 5, 8, 2
library = MultiHeadAttention(d, h, bias=False)
W_Q, W_K, W_V = (w.T for w in library.in_proj_weight.chunk(3))
x = mg.randn(T, d)
q, k, v = (split(x @ w, h) for w in (W_Q, W_K, W_V))  # (h, T, d_k) each
heads = F.softmax(q @ k.mT / math.sqrt(d // h), -1) @ v  # all heads at once
output = heads.transpose(0, 1).reshape(T, d) @ library.out_proj.weight.T
print("x", tuple(x.shape), " q, heads", tuple(q.shape), " output", tuple(output.shape))
assert np.allclose(output, library(x[None])[0], atol=1e-6)

# %% [markdown]
# The `transpose` in `split` matters. `x.reshape(h, T, d_k)` has the right shape, but then head 1
# gets the first half of the *words* instead of the first half of each word's numbers.
#
# Heads cost no weights or multiplications: for any h, the four matrices have 4 d² weights, and the scores
# take h · T² · d_k = T² d multiplications. What grows is the number of softmaxes, and of attention weights
# to store (lesson 15).
#
# ## A task with three relations
#
# A sentence has six letters, each twice, and a full stop, in any order. Each token has one of 8 colours.
# For every token the model must name three: the colour of the *previous* token, of the *same letter*
# elsewhere, and of the *full stop*. A single attention layer must do it, with one head of 48 numbers or
# with four of 12.

# %%
letters, colours = held_out(SEED)
pairs = zip(LETTERS[letters[0]], colours[0], strict=True)
print("a sentence:", " ".join(f"{letter}{colour}" for letter, colour in pairs))


def told(numbers):
    return ", ".join(f"{name} {100 * number:.0f}%" for name, number in zip(NAMES, numbers, strict=True))


guess = predict("one head. How many of the three relations will it learn?")
models, right = {}, {}
for h in (1, 4):
    mg.manual_seed(SEED)
    models[h] = train_layer(OneLayer(48, MultiHeadAttention(48, h)), 0.004, 500, SEED)
    right[h] = 1 - errors(models[h], letters, colours)
    print(f"{h} x {48 // h:2}: right: {told(right[h])}")
guess.compare((right[1] > 0.9).sum())
assert right[4].min() > 0.9 > 0.6 > right[1].min()

# %% [markdown]
# Guessing a colour is right in 12%. With as many weights, one head learns one relation, at times two, never
# three: it can look at one mixture of places only. (In translation four heads gain little:
# `minitransformer claims many-heads`.)
#
# ## What each head has learned
#
# `score_heads` says which part of a head's attention goes where each relation points. `ablate_heads` takes
# heads away.

# %%
with mg.no_grad(), record_attention(models[4]) as maps:
    models[4](letters, colours)
scores = score_heads(maps, LETTERS[letters].tolist())
shares = np.stack([scores.of(name) for name in NAMES], -1)  # (4 heads, 3 relations)
for head, row in enumerate(shares, 1):
    print(f"head {head} looks at: {told(row)}")
with ablate_heads(models[4], {"self_attention": np.flatnonzero(shares.argmax(1) == 0).tolist()}):
    without = 1 - errors(models[4], letters, colours)
print(f"without the heads of the previous token, right: {told(without)}")
assert without[0] < 0.5 < without[1:].min()

# %% [markdown]
# Nobody assigned these jobs. Each relation got a head of its own, which lowers the loss; head 2 is a spare
# in our run. Shares sum past 100%, as the previous token can be the full stop. In translation heads
# specialise far less (`minitransformer claims heads-specialise`).
#
# ## How large is a score?
#
# Let all numbers of q and k be independent, with mean 0 and variance 1. (The *variance* is the mean square
# of the distance from the mean.) A product of two of them has variance 1 again, and variances of
# independent numbers add up. So q · k, a sum of d_k products, has variance **d_k**, and its typical size is
# √d_k. Divided by that, the variance is 1.

# %%
for d_k in (4, 64, 512):
    q, k = mg.randn(2, 5000, d_k)
    dots = (q * k).sum(-1)
    divided = dots / d_k**0.5
    print(f"d_k = {d_k:3}: variance {dots.var().item():6.1f}, divided by √d_k {divided.var().item():.2f}")
row = mg.randn(5)
for factor in (1, 8, 512**0.5):
    print(f"softmax of five scores, times {factor:4.1f}:", F.softmax(row * factor, -1).numpy().round(2))

# %% [markdown]
# ## What softmax makes of it
#
# With d_k = 512, two scores differ by some 30 (variance 2 · 512). Softmax turns that into a ratio of e^30,
# a 1 with 13 zeros: one word gets everything. And where softmax has decided, its gradient (lesson 5:
# `y (g - sum(g y))`, where g arrives at y) is almost 0, because each share is nearly 0 or 1. We measure it
# at 500 queries.


# %%
def query_gradients(d_k, scale):
    """The size of the gradient of 500 random queries, each with 10 random keys."""
    mg.manual_seed(SEED)
    q = mg.randn(500, 1, d_k, dtype="float64").requires_grad_()
    k, v = mg.randn(500, 10, d_k, dtype="float64"), mg.randn(500, 10, 8, dtype="float64")
    weights = F.softmax(q @ k.mT * scale, -1)
    (weights @ v).backward(mg.randn(500, 1, 8, dtype="float64"))
    return np.linalg.norm(q.grad.numpy()[:, 0], axis=-1), weights.max(-1)[0].mean().item()


typical = {}
for d_k in (4, 64, 512):
    for name, scale in (("divided", d_k**-0.5), ("undivided", 1.0)):
        sizes, largest = query_gradients(d_k, scale)
        typical[f"{d_k}, {name}"] = np.median(sizes)
        print(
            f"d_k = {d_k:3}, {name:9}: the largest of 10 shares {largest:.2f}, gradient of a typical query "
            f"{np.median(sizes):.4f}, of the top 1% {np.quantile(sizes, 0.99):.1f}"
        )
assert typical["512, undivided"] < typical["512, divided"] / 10
worst = {f"{h} head{'s' * (h > 1)}": 100 * part.min() for h, part in right.items()}
panels = {"worst of three relations, % right": worst, "gradient of a typical query, by d_k": typical}
show(plots.bars(panels), "09-heads")

# %% [markdown]
# Left: one head fails, four do not. Right: divided, the typical gradient hardly depends on d_k. Undivided,
# it is larger at 4 and 64, for lack of the factor 1/√d_k, and nearly gone at 512. A few queries, in which
# two keys are level, get gradients far *too large* instead. One learning rate cannot serve both.
#
# The same factor could be put into W_Q, so the division changes nothing that can be learned: only where
# training starts, and how far each step goes. (How much it matters for a translator:
# `minitransformer claims sqrt-dk`.)
#
# ## Change one line
#
# Train with 48 heads of one number each: `for h in (1, 4, 48)`. Better or worse than four?
#
# <details><summary>Answer</summary>
#
# Worse on the previous token: with d_k = 1 a score is a product of two numbers, so only the largest or the
# smallest key can win, never one in between. Too many heads hurt, as in the paper's table 3, rows (A).
#
# </details>
#
# ## Exercise
#
# `minitransformer learn attention_gradient` and `minitransformer learn split_heads`.
#
# ## Summary
#
# - Heads split the width: several looks at once, with the weights of one.
# - A dot product of d_k numbers has variance d_k.
# - Undivided, with a large d_k, softmax decides before it has learned, and its gradient vanishes.
#
# Next, why deep stacks train at all: `minitransformer lesson 10`
