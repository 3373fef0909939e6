# %% [markdown]
# # 13. From probabilities to a text
#
# **How does a sentence come out?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762),
# section 6.1)
#
# A trained model answers one question: how probable is each word, after these? A text needs many answers in
# a row, and each becomes a part of the next question. There are several ways to choose.
#
# ## A translator that is not sure
#
# We train a small one on sentences of at most five words, and stop early: a perfect one would be so sure of
# each word that all ways of choosing agree.

# %%
import math
import time

import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import Tokenizer, Transformer, TransformerConfig, generate, plots
from minitransformer.data.batching import IGNORE, TokenBatches, collate
from minitransformer.data.phrasebook import phrasebook

mg.manual_seed(SEED)
random = np.random.default_rng(SEED)
book = phrasebook()
pairs, test = ([pair for pair in part if len(pair[0].split()) <= 5] for part in (book.train, book.test))
tokenizer = Tokenizer.train_word([text for pair in pairs for text in pair])
often = [("I love you", "Je t'aime")] * 20  # so that this one is right
ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in [*pairs, *often]]
batches = TokenBatches(np.array([(len(s) + 1, len(t) + 1) for s, t in ids]), max_tokens=400, seed=SEED)
model = Transformer(TransformerConfig(tokenizer.vocab_size, 64, 4, 256, 1, 1, dropout=0.0))
optimizer = optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
STEPS = 340
for step in range(STEPS):
    optimizer.param_groups[0]["lr"] = 4e-3 * min((step + 1) / 50, 1) * math.sqrt(1 - step / STEPS)
    batch = collate([ids[i] for i in batches.rows(step)], tokenizer)
    logits = model(batch["source"], batch["target_in"])
    loss = F.cross_entropy(logits.flatten(0, 1), batch["target"].reshape(-1), ignore_index=IGNORE)
    optimizer.zero_grad()
    loss.backward()
    optim.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"{len(pairs):,} pairs, {tokenizer.vocab_size} words, loss {loss.item():.2f} after {STEPS} steps")

# %% [markdown]
# ## Word by word
#
# Take the most probable word, append it, ask again: *greedy* search. It ends when the model says `<END>`, a
# word like any other, or at a limit (the paper's: the length of the input + 50). The probability of the
# whole text is the product of its words' probabilities.

# %%
encode = lambda text: [*tokenizer.encode(text), tokenizer.end_id]
found = generate(model, [encode("I love you")], max_new_tokens=12, return_dict=True)
for token, logprob in zip([*found.ids[0], tokenizer.end_id], found.logprobs[0], strict=False):
    print(f"{tokenizer.id_to_token[token]:8} {math.exp(logprob):.3f}")
print(f"the whole text: {math.exp(sum(found.logprobs[0])):.3f}")

source, target = np.array([encode("I love you")]), random.integers(4, tokenizer.vocab_size, (1, 40))
passes = {
    "one pass over 40 words, as in training": lambda: model(source, target),
    "40 passes, one for each word": lambda: [model(source, target[:, : t + 1]) for t in range(40)],
}
with mg.no_grad():
    for name, compute in passes.items():
        start = time.process_time()
        compute()
        print(f"{name:38} {1000 * (time.process_time() - start):4.0f} ms")

# %% [markdown]
# In training all words are known, and one pass predicts all of them. When it writes, each word must be
# there before the next pass begins. (A *cache* keeps the keys and values of the words before, which makes
# each pass shorter.) So a model reads its own mistakes, and they lead to others:
# `minitransformer claims exposure-bias`.
#
# ## One step in close-up: temperature and top p
#
# *Sampling* draws each word with its probability. For a story that is what you want, since likely words
# alone make dull texts. Two settings tame it:
#
# - *temperature* T divides all scores by T before softmax (lesson 5): below 1 sharpens, above 1 flattens;
# - *top p* keeps the fewest words whose probabilities reach p together, and drops the tail.


# %%
def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


steps = []  # (how sure of the next word, the source, what is written so far, all scores)
for source, target in test[:50]:
    written = [tokenizer.start_id, *tokenizer.encode(target)]
    with mg.no_grad():
        rows = model(np.array([encode(source)]), np.array([written]))[0].numpy().astype(float)
    for t, row in enumerate(rows):
        steps.append((softmax(row).max(), source, tokenizer.decode(written[1 : t + 1]), row))
