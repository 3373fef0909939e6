# %% [markdown]
# # 12. Training it
#
# **Which four checks say that it learns?** (["Attention Is All You
# Need"](https://arxiv.org/abs/1706.03762), sections 5.3 and 5.4)
#
# Training is a loop of four lines: the loss of a batch, its gradient, a step, and again. Most mistakes in
# it raise no error. Four checks find them.
#
# ## Data and loop
#
# Short sentences of the phrasebook: 300 to learn, few on purpose, and 300 others to test. `collate` makes a
# batch: it adds `<START>` and `<END>`, shifts the target by one, and fills short rows with `<PAD>`.

# %%
import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F
from minitransformer import Tokenizer, Transformer, TransformerConfig, plots
from minitransformer.claims.translating import Sentences, probabilities, token_error, translations
from minitransformer.data.batching import IGNORE, collate
from minitransformer.data.phrasebook import phrasebook

mg.manual_seed(SEED)
random = np.random.default_rng(SEED)
short = [pair for pair in phrasebook().train if len(pair[0].split()) <= 4]
pairs = [short[i] for i in random.permutation(len(short))[:600]]
tokenizer = Tokenizer.train_word([text for pair in pairs for text in pair])
V = tokenizer.vocab_size
ids = [(tokenizer.encode(english), tokenizer.encode(french)) for english, french in pairs]
learn, test = ids[:300], ids[300:]
data = Sentences(learn, test, [], tokenizer)
row = collate(learn[:2], tokenizer)
name = tokenizer.id_to_token | {IGNORE: "(ignored)"}
print("the decoder reads:", *(name[i] for i in row["target_in"][0]))
print("and must say:     ", *(name[i] for i in row["target"][0]))


def new_model(layers=1, is_causal=True):
    config = TransformerConfig(
        V, d_model=48, num_heads=4, d_ff=96, num_encoder_layers=layers, num_decoder_layers=layers,
        dropout=0.0, is_causal=is_causal,
    )  # fmt: skip
    return Transformer(config)


def loss_of(model, pairs, smoothing=0.0):
    batch = collate(pairs, tokenizer)
    logits = model(batch["source"], batch["target_in"])  # (B, T, V)
    target = batch["target"].flatten()
    return F.cross_entropy(logits.flatten(0, 1), target, ignore_index=IGNORE, label_smoothing=smoothing)


def train(model, rate, steps=220, pairs=learn, smoothing=0.0):
    """The loss, the size of the gradient, and the learning rate of each step."""
    optimizer = optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    curves = []
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate(step)
        rows = random.integers(len(pairs), size=24)
        loss = loss_of(model, [pairs[i] for i in rows], smoothing)
        optimizer.zero_grad()
        loss.backward()
        size = nn.utils.clip_grad_norm_(model.parameters(), 1e9)  # measured, not clipped
        optimizer.step()
        curves.append((loss.item(), float(size), rate(step)))
    return np.array(curves).T


# %% [markdown]
# *Adam* (section 5.3) is gradient descent that keeps, for each weight, a running mean of its gradients and
# of their squares. It divides the one by the root of the other. So each weight moves by about the learning
# rate, however large its gradient is.
#
# ## 1. The first loss
#
# A model that knows nothing must begin near log V (lesson 5).

# %%
model = new_model()
print(f"V = {V}: log V is {np.log(V):.2f}, the first loss is {loss_of(model, learn).item():.2f}")
with mg.no_grad():
    model.embedding.weight *= 5
print(f"with embeddings five times as large, it is {loss_of(model, learn).item():.2f}")

# %% [markdown]
# Far above log V: sure of something before it has learned anything, so weights are too large. Far below: it
# reads the answer. (An unshifted target gives 4.3, as input and output share a table. A missing mask does
# not show yet.)
#
# ## 2. One batch, by heart
#
# Any model can learn eight sentences by heart. If yours cannot, there is a mistake in the model or in the
# loop.

# %%
model = new_model()
by_heart = train(model, lambda step: 5e-3, steps=60, pairs=learn[:8])[0]
print(f"eight sentences: loss {by_heart[0]:.2f} at first, {by_heart[-1]:.3f} after 60 steps")
assert by_heart[-1] < 0.1

# %% [markdown]
# ## 3. Loss, gradient and learning rate on the way
#
# The paper's learning rate rises for `warmup_steps`, then falls with the root of the step (equation 3):
# `d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)`. Why rise? At first Adam has seen few gradients:
# each of its steps has full size, in a direction that is hardly better than random. We train three layers
# on each side with a high rate, with a warm-up of 100 steps and without.

