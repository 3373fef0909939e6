# %% [markdown]
# # 16. From RNN to Transformer
#
# After this lesson you can say what each step on the road from the simple RNN to the Transformer
# repaired, what it cost, and which claims about speed hold on your machine.
#
# "Attention Is All You Need", section 4:
#
# > As noted in Table 1, a self-attention layer connects all positions with a constant number of
# > sequentially executed operations, whereas a recurrent layer requires O(n) sequential operations.

# %%
import math
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from lesson import Settings, check, check_time, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F
from minitransformer import Seq2Seq, Seq2SeqConfig, Transformer, TransformerConfig
from minitransformer.claims.experiments.attention_memory import peak_bytes
from minitransformer.claims.experiments.far_gradients import open_lstm
from minitransformer.claims.experiments.fixed_context import LONGEST, copies
from minitransformer.claims.experiments.fixed_context import VOCABULARY as V
from minitransformer.claims.timing import processor_seconds
from minitransformer.layers import EncoderLayer, LayerConfig


@dataclass
class Lesson(Settings):
    width: int = 64
    """d, the width of the layers whose cost is measured. Try 32 and 256."""
    steps: int = 450
    """Training steps of each model. Try 150."""
    guess: float | None = None
    """Your prediction: the exponent of ten of the gradient through 100 steps of a simple RNN."""


settings = read_settings(Lesson)

# %% [markdown]
# ## The simple RNN
#
# One vector h is all that the network remembers. Each word changes it:
#
# $$h_t = \tanh(W x_t + b + U h_{t-1} + c)$$
#
# $h_t$ needs $h_{t-1}$, so the loop below cannot be cut into parts that run at the same time.

# %%
D = 32


def simple_rnn(layer, x):  # x (B, T, D) -> h_T (B, D)
    h = mg.zeros(len(x), D)
    for t in range(x.shape[1]):
        h = (
            x[:, t] @ layer.weight_ih_l0.T + layer.bias_ih_l0 + h @ layer.weight_hh_l0.T + layer.bias_hh_l0
        ).tanh()
    return h


rnn = nn.RNN(D, D, batch_first=True)
x = mg.randn(2, 10, D)
check(
    "the loop is the library's RNN",
    np.allclose(simple_rnn(rnn, x).numpy(), rnn(x)[0].numpy()[:, -1], atol=1e-5),
)

# %% [markdown]
# ## The LSTM
#
# A second vector, the cell c, is changed by *addition*. Three gates, numbers from 0 to 1, say how much
# of it is kept (f), how much is written (i), and how much is shown (o):
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t)$$
#
# Compare lesson 11: with $f = 1$, this is a residual connection through time.

# %%


def lstm(layer, x):  # x (B, T, D) -> h_T (B, D)
    h = c = mg.zeros(len(x), D)
    for t in range(x.shape[1]):
        gates = (
            x[:, t] @ layer.weight_ih_l0.T + layer.bias_ih_l0 + h @ layer.weight_hh_l0.T + layer.bias_hh_l0
        )
        i, f, g, o = gates.split(D, 1)  # each (B, D)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


cell = nn.LSTM(D, D, batch_first=True)
check(
    "the loop is the library's LSTM", np.allclose(lstm(cell, x).numpy(), cell(x)[0].numpy()[:, -1], atol=1e-5)
)

# %% [markdown]
# ## Steps that wait for each other
#
# How many operations come one after another? An operation must wait for the latest of its inputs. So give
# each input of the computation the number 0, and each result one more than the largest number among its
# operands. The largest number of all is the longest chain. `mg.graph.trace` lists the operations that led
# to an output, each after its operands.


# %%
def longest_chain(output):
    """The most operations, one after another, that lead to `output`."""
    number = {}
    for vertex in mg.graph.trace(output).vertices:
        latest = max((number[edge.source] for edge in vertex.inputs), default=0)
        number[vertex.index] = latest + (vertex.kind == "op")  # the others are inputs and weights
    return max(number.values())


