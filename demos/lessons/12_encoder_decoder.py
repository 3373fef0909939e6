# %% [markdown]
# # 12. Encoder and decoder, stage by stage
#
# After this lesson you can follow two sentences through a whole Transformer, with the shape at each
# stage, say who may look at whom, and count the parameters of the paper's model.
#
# "Attention Is All You Need", section 3:
#
# > Given z, the decoder then generates an output sequence (y1, ..., ym) of symbols one element at a
# > time.
#
# z is what the encoder makes of the source: one vector for each word. We take the library's model apart
# and call its pieces one by one.

# %%
import math
from dataclasses import dataclass

import numpy as np
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F
from minigrad.nn.shapes import parameter_shapes
from minitransformer import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    causal_mask,
    generate,
    padding_mask,
    record_attention,
)
from minitransformer.data.batching import IGNORE, collate
from minitransformer.layers.positions import positional_encoding
from minitransformer.models.presets import preset
from minitransformer.plots.style import colour_map
from minitransformer.text.tokenizer import Tokenizer


@dataclass
class Lesson(Settings):
    vocabulary: int = 37_000
    """Words of the model that is counted. Try 8000."""
    guess: float | None = None
    """Your prediction: millions of parameters of the paper's base model."""


settings = read_settings(Lesson)

# %% [markdown]
# ## A model that knows four sentences
#
# "Transformer Network" translates "I love you", "The Transformer architecture" "I love cats." A small
# model learns four such sentences by heart, so that its numbers mean something. (It has nothing else to
# learn: lesson 14 trains a real translator.)

# %%
PAIRS = [
    ("I love you", "Je t'aime"),
    ("I love cats.", "J'aime les chats."),
    ("I love AI", "J'aime l'IA"),
    ("The cat sat on the mat", "Le chat s'est assis sur le tapis"),
]
tokenizer = Tokenizer.train_word([text for pair in PAIRS for text in pair])
batch = collate([(tokenizer.encode(source), tokenizer.encode(target)) for source, target in PAIRS], tokenizer)

D, H, LAYERS, V = 16, 2, 2, tokenizer.vocab_size
model = Transformer(TransformerConfig(V, D, H, 4 * D, LAYERS, LAYERS, dropout=0.0))
optimizer = optim.AdamW(model.parameters(), lr=5e-3)
for _ in range(150):
    logits = model(batch["source"], batch["target_in"])  # (B, S), (B, T) -> (B, T, V)
    loss = F.cross_entropy(logits.flatten(0, 1), batch["target"].reshape(-1), ignore_index=IGNORE)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.eval()
print(f"{V} words; the loss is {loss.item():.4f}; it began near log V = {math.log(V):.2f}")

# %% [markdown]
# ## What goes in
#
# Two sentences of different lengths, with special tokens: `<END>` ends the source, `<START>` begins
# what the decoder reads, `<PAD>` fills the shorter one up. A word that is not in the vocabulary would be
# `<UNK>`. `tokenizer.encode` makes ids of words, and `tokenizer.decode` words of ids.

# %%
source = batch["source"][:2, :5]  # (B, S)
target = batch["target_in"][:2, :6]  # (B, T)
words = lambda row: [tokenizer.id_to_token[i] for i in row]
for ids in (*source, *target):
    print(ids, " ".join(words(ids)))


def stage(name, x):
    """Print the shape, and the first numbers of token 1 of the first sentence."""
    numbers = " ".join(f"{v:6.2f}" for v in x.numpy()[0, 1].ravel()[:4])
    print(f"{name:36} {x.shape!s:14} {numbers} ...")
    return x


# %% [markdown]
# ## The encoder
#
# Word vectors, times $\sqrt{d}$ (section 3.4), plus positions. Then each layer: self-attention, add &
# norm, feed-forward, add & norm. The shape stays (B, S, D) all the way, which is why layers can be
# stacked.


# %%
def embed(ids):
    x = stage("embedding, times sqrt(d)", model.embedding.weight[ids] * math.sqrt(D))  # (B, T, D)
    return stage("+ positions", x + positional_encoding(ids.shape[1], D))


def encode(source, mask):
    x = embed(source)  # (B, S, D)
    for i, layer in enumerate(model.encoder.layers):
        attended = stage(f"encoder {i}: self-attention", layer.self_attention(x, mask=mask))
        x = stage(f"encoder {i}: add & norm", layer.residual1.norm(x + attended))
        forward = stage(f"encoder {i}: feed-forward", layer.feed_forward(x))
        x = stage(f"encoder {i}: add & norm", layer.residual2.norm(x + forward))
    return x


