# %% [markdown]
# # 11. The whole Transformer
#
# **What happens to "I love you" on its way to "je t'aime"?** (["Attention Is All You
# Need"](https://arxiv.org/abs/1706.03762), figure 1 and section 3.1)
#
# All parts are known. An *encoder* reads the source, one vector for each word. A *decoder* writes the
# target word by word, and looks at the encoder's vectors while it does. The model is
# `demos/transformer.py`, the paper's in a single file of 220 lines: open it beside this lesson.
#
# ## A language of 36 sentences
#
# The object moves before the verb, the verb agrees with the subject, and "te" becomes "t'" before a vowel.
# "I love you" is held out with five others: the model never sees them. (Label smoothing, lesson 5, keeps
# the loss above 0.65.)

# %%
from lesson import SEED, predict, show
from transformer import END, PAD, START, Transformer, positional_encoding, train, translate

import minigrad as mg
from minitransformer import plots

SUBJECTS = {"I": "je", "we": "nous", "they": "ils"}
OBJECTS = {"you": ("te", "t'"), "him": ("le", "l'"), "them": ("les", "les")}  # before a consonant, a vowel
VERBS = {
    "love": ("aime", "aimons", "aiment"),
    "see": ("vois", "voyons", "voient"),
    "know": ("connais", "connaissons", "connaissent"),
    "hear": ("entends", "entendons", "entendent"),
}


def french(subject, verb, object):
    form = VERBS[verb][list(SUBJECTS).index(subject)]
    return [SUBJECTS[subject], OBJECTS[object][form[0] in "ae"], form]


pairs = [([s, v, o], french(s, v, o)) for s in SUBJECTS for v in VERBS for o in OBJECTS]
words = ["<PAD>", "<START>", "<END>", *sorted({word for pair in pairs for row in pair for word in row})]
ids = lambda row: [START, *map(words.index, row), END]
source, target = (mg.tensor([ids(pair[side]) for pair in pairs]) for side in (0, 1))  # (36, 5) each
held_out = [0, 7, 14, 21, 28, 35]
seen = [i for i in range(36) if i not in held_out]
mg.manual_seed(SEED)
model = Transformer(len(words))
print(f"{len(words)} words; held out:", *(" ".join(pairs[i][0]) for i in held_out), sep="  ")
train(model, source[seen], target[seen], 300)

# %% [markdown]
# ## Stage by stage
#
# Here is "I love you", with the shape after each stage. D = 32 numbers describe a word, S = 5 source words
# with `<START>` and `<END>`. The *shape stays* (1, S, D), in the decoder (1, 4, D): that is why layers can
# be stacked.


# %%
def stage(name, x):
    numbers = " ".join(f"{number:6.2f}" for number in x.detach().numpy()[0, 2, :3])
    print(f"{name:42} {tuple(x.shape)!s:12} {numbers}")
    return x


one, mask = source[:1], (source[:1] != PAD)[:, None, None]
print(f"{'':42} {'shape':12} first numbers of word 3")
x = stage("embedding, times √D (3.4)", model.embedding(one) * 32**0.5)
x = stage("+ positions (3.5)", x + positional_encoding(5))
for i, layer in enumerate(model.encoder, 1):
    x = stage(f"encoder {i}: attention, add & norm (3.2)", layer.after1(x, layer.attention(x, x, mask)))
    x = stage(f"encoder {i}: feed-forward, add & norm (3.3)", layer.after2(x, layer.feed_forward(x)))
memory = x
y = stage("decoder: embedding + positions", model.embed(target[:1, :-1]))
causal = mg.ones(4, 4, dtype="bool").tril()
for i, layer in enumerate(model.decoder, 1):
    y = stage(f"decoder {i}: masked attention, add & norm", layer.after1(y, layer.attention(y, y, causal)))
    asked = y
    y = stage(f"decoder {i}: looks at the encoder", layer.after2(y, layer.cross(y, memory, mask)))
    y = stage(f"decoder {i}: feed-forward, add & norm", layer.after3(y, layer.feed_forward(y)))
logits = stage("times the embedding, transposed: scores", y @ model.embedding.weight.T)
assert mg.allclose(logits, model(one, target[:1, :-1]), atol=1e-4)

# %% [markdown]
# The last line has a score for each of the 33 words: the dot product of the final vector with its
# embedding. So one table serves source, target and output (*tied weights*, section 3.4).
#
# Both sides are known in training, so the decoder reads the right words, shifted by one, and predicts all
# of the next words at once, in one pass: *teacher forcing*. The causal mask of lesson 8 keeps it honest.
# The source needs none: all of it is known.
#
# ## Does it translate what it has not seen?