transformer = EncoderLayer(LayerConfig(D, num_heads=4, d_ff=4 * D))
LAYERS = {
    "simple RNN": lambda x: simple_rnn(rnn, x),
    "LSTM": lambda x: lstm(cell, x),
    "Transformer": lambda x: transformer(x)[:, -1],
}
chains = {}
for name, layer in LAYERS.items():
    with mg.fused(False):  # the definitions, not the kernels
        inputs = [mg.randn(1, n, D, requires_grad=True) for n in (6, 30)]
        chains[name] = [longest_chain(layer(x)) for x in inputs]
    print(f"{name:12} n = 6: {chains[name][0]:4}   n = 30: {chains[name][1]:4}")
check(
    "a recurrent layer needs five times as many for a text five times as long",
    all(4 < chains[name][1] / chains[name][0] < 6 for name in ("simple RNN", "LSTM")),
)
check("a Transformer's layer as many for each length", chains["Transformer"][0] == chains["Transformer"][1])

# %% [markdown]
# "Transformer Network" says "1 parallel step" for n = 1000. The number is constant, but not 1: a layer
# is a chain of matrix products, softmax, norms.
#
# How many steps lie between two words? "Transformers - Attention Is All You Need" counts seven from
# "animal" to "it", with "it" as word 9. Count again.

# %%
sentence = ["The", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "too", "tired"]
animal, it = (sentence.index(word) + 1 for word in ("animal", "it"))
print(f'"animal" is word {animal}, "it" is word {it}: {it - animal} recurrent steps, or one look')
check('"it" is word 8, six steps after "animal"', (it, it - animal) == (8, 6))

# %% [markdown]
# ## How far the gradient gets
#
# By the chain rule, one factor for each step:
#
# $$\frac{\partial h_n}{\partial h_1} = \prod_{t=2}^{n} \mathrm{diag}(1 - h_t^2)\, U \qquad\qquad
# \text{along the LSTM's cell:}\quad \frac{\partial c_n}{\partial c_1} = \prod_{t=2}^{n}
# \mathrm{diag}(f_t) + \dots$$
#
# The first shrinks with $U$. The second shrinks with $f$: at 0.5, as initialized, by half in each step;
# at 0.993, hardly. The dots are ways through $h$ and the gates.

# %%
LENGTHS = (3, 10, 30, 100)


def gradient_norm(layer, n):
    """The size of the gradient that arrives at input 1 when one of size 1 starts at output n."""
    x = mg.randn(8, n, D, dtype="float64", requires_grad=True)
    last = layer(x)
    last = (last[0] if isinstance(last, tuple) else last)[:, -1]  # (B, D)
    g = mg.randn(*last.shape, dtype="float64")
    (last * g).sum().backward()
    return float(np.linalg.norm(x.grad.numpy()[:, 0]) / np.linalg.norm(g.numpy()))


networks = {
    "simple RNN": nn.RNN(D, D, batch_first=True),
    "LSTM": nn.LSTM(D, D, batch_first=True),
    "LSTM, open gates": open_lstm(D),  # with a bias of 5, f = sigmoid(5) = 0.993
    "Transformer": transformer,
}
guess = predict("a simple RNN, 100 steps: the gradient is about 10 to which power?", settings.guess)
norms = {name: [gradient_norm(layer.to("float64"), n) for n in LENGTHS] for name, layer in networks.items()}
guess.compare(math.log10(norms["simple RNN"][-1]))
for name, row in norms.items():
    print(f"{name:17}", "  ".join(f"n = {n}: {norm:.1e}" for n, norm in zip(LENGTHS, row, strict=True)))

# %% [markdown]
# "Transformers - Attention Is All You Need" says "gradient signal degrades even with LSTM". A fresh
# one's does; with open gates, which it can learn, it does not. It even grows, from 0.11 to 0.95:
# besides the way along the cell ($0.993^{99} = 0.5$), each step adds ways through its gates, whose sum
# is no longer damped. The Transformer's path is one step, but attention averages over n words, so the
# gradient falls about as 1/n. That is far from exponential.

