# %% [markdown]
# # 1. A word looks at the others
#
# **What does attention compute?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762), section
# 3.2.1)
#
# "The animal ate the food because it was hungry." To understand "it", you look back at "animal". In "...
# because it was fresh", you look at "food". A Transformer looks back with numbers.
#
# ## Every word offers a key
#
# A *key* is a list of numbers with which a word describes itself. Ours has two: how alive the thing is, and
# how edible. A real model learns these numbers (lesson 2).

# %%
import numpy as np
from lesson import predict, show

from minitransformer import plots

words = ["animal", "food", "it"]
keys = np.array([[3.0, 1.0], [0.0, 3.0], [1.0, 1.0]])  # a row for each word: alive, edible
for word, key in zip(words, keys, strict=True):
    print(f"{word:6} alive {key[0]:.0f}, edible {key[1]:.0f}")

# %% [markdown]
# ## One word asks with a query
#
# A *query* says what a word looks for. What is hungry must be alive, so "it" asks with (2, 0): "alive"
# counts twice, "edible" not at all. Three steps:
#
# 1. **Score** each word: multiply query and key number by number, and add. For "animal" that is
#    2 · 3 + 0 · 1 = 6. This is a *dot product*.
# 2. **Divide** by the square root of how many numbers a key has, √2 here (lesson 9 says why).
# 3. **Softmax**: take e to the power of each number, and divide by their sum. These are *shares*: positive,
#    together 1.


# %%
def attend(query):
    scores = keys @ query  # a dot product for each word
    scaled = scores / np.sqrt(2)
    shares = np.exp(scaled) / np.exp(scaled).sum()
    return scores, scaled, shares


hungry = attend(np.array([2.0, 0.0]))
print("word    score  divided by √2   e to that   share")
for word, score, scaled, share in zip(words, *hungry, strict=True):
    print(f"{word:6} {score:6.0f} {scaled:15.2f} {np.exp(scaled):11.2f} {share:7.2f}")

# %% [markdown]
# 69.59 / (69.59 + 1.00 + 4.11) = 0.93: "it" gives 93% of its attention to "animal". Only differences of
# scores count: a number added to all cancels.
#
# ## Turn the query
#
# What is fresh is edible, so in "... because it was fresh" the query is (0, 2).

# %%
guess = predict('which word does "it" look at now?', choices=words)
fresh = attend(np.array([0.0, 2.0]))
guess.compare(words[fresh[2].argmax()])
panels = {"query (2, 0): hungry": hungry[2], "query (0, 2): fresh": fresh[2]}
figure = plots.bars(
    {name: dict(zip(words, shares, strict=True)) for name, shares in panels.items()},
    'What "it" looks at',
    "share of attention",
)
show(figure, "01-shares")
assert hungry[2].argmax() == 0
assert fresh[2].argmax() == 1

# %% [markdown]
# The longest bar moves from "animal" to "food": only the query has changed.
#
# ## What comes out
#
# Each word also has a *value*: what it hands over to those that look at it. The output for "it" is the
# average of all values, weighted by the shares.

# %%
values = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])  # the rows are animal, food, it
print("hungry: it becomes", (hungry[2] @ values).round(2))
print("fresh:  it becomes", (fresh[2] @ values).round(2))
assert np.allclose(hungry[2].sum(), 1)

# %% [markdown]
# "It" becomes mostly what it looks at. That is the paper's equation (1),
# `Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V`: the rows of Q, K and V are queries, keys and values, and
# d_k is how many numbers a key has.
#
# ## Change one line
#
# Make the query ten times as large: (20, 0). What happens to the shares?
#
# <details><summary>Answer</summary>
#
# All differences of scores become ten times as large, and "animal" gets 1.00: attention becomes a lookup of
# one word.
#
# </details>
#
# ## Exercise, with a pencil
#
# What are the three shares for the query (0, 0)?
#
# <details><summary>Answer</summary>
#
# All scores are 0, and e to the power of 0 is 1. Each share is 1/3: who asks for nothing gets the plain
# average.
#
# </details>
#
# ## Summary
#
# - A query scores each key by a dot product.
# - Softmax turns scores into shares that sum to 1.
# - The output is the average of the values, weighted by the shares.
#
# Next, how numbers such as these are learned: `minitransformer lesson 2`
