# %% [markdown]
# # 7. Positions: waves that tell where a word is
#
# After this lesson you can compute a sinusoidal encoding by hand, derive why a shift of it is a
# rotation, and say what a model does without positions, and beyond those that it was trained on.
#
# A recurrent network reads words in order. Attention reads all of them at once, and has no order.
#
# "Attention Is All You Need", section 3.5:
#
# > Since our model contains no recurrence and no convolution, in order for the model to make use of the
# > order of the sequence, we must inject some information about the relative or absolute position of
# > the tokens in the sequence.

# %%
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import nn, optim
from minitransformer import MultiHeadAttention, plots
from minitransformer.claims.experiments.integer_positions import Integers
from minitransformer.claims.word_before import WordBefore, draw, errors, train
from minitransformer.errors import UserError
from minitransformer.layers.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    positional_encoding,
)
from minitransformer.models.presets import preset
from minitransformer.plots.style import colour_map


@dataclass
class Lesson(Settings):
    shift: int = 3
    """The k of PE(pos + k). Try 1, 20 and 63."""
    guess: float | None = None
    """Your prediction: the accuracy without positions, between 0 and 1."""


settings = read_settings(Lesson)

# %% [markdown]
# ## What does attention know of order? Dog bites man
#
# All that we need of attention here (lesson 8 explains it): from each word's vector, three matrices
# make a *query*, a *key* and a *value*, the rows of $Q$, $K$ and $V$. Query times key is a score,
# softmax makes weights of a row of scores, and the result is the weighted average of the values. A
# layer has several such *heads*, side by side.

# %%
attention = MultiHeadAttention(d_model=8, num_heads=2).double()
dog, bites, man = mg.randn(3, 8, dtype="float64")
sentence = mg.stack([dog, bites, man])[None]  # (1 sentence, 3 words, 8)
print("attention makes of", tuple(sentence.shape), "the shape", tuple(attention(sentence).shape))

# %% [markdown]
# Suppose that the words change places. Each query, key and value is made from one word's vector, so it
# stays as it was. Each output is a weighted average over all words, and a sum does not depend on the order
# of its terms. So the same outputs come out, in the new order: attention is *permutation equivariant*.

# %%
dog_bites_man = attention(sentence)[0]  # (3, 8)
man_bites_dog = attention(mg.stack([man, bites, dog])[None])[0]

print("dog, as biter: ", dog_bites_man[0, :4].numpy().round(3))
print("dog, as bitten:", man_bites_dog[2, :4].numpy().round(3))
check(
    "without positions the dog that bites and the dog that is bitten are one vector",
    mg.allclose(dog_bites_man, man_bites_dog[[2, 1, 0]]),
)

# %% [markdown]
# ## How are waves computed?
#
# The paper adds a vector to each word's, which depends on the position alone:
#
# $$PE_{(pos, 2i)} = \sin(pos / 10000^{2i/d}), \qquad PE_{(pos, 2i+1)} = \cos(pos / 10000^{2i/d})$$
#
# Each pair of dimensions is the hand of a clock, and each clock is slower than the one before. Here it
# is as a loop, the way "Explain step by step ... with test data" writes it. The library computes the
# same with arrays.


# %%
def waves(length, d):
    pe = np.zeros((length, d))
    for pos in range(length):
        for i in range(0, d, 2):
            angle = pos / 10000 ** (i / d)
            pe[pos, i] = np.sin(angle)
            pe[pos, i + 1] = np.cos(angle)
    return pe


print(waves(3, 4).round(3))
check(
    "the loop gives the library's table", np.allclose(waves(100, 64), positional_encoding(100, 64, "float64"))
)
show(plots.positional_encoding(64, 64), "07-waves", settings)

# %% [markdown]
# In the picture, a row of the left panel is the vector of a position. Fast waves are on the left of it,
# slow ones on the right.
#
# The three vectors above are those of the document "Transformer Network". Two comments in "Explain step
# by step ..." need a correction. It prints `PE[1, :4]` of a table with $d = 512$ as 0.84, 0.54, 0.01,
# 1.0, but those are the numbers for $d = 4$. And its list of wavelengths goes on to a third pair, which
# $d = 4$ does not have.