# %%
check("through 100 steps, the simple RNN's gradient is below 1e-10", norms["simple RNN"][-1] < 1e-10)
check("a fresh LSTM's, too", norms["LSTM"][-1] < 1e-10)
check("with open gates, it arrives", norms["LSTM, open gates"][-1] > 1e-3)
check("the Transformer's arrives, without any bias", norms["Transformer"][-1] > 1e-3)
check("but it falls with the length", norms["Transformer"][-1] < norms["Transformer"][0] / 5)

# %% [markdown]
# ## What it costs: T d² against T² d
#
# Multiply-adds of one layer for T words of width d: an RNN has two products by (d, d) matrices for each
# word, $2 T d^2$. Attention has scores and sums for each pair, $2 T^2 d$. (Projections, $4 T d^2$, are
# left out, as in the paper's table 1.) They are equal at $T = d$.


# %%
def attention(q):  # (1, T, d)
    return (q @ q.mT / math.sqrt(q.shape[-1])).softmax(-1) @ q


T_S = (16, 64, 256, 1024)


def measure_cost(width):
    layer = nn.RNN(width, width, batch_first=True)
    rows = []
    with mg.no_grad():
        for n in T_S:
            x = mg.randn(1, n, width)
            calls = (lambda x=x: layer(x), lambda x=x: attention(x))
            rows.append([processor_seconds(call, repeats=5, calls=4) for call in calls])
    return np.array(rows).T * 1000  # milliseconds: RNN, attention


def picture(width):
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    counted, timed = figure.subplots(1, 2)
    n = np.array(T_S)
    counted.plot(n, 2 * n * width**2 / 1e6, "o-", label="RNN: 2 T d²")
    counted.plot(n, 2 * n**2 * width / 1e6, "s-", label="attention: 2 T² d")
    counted.axvline(width, color="grey", ls=":", label="T = d")
    counted.set(title=f"Counted: equal at T = d = {width}", ylabel="million multiply-adds")
    for label, marker, row in zip(("RNN", "attention"), "os", measure_cost(width), strict=True):
        timed.plot(n, row, marker + "-", label=label)
    timed.axvline(width, color="grey", ls=":", label="T = d")
    timed.set(title="Timed, one text, one core: they cross later", ylabel="milliseconds")
    for panel in (counted, timed):
        panel.set(xlabel="T, words", xscale="log", yscale="log")
        panel.legend()
    show(figure, "16-cost", settings)


control(picture, settings, width=(16, 256))

# %%
rnn_ms, attention_ms = measure_cost(64)
for n, a, b in zip(T_S, rnn_ms, attention_ms, strict=True):
    print(f"T = {n:4}   RNN {a:7.3f} ms   attention {b:7.3f} ms")
ahead = [n for n, a, b in zip(T_S, rnn_ms, attention_ms, strict=True) if b < a]
print(f"attention is faster up to T = {max(ahead, default=0)}; counted, up to T = 64")
check_time("attention is faster for 16 words, where it has less to compute", attention_ms[0] < rnn_ms[0])
growth = attention_ms[-1] / attention_ms[1], rnn_ms[-1] / rnn_ms[1]
print(f"16 times the words: attention takes {growth[0]:.0f} times as long, the RNN {growth[1]:.0f} times")
check_time("attention's time grows faster than the RNN's", growth[0] > growth[1])

# %% [markdown]
# The measured crossover lies beyond the counted one. The RNN's products are small and come one by one,
# while attention's are large. For one text that favours attention. With many texts in a batch, and one
# core, it can turn: `demos/path_length.py` measures whole layers with 16 texts, where the RNN is faster
# at each length.
#
# ## Memory grows with T²
#
# The weights of attention are a T by T matrix for each head, and backward needs them. "Explain step by
# step ... with test data" names that as the reason for a largest length, "512 in original paper". The
# reason is right; the paper has no largest length.


