# %% [markdown]
# # 17. Five models from the same few classes
#
# After this lesson you can say what BERT, GPT, T5, BART and ViT have in common, train each of them in
# seconds, and choose one by what it may see and what it is asked.
#
# One thought: *a model is a stack of layers, a mask, and a question.* The layers are those of lesson
# 12. (The five configurations are in `small_models.py`.)
#
# | model | layers | each position sees | its question |
# |---|---|---|---|
# | BERT | encoder | all | which words were masked? |
# | GPT | decoder without encoder | the ones before | which word comes next? |
# | T5 | both | source: all; target: before | what was in the gaps? |
# | BART | both | the same | what was the whole text? |
# | ViT | encoder | all patches | what is in the image? |

# %%
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import small_models
from lesson import Settings, check, control, predict, read_settings, show
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import BART, Tokenizer, generate, record_attention
from minitransformer.data.batching import IGNORE, collate, pad_rows
from minitransformer.data.denoising import (
    corrupted_spans,
    fill_spans,
    infilled_spans,
    span_corruption,
    text_infilling,
)
from minitransformer.data.digits import digits
from minitransformer.data.labels import make_questions
from minitransformer.data.masking import mask_tokens
from minitransformer.data.phrasebook import phrasebook, sentence_splits
from minitransformer.data.prefixes import make_prefixed_pairs
from minitransformer.layers.config import LayerConfig
from minitransformer.layers.encoder_decoder import Encoder
from minitransformer.plots.style import colour_map


@dataclass
class Lesson(Settings):
    place: int = 0
    """Which word of "They are not happy." is hidden from BERT, and asked of GPT. Try 1 and 3."""
    guess: float | None = None
    """Your prediction: the percentage of new sentences that a decoder retells from one vector."""


settings = read_settings(Lesson)
rng = np.random.default_rng(settings.seed)

# %% [markdown]
# ## The same layers, another mask
#
# "Attention Is All You Need", section 3.2.3, on the encoder, and on the decoder:
#
# > Each position in the encoder can attend to all positions in the previous layer of the encoder.
#
# > We need to prevent leftward information flow in the decoder to preserve the auto-regressive
# > property.
#
# Two stacks of one layer with the same weights. One has the causal mask. The last position sees
# everything in both, so its state must be the same. The others must differ.

# %%
layer = LayerConfig(d_model=32, num_heads=4, d_ff=64)
both_ways, causal = Encoder(1, layer).eval(), Encoder(1, layer, is_causal=True).eval()
causal.load_state_dict(both_ways.state_dict())

x = mg.randn(1, 6, 32)  # (B, T, d_model)
difference = abs(both_ways(x) - causal(x)).amax(-1)[0].numpy()  # (T,)
print("difference at each position:", difference.round(3))
check("without a mask it is BERT's layer, with it GPT's: the last states are equal", difference[-1] < 1e-5)
check("all others differ", (difference[:-1] > 1e-3).all())

# %% [markdown]
# ## Sentences
#
# The sentences of our phrasebook that say what somebody is or was: about a hundred words. English makes
# subject and verb agree, so each tells something about the other. 150 sentences are held out.
#
# All text models share the tokenizer. `<MASK>` hides a word, `<extra_id_0>` a gap.

# %%
BE = {"am", "is", "are", "was", "were"}
SENTINELS = ["<extra_id_0>", "<extra_id_1>", "<extra_id_2>"]


def says_what_somebody_is(text):
    words = text.rstrip(".").split()
    return 3 <= len(words) <= 6 and BE & set(words) and not text.endswith("?") and "ing" not in text


book = phrasebook()
texts = sorted({e.rstrip(".") + "." for e, _ in book.train + book.test if says_what_somebody_is(e)})
counts = Counter(word for text in texts for word in text.split())
texts = [text for text in texts if min(counts[word] for word in text.split()) >= 8]
rng.shuffle(texts)

tokenizer = Tokenizer.train_word(texts, added=["<MASK>", *SENTINELS])
START, END, PAD, MASK = (tokenizer.special_id(t) for t in ("<START>", "<END>", "<PAD>", "<MASK>"))
SENTINEL_IDS = [tokenizer.special_id(each) for each in SENTINELS]
V = tokenizer.vocab_size
encoded = [tokenizer.encode(text) for text in texts]
held_out, training = encoded[:150], encoded[150:]
print(f"{len(training)} sentences, {V} tokens; such as", texts[:3])

# %% [markdown]
# One function trains all of them. Only `question` differs: it takes a model and some sentences, and
# returns the loss.