# %%
def wavelengths(d):
    return 2 * np.pi * 10000 ** (np.arange(0, d, 2) / d)


print("PE[1, :4] for d = 4:  ", positional_encoding(2, 4)[1].round(2))
print("PE[1, :4] for d = 512:", positional_encoding(2, 512)[1, :4].round(2))
print("wavelengths for d = 4:  ", wavelengths(4).round(1), "= 2 pi and 200 pi")
print(f"the longest for d = 512: {wavelengths(512)[-1]:.0f}; 20000 pi = {2e4 * np.pi:.0f}")
check(
    "with d = 512 the third number of position 1 is 0.82, not 0.01", abs(waves(2, 512)[1, 2] - 0.82) < 0.005
)
check("the longest wave stays below 20000 pi", 0.95 < wavelengths(512)[-1] / (2e4 * np.pi) < 1)

# %% [markdown]
# ## Why waves? A shift is a rotation
#
# The paper says in the same section why it chose waves:
#
# > We chose this function because we hypothesized it would allow the model to easily learn to attend by
# > relative positions, since for any fixed offset k, PE_{pos+k} can be represented as a linear function
# > of PE_{pos}.
#
# Take one pair, with $\omega = 10000^{-2i/d}$. The angle-addition formulas give
#
# $$\begin{pmatrix} \sin \omega(pos + k) \\ \cos \omega(pos + k) \end{pmatrix} =
# \begin{pmatrix} \cos \omega k & \sin \omega k \\ -\sin \omega k & \cos \omega k \end{pmatrix}
# \begin{pmatrix} \sin \omega\, pos \\ \cos \omega\, pos \end{pmatrix}$$
#
# The matrix contains $k$, but not $pos$. It turns the hand of the clock by $\omega k$. Can a linear
# layer learn it from examples?

# %%
D = 8
TABLE = mg.tensor(positional_encoding(200_000, D, "float64"))


def learn_shift(k, steps=200):
    """A matrix M with PE(pos + k) = M PE(pos), learned from positions below 10,000."""
    layer = nn.Linear(D, D, bias=False, dtype="float64")
    optimizer = optim.SGD(layer.parameters(), lr=0.3)
    for _ in range(steps):
        pos = mg.randint(0, 10_000, (64,))
        loss = ((layer(TABLE[pos]) - TABLE[pos + k]) ** 2).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return layer.weight.detach().numpy()


def rotation(k):
    """The matrix of the derivation: one 2 x 2 block for each pair."""
    turns = np.zeros((D, D))
    for i in range(0, D, 2):
        w = 10000 ** (-i / D)
        turns[i : i + 2, i : i + 2] = [[np.cos(w * k), np.sin(w * k)], [-np.sin(w * k), np.cos(w * k)]]
    return turns


# %%
def picture_of_shift(shift):
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    titles = ("learned", "derived")
    for axes, matrix, title in zip(
        figure.subplots(1, 2), (learn_shift(shift), rotation(shift)), titles, strict=True
    ):
        image = axes.imshow(matrix, cmap=colour_map("signed"), vmin=-1, vmax=1)
        axes.set(title=f"{title}, for k = {shift}", xlabel="dimension of PE(pos)")
        axes.set_ylabel(f"dimension of PE(pos + {shift})")
    figure.colorbar(image, ax=figure.axes)
    show(figure, "07-shift", settings)


control(picture_of_shift, settings, shift=(1, 63))
learned = learn_shift(settings.shift)
far = TABLE[150_000:150_100].numpy()
error = np.abs(far @ learned.T - TABLE[150_000 + settings.shift : 150_100 + settings.shift].numpy()).max()
print(f"at positions near 150,000, never seen: error {error:.1e}")
check("the learned matrix is the derived one", np.allclose(learned, rotation(settings.shift), atol=1e-3))
check("it holds far beyond the positions that it was learned from", error < 1e-2)

# %% [markdown]
# Each block on the diagonal is one clock. The first has turned by $k$, the last has hardly moved. Whether
# that makes it easier to attend by relative positions is asked by `minitransformer claims
# relative-positions`.
#
# ## Why not integers? What attention sees
#
# A score is a dot product. That of two encodings depends on their distance alone:
#
# $$PE_p \cdot PE_q = \sum_i (\sin \omega_i p \sin \omega_i q + \cos \omega_i p \cos \omega_i q)
# = \sum_i \cos \omega_i (p - q)$$
#
# The last step is the formula for the cosine of a difference. Why not simply number the words: add 1 to
# the first word's vector, 2 to the second's, and so on? "The Transformer Blueprint" names three
# problems. We can measure each.


