# %% [markdown]
# # 8. One attention head
#
# **What may a word look at?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762), sections
# 3.2.1 and 3.2.3)
#
# In lesson 1 you chose the queries and keys. Here they are computed from the words' vectors, for all words
# of a sentence at once. Then we forbid some looks.
#
# ## Three matrices
#
# Let X have a row of d numbers for each of T words. Three learned matrices make of each row a query ("what
# do I look for?"), a key ("what do I offer?") and a value ("what do I hand over?"): `Q = X W_Q`,
# `K = X W_K`, `V = X W_V`. Then all of lesson 1 is one line for all words together. `Q Kᵀ` has T × T
# scores: row i has those of query i, one for each key.

# %%
import math

import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import plots

mg.manual_seed(SEED)
words = ["the", "cat", "sat", "down", "<PAD>"]
T, d, d_k = len(words), 16, 8
X = mg.randn(T, d, dtype="float64")
W_Q, W_K, W_V = mg.randn(3, d, d_k, dtype="float64") / math.sqrt(d / 2)


def attention(q, k, v, mask=0.0):
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (T, d_k) @ (d_k, T) -> (T, T)
    weights = F.softmax(scores + mask, -1)  # each row sums to 1
    return weights @ v, weights


q, k, v = X @ W_Q, X @ W_K, X @ W_V
output, everything = attention(q, k, v)
for name, each in {"X": X, "Q, K, V": q, "weights": everything, "output": output}.items():
    print(f"{name:8} {tuple(each.shape)}")
assert np.allclose(output, F.scaled_dot_product_attention(q, k, v))

# %% [markdown]
# ## Hide the future
#
# A model that writes from left to right predicts each word from those before it. In training it reads the
# whole sentence at once, so each word must be kept from looking to the right. The *causal mask* is added to
# the scores: 0 where a look is allowed, and minus infinity where it is not. Softmax turns minus infinity
# into exactly 0, since e to the power of minus infinity is 0.
#
# ## Hide the padding
#
# Sentences in a batch have different lengths, so short ones are filled up with `<PAD>`. Nobody may look at
# it: the *padding mask* forbids its column. Both masks together are their sum. (In a batch the padding mask
# is (B, 1, 1, T), one for each sentence, and the causal mask (T, T).)

# %%
causal = np.triu(np.full((T, T), -np.inf), 1)  # above the diagonal: the future
padding = np.where(np.array(words) == "<PAD>", -np.inf, 0.0)  # a column
_, unpadded = attention(q, k, v, padding)
_, masked = attention(q, k, v, causal + padding)
panels = {"everything allowed": everything, "padding mask": unpadded, "causal and padding mask": masked}
title = "Attention weights: each row is a word that looks"
show(plots.heat_map(panels, words, words, title, "looked at"), "08-masks")
assert np.allclose(np.triu(masked, 1), 0)
assert np.allclose(masked.sum(-1), 1)

# %% [markdown]
# In the middle, the column of `<PAD>` is empty. (What its own row computes is never used: the loss skips
# it.) Read the right picture row by row. "the" can only look at itself, so its weight is 1.00, whatever its
# score. Each further row has one more word to choose from. All rows still sum to 1: what was forbidden has
# been shared out among the rest.
#
# ## Three ways to leak
#
# Each of these is easily written, and none raises an error.
#
# 1. No mask at all.
# 2. A score of 0 in place of minus infinity.
# 3. Softmax first, then the forbidden weights set to 0.
#
# The test is always the same: change the *last* word and see whether the output of an *earlier* one moves.

# %%
guess = predict("the third. Does the first output move with the last word?", choices=["yes", "no"])
other = X.clone()
other[3] = mg.randn(d, dtype="float64")  # another last word
allowed = mg.tensor(np.isfinite(causal))
masks = {
    "minus infinity": lambda s: F.softmax(s.masked_fill(~allowed, -math.inf), -1),
    "no mask": lambda s: F.softmax(s, -1),
    "0 as a score": lambda s: F.softmax(s.masked_fill(~allowed, 0.0), -1),
    "after softmax": lambda s: F.softmax(s, -1).masked_fill(~allowed, 0.0),
}
moved = {}
for name, weights_of in masks.items():
    first = []
    for x in (X, other):
        weights = weights_of((x @ W_Q) @ (x @ W_K).mT / math.sqrt(d_k))
        first.append((weights @ (x @ W_V))[0])
    moved[name] = abs(first[0] - first[1]).max().item()
    print(f"{name:15} row 1 sums to {weights[0].sum().item():.2f}; output 1 moves by {moved[name]:.2f}")
guess.compare("yes" if moved["after softmax"] > 1e-9 else "no")
assert moved["minus infinity"] == 0 < min(moved["no mask"], moved["0 as a score"], moved["after softmax"])

# %% [markdown]
# A score of 0 is not a weight of 0: e to the power of 0 is 1. And after softmax, each weight has already
# been divided by a sum that contains the future. (Dividing each row by its new sum would repair that.) A
# model with such a leak trains well, and writes badly: in training it has read a little of the answer.
#
# If a mask forbids a whole row, our softmax divides 0 by 0, and the result is NaN. (The library's
# `F.scaled_dot_product_attention` returns zeros.)
#
# ## Why queries and keys have their own matrices
#
# With one matrix for both, q = k, the score of i for j equals that of j for i. Worse, a word's score for
# *itself* is a square, |q|², which is hard to beat. Six random words should each look at their left
# neighbour. We train W_Q and W_K, or one W for both, on the loss -log(weight on the neighbour).

# %%
tokens = mg.randn(6, 8, dtype="float64")
left = mg.tensor(np.roll(np.arange(6), 1))  # the first looks at the last


def learn(shared, steps=300):
    w_q, w_k = (mg.randn(8, 8, dtype="float64").mul(0.3).detach().requires_grad_() for _ in range(2))
    if shared:
        w_k = w_q
    optimizer = optim.Adam([w_q] if shared else [w_q, w_k], lr=0.03)
    for _ in range(steps):
        loss = F.cross_entropy((tokens @ w_q) @ (tokens @ w_k).mT / math.sqrt(8), left)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


two, one = learn(shared=False), learn(shared=True)
print(f"W_Q and W_K: loss {two:.2f}   one matrix: loss {one:.2f}   (log 3 = {math.log(3):.2f})")
assert two < 0.1 < math.log(3) < one

# %% [markdown]
# One matrix stays above log 3, the loss of a choice among three. Scores are symmetric: what a word gains
# for its left neighbour, that one gains for its right neighbour. And q · k is at most the mean of |q|² and
# |k|²: at best, the word itself and both neighbours share equally. Own matrices matter where a look has a
# direction. A translator seems to need few such looks: one matrix does as well
# (`minitransformer claims three-matrices`).
#
# ## Change one line
#
# In `causal`, use `np.triu(..., 0)`: the diagonal is forbidden, too. What does the first row become?
#
# <details><summary>Answer</summary>
#
# The first word may look at nothing, and our `attention` makes its row NaN. Every loss computed from it is
# NaN, too. Off by one is the most common mistake in masks, and here at least it is loud.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn attention`, then `minitransformer learn masks`: both masks for a batch.
#
# ## Summary
#
# - Three matrices make queries, keys and values of the words' vectors.
# - A mask adds minus infinity to the scores, before softmax.
# - Test a mask by changing a later word: no earlier output may move.
#
# Next, many heads: `minitransformer lesson 9`