# %%
def train(model, question, steps, data=training, batch=32, rate=3e-3):
    """Train with a short warm-up and a linear decay; the loss of each step."""
    optimizer = optim.AdamW(model.train().parameters(), lr=rate, weight_decay=0.01)
    losses = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min((step + 1) / 30, (steps - step) / (0.7 * steps), 1)
        rows = [data[i] for i in rng.integers(0, len(data), batch)]
        optimizer.zero_grad()
        loss = question(model, rows)
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    print(
        f"{type(model).__name__:5} loss {losses[0]:.2f} at the start, {np.mean(losses[-20:]):.2f} at the end"
    )
    return losses


def cross_entropy(logits, targets):  # (B, T, V), (B, T)
    return F.cross_entropy(logits.reshape(-1, V), targets.reshape(-1), ignore_index=IGNORE)


# %% [markdown]
# ## BERT: which words were masked?
#
# 15% of the words are chosen (here 30%, as the sentences are short). Of these, 80% become `<MASK>`, 10%
# another word, and 10% stay. The loss counts the chosen ones alone. The model cannot know which words
# stay or were replaced, so it must have an opinion on all of them.
#
# `<START>` and `<END>` are what BERT calls `[CLS]` and `[SEP]`. BERT was also asked whether one sentence
# follows another: next-sentence prediction, a linear layer on the state of `[CLS]`, which sees both
# (`head="next_sentence"`). A classifier of texts reads the same state: it begins with the weights of a
# trained BERT, and trains on with labels (*fine-tuning*; `train bert-classify --init-from runs/bert-mlm`).


# %%
def hide(sentence):
    """What BERT reads, and its targets: IGNORE where nothing was chosen."""
    ids = np.array([START, *sentence, END])
    may_be_chosen = (ids != START) & (ids != END)
    words = (tokenizer.first_ordinary_id, V)
    read, targets = mask_tokens(ids, may_be_chosen, MASK, words, rng, rate=0.3)
    return read.tolist(), targets.tolist()


def masked_words(model, rows):
    read, targets = zip(*map(hide, rows), strict=True)
    return cross_entropy(model(pad_rows(read, PAD)), pad_rows(targets, IGNORE))


bert = small_models.bert(V, PAD)
losses = train(bert, masked_words, 250)


# %%
def read(text):
    """Ids of a text with marks such as <MASK>."""
    words = text.replace(".", " .").split()
    return [
        i for word in words for i in ([tokenizer.special_id(word)] if "<" in word else tokenizer.encode(word))
    ]


def bert_fills(text):
    """The probability of each token at the <MASK>."""
    ids = [START, *read(text), END]
    with mg.no_grad():
        return bert(np.array([ids]))[0, ids.index(MASK)].softmax(-1).numpy()


def likeliest(p, k=4):
    return ", ".join(f"{tokenizer.decode([i])} {p[i]:.2f}" for i in p.argsort()[::-1][:k].tolist())


for text in ("<MASK> are happy.", "<MASK> am happy.", "She <MASK> happy."):
    print(f"{text:20}", likeliest(bert_fills(text)))
plural = sum(bert_fills("<MASK> are happy.")[tokenizer.encode(word)[0]] for word in ("You", "We", "They"))
check("BERT knows from 'are', to the right, who it was: You, We or They", plural > 0.6)
pair = np.array([[START, *read(text), END] for text in ("You are happy.", "You are tired.")])
with mg.no_grad():
    happy, tired = bert.states(pair)[:, 0].numpy()  # (D,) each, what a classifier reads
print(f"the largest difference of their states of [CLS]: {abs(happy - tired).max():.2f}")
check("the state of [CLS] differs with the text", not np.allclose(happy, tired, atol=0.01))


# %% [markdown]
# ## GPT: which word comes next?
#
# Each position predicts the next token, all in one pass, because of the mask. Then the model writes: it
# draws a word, reads it, and draws the next, until `<END>`.


# %%
def next_word(model, rows):
    inputs = pad_rows([[START, *row] for row in rows], PAD)
    return cross_entropy(model(inputs), pad_rows([[*row, END] for row in rows], IGNORE))


gpt = small_models.gpt(V, END)
train(gpt, next_word, 200)

written = generate(gpt, [[START]] * 100, max_new_tokens=10, do_sample=True, seed=settings.seed)
print([tokenizer.decode(each) for each in written[:4]])
new = [each for each in written if each not in training]
print(f"{len(new)} of 100 texts are not among the training sentences")
check("GPT writes sentences that it has never read", len(new) >= 10)