source_mask = padding_mask(source, tokenizer.pad_id)  # (B, 1, 1, S), True = may be looked at
memory = encode(source, source_mask)
check(
    "these stages are the library's encoder",
    np.allclose(memory.numpy(), model.encode(source).numpy(), atol=1e-5),
)

# %% [markdown]
# ## The decoder
#
# It has a third sub-layer. Section 3.2.3:
#
# > In "encoder-decoder attention" layers, the queries come from the previous decoder layer, and the
# > memory keys and values come from the output of the encoder.
#
# So the scores of cross-attention are T by S: a row for each word written, a column for each word read.
# The words of the target can be computed together, because a causal mask keeps each from seeing later
# ones. Cross-attention needs no causal mask: the whole source is known before the first word is
# written. For the same reason its keys and values are computed once for a sentence, however many words
# are generated.


# %%
def decode(target, memory, source_mask):
    x = embed(target)  # (B, T, D)
    mask = causal_mask(target.shape[1])  # (T, T)
    for i, layer in enumerate(model.decoder.layers):
        attended = stage(f"decoder {i}: masked self-attention", layer.self_attention(x, mask=mask))
        x = stage(f"decoder {i}: add & norm", layer.residual1.norm(x + attended))
        crossed = stage(f"decoder {i}: cross-attention", layer.cross_attention(x, memory, source_mask))
        x = stage(f"decoder {i}: add & norm", layer.residual2.norm(x + crossed))
        forward = stage(f"decoder {i}: feed-forward", layer.feed_forward(x))
        x = stage(f"decoder {i}: add & norm", layer.residual3.norm(x + forward))
    return x


states = decode(target, memory, source_mask)
logits = stage("output: times E transposed", states @ model.embedding.weight.T)  # (B, T, V)
probabilities = stage("softmax", logits.softmax(-1))
check(
    "these stages are the library's model",
    np.allclose(logits.numpy(), model(source, target).numpy(), atol=1e-4),
)

# %%
for i, given in enumerate(words(target[0])[:4]):
    best = int(probabilities.numpy()[0, i].argmax())
    print(f"after {given:8} {tokenizer.id_to_token[best]:6} {probabilities.numpy()[0, i, best]:.3f}")
written = generate(model, source[:1, :4].tolist(), max_new_tokens=10)[0]
check("it writes Je t'aime, and stops", tokenizer.decode(written) == "Je t'aime")

graph = mg.graph.trace(model(source, target), model, title="Encoder and decoder, as computed").fold(3)
show(graph, "12-model", settings)

# %% [markdown]
# The picture is the paper's figure 1, drawn from this computation: layers that are alike are drawn
# once.
#
# ## Both masks
#
# Padding mask: no word looks at `<PAD>`. Causal mask: no word of the target looks at a later one. Two
# documents print masks as numbers to add to the scores, 0 and $-\infty$, because $e^{-\infty} = 0$.
# That is the same.

# %%
seen = causal_mask(4).numpy()  # (T, T)
printed = np.where(seen, 0.0, -np.inf).astype(np.float32)
print(printed)
attention = model.decoder.layers[0].self_attention
x = mg.randn(1, 4, D)
by_boolean = attention(x, mask=mg.tensor(seen)).numpy()
by_adding = attention(x, mask=mg.tensor(printed)).numpy()
check("adding 0 or -inf is the boolean mask", np.allclose(by_boolean, by_adding, atol=1e-6))

# %% [markdown]
# ## What goes wrong without them
#
# Without the padding mask, the translation of a short sentence depends on how long its neighbours in
# the batch are. Without the causal mask, the prediction after `<START>` depends on words that are not
# written yet: in training it copies them, and in generation they are missing (lesson 13).


# %%
def difference(a, b):
    return float(np.abs(a.numpy() - b.numpy()).max())


everything = np.ones((1, 5), bool)
alone = model(source[:1, :4], target[:1])
with_mask = difference(alone, model(source[:1], target[:1]))
memory_of_pad = model.encode(source[:1], everything)
without = difference(alone, model.logits(model.decode(target[:1], memory_of_pad, everything)))
print(f"one <PAD> more changes the logits by {with_mask:.1e} with the mask, by {without:.2f} without")
check("a masked <PAD> changes nothing, an unmasked one does", with_mask < 1e-4 and without > 0.01)

