# %% [markdown]
# # 7. Where a word stands
#
# **How does a model know the order of the words?** (["Attention Is All You
# Need"](https://arxiv.org/abs/1706.03762), section 3.5)
#
# "The dog bites the man" and "the man bites the dog" have the same words. Attention compares every word
# with every other (lesson 1), and nothing in it says which comes first.
#
# ## Attention sees a set
#
# Here are three random vectors for dog, bites and man, and an attention layer with random weights. We give
# it both sentences.

# %%
import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad import nn, optim
from minitransformer import MultiHeadAttention, plots
from minitransformer.claims.word_before import WordBefore, draw, errors, train
from minitransformer.errors import UserError
from minitransformer.layers.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    positional_encoding,
)

mg.manual_seed(SEED)
random = np.random.default_rng(SEED)
attention = MultiHeadAttention(d_model=8, num_heads=2)
dog, bites, man = mg.randn(3, 8)
dog_bites_man = attention(mg.stack([dog, bites, man])[None])[0]
man_bites_dog = attention(mg.stack([man, bites, dog])[None])[0]
print("dog, as biter: ", dog_bites_man[0, :4].numpy().round(3))
print("dog, as bitten:", man_bites_dog[2, :4].numpy().round(3))
assert np.allclose(dog_bites_man[0], man_bites_dog[2], atol=1e-6)

# %% [markdown]
# The dog that bites and the dog that is bitten are one and the same vector. If the words change places, the
# results change places with them, and nothing else happens: attention is *permutation equivariant*.
#
# ## Add a position to each word
#
# The paper adds a second vector to each word's, one that depends on the place alone. Two numbers make a
# *clock hand*: the sine and the cosine of an angle. A model of width d has d/2 clocks. The first turns by
# one radian a word, and each further clock is slower:
#
# `angle of clock i at position pos = pos / 10000^(2i/d)`
#
# The pair (sin, cos) of clock i stands in columns 2i and 2i + 1.