# %%
def peak_memory(n, fused):
    """MiB at the peak of forward and backward of attention with 4 heads of width 16."""
    q, k, v = (mg.randn(1, 4, n, 16, requires_grad=True) for _ in range(3))
    with mg.fused(fused):
        return peak_bytes(lambda: F.scaled_dot_product_attention(q, k, v).sum().backward()) / 2**20


peak_memory(64, True)  # the first call loads the kernel
SIZES = (128, 256, 512, 1024)
defined, kernel = ([peak_memory(n, fused) for n in SIZES] for fused in (False, True))
for n, a, b in zip(SIZES, defined, kernel, strict=True):
    weights = 4 * n * n * 4 / 2**20  # heads * n * n * bytes
    print(f"n = {n:4}   definition {a:6.2f} MiB   kernel {b:5.2f} MiB   one matrix of weights {weights:5.2f}")
check(
    "twice the words, four times the memory",
    all(3.5 < b / a < 4.5 for a, b in pairwise(defined)),
)

# %% [markdown]
# The kernel, where there is one, never stores the matrix: it computes a block of it, uses it, and
# computes it again in backward (FlashAttention's idea). Its memory grows with n. The time still grows
# with n².
#
# ## The fixed vector is a bottleneck
#
# Before attention, an encoder handed over its last state: one vector for a sentence of any length. The
# task: copy 2 to 12 random letters. Four models, from the road; about equally large; the same steps.
#
# A GRU has two gates: $h_t = (1 - z_t) \odot n_t + z_t \odot h_{t-1}$. Attention adds $c_t = \sum_j
# \mathrm{softmax}_j(h_t \cdot e_j)\, e_j$, with the encoder's states $e_j$.


# %%
def seq2seq(rnn_type, hidden_size, attention):
    options = {"embedding_dim": 48, "bidirectional": False, "dropout": 0.0}
    config = Seq2SeqConfig(V, hidden_size=hidden_size, rnn_type=rnn_type, attention=attention, **options)
    return lambda: Seq2Seq(config)


MODELS = {
    "simple RNN": seq2seq("rnn", 104, "none"),
    "LSTM": seq2seq("lstm", 48, "none"),
    "GRU + attention": seq2seq("gru", 64, "dot"),
    "Transformer": lambda: Transformer(TransformerConfig(V, 48, 4, 128, 1, 1, dropout=0.0)),
}


# %%
def train(model, steps=settings.steps):
    """Seconds of processor time, and the part of right letters, after each step."""
    rng = np.random.default_rng(settings.seed)
    optimizer = optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98))
    curve = []
    start = time.process_time()
    for step in range(steps):
        # x <END>, <START> x, and x <END>, with random letters x
        source, target_in, target = copies(rng, rng.integers(2, LONGEST + 1), 48)
        optimizer.param_groups[0]["lr"] = 5e-3 * min((step + 1) / 50, 1 - step / steps)
        logits = model(source, target_in)  # (B, T, V)
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), target.reshape(-1)).backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        curve.append((time.process_time() - start, (logits.numpy().argmax(-1) == target).mean()))
    return np.array(curve)


def score(model, length):
    source, target_in, target = copies(np.random.default_rng(1000), length, 200)
    return float((model(source, target_in).numpy().argmax(-1) == target).mean())


# %%
curves, scores, models = {}, {}, {}
for name, build in MODELS.items():
    model = models[name] = build()
    curves[name] = train(model)
    scores[name] = [score(model, length) for length in range(2, LONGEST + 1, 2)]
    size = sum(p.numel() for p in model.parameters())
    print(f"{name:16} {size:,} parameters, {curves[name][-1, 0]:4.1f} s", [round(s, 2) for s in scores[name]])

figure = Figure(figsize=(11, 4), layout="constrained")
left, right = figure.subplots(1, 2)
for name, curve in curves.items():
    style = "-" if name in ("GRU + attention", "Transformer") else "--"
    left.plot(range(2, LONGEST + 1, 2), scores[name], style, marker="o", label=name)
    smooth = np.convolve(curve[:, 1], np.ones(25) / 25, "valid")
    right.plot(curve[24:, 0], smooth, style, label=name)