changed = target[:1].copy()
changed[0, 3] = tokenizer.token_to_id["tapis"]
peeking = Transformer(TransformerConfig(V, D, H, 4 * D, LAYERS, LAYERS, is_causal=False)).eval()
peeking.load_state_dict(model.state_dict())
first = lambda m: difference(m(source[:1], target[:1])[:, 0], m(source[:1], changed)[:, 0])
print(f"another word 3 changes prediction 0 by {first(model):.1e}; without the mask by {first(peeking):.2f}")
check("with the causal mask, a later word changes nothing", first(model) < 1e-5 and first(peeking) > 0.01)

# %% [markdown]
# ## What cross-attention looks at
#
# One row for each word written. "Transformers - Attention Is All You Need" says that K and V from the
# encoder "are the same at every layer". The *memory* is. K and V are not: each layer projects it with
# its own matrices. Do not look for an alignment of words: to know four sentences by heart, none is
# needed. A translator learns one (lesson 14).

# %%
with record_attention(model) as maps:
    model(source, target)
figure = Figure(figsize=(10, 4), layout="constrained")
for i, panel in enumerate(figure.subplots(1, 2)):
    weights = maps[f"decoder.layers.{i}.cross_attention"][1].mean(0)  # (H, T, S) -> (T, S)
    panel.imshow(weights, cmap=colour_map("weights"), vmin=0, vmax=0.8, aspect="auto")
    for t, s in np.ndindex(*weights.shape):
        panel.text(s, t, f"{weights[t, s]:.2f}", ha="center", va="center", fontsize=9)
    panel.set_xticks(range(5), words(source[1]))
    panel.set_yticks(range(6), words(target[1]))
    panel.set(title=f"decoder layer {i + 1}: where each row looks", xlabel="read", ylabel="written so far")
show(figure, "12-cross-attention", settings)
check("each row of weights sums to 1", np.allclose(weights.sum(-1), 1, atol=1e-5))

keys = [
    layer.cross_attention.project(memory, memory)[1].numpy()[0, :, :D]  # (S, D), of one sentence
    for layer in model.decoder.layers
]
check("the two layers see the same memory through different keys", abs(keys[0] - keys[1]).max() > 0.1)

# %% [markdown]
# ## The feed-forward is a convolution of width 1
#
# Section 3.3:
#
# > Another way of describing this is as two convolutions with kernel size 1.
#
# A convolution of width k computes each position from k neighbours, with the same weights everywhere.
# With k = 1 it sees one position: no word learns of another here. "Transformers - Attention Is All You
# Need" calls it a bottleneck. It is the opposite: it widens, from d to 4 d, and narrows again. Without the
# ReLU between them, two linear maps are one, $W_2 (W_1 x) = (W_2 W_1) x$: the widening would gain nothing.

# %%
feed_forward = model.encoder.layers[0].feed_forward
convolutions = []
for linear in (feed_forward.linear1, feed_forward.linear2):
    conv = nn.Conv1d(linear.in_features, linear.out_features, kernel_size=1)
    conv.load_state_dict({"weight": linear.weight[:, :, None], "bias": linear.bias})  # (out, in, width)
    convolutions.append(conv)

x = mg.randn(2, 5, D)
channels_first = x.mT  # (B, D, T), as convolutions read it
as_convolution = convolutions[1](convolutions[0](channels_first).relu()).mT
gap = difference(as_convolution, feed_forward(x))
order = [3, 0, 4, 1, 2]
moved = difference(feed_forward(x[:, order]), feed_forward(x)[:, order])
print(f"two convolutions of width 1: off by {gap:.1e}; words in another order: off by {moved:.1e}")
check("feed-forward = two convolutions of width 1, blind to the order of words", max(gap, moved) < 1e-5)
first, second = feed_forward.linear1, feed_forward.linear2
W = second.weight @ first.weight  # (D, D)
b = second.weight @ first.bias + second.bias
check("without the ReLU, one matrix does the same", difference(second(first(x)), x @ W.T + b) < 1e-5)

# %% [markdown]
# ## The output, and a shape that does not fit
#
# "Transformers - Attention Is All You Need" writes the output as $\mathrm{softmax}(W_{vocab} \cdot d_t
# + b)$, with $W_{vocab} \in \mathbb{R}^{d \times |V|}$. A matrix of d rows and |V| columns times a
# vector of d numbers does not exist: it must be |V| by d. The embedding E has that shape, and the paper
# uses it (section 3.4):
#
# > In our model, we share the same weight matrix between the two embedding layers and the pre-softmax
# > linear transformation, similar to [30].
#
# So a word's score is the dot product of the decoder's vector with the word's own vector: *tied weights*.