# %% [markdown]
# ## Both sides against one
#
# Each word of the held-out sentences in turn: BERT reads the sentence with this word masked, GPT what
# stands before it. Neither has seen the sentence. (`minitransformer claims two-directions` compares
# models of equal size, also in two other tasks.)

# %%
BE_IDS = {tokenizer.encode(word)[0] for word in BE}
right = {"BERT": [], "GPT": []}  # (place, right or not)
for sentence in held_out:
    full = np.array([START, *sentence, END])
    masked = np.tile(full, (len(sentence), 1))  # one row for each word
    places = np.arange(len(sentence))
    masked[places, places + 1] = MASK
    with mg.no_grad():
        by_bert = bert(masked).numpy().argmax(-1)[places, places + 1]
        by_gpt = gpt(full[None]).numpy().argmax(-1)[0, :-2]
    for name, chosen in (("BERT", by_bert), ("GPT", by_gpt)):
        right[name] += list(zip(places, chosen == sentence, strict=True))

share = {
    name: [np.mean([hit for place, hit in hits if place == k]) for k in range(4)]
    for name, hits in right.items()
}
print({name: np.round(each, 2).tolist() for name, each in share.items()})
check("BERT, which sees both sides, finds the first word more often", share["BERT"][0] > share["GPT"][0])


# %%
def picture_of_sides(place):
    sentence = tokenizer.encode("They are not happy.")
    full = [START, *sentence, END]
    masked = [MASK if k == place + 1 else i for k, i in enumerate(full)]
    with mg.no_grad():
        p_bert = bert(np.array([masked]))[0, place + 1].softmax(-1).numpy()
        p_gpt = gpt(np.array([full]))[0, place].softmax(-1).numpy()
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    left, middle, last = figure.subplots(1, 3, width_ratios=[1.2, 1, 1])
    for name, offset in (("BERT", -0.2), ("GPT", 0.2)):
        left.bar(np.arange(4) + offset, share[name], 0.4, label=name)
    left.set(title="BERT sees the right side, too", ylabel="words found, of held-out sentences")
    left.set_xticks(range(4), ["1st", "2nd", "3rd", "4th word"])
    left.legend()
    for axes, name, p, shown in (
        (middle, "BERT", p_bert, masked[1:-1]),
        (last, "GPT", p_gpt, [*full[1 : place + 1], MASK]),
    ):
        best = p.argsort()[::-1][:6].tolist()
        axes.barh([tokenizer.decode([i]) for i in best], p[best], color="C0" if name == "BERT" else "C1")
        words = " ".join("___" if i == MASK else tokenizer.decode([i]) for i in shown)
        axes.set(title=f"{name} reads: {words}", xlabel="probability", xlim=(0, 1))
        axes.invert_yaxis()
    show(figure, "17-sides", settings)


control(picture_of_sides, settings, place=(0, 4))

# %% [markdown]
# "The Transformer architecture" says that BERT suits tasks "requiring deep understanding of language
# context". What we can measure is smaller: it reads both sides.
#
# ## What goes wrong: a question without a mask
#
# Let BERT predict *every* word, and hide none. It sees the answer in its input. The loss falls faster
# than before, to nearly nothing, and the model has learned to copy.


# %%
def no_mask(model, rows):
    read = pad_rows([[START, *row, END] for row in rows], PAD)
    return cross_entropy(model(read), np.where(read == PAD, IGNORE, read))


copier = small_models.bert(V, PAD)
copied = train(copier, no_mask, 50)
questions = [hide(row) for row in held_out]
read_ids = pad_rows([ids for ids, _ in questions], PAD)
targets = pad_rows([wanted for _, wanted in questions], IGNORE)
asked = (targets != IGNORE) & (read_ids == MASK)
with mg.no_grad():
    found = {
        name: (model(read_ids).numpy().argmax(-1) == targets)[asked].mean()
        for name, model in (("trained with masks", bert), ("trained to copy", copier))
    }
print("masked words found:", {name: round(float(each), 2) for name, each in found.items()})
check("the copier's loss is lower", np.mean(copied[-10:]) < np.mean(losses[-20:]) / 2)
check(
    "but it finds fewer than half as many masked words",
    found["trained to copy"] < found["trained with masks"] / 2,
)

# %% [markdown]
# ## T5: what was in the gaps?
#
# Encoder and decoder. A gap becomes one sentinel, whatever its length. The target has each sentinel and
# what it stood for, and a last sentinel ends it. So the model must also find out how many words are missing.
#
# The pairs (source, target) are all that differs between T5's and BART's question.


# %%
def pairs_loss(model, pairs):
    batch = collate(pairs, tokenizer)
    return cross_entropy(model(batch["source"], batch["target_in"]), batch["target"])


