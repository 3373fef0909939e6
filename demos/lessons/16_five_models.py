# %% [markdown]
# # 16. Five models, one box of bricks
#
# **What do BERT, GPT, T5, BART and ViT share?** (["Attention Is All You
# Need"](https://arxiv.org/abs/1706.03762), section 3.2.3, has the three ways to use attention that they
# choose from.)
#
# A model is a stack of layers, a mask, and a question. The layers are those of lessons 8 to 10. So two
# choices are left: who may look at whom, and what the model is asked.
#
# | model | layers | question |
# |---|---|---|
# | BERT | encoder | which words were hidden? |
# | GPT | decoder | which word comes next? |
# | T5 | encoder and decoder | what was in the gaps? |
# | BART | encoder and decoder | what was the whole text? |
# | ViT | encoder | what is in the image? |
#
# ## Five masks

# %%
from collections import Counter

import numpy as np
import small_models
from lesson import SEED, predict, show

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import Tokenizer, generate, plots
from minitransformer.data.batching import IGNORE, collate, pad_rows
from minitransformer.data.denoising import corrupted_spans, span_corruption
from minitransformer.data.masking import mask_tokens
from minitransformer.data.phrasebook import phrasebook

mg.manual_seed(SEED)
random = np.random.default_rng(SEED)
n = 4
everything, past = np.ones((n, n)), np.tril(np.ones((n, n)))
both = np.block([[everything, np.zeros((n, n))], [everything, past]])  # source, then target
panels = {"BERT": everything, "GPT": past, "T5": both, "BART": both, "ViT (patches)": everything}
figure = plots.heat_map(panels, title="Orange: may be looked at", xlabel="looked at", ylabel="who looks")
show(figure, "16-masks")

# %% [markdown]
# BERT's words see both sides, GPT's only what stands before. In T5 and BART, rows 0 to 3 are the source,
# which sees itself; rows 4 to 7 are the target, which sees the whole source (left) and its own past
# (right). ViT's patches see each other.
#
# ## Sentences that say what somebody is
#
# "They are not happy.", "I was a king." English makes subject and verb agree, so each word tells something
# about the others. 150 sentences are held out. The same loop trains all models.

# %%
BE = {"am", "is", "are", "was", "were"}
book = phrasebook()
texts = sorted({english.rstrip(".") + "." for english, _ in book.train + book.test})
texts = [text for text in texts if 3 <= len(text.split()) <= 6 and "?" not in text and "ing" not in text]
texts = [text for text in texts if BE & set(text.rstrip(".").split())]
counts = Counter(word for text in texts for word in text.split())
texts = [text for text in texts if min(counts[word] for word in text.split()) >= 8]
random.shuffle(texts)
GAPS = ["<extra_id_0>", "<extra_id_1>", "<extra_id_2>"]
tokenizer = Tokenizer.train_word(texts, added=["<MASK>", *GAPS])
START, END, PAD, MASK = (tokenizer.special_id(t) for t in ("<START>", "<END>", "<PAD>", "<MASK>"))
GAP_IDS = [tokenizer.special_id(each) for each in GAPS]
V = tokenizer.vocab_size
rows = [tokenizer.encode(text) for text in texts]
held_out, training = rows[:150], rows[150:]
print(f"{len(training)} sentences, {V} tokens; such as", texts[:3])


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)


def train(model, question, steps, data=training):
    optimizer = optim.AdamW(model.train().parameters(), lr=3e-3, weight_decay=0.01)
    losses = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * min((step + 1) / 30, (steps - step) / (0.7 * steps), 1)
        loss = question(model, [data[i] for i in random.integers(0, len(data), 32)])
        optimizer.zero_grad()
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    print(f"{type(model).__name__:5} loss {losses[0]:.2f} at first, {np.mean(losses[-20:]):.2f} at the end")
    return losses


# %% [markdown]
# ## BERT: which words were hidden?
#
# 30% of the words are chosen (15% in BERT; our sentences are short). Most become `<MASK>`, a few another
# word, a few stay. The loss counts the chosen ones. `<START>` and `<END>` are what BERT calls `[CLS]` and
# `[SEP]`.


# %%
def hide(row):
    """What BERT reads, and its targets: IGNORE where nothing was chosen."""
    ids = np.array([START, *row, END])
    may_be_chosen = (ids != START) & (ids != END)
    return mask_tokens(ids, may_be_chosen, MASK, (tokenizer.first_ordinary_id, V), random, rate=0.3)


def hidden_words(model, rows):
    read, targets = zip(*map(hide, rows), strict=True)
    return cross_entropy(model(pad_rows([*map(list, read)], PAD)), pad_rows([*map(list, targets)], IGNORE))


bert = small_models.bert(V, PAD)
with_masks = train(bert, hidden_words, 250)


def fill(model, before, after):
    ids = [START, *tokenizer.encode(before), MASK, *tokenizer.encode(after), END]
    with mg.no_grad():
        p = model(np.array([ids]))[0, ids.index(MASK)].softmax(-1).numpy()
    return ", ".join(f"{tokenizer.decode([i])} {p[i]:.2f}" for i in p.argsort()[::-1][:3].tolist())