# %%
def integers(length, d):
    return np.tile(np.arange(length, dtype="float64")[:, None], d)  # (length, d)


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


cat, mat = np.random.default_rng(settings.seed).normal(size=(2, 64))
close = {}
scores = {}
for name, encode in (("integers", integers), ("waves", positional_encoding)):
    p = encode(10_008, 64)
    close[name] = cosine(cat + p[10_000], mat + p[10_000])
    scores[name] = [p[5] @ p[7], p[1005] @ p[1007]]
    print(f"{name:8}  two words at 10,000: cosine {close[name]:.4f}")
    print(f"{'':8}  score of 5 with 7: {scores[name][0]:.1f}, of 1005 with 1007: {scores[name][1]:.1f}")
check("problem 1: large integers drown the words", close["integers"] > 0.999 and close["waves"] < 0.9)
check(
    "problem 2: waves give equal distances equal scores; integers do not",
    np.isclose(*scores["waves"]) and not np.isclose(*scores["integers"]),
)

# %% [markdown]
# Sines and cosines stay between -1 and 1 at every position. Integers grow, and have no common scale
# from sentence to sentence. A learned table keeps its scale, but it ends.
#
# Problem 1 holds: at position 10,000 two words are one vector. Problem 2 holds for scores. (A linear
# layer with a bias can add $k$ to an integer, too. The map to $pos + k$ alone is no advantage of
# waves.) Problem 3, in the document's words, is that the numbers "would run out". Integers do not run
# out. What is missing is training on them, also with waves.

# %%
figure = Figure(figsize=(8, 3.6), layout="constrained")
for axes, table, title in zip(
    figure.subplots(1, 2),
    (positional_encoding(48, 64), integers(48, 64)),
    ("waves: a matter of distance", "integers: a matter of size"),
    strict=True,
):
    image = axes.imshow(table @ table.T, cmap="viridis")
    axes.set(title=title, xlabel="position of the key", ylabel="position of the query")
    figure.colorbar(image, ax=axes, label="dot product")
show(figure, "07-scores", settings)

distance = np.arange(1, 20_001)[:, None]
apart = np.sqrt((2 - 2 * np.cos(distance * 10000 ** (-np.arange(0, 512, 2) / 512))).sum(-1))
print(f"d = 512: the most similar positions are {distance[apart.argmin(), 0]} apart")
check("no two of 20,000 positions are as similar as neighbours are", apart.argmin() == 0)

# %% [markdown]
# So each position has a vector of its own, not only up to 10,000, as "Explain step by step ..." has it.
# (It also says that the authors tested other constants than 10000. The paper reports no such test.)
#
# ## Do positions help? Which word came before
#
# Now we train. The task is the smallest that needs order: say for each word of a sentence which word
# stands before it. A sentence is 12 different words out of 32, in random order.

# %%
LENGTH = 12
WIDTH = 32
random = np.random.default_rng(settings.seed)
print("three sentences of five words:", *draw(random, 3, 5), sep="\n")

# %% [markdown]
# The model is one encoder layer: attention, then two linear layers for each word (`Encoder`; lesson 12).
# It is `WordBefore` of `minitransformer/claims/word_before.py`, and passes words through four steps:
#
# ```python
# def forward(self, ids):  # (B, T)
#     x = self.embedding(ids)  # (B, T, D): a vector for each word
#     x = self.positions(x)  # positions are added, or concatenated
#     return self.output(self.encoder(x))  # (B, T, words): a score for each word that may stand before
# ```
#
# Its `train` draws 32 new sentences at each step. The loss is the cross-entropy of the words before. Adam is
# gradient descent with a step size of its own for each weight.
#
# Without positions a word cannot know which of the others stands before it. But it can see which words
# are in the sentence, and that it is not itself.