def gaps(model, rows):
    return pairs_loss(
        model, [span_corruption(row, corrupted_spans(len(row), rng, 0.3, 1.5), SENTINEL_IDS) for row in rows]
    )


t5 = small_models.t5(V, PAD, START, END)
train(t5, gaps, 120)


# %%
SEEN = {(a, b) for row in encoded for a, b in pairwise(row) if b in BE_IDS}


def agrees(sentence):
    """Whether a form of "be" follows a word that it follows in the corpus."""
    pairs = [(a, b) for a, b in pairwise(sentence) if b in BE_IDS]
    return bool(pairs) and pairs[0] in SEEN


def answers(model, sources):
    return generate(model, pad_rows([[*source, END] for source in sources], PAD), max_new_tokens=12)


without_verb = [[SENTINEL_IDS[0] if i in BE_IDS else i for i in row] for row in held_out[:60]]
filled = [
    fill_spans(source, answer, set(SENTINEL_IDS))
    for source, answer in zip(without_verb, answers(t5, without_verb), strict=True)
]
for source, text in list(zip(without_verb, filled, strict=True))[:3]:
    print(" ".join(tokenizer.id_to_token[i] for i in source), "->", tokenizer.decode(text))
t5_agrees = np.mean([agrees(text) for text in filled])
any_verb = np.mean(
    [agrees([b if i == SENTINEL_IDS[0] else i for i in row]) for row in without_verb for b in BE_IDS]
)
print(f"the verb agrees in {t5_agrees:.0%}; a form of 'be' by chance in {any_verb:.0%}")
check("T5 fills the gap with a verb that agrees, more often than by chance", t5_agrees > any_verb + 0.15)

# %% [markdown]
# ## BART: what was the whole text?
#
# The same gaps, with one `<MASK>` each, but the decoder writes the text in full. It can also insert
# words where a gap was empty. (T5's gaps were never empty, and often had two words. So it sometimes
# writes one too many.) A wrong text can be repaired with the same question.


# %%
def repair(model, rows):
    return pairs_loss(
        model, [text_infilling(row, infilled_spans(len(row), rng, 0.3, 1.5), MASK) for row in rows]
    )


bart_config = small_models.bart_config(V, PAD, START, END)
bart = BART(bart_config)
train(bart, repair, 150)
for text in ("<MASK> am tired.", "They <MASK> tired.", "The <MASK>."):
    print(f"{text:20}", tokenizer.decode(answers(bart, [read(text)])[0]))
repaired = answers(bart, [[MASK if i in BE_IDS else i for i in row] for row in held_out[:60]])
bart_agrees = np.mean([agrees(text) for text in repaired])
print(f"the verb agrees in {bart_agrees:.0%}")
check(
    "BART writes the whole sentence, with a verb that agrees, more often than by chance",
    bart_agrees > any_verb + 0.15,
)

# %% [markdown]
# ## Does the encoder summarize?
#
# "The Transformer Blueprint" calls the encoder a summarizer: it "compresses" its input into a compact
# "context vector", from which the decoder tells the story again. But the Transformer's encoder returns
# as many vectors as there are tokens. It need not compress anything.
#
# We can make it. Show the decoder one vector, the state of the first token, and ask for the sentence
# itself. All that the decoder knows is in these 64 numbers.

# %%
states = bart.encode(np.array([[START, *held_out[0], END]]))
print("BART's encoder returns", tuple(states.shape), "for", len(held_out[0]) + 2, "tokens")
check("the encoder has a vector for each token", states.shape == (1, len(held_out[0]) + 2, 64))


class OneVector(BART):
    def encode(self, source, source_mask=None):
        return super().encode(source, source_mask)[:, :1]  # (B, 1, d_model)

    def decode(self, target, memory, source_mask=None, *rest):
        return super().decode(target, memory, None, *rest)  # one vector has no padding to mask


def retell(model, rows):
    return pairs_loss(model, [([START, *row], row) for row in rows])


one_vector = OneVector(bart_config)
guess = predict("of 100 new sentences, how many come back word for word from one vector?", settings.guess)
train(one_vector, retell, 200)

told = answers(one_vector, [[START, *row] for row in held_out])
exact = np.mean([text == row for text, row in zip(told, held_out, strict=True)])
guess.compare(100 * exact)
check("a third or more of the new sentences come back word for word from one vector", exact > 1 / 3)