# %%
def encoding(length, d):
    table = np.zeros((length, d))
    for pos in range(length):
        for i in range(d // 2):
            angle = pos / 10000 ** (2 * i / d)
            table[pos, 2 * i], table[pos, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return table


print("d = 4, positions 0 to 2:\n", encoding(3, 4).round(2), sep="")
assert np.allclose(encoding(100, 64), positional_encoding(100, 64, np.float64))
panels = {"A row for each position": encoding(64, 64)}
show(plots.heat_map(panels, xlabel="column", ylabel="position"), "07-waves")

# %% [markdown]
# In the picture, orange is 1, white 0, and blue -1. Look down a column. On the left the colour changes from
# word to word: the fast clocks, which tell neighbours apart. On the right it hardly changes within 64
# words: slow clocks, whose sine is still near 0 (white) and whose cosine is near 1 (orange). They tell
# early from late. Together the clocks are like the digits of a number: no two rows are alike. The slowest
# needs 2π · 10000^(62/64) = 47,117 words for one turn.
#
# ## Why clocks? A shift is a turn
#
# To look three words away, a model must get from the vector of any position p to that of p + 3. For clock
# hands that is easy: each clock turns by an angle a, wherever it stood. A turn is a matrix,
# `[[cos a, sin a], [-sin a, cos a]]`. Multiply out: `cos a sin p + sin a cos p = sin(p + a)`, and
# `cos a cos p - sin a sin p = cos(p + a)`. The matrix does not contain p, so one matrix shifts all
# positions by three. We let a linear layer find it, from positions below 10,000.

# %%
D, K = 8, 3
table = mg.tensor(positional_encoding(20_000, D, np.float64))
layer = nn.Linear(D, D, bias=False, dtype="float64")
optimizer = optim.SGD(layer.parameters(), lr=0.3)
for _ in range(200):
    pos = mg.randint(0, 10_000, (64,))
    loss = ((layer(table[pos]) - table[pos + K]) ** 2).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
turn = np.array([[np.cos(K), np.sin(K)], [-np.sin(K), np.cos(K)]])  # the first clock
print("learned, first clock:", layer.weight[:2, :2].detach().numpy().round(3).tolist())
print("a turn by 3 radians: ", turn.round(3).tolist())
far = abs(layer(table[15_000:15_100]) - table[15_003:15_103]).max().item()
print(f"at positions near 15,000, which it never saw, it is off by {far:.0e}")
assert far < 0.01

# %% [markdown]
# And the dot product of two encodings is Σ cos((p - q) / 10000^(2i/d)): only the distance counts, and it is
# largest at distance 0. So a query that was turned back by three fits best three words back.
#
# ## Do positions help? Which word came before
#
# The smallest task that needs order: a sentence is 12 of 32 words, shuffled. For each word, name the one
# before it. The model is a single layer of the paper's encoder. It is trained three times: without
# positions, with clocks, and with *learned* positions, a table with a trainable row for each of the 12
# places.

# %%
print("a sentence:", *draw(random, 1, 12)[0])
guess = predict("without positions, any of 11 other words may be the one before. Right in how many of 100?")
kinds = {"none": NoPositions(), "clocks": SinusoidalPositions(32), "learned": LearnedPositions(12, 32)}
models = {name: WordBefore(positions) for name, positions in kinds.items()}
right = {}
for name, model in models.items():
    train(model, random, rate=1e-2, steps=350)
    right[name] = 100 * (1 - errors(model, random, 12).mean())
    print(f"{name:8} {right[name]:5.1f} of 100 right")
guess.compare(right["none"])
assert right["none"] < 15 < 90 < right["clocks"]

# %% [markdown]
# Without positions the model can only guess among the others. (A causal mask gives the order away to two
# layers: `minitransformer claims inherent-order`.) Clocks and learned positions solve the task equally
# well; the paper found "nearly identical results" in translation, too.
#
# ## Longer than trained
#
# The paper hopes that clocks let a model go on to sentences longer than any in training. It has a vector
# for every position, after all. We trained on 12 words; now the sentences have 24.

# %%
with_clocks = 100 * (1 - errors(models["clocks"], random, 24))
known, new = with_clocks[:11].mean(), with_clocks[11:].mean()
print(f"clocks: at positions 2 to 12, {known:.0f} of 100 right; at 13 to 24, {new:.0f}")
try:
    models["learned"](draw(random, 1, 24))
except UserError as error:
    print("learned:", error)
assert known - new > 20

# %% [markdown]
# The table goes on; what was learned from it does not. The layer was fitted to twelve turns of the clocks
# and has never met the later ones. (Measured with more seeds: `minitransformer claims extrapolation`.)
# Learned positions end with the table, and the library says so; that is why BERT has a longest text of 512
# tokens.
#
# Why not simply number the words 1, 2, 3? Large numbers drown the word's own vector:
# `minitransformer claims integer-positions`. And why add instead of putting both side by side? It costs no
# width, and a linear layer can take both apart: `minitransformer claims add-or-concatenate`.
#
# ## Change one line
#
# In `encoding`, write 10 instead of 10000. What is lost?
#
# <details><summary>Answer</summary>
#
# The assertion fails, since this is no longer the paper's table. All clocks are fast then. The cosine of
# two encodings is 0.89 for neighbours, but about 0 five words apart and about 0 fifty words apart: near and
# far look the same. With 10000 it falls slowly, 0.97 for neighbours, 0.73 five words apart, 0.59 twenty.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn positional_encoding`, the table without loops, and
# `minitransformer learn shift_matrix`, the matrix of the turn.
#
# ## Summary
#
# - Attention alone sees a set of words, without order.
# - A position is a set of clock hands, from fast to slow, added to the word.
# - A shift is the same turn everywhere; what is learned from it still ends where training ended.
#
# Next, which words a word may look at: `minitransformer lesson 8`