# %%
guess = predict("without positions, which part of the words before is right after training?", settings.guess)
models = {
    "no positions": WordBefore(NoPositions()),
    "integers": WordBefore(Integers()),
    "waves, added": WordBefore(SinusoidalPositions(WIDTH)),
    "learned, added": WordBefore(LearnedPositions(LENGTH, WIDTH)),
    "waves, 16 + 16": WordBefore(SinusoidalPositions(16, concatenate=True), word_width=16),
    "waves, 32 + 32": WordBefore(
        SinusoidalPositions(32, concatenate=True), word_width=32, width=64, d_ff=128
    ),
}
losses = {name: train(model, random, rate=1e-2, steps=350) for name, model in models.items()}
right = {name: 1 - errors(model, random, LENGTH).mean() for name, model in models.items()}
guess.compare(right["no positions"])
for name, model in models.items():
    weights = sum(p.numel() for p in model.parameters())
    print(f"{name:15} {right[name]:6.1%} right, {weights:6,} weights")
check("without positions it guesses among 11 words", abs(right["no positions"] - 1 / 11) < 0.03)
check("integers hardly help", right["integers"] < 0.4)
check("waves and learned positions solve it", min(list(right.values())[2:]) > 0.95)

# %% [markdown]
# Problem 1 in training: the integers are larger than the words, and the model does not get past them.
# Waves and learned positions are equally good, as in the paper (section 3.5: "nearly identical
# results"). `minitransformer claims integer-positions` has five seeds, translation, and sentences that
# begin at position 10,000. `minitransformer claims inherent-order` asks what a causal mask changes.
#
# ## Add or concatenate?
#
# "The Transformer Blueprint" says that adding lets a model understand more deeply, and that
# concatenating puts a burden on learning. It also says that concatenating costs more weights, if the
# width doubles. Only the last holds here. (`minitransformer claims add-or-concatenate` compares them at
# equal weights.)

# %%
for name in ("waves, added", "waves, 32 + 32"):
    print(f"{name}: {sum(each.numel() for each in models[name].parameters()):,} weights")

# %% [markdown]
# A projection of both, side by side, can be split into one of the word and one of the position:
#
# $$[x; p] \begin{pmatrix} W_1 \\ W_2 \end{pmatrix} = x W_1 + p W_2, \qquad (x + p) W = x W + p W$$
#
# So adding is concatenating with *shared* weights, $W_1 = W_2 = W$. At $d = 512$, a projection of $[x;
# p]$ to width 512 has 512 × 512 = 262,144 weights more, for each of Q, K and V.

# %%
x, p = mg.randn(2, 5, 8, dtype="float64")  # 5 words, and their positions
W_1, W_2 = mg.randn(2, 8, 8, dtype="float64")
check(
    "concatenated, each part has its own matrix",
    mg.allclose(mg.cat([x, p], -1) @ mg.cat([W_1, W_2]), x @ W_1 + p @ W_2),
)
check(
    "with the same matrix twice it is the sum",
    mg.allclose(mg.cat([x, p], -1) @ mg.cat([W_1, W_1]), (x + p) @ W_1),
)


# %%
def steps_until(name, loss=0.5):
    return next((step for step, each in enumerate(losses[name]) if each < loss), None)


needed = {name: steps_until(name) for name in list(models)[2:]}
print("steps until the loss is below 0.5:", needed)
check(
    "concatenated waves are learned in fewer steps than added ones",
    needed["waves, 32 + 32"] < needed["waves, added"],
)

# %% [markdown]
# ## Do waves go on? Beyond the training
#
# The paper gives a reason for waves rather than learned positions:
#
# > We chose the sinusoidal version because it may allow the model to extrapolate to sequence lengths
# > longer than the ones encountered during training.
#
# It says "may". We trained on 12 words. Now the sentences have 24. Learned positions have no vector for
# the 13th, and the library says so.

# %%
try:
    models["learned, added"](draw(random, 1, 24))
    message = ""
except UserError as error:
    message = str(error)
print(message)
check("learned positions end with the longest sentence of training", "12 positions" in message)

longer = {
    name: 1 - errors(models[name], random, 24) for name in ("no positions", "waves, added", "waves, 32 + 32")
}
known = {name: each[: LENGTH - 1].mean() for name, each in longer.items()}
new = {name: each[LENGTH - 1 :].mean() for name, each in longer.items()}
for name in longer:
    print(f"{name:15} {known[name]:6.1%} right at known positions, {new[name]:6.1%} at new ones")