# %%
paper = [optim.paper_schedule(step, 512, 4000) for step in (1, 1000, 4000, 16_000, 100_000)]
print("the paper's rate at steps 1, 1000, 4000, 16000, 100000:", *(f"{rate:.1e}" for rate in paper))
guess = predict("three layers, a rate of 0.015. Does it learn without warm-up?", choices=["yes", "no"])
arms = {"warm-up": lambda step: 0.015 * min(1, step / 100), "no warm-up": lambda step: 0.015}
runs = {arm: train(new_model(layers=3), rate, steps=120) for arm, rate in arms.items()}
ends = {arm: run[0][-20:].mean() for arm, run in runs.items()}
for arm, loss in ends.items():
    print(f"{arm:10}: loss {loss:.2f} at the end")
guess.compare("yes" if ends["no warm-up"] < ends["warm-up"] + 0.5 else "no")
panels = {
    title: {arm: run[i] for arm, run in runs.items()}
    for i, title in enumerate(("loss", "size of the gradient", "learning rate"))
}
show(plots.curves(panels, xlabel="step"), "12-training")
assert ends["no warm-up"] > ends["warm-up"] + 0.5

# %% [markdown]
# (A gradient's *size* is the root of the sum of its squares.) Without warm-up the loss falls to about 4.6
# and stays, and the gradient shrinks early. The first steps have made all positions alike: decoder outputs
# differ by a millionth. What is left to learn is how frequent each word is, an entropy of 4.56. With
# warm-up, both keep moving. (With more seeds: `minitransformer claims warm-up`.)
#
# ## 4. What it writes
#
# A low loss can lie. One of these two models has no causal mask. Words are scored by teacher forcing.

# %%
rise_and_fall = lambda step: optim.inverse_sqrt_schedule(step, 5e-3, 50)
models = {"with the mask": new_model(), "without": new_model(is_causal=False)}
told, exact = {}, {}
for title, model in models.items():
    losses = train(model, rise_and_fall)[0]
    told[title] = 1 - token_error(model, test, data)
    written = translations(model, learn[:100], data)
    exact[title] = np.mean([text == right for text, (_, right) in zip(written, learn, strict=False)])
    print(f"{title:13}: training loss {losses[-20:].mean():.2f}; right in new sentences: {told[title]:.0%}")
guess = predict("the one without looks better. How many of 100 learned sentences will it write?")
guess.compare(100 * exact["without"])
print(f"with the mask: {100 * exact['with the mask']:.0f} of 100")
assert told["without"] > told["with the mask"]
assert exact["without"] < 0.1 < 0.5 < exact["with the mask"]

# %% [markdown]
# In training, the answer stands one place to the right. Without the mask, the model learns to copy it, word
# by word: in new sentences, 81% of words seen ten times or more, 13% of those seen once (our run). When it
# writes, there is nothing to the right yet. Loss and word accuracy praise the cheat, and only writing shows
# it. (With more seeds: `minitransformer claims cheating`.)
#
# ## Too sure: label smoothing
#
# Lesson 5's smoothing asks for 0.9 + 0.1 / V on the right word instead of 1. Compare how sure the model is
# of new words with how often it is right.

# %%
smooth = new_model()
train(smooth, rise_and_fall, smoothing=0.1)
for title, model in {"hard targets": models["with the mask"], "smoothed": smooth}.items():
    p, right = probabilities(model, test, data)
    loss = -np.log(p[np.arange(len(right)), right]).mean()
    print(
        f"{title:12}: {p.max(-1).mean():.0%} sure, {(p.argmax(-1) == right).mean():.0%} right; "
        f"loss {loss:.2f}, perplexity {np.exp(loss):.1f}"
    )

# %% [markdown]
# With hard targets it is surer than it is right: it has learned 300 sentences by heart. With smoothing it
# is about as sure as it is right. The paper says that smoothing hurts perplexity and helps the
# translations; where data are few, it need not even hurt (`minitransformer claims smoothing`).
#
# ## Change one line
#
# In `loss_of`, leave out `ignore_index=IGNORE` and let `<PAD>` count,
# `target[target == IGNORE] = tokenizer.pad_id`. What happens to the loss?
#
# <details><summary>Answer</summary>
#
# It looks better. `<PAD>` after `<END>` is soon predicted with certainty, and these zeros lower the mean.
# The words that matter get a smaller part of the gradient.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn warm_up`, `minitransformer learn adam` and `minitransformer learn label_smoothing`;
# and `minitransformer learn clip_norm`, which scales a gradient down if it is too large.
#
# ## Summary
#
# - The first loss is near log V, and one batch can be learned by heart; or something is wrong.
# - Without a warm-up, a high learning rate can spoil the first steps.
# - Loss and accuracy can be fooled. Read what the model writes.
#
# Next, how a text comes out: `minitransformer lesson 13`