left.set(
    title="A fixed vector (dashed) fails on long texts",
    xlabel="letters",
    ylabel="copied right",
    ylim=(0, 1.03),
)
right.set(title="Quality against training time", xlabel="seconds of one core", ylabel="right in training")
left.legend()
show(figure, "16-bottleneck", settings)

# %%
fixed = ("simple RNN", "LSTM")
attending = ("GRU + attention", "Transformer")
if settings.steps >= 450:
    check("two letters fit into any vector", min(scores[name][0] for name in MODELS) > 0.9)
    check("twelve do not fit into a fixed one", max(scores[name][-1] for name in fixed) < 0.85)
    check("with attention, they are copied", min(scores[name][-1] for name in attending) > 0.85)


# %%
def time_to(name, quality):
    """Seconds until the mean of 25 steps is above this quality; infinite if it never is."""
    smooth = np.convolve(curves[name][:, 1], np.ones(25) / 25, "valid")
    above = np.flatnonzero(smooth > quality)
    return curves[name][24 + above[0], 0] if len(above) else math.inf


for name in MODELS:
    print(f"{name:16} 80% of the letters right after {time_to(name, 0.8):.1f} s")
if settings.steps >= 450:
    quickest = {
        kind: min(time_to(name, 0.8) for name in names)
        for kind, names in (("fixed", fixed), ("attending", attending))
    }
    check_time(
        "attention needs less time for 80% than a fixed vector", quickest["attending"] < quickest["fixed"]
    )

# %% [markdown]
# "Transformer Network" gives "2-3 weeks" of training for RNNs and "2-3 days" for Transformers of the
# same quality. Here, on one core, attention is what saves time. The GRU with attention is as good as
# the Transformer, and gets there sooner. What the Transformer gains is that its steps do not wait for
# each other. One core cannot show that gain: it takes processors that would otherwise be idle. But the
# graph shows it, for whole models, from the word vectors to the logits.
#
# One seed shows an effect; `minitransformer claims fixed-context` and `claims equal-quality` compare five,
# with each model's best learning rate, and on sentences.

# %%
waits = {}
for name in attending:
    with mg.fused(False):
        batches = [copies(np.random.default_rng(0), length, 1) for length in (3, 9)]
        logits = [models[name](source, target_in) for source, target_in, _ in batches]
        waits[name] = [longest_chain(each) for each in logits]
    print(f"{name:16} 3 letters: {waits[name][0]} operations in a row, 9 letters: {waits[name][1]}")
check(
    "an RNN with attention still waits for each word",
    waits["GRU + attention"][1] > 1.5 * waits["GRU + attention"][0],
)
check("the Transformer does not", waits["Transformer"][0] == waits["Transformer"][1])

# %% [markdown]
# ## The road
#
# | step | repairs | leaves |
# |---|---|---|
# | simple RNN | texts of any length, word order | the gradient through time |
# | LSTM | the gradient through time | each word knows only what precedes it |
# | bidirectional RNN | each word knows what follows, too | needs the whole input |
# | seq2seq | a decoder writes an output of another length | one vector; steps that wait |
# | attention on an RNN | the one vector | steps that wait |
# | Transformer | the steps that wait | T² |
#
# ## Exercises
#
# 1. `minitransformer learn 26`: one step of an LSTM.
# 2. Let the encoder read the letters backwards (reverse `x` in the source only). Sutskever et al. found
#    that this helps a fixed vector. Which letters does it bring closer to their copies, and does it
#    help here?
#
# ## Read next
#
# - `minitransformer/models/seq2seq.py`, `DotAttention`: the step between RNN and Transformer, in ten
#   lines.
# - `minitransformer/claims/paths.py`, `dependent_operations`: steps, for any layer.
# - `demos/road_to_attention.py`, `train`: seven models on the phrasebook, for the same time each.
# - `minigrad/kernels/numpy/attention.py`: attention without the matrix of weights.
# - Next lesson: `demos/lessons/17_five_models.py`