check(
    "waves do not extrapolate here: at new positions, at least 20 words of 100 fewer are right",
    all(known[name] - new[name] > 0.2 for name in ("waves, added", "waves, 32 + 32")),
)

# %%
figure = Figure(figsize=(8, 3.6), layout="constrained")
axes = figure.subplots()
for name, each in longer.items():
    axes.plot(range(1, 24), each, "o-", label=name)
axes.axvline(LENGTH - 0.5, color="grey", ls="--")
axes.annotate("never seen in training", (LENGTH - 0.3, 0.93))
axes.set(xlabel="position", ylabel="words before that are right", ylim=(-0.03, 1.05))
axes.set_title("Waves have a vector for each position; the layer was trained on twelve of them")
axes.legend(loc="center left")
show(figure, "07-beyond", settings)

# %% [markdown]
# Without positions the accuracy fell from 9% to about 4%: of 23 candidates one is right. The bumps of the
# waves are chance.
#
# There is a vector for each position, and the shift is the same matrix everywhere. The weights of the
# layer, however, fit the twelve vectors that they saw. Documents say that waves generalize to any
# length; for this model that is true of the table, not of what is learned from it. Longer training
# sentences, translation and learned positions: `minitransformer claims extrapolation`.
#
# ## Is there a longest sequence? `max_seq_len`
#
# A limit comes from learned positions, or from memory. "Explain step by step ..." gives 512 for the
# original Transformer. The paper has no such limit.

# %%
paper = preset("paper-base")
print("paper-base:", paper.positions, "positions, no limit")
print("bert-base: ", preset("bert-base").max_position_embeddings, "positions")
print("gpt2:      ", preset("gpt2").n_positions, "positions")
check("the paper's model has waves, which have no limit", paper.positions == "sinusoidal")

# %% [markdown]
# Longer inputs are cut off (truncated) or refused.
#
# ## What do the documents get wrong? Three slips
#
# Five texts that teach the Transformer print worked examples; docs/documents.md lists their slips. If you
# compute along with one of them, these three will not come out.
#
# "Transformer Network" compares "I love you" with "you love I" after positions are added. For the
# second sentence it reuses the sums of the first, in reverse. Those are the same three vectors, which
# is the problem that positions solve. The right sums are new vectors.

# %%
words = {"I": [0.2, 0.5, 0.1, 0.8], "love": [0.9, 0.1, 0.7, 0.3], "you": [0.3, 0.8, 0.2, 0.6]}
pe = positional_encoding(3, 4)
right_sums = np.array([words[word] for word in ("you", "love", "I")]) + pe
printed = (np.array([words[word] for word in ("I", "love", "you")]) + pe)[::-1]
for word, ours, theirs in zip(("you", "love", "I"), right_sums, printed, strict=True):
    print(f"{word:5} right: {ours.round(2)}  printed: {theirs.round(2)}")
check(
    "only 'love', which has not moved, is right there",
    (np.abs(right_sums - printed) < 1e-6).all(1).tolist() == [False, True, False],
)

love = np.array([0.5, 0.1, 0.8, 0.2])  # of "Explain step by step ..."
check(
    "there, the row of 'I' in X is the sum for 'love'",
    np.allclose(love + pe[1], [1.34, 0.64, 0.81, 1.2], atol=0.005),
)

# %% [markdown]
# The third is in "The Transformer architecture": it adds about 0.05 to each number as the encoding. No
# row of the waves looks like that; row 0 is 0, 1, 0, 1.
#
# ## Exercises
#
# 1. `minitransformer learn 12` and `minitransformer learn 13`: the encoding, and the matrix of the
#    shift.
# 2. Divide the integers by the sentence's length, so that they stay below 1. Which of the three
#    problems is gone, and which new one arises between sentences of different lengths? Predict the
#    accuracy, then train with a subclass of `Integers`.
#
# ## Read next
#
# - `minitransformer/layers/positions.py`, `positional_encoding`: the waves as arrays, and the other
#   schemes.
# - `minitransformer/layers/relative_positions.py`, `rotary`: these rotations, inside attention.
# - Next lesson: `demos/lessons/08_attention.py`