for before, after in (("", "are happy."), ("", "am happy."), ("She", "happy.")):
    print(f"{before} ___ {after}".strip() + ":", fill(bert, before, after))

# %% [markdown]
# It knows from "are", on the *right*, who it was. To label whole texts, a small layer is put on the state
# of `[CLS]` and trained with labels: *fine-tuning* (`minitransformer train bert-classify`). In the same way
# BERT names entities (`bert-tag`), marks answers in a text (`bert-answers`) and compares sentences
# (`bert-similar`). It was also trained to say whether one sentence follows another.
#
# ## What if nothing is hidden?
#
# Ask BERT for every word, and hide none.

# %%
guess = predict("will its loss be lower or higher than with masks?", choices=["lower", "higher"])


def no_mask(model, rows):
    read = pad_rows([[START, *row, END] for row in rows], PAD)
    return cross_entropy(model(read), np.where(read == PAD, IGNORE, read))


copier = small_models.bert(V, PAD)
without = train(copier, no_mask, 60)
guess.compare("lower" if np.mean(without[-10:]) < np.mean(with_masks[-20:]) else "higher")
found = {}
for name, model in (("trained with masks", bert), ("without", copier)):
    right = []
    for row in held_out:
        for place in range(len(row)):
            ids = np.array([START, *row, END])
            ids[place + 1] = MASK
            right.append((ids, place + 1, row[place]))
    with mg.no_grad():
        said = model(pad_rows([list(ids) for ids, _, _ in right], PAD)).numpy().argmax(-1)
    found[name] = np.mean([said[i, place] == word for i, (_, place, word) in enumerate(right)])
    print(f"{name:18}: {found[name]:.0%} of hidden words found in new sentences")
assert found["without"] < found["trained with masks"] / 2

# %% [markdown]
# It has learned to copy: the answer stood in its input. GPT needs no `<MASK>`, because its mask hides every
# answer. BERT sees both sides, so something must be hidden from it.
#
# ## GPT, and T5
#
# GPT is asked for the next word at each position at once: its target is its input, shifted by one. T5 reads
# a text with gaps, and is asked for what was in them.


# %%
def next_word(model, rows):
    return cross_entropy(
        model(pad_rows([[START, *row] for row in rows], PAD)), pad_rows([[*row, END] for row in rows], IGNORE)
    )


def gaps(model, rows):
    pairs = [span_corruption(row, corrupted_spans(len(row), random, 0.3, 1.5), GAP_IDS) for row in rows]
    batch = collate(pairs, tokenizer)
    return cross_entropy(model(batch["source"], batch["target_in"]), batch["target"])


gpt = small_models.gpt(V, END)
train(gpt, next_word, 150)
written = generate(gpt, [[START]] * 100, max_new_tokens=10, do_sample=True, seed=SEED)
print("GPT writes:", *(tokenizer.decode(each) for each in written[:3]))
print(f"{sum(each not in training for each in written)} of 100 sentences are new")
t5 = small_models.t5(V, PAD, START, END)
train(t5, gaps, 120)
source = [*tokenizer.encode("They"), GAP_IDS[0], *tokenizer.encode("happy."), END]
answer = generate(t5, np.array([source]), max_new_tokens=8)[0]
print("T5 reads: They <extra_id_0> happy.  and writes:", *(tokenizer.id_to_token[i] for i in answer))

# %% [markdown]
# T5 marks each gap with one token, and writes what was in it: it must also find out how many words are
# missing. BART reads the same kind of text and writes it out in full. Both turn a text into a text, so the
# question can be written into the text itself: "translate: ...", "summarize: ..."
# (`minitransformer train t5-prefixes`). Stories are summarized so (`summarize`), and turns of a talk
# answered (`dialogue`).
#
# ## ViT: an image is a sentence of patches
#
# An image of 8 × 8 pixels is cut into 16 patches of 2 × 2. Each is flattened and multiplied by a matrix:
# the embedding of a word that needs no vocabulary.

# %%
images, labels = small_models.drawn_digits(random, 2000)
new_images, new_labels = small_models.drawn_digits(random, 300)
vit = small_models.vit()
train(vit, lambda model, rows: F.cross_entropy(model(images[rows]), labels[rows]), 150, range(2000))
with mg.no_grad():
    named = (vit(new_images).numpy().argmax(-1) == new_labels).mean()
print(f"ViT names {named:.0%} of 300 new digits (guessing: 10%)")
assert named > 0.8

# %% [markdown]
# ## Change one line
#
# In `next_word`, let GPT predict the word it reads: `pad_rows([[START, *row] ...])` as the target too. What
# is the loss?
#
# <details><summary>Answer</summary>
#
# Nearly 0 after a few steps: each position sees itself, and copies. Forgetting the shift by one is the same
# mistake as BERT without masks.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn masked_tokens`, BERT's hiding, and `minitransformer learn patches`, an image as a
# sentence.
#
# ## Summary
#
# - The layers are the same; mask and question make the model.
# - To understand a text, look at both sides; to write one, only at what is already there.
# - What is asked must not stand in the input.
#
# Where to go on: `minitransformer recipes` trains all of these on real tasks, and `docs/models.md` lists
# them.