# %%
E = model.embedding.weight  # (V, D)
d_t = states[0, 1]  # (D,): after <START> Je
scores = E @ d_t  # (V, D) times (D,) = (V,)
check("E times d_t are the model's logits", np.allclose(scores.numpy(), logits.numpy()[0, 1], atol=1e-4))
try:
    E.T @ d_t  # the shape that the document prints
    fits = True
except mg.ShapeError:
    fits = False
check("a matrix of d by |V| does not fit", not fits)

# %% [markdown]
# ## Counting the paper's model
#
# $d = 512$, $d_{ff} = 2048$, six layers each, one vocabulary of about 37,000. With biases:
#
# | part | parameters |
# |---|---|
# | attention | $4 d^2 + 4 d$ |
# | feed-forward | $2 \cdot d \cdot 4d + 4d + d$ |
# | norm | $2 d$ |
# | encoder layer | attention + feed-forward + 2 norms |
# | decoder layer | 2 attentions + feed-forward + 3 norms |
# | embedding, which is the output, too | $\lvert V \rvert\, d$ |


# %%
def count(vocabulary, d=512, layers=6):
    attention = 4 * d * d + 4 * d
    feed_forward = 2 * d * 4 * d + 4 * d + d
    norm = 2 * d
    return {
        "embedding": vocabulary * d,
        "encoder": layers * (attention + feed_forward + 2 * norm),
        "decoder": layers * (2 * attention + feed_forward + 3 * norm),
    }


guess = predict("how many million parameters has the paper's base model?", settings.guess)
parts = count(37_000)
total = sum(parts.values())
guess.compare(total / 1e6)
print({name: f"{number:,}" for name, number in parts.items()}, f"{total:,}")
shapes = parameter_shapes(lambda: Transformer(preset("paper-base")))  # allocates nothing
check("the formula counts the library's model exactly", total == sum(map(math.prod, shapes)) == 63_082_496)
attention = MultiHeadAttention(512, num_heads=8)
weights = sum(p.numel() for p in attention.parameters() if p.ndim == 2)
biases = sum(p.numel() for p in attention.parameters() if p.ndim == 1)
print(f"one attention: {weights:,} weights and {biases:,} biases")
check(
    "one attention has 1,048,576 weights, as the document says, and 2,048 biases",
    (weights, biases) == (4 * 512**2, 4 * 512),
)

# %% [markdown]
# The paper and "Transformers - Attention Is All You Need" say 65 million; ours are 63.1. All but the
# vocabulary is fixed, 44.1 million, so 65 needs 40,700 words, where the paper says "about 37000". It
# does not say how it counted. With three separate matrices, instead of one shared, the model would have
# 101 million. The shared one gets the sum of the gradients of its three uses, as any value that is used
# three times (lesson 3). What a translator loses by sharing, or gains: `minitransformer claims weight-tying`.

# %%
body = total - parts["embedding"]
print(f"65 million would need a vocabulary of {(65e6 - body) / 512:,.0f}")
print(f"without sharing: {(body + 3 * parts['embedding']) / 1e6:.1f} million")
check("sharing saves more than a third", 2 * parts["embedding"] > (body + 3 * parts["embedding"]) / 3)


def picture(vocabulary):
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.subplots()
    for row, copies in enumerate((3, 1)):
        left = 0.0
        for name, number in count(vocabulary).items():
            width = number / 1e6 * (copies if name == "embedding" else 1)
            axes.barh(
                row, width, left=left, color={"embedding": "C0", "encoder": "C1", "decoder": "C2"}[name]
            )
            axes.text(left + width / 2, row, f"{name}\n{width:.1f}", ha="center", va="center", fontsize=9)
            left += width
    axes.set_yticks([0, 1], ["three matrices", "one, shared\n(the paper)"])
    axes.set(title=f"Millions of parameters with {vocabulary:,} words", xlabel="million")
    show(figure, "12-parameters", settings)


control(picture, settings, vocabulary=(1_000, 100_000))

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 18`: causal and padding masks, together.
# 2. Someone pads sources on the left. Which of the two masks, which stage above, and which part of
#    `embed` have to change? Try it with the first sentence.
#
# ## Read next
#
# - `minitransformer/layers/encoder_decoder.py`, `DecoderLayer`: the three sub-layers.
# - `minitransformer/models/transformer.py`, `Transformer`: `encode`, `decode` and `logits`.
# - `minitransformer/layers/masks.py`, `padding_mask`: who may look at whom.
# - Next lesson: `demos/lessons/13_teacher_forcing.py`
