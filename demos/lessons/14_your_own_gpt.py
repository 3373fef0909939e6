# %% [markdown]
# # 14. Your own GPT
#
# **Does it work on my text?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762), section
# 3.1: a GPT is the paper's decoder without cross-attention.)
#
# `demos/gpt.py` is a whole program of 172 lines: it reads a text, learns to predict each next character,
# and then writes. It is yours: copy it, open it beside this lesson, change it. Its settings stand at the
# top, and its headings are the paper's sections.
#
# ```sh
# python demos/gpt.py mine.txt
# ```
#
# ## A text, as numbers
#
# Any text of 50,000 characters or more will do. Here it is the English side of the phrasebook, so that you
# see at a glance whether the model writes English. A tenth of the text is held out: it is never trained on.

# %%
import math

import lesson  # it knows where demos/gpt.py is
import numpy as np
from lesson import predict, show

import minigrad as mg
from minitransformer import plots
from minitransformer.data.phrasebook import phrasebook

import gpt  # isort: skip

text = "\n".join(english for english, _ in phrasebook().train)
characters = sorted(set(text))
ids = mg.tensor([characters.index(c) for c in text])
cut = len(ids) * 9 // 10
print(f"{len(text):,} characters, {len(characters)} different. The text begins: {text[:40]!r}")
print("as numbers:", ids[:20].tolist())

# %% [markdown]
# ## What it knows before it has learned
#
# Lesson 12's first test: the loss must start near log V. And it writes noise.

# %%
mg.manual_seed(lesson.SEED)
model = gpt.GPT(len(characters))


def sample(model, length=120):
    written = gpt.write(model, ids[:1].reshape(1, 1), length)[0]
    return "".join(characters[i] for i in written.tolist()).replace("\n", " / ")


print(f"{sum(p.numel() for p in model.parameters()):,} weights")
first = gpt.loss_of(model, ids).item()
print(f"log {len(characters)} = {math.log(len(characters)):.2f}; the first loss is {first:.2f}")
print("it writes:", repr(sample(model, 60)))

# %% [markdown]
# ## Train
#
# Each step reads 16 pieces of 64 characters, from random places. We begin without any layer: then a
# character's vector goes straight to the output. Then we take two layers instead of the program's three, so
# that the lesson takes half a minute.


# %%
def trained(layers):
    """A model with so many layers, and its loss at each step."""
    gpt.LAYERS = layers
    mg.manual_seed(lesson.SEED)
    model = gpt.GPT(len(characters))
    return model, gpt.train(model, ids[:cut], ids[cut:], 350)


end_of = lambda losses: np.mean(losses[-20:])  # single batches vary
runs = {}
for layers in (0, 2):
    print(f"\n{layers} layers")
    model, runs[layers] = trained(layers)
    print("it writes:", sample(model))
assert end_of(runs[2]) < 1.6 < end_of(runs[0]) < math.log(len(characters))

# %% [markdown]
# With no layer it sees only the last character, and writes frequent letters. Layers let it look back: it
# has found words and the shape of a sentence, from nothing but the next character.
#
# ## An experiment: how far must it look back?
#
# Each piece has 64 characters (`CONTEXT`), and a character can look at all before it. What if it could look
# at four only? Each step then reads 256 pieces of 4, so that it still learns from 1,024 characters.

# %%
guess = predict("with a context of 4 characters, will the loss end higher?", choices=["yes", "no"])
gpt.CONTEXT, gpt.BATCH = 4, 256
short, short_losses = trained(2)
print("it writes:", sample(short))
gpt.CONTEXT, gpt.BATCH = 64, 16
far, near = end_of(runs[2]), end_of(short_losses)
print(f"the loss of the last steps: {far:.2f} with 64 characters, {near:.2f} with 4")
guess.compare("yes" if near > far else "no")
smooth = lambda values: np.convolve(values, np.ones(10) / 10, "valid")
lines = {f"{layers} layers": smooth(losses) for layers, losses in runs.items()}
lines["2 layers, context 4"] = smooth(short_losses)
show(plots.curves({f"A GPT on {len(text):,} characters": lines}, xlabel="step", ylabel="loss"), "14-gpt")
assert near > far + 0.1

# %% [markdown]
# In the picture, the curve of four characters is ahead for a while: what is near is learned first. Then it
# flattens. With four characters the model cannot know which word it is in, or who the sentence is about.
# Attention pays where the answer is far away.
#
# ## Change one line
#
# In `gpt.py`, a layer is *pre-norm*, `x + f(norm(x))`. Write the paper's post-norm in `Layer.forward`,
# `x = self.norm1(x + self.attention(x, mask))`, and the same for the feed-forward network. Predict what
# that does to the loss, then run it.
#
# <details><summary>Answer</summary>
#
# In our run it learns, but more slowly: 1.67 where pre-norm has 1.22, after the same 350 steps at the same
# rate. That rate was chosen for pre-norm; a fair comparison would choose one for each.
#
# </details>
#
# ## Exercise
#
# Train it on a text of yours, and change one thing at a time: `HEADS = 1`, `LAYERS = 1`, no positions,
# `D_MODEL = 32`. Write down your prediction first. (`python demos/scaling.py` draws the loss against the
# size of the model and of the text.) The same model with checkpoints, a tokenizer and beams is
# `minitransformer train shakespeare-char-cpu --data mine.txt`.
#
# ## Summary
#
# - A GPT is a decoder-only model: embedding, masked layers, scores for the next token.
# - The first loss is log V; then letters, words and sentences come, in this order.
# - A prediction before each run makes an experiment of a change.
#
# What came before attention: `minitransformer lesson 15`