# %% [markdown]
# So the document's image can be built, and works for five words. Lesson 16 shows what one vector does
# to long sentences. The paper's encoder keeps a vector for each token, and attention chooses among
# them.
#
# ## ViT: an image is a sentence of patches
#
# An image of 8 × 8 pixels is cut into 16 patches of 2 × 2. Each is flattened and projected: the
# embedding of a "word" that needs no vocabulary. Attention does not know the order of patches: without
# positions the image is a bag of them. A class token comes first, as `<START>` did for BERT, and its last
# state names the digit.


# %%
if find_spec("sklearn"):
    parts = digits()
    images, labels = parts["train"][:2]
    new_images, new_labels = parts["test"][:2]
else:
    images, labels = small_models.drawn_digits(rng, 3000)
    new_images, new_labels = small_models.drawn_digits(rng, 400)


def name_digit(model, rows):
    return F.cross_entropy(model(images[rows]), labels[rows])


vit = small_models.vit()
train(vit, name_digit, 150, data=range(len(images)))
with mg.no_grad():
    named = vit(new_images).numpy().argmax(-1)
print(f"right: {(named == new_labels).mean():.0%} of {len(named)} new digits")
check("ViT names at least four of five new digits", (named == new_labels).mean() > 0.8)

# %% [markdown]
# ## Who sees whom, measured
#
# The attention weights of each trained model's first layer, the largest over the heads. Where a mask
# forbids, the weight is exactly 0.


# %%
def first_weights(model, *inputs):
    """The largest weight over the heads, by module, of the first layers."""
    with record_attention(model) as maps, mg.no_grad():
        model(*inputs)
    return {path: w.numpy()[0].max(0) for path, w in maps.items() if ".0." in path}


sentence = np.array([[START, *tokenizer.encode("They are not happy."), END]])
seen = {
    "BERT": first_weights(bert, sentence),
    "GPT": first_weights(gpt, sentence[:, :-1]),
    "BART": first_weights(bart, sentence[:, 1:], sentence[:, :-1]),
    "ViT": first_weights(vit, new_images[:1]),
}
panels = [
    (f"{name}\n{path.split('.')[0]} {path.split('.')[-1]}", w)
    for name, maps in seen.items()
    for path, w in maps.items()
]
figure = Figure(figsize=(13, 3.2), layout="constrained")
for axes, (title, weights) in zip(figure.subplots(1, len(panels)), panels, strict=True):
    axes.imshow(np.where(weights > 0, weights, np.nan), cmap=colour_map("weights"), vmin=0, vmax=1)
    axes.set_facecolor("lightgrey")  # never
    axes.set(title=title.replace("_", " "), xlabel="keys")
    axes.title.set_fontsize(9)
figure.axes[0].set_ylabel("queries")
figure.suptitle("Grey: may not be seen. The layers are the same; the masks differ")
show(figure, "17-who-sees-whom", settings)

lower = {name: [bool((np.triu(w, 1) == 0).all()) for w in maps.values()] for name, maps in seen.items()}
print("causal:", lower)
check(
    "BERT and ViT see all; GPT sees what came before",
    lower["BERT"] == lower["ViT"] == [False] and lower["GPT"] == [True],
)
check("BART has both, and attention across, which sees all", sorted(lower["BART"]) == [False, False, True])

# %% [markdown]
# To label a text one wants both sides: BERT. To write, one must not need the right side: GPT. To turn a
# text into another, use both: T5 and BART.
#
# What a model is asked is in its data. BERT gets a small head for a question: which words of this text
# answer it? A model that turns text into text needs no head: a prefix says what is asked.

# %%
sentences = sentence_splits()["test"][:100]
asked = make_questions(sentences)[0]
prefixed = {source.split(":")[0]: source for source, _ in make_prefixed_pairs(sentences)}
print(asked.question, "|", asked.context, "->", asked.answer)
print(*prefixed.values(), sep="\n")
check("an extracted answer stands in its text, word for word", asked.answer in asked.context)
check("one model is asked for five things", len(prefixed) == 5)

# %% [markdown]
# ## Exercises
#
# 1. `minitransformer learn 27`: BERT's masking. Then `minitransformer learn 28`: an image to patches.
# 2. GPT can fill a gap, too: put each word of the vocabulary there, and take the likeliest sentence.
#    Why does that use the right side, though the mask hides it? Try it on the first words above.
#
# ## Read next
#
# - `minitransformer/models/bert.py`, `BERT`: embeddings, an encoder, and a head.
# - `minitransformer/models/gpt.py`, `GPT`: the same encoder class, with `is_causal`.
# - `minitransformer/models/vit.py`, `Patches`: from pixels to tokens.
# - Next lesson: `demos/lessons/18_what_makes_it_fast.py`
