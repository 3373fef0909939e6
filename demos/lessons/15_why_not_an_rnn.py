# %% [markdown]
# # 15. Why not an RNN?
#
# **What did attention repair?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762), section 4
# and table 1)
#
# Before 2017, texts were read by *recurrent networks* (RNNs). They read word by word, and keep all that
# they remember in one vector. This lesson measures the three things that the paper's table 1 compares: what
# waits for what, how far apart two words are, and what it costs.
#
# ## A recurrent network is a loop
#
# `h = tanh(W x + U h + b)`: each word changes the memory h. Word 2 cannot be read before word 1 has been.
# An *LSTM* has a second memory c, which is changed by adding, `c = f · c + i · g`. The *gates* f and i,
# between 0 and 1, say how much is kept and how much is written. A *GRU* does the same with fewer gates.
# With f = 1, the LSTM's c is the residual connection of lesson 10, through time. A *bidirectional* RNN
# reads once from each end.

# %%
import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F
from minitransformer import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig, plots
from minitransformer.claims.experiments.far_gradients import open_lstm
from minitransformer.claims.experiments.fixed_context import LONGEST, VOCABULARY, copies
from minitransformer.layers import EncoderLayer, LayerConfig

mg.manual_seed(SEED)
D = 32


def simple_rnn(layer, x):  # x (B, T, D) -> the last h (B, D)
    h = mg.zeros(len(x), D)
    for t in range(x.shape[1]):
        h = (
            x[:, t] @ layer.weight_ih_l0.T + layer.bias_ih_l0 + h @ layer.weight_hh_l0.T + layer.bias_hh_l0
        ).tanh()
    return h


rnn = nn.RNN(D, D, batch_first=True)
x = mg.randn(2, 10, D)
assert mg.allclose(simple_rnn(rnn, x), rnn(x)[0][:, -1], atol=1e-5)

# %% [markdown]
# ## What waits for what
#
# Give each input the number 0, and each result one more than the largest number among its operands. The
# largest of all is the longest chain of operations of which each must wait for the one before.


# %%
def longest_chain(output):
    number = {}
    for vertex in mg.graph.trace(output).vertices:
        latest = max((number[edge.source] for edge in vertex.inputs), default=0)
        number[vertex.index] = latest + (vertex.kind == "op")
    return max(number.values())


encoder = EncoderLayer(LayerConfig(D, num_heads=4, d_ff=4 * D))
with mg.fused(False):  # operation by operation
    for name, layer in (("RNN", lambda x: simple_rnn(rnn, x)), ("encoder layer", encoder)):
        chains = [longest_chain(layer(mg.randn(1, n, D, requires_grad=True))) for n in (6, 30)]
        print(f"{name:13}: 6 words {chains[0]:4}, 30 words {chains[1]:4} operations in a row")
assert chains[0] == chains[1]

# %% [markdown]
# Five times the words, five times the chain for the RNN. The Transformer's layer has the same chain for any
# length, so a machine with many processors can use them all. That is the paper's main argument.
#
# ## How far apart are two words?
#
# A gradient of size 1 starts at the last of n words. How much of it reaches the first? In an RNN it passes
# n - 1 steps, and each multiplies it. In attention it is one step.

# %%
networks = {
    "simple RNN": rnn,
    "LSTM, new": nn.LSTM(D, D, batch_first=True),
    "LSTM, f = 0.993": open_lstm(D),
    "encoder layer": encoder,
}
LENGTHS = (3, 10, 30, 100)
arrives = {}
for name, layer in networks.items():
    layer.to("float64")
    arrives[name] = []
    for n in LENGTHS:
        x = mg.randn(8, n, D, dtype="float64", requires_grad=True)
        last = layer(x)
        last = (last[0] if isinstance(last, tuple) else last)[:, -1]
        g = mg.randn(*last.shape, dtype="float64")
        (last * g).sum().backward()
        arrives[name].append(np.linalg.norm(x.grad.numpy()[:, 0]) / np.linalg.norm(g.numpy()))
print("simple RNN: 3 words {:.0e}, 10 words {:.0e}, 30 words {:.0e}".format(*arrives["simple RNN"]))
guess = predict("and 100 words: 10 to the power of about?")
for name, row in arrives.items():
    numbers = (f"{n} words: {each:.0e}" for n, each in zip(LENGTHS, row, strict=True))
    print(f"{name:16}", "  ".join(numbers))