# %%
guess = predict("of the six sentences that were held out, how many does it translate?")
written = translate(model, source, length=5).tolist()
right = [row[1:5] == ids(pair[1])[1:] for row, pair in zip(written, pairs, strict=True)]
for i in held_out:
    print(" ".join(pairs[i][0]), "->", " ".join(words[w] for w in written[i][1:4]))
guess.compare(sum(right[i] for i in held_out))
print(f"of the 30 that it learned from: {sum(right[i] for i in seen)}")
assert sum(right[i] for i in seen) == 30

# %% [markdown]
# ## Cross-attention: where the decoder looks
#
# In *cross-attention* the queries come from the decoder, and keys and values from the encoder. Each row of
# the picture is a word that the decoder has read and, behind the arrow, the word that it must write next.
# Nobody told it which word translates which.

# %%
cross = model.decoder[-1].cross
q, k = cross.split(cross.W_Q(asked)), cross.split(cross.W_K(memory))
weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)[0].mean(0)  # (4, 5), the mean of the heads
read = [words[i] for i in target[0, :4].tolist()]
following = [words[i] for i in target[0, 1:].tolist()]
rows = [f"{a} → {b}" for a, b in zip(read, following, strict=True)]
columns = [words[i] for i in source[0].tolist()]
panels = {"What the last decoder layer looks at": weights}
show(plots.heat_map(panels, rows, columns, ylabel="read → to be written"), "11-cross")

# %% [markdown]
# In our run, to write "je", it looks at "I". To write "t'", it looks at "you", and a little at "love",
# because "te" loses its e before a vowel. To write "aime", it looks at "love", and at "I" for the ending.
# These rules were found from 30 sentences.
#
# ## What if the padding is not masked?
#
# Put two `<PAD>` behind "I love you", as beside a longer sentence. We compare the scores, with
# the padding masked and unmasked.

# %%
padded = mg.cat([one, mg.full((1, 2), PAD)], 1)
with_mask = model(padded, target[:1, :-1])
x = model.embed(padded)
everything = mg.ones(1, 1, 1, 7, dtype="bool")
for layer in model.encoder:
    x = layer(x, everything)
without = model.decode(target[:1, :-1], x, everything)
for name, scores in (("masked", with_mask), ("not masked", without)):
    print(f"{name:10}: the scores move by {abs(scores - logits).max().item():.5f}")
assert abs(with_mask - logits).max().item() < 1e-4 < 0.01 < abs(without - logits).max().item()

# %% [markdown]
# Without the mask, a translation depends on which sentences happen to be in the same batch.
#
# ## Where are the 65 million?
#
# Table 3 of the paper gives its base model 65 million numbers: d = 512, d_ff = 2048, six layers on each
# side. Attention has four matrices, d × d. A feed-forward network has two, d × d_ff.

# %%
d, d_ff, layers, V = 512, 2048, 6, 37_000
attention_weights = 4 * d * d
feed_forward_weights = 2 * d * d_ff
encoder = layers * (attention_weights + feed_forward_weights)
decoder = layers * (2 * attention_weights + feed_forward_weights)
total = V * d + encoder + decoder
for name, count in (("embedding", V * d), ("encoder", encoder), ("decoder", decoder), ("all", total)):
    print(f"{name:9} {count / 1e6:5.1f} million")
assert 62e6 < total < 65e6

# %% [markdown]
# (Biases and norms add 0.1 million. "About 37,000" words are 63 million; 65 need 40,700.) With three tables
# instead of a shared one it would be 101 million.
#
# ## Change one line
#
# Hold out all sentences with "love": `held_out = [0, 1, 2, 12, 13, 14, 24, 25, 26]`. What will it write for
# "I love you"?
#
# <details><summary>Answer</summary>
#
# In our run "je t' entends", *I hear you*: a French sentence with another verb. It never read "love", nor
# had to write "aime". Their vectors changed all the same, since the table is the output layer, too: words
# that are never right are pushed away. The model can combine what it knows, but not invent a word.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn shift_right`: the decoder's input, from the target.
#
# ## Summary
#
# - The encoder makes a vector for each source word; the decoder writes while it looks at them.
# - Self-attention, cross-attention, feed-forward, each with add & norm: all keep the shape.
# - Masks hide the future in the decoder, and the padding of the source.
#
# Next, how it is trained: `minitransformer lesson 12`