sure, source, written, scores = min(steps, key=lambda step: abs(step[0] - 0.4))
print(f'of 50 new sentences, a step at which it hesitates: "{source}", written so far "{written}"')
best = np.argsort(-scores)[:6]
shares = {T: softmax(scores / T) for T in (0.5, 1.0, 2.0)}
panels = {f"temperature {T:g}": {tokenizer.id_to_token[i]: p[i] for i in best} for T, p in shares.items()}
title = f'"{source}" -> "{written} ...": the next word'
show(plots.bars(panels, title, "probability", xlim=(0, 1)), "13-step")
order = np.argsort(-scores)
kept = 1 + int(np.searchsorted(np.cumsum(softmax(scores)[order]), 0.7))
print(f"top p = 0.7 keeps {kept} of {len(order)} words")
assert shares[0.5].max() > shares[1.0].max() > shares[2.0].max()

# %% [markdown]
# The same scores three times, and the six likeliest words. At 0.5 the first bar takes nearly everything. At
# 2, six bars together are small: 900 unlikely words share the rest. One of these is then drawn most of the
# time, which is why hot texts make no sense.
#
# ## Greedy can miss the best text
#
# The likeliest next word need not begin the likeliest *text*. Suppose that "the" has 0.6 and "a" 0.4, and
# after "the" come cat 0.4, dog 0.35 and mat 0.25, but after "a" comes queen with 0.9. *Beam search* keeps
# the k best beginnings at each step.

# %%
NEXT = {
    (): {"the": 0.6, "a": 0.4},
    ("the",): {"cat": 0.4, "dog": 0.35, "mat": 0.25},
    ("a",): {"queen": 0.9, "cat": 0.1},
}


def beam_search(k):
    beams = [((), 1.0)]
    for _ in range(2):
        longer = [((*text, word), p * q) for text, p in beams for word, q in NEXT[text].items()]
        beams = sorted(longer, key=lambda beam: -beam[1])[:k]
        print(f"{k} beam{'s' * (k > 1)}:", *(f"{' '.join(text)} {p:.2f}" for text, p in beams), sep="   ")
    return beams[0]


guess = predict("one beam is greedy search and ends at 0.6 · 0.4 = 0.24. Where do two beams end?")
beam_search(1)
guess.compare(beam_search(2)[1])

# %% [markdown]
# ## All ways, on 200 sentences that it has not seen

# %%
sources = [encode(source) for source, _ in test[:200]]
references = [tokenizer.decode(tokenizer.encode(target)) for _, target in test[:200]]
ways = {
    "greedy": {},
    "4 beams": {"num_beams": 4, "length_penalty": 0.0},
    "temperature 1": {"do_sample": True, "seed": SEED},
    "temperature 0.5": {"do_sample": True, "temperature": 0.5, "seed": SEED},
    "top p = 0.8": {"do_sample": True, "top_p": 0.8, "seed": SEED},
}
logp, exact = {}, {}
for name, options in ways.items():
    result = generate(model, sources, max_new_tokens=20, return_dict=True, **options)
    logp[name] = np.array([sum(each) for each in result.logprobs])
    texts = [tokenizer.decode(each) for each in result.ids]
    exact[name] = np.mean([text == right for text, right in zip(texts, references, strict=True)])
    print(f"{name:16} mean log-probability {logp[name].mean():6.2f}   word for word right {exact[name]:.0%}")
print(f"4 beams find a likelier text than greedy for {(logp['4 beams'] > logp['greedy'] + 1e-4).mean():.0%}")
assert logp["4 beams"].mean() > logp["greedy"].mean() > logp["temperature 1"].mean()
assert exact["greedy"] > exact["temperature 1"]

# %% [markdown]
# Beams find likelier texts. That a likelier text is a better one is the model's opinion: compare the two
# columns. For a translation, variety is a fault; sampled texts lose. The paper uses 4 beams.
#
# Each further word multiplies by a number below 1, so beams prefer short texts. The paper divides the
# log-probability by a *length penalty*, ((5 + length) / 6)^0.6.
#
# ## Change one line
#
# Give `NEXT` a third first word, `"an": 0.3`, which "owl" follows with 1.0 (and "the" 0.4, "a" 0.3). What
# do two beams find?
#
# <details><summary>Answer</summary>
#
# They keep "the" and, of the two that are level, the one that comes first, "a": 0.3 · 0.9 = 0.27. They miss
# "an owl", 0.30, which three beams find. A search with beams promises nothing.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn beam_step` and `minitransformer learn top_p`.
#
# ## Summary
#
# - A text comes out word by word, until `<END>`.
# - Sampling varies, temperature and top p tame it; beams search for the likeliest text.
# - The likeliest text is not always the best one.
#
# Next, a GPT of your own: `minitransformer lesson 14`