guess.compare(np.log10(arrives["simple RNN"][-1]))
assert max(arrives["simple RNN"][-1], arrives["LSTM, new"][-1]) < 1e-10 < 1e-3 < arrives["encoder layer"][-1]

# %% [markdown]
# What does not arrive cannot be learned. An LSTM whose gates are open carries it, so LSTMs did learn long
# texts. With attention there is nothing to learn first.
#
# ## One vector for a sentence
#
# *Seq2seq* translators had an RNN that read and another that wrote. Between them: the last h, one vector
# for a sentence of any length. In 2015 attention was added to let the second look at all vectors of the
# first. The Transformer then left the RNN out.
#
# The task is to copy 2 to 12 random letters. Three models of about the same size, 450 steps each.


# %%
def seq2seq(**options):
    return Seq2Seq(Seq2SeqConfig(VOCABULARY, embedding_dim=48, bidirectional=False, dropout=0.0, **options))


MODELS = {
    "LSTM, one vector": lambda: seq2seq(hidden_size=48, rnn_type="lstm", attention="none"),
    "GRU with attention": lambda: seq2seq(hidden_size=64, rnn_type="gru", attention="dot"),
    "Transformer": lambda: Transformer(TransformerConfig(VOCABULARY, 48, 4, 128, 1, 1, dropout=0.0)),
}


def train(model, steps=450):
    random = np.random.default_rng(SEED)
    optimizer = optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98))
    for step in range(steps):
        source, read, target = copies(random, random.integers(2, LONGEST + 1), 48)
        optimizer.param_groups[0]["lr"] = 5e-3 * min((step + 1) / 50, 1 - step / steps)
        optimizer.zero_grad()
        F.cross_entropy(model(source, read).flatten(0, 1), target.reshape(-1)).backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model


lengths = range(2, LONGEST + 1, 2)
right = {}
for name, build in MODELS.items():
    model = train(build())
    right[name] = []
    for length in lengths:
        source, read, target = copies(np.random.default_rng(1000), length, 200)
        with mg.no_grad():
            right[name].append(100 * (model(source, read).numpy().argmax(-1) == target).mean())
    print(f"{name:19} letters right, by length {[*lengths]}:", *(f"{each:.0f}%" for each in right[name]))
show(plots.curves({"Copying letters": right}, [*lengths], xlabel="letters", ylabel="right, %"), "15-lengths")
assert right["LSTM, one vector"][0] > 90 > right["LSTM, one vector"][-1] + 5
assert min(right["GRU with attention"][-1], right["Transformer"][-1]) > 85

# %% [markdown]
# Look at the right end of the picture. Two letters fit into any vector. Twelve do not fit into this one:
# the curve of the LSTM falls, while both models with attention copy them. (More seeds, and sentences:
# `minitransformer claims fixed-context`.) The GRU with attention is as good as the Transformer here. What
# it keeps is the waiting.
#
# ## What it costs
#
# For T words of width d, an RNN has about 2 T d² multiplications. Attention has 2 T² d, a score and a sum
# for each *pair* of words. These two are equal at T = d, and are what table 1 compares; attention's four
# matrices add 4 T d². In long texts it is the T² that hurts, in time and in memory, if all weights are
# stored.

# %%
for T in (64, 512, 4096):
    rnn, pairs, matrices = (count / 1e9 for count in (2 * T * 512**2, 2 * T**2 * 512, 4 * T * 512**2))
    costs = f"RNN {rnn:5.2f}, attention {pairs:5.2f} + {matrices:.2f} billion multiplications"
    print(f"T = {T:4}: {costs}; weights of 8 heads {8 * T * T * 4 / 2**20:5.1f} MiB")

# %% [markdown]
# (Kernels like FlashAttention compute the weights in blocks and never store them, so memory grows with T
# only. What is measured here: `docs/speed.md`, and `minitransformer claims attention-memory`.)
#
# ## Change one line
#
# Let `hidden_size=192` for the LSTM with one vector. Does a larger vector help?
#
# <details><summary>Answer</summary>
#
# It helps: in our run 78% of twelve letters are right instead of 61%, with ten times the weights. Longer
# texts bring the problem back. A vector for each word grows with the text.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn lstm_cell`: one step of an LSTM.
#
# ## Summary
#
# - An RNN's steps wait for each other; a Transformer's layer does not.
# - Gradients between far words fade in RNNs, and take one step in attention.
# - One vector is too small for a long text. The price of attention is T².
#
# What else the same parts can do: `minitransformer lesson 16`
