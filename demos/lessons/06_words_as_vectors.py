# %% [markdown]
# # 6. Words as vectors
#
# **What is a word to a model?** (["Attention Is All You Need"](https://arxiv.org/abs/1706.03762), sections
# 3.4 and 5.1)
#
# A model computes with numbers, and a word is not one. So every word gets a list of numbers, its *vector*
# or *embedding*, and these numbers are learned like all others.
#
# ## A vocabulary and a table
#
# The words that a model knows are its *vocabulary*; each has a number, its *id*. Four ids are kept for
# special tokens: `<PAD>` fills short sentences up, `<UNK>` stands for an unknown word, and `<START>` and
# `<END>` stand around a sentence. The vector of word i is row i of a table. A *one-hot* row, 1 at place i
# and 0 elsewhere, times the table gives the same row, so a lookup is a matrix product without the work.

# %%
from collections import Counter

import numpy as np
from lesson import SEED, predict, show

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F
from minitransformer import Tokenizer, plots
from minitransformer.data.phrasebook import phrasebook, word_forms
from minitransformer.inspection.words import analogy, nearest_words, word_similarities

mg.manual_seed(SEED)
random = np.random.default_rng(SEED)
tokenizer = Tokenizer.train_word(["I love you", "I love the cat"])
ids = tokenizer.encode("I love dogs")
print("the vocabulary:", *(f"{i} {word}" for i, word in sorted(tokenizer.id_to_token.items())), sep="  ")
print('"I love dogs" as ids:', ids, "and back:", tokenizer.decode(ids))

table = mg.randn(tokenizer.vocab_size, 4, requires_grad=True)
one_hot = mg.eye(tokenizer.vocab_size)[ids]
assert mg.allclose(one_hot @ table, F.embedding(ids, table))
F.embedding([4, 5, 4], table).sum().backward()
print("looked up rows 4, 5, 4. The gradient's first column:", table.grad.numpy()[:, 0])

# %% [markdown]
# The gradient says how the table learns: a row that was used twice gets the sum of both gradients, and a
# row that was not used gets none. A word that never occurs in training keeps its random vector, unless the
# table is also the output layer (lesson 11).
#
# ## Learn vectors from sentences alone
#
# The idea (word2vec, 2013): **a word is known by its neighbours**. Each word gets a vector v, and another,
# u, for its role as a neighbour. For words that stand in one sentence, the dot product u · v should be
# large; for words drawn at random, small. The loss is -log sigmoid(u · v) for a true neighbour and -log
# sigmoid(-u · v) for each random one. Nobody says what a word means.
#
# The sentences are the English side of the phrasebook, which `minitransformer train phrasebook` learns to
# translate. Words such as "the" stand beside everything and say little, so most of their pairs are left
# out.


# %%
def pairs_of(sentences, window=8):
    """The words, most frequent first; pairs (word, neighbour) of their numbers; their frequencies."""
    counts = Counter(word for sentence in sentences for word in sentence)
    words = [word for word, _ in counts.most_common()]
    number = {word: i for i, word in enumerate(words)}
    frequency = np.array([counts[word] for word in words]) / counts.total()
    pairs = []
    for sentence in sentences:
        row = [number[word] for word in sentence]
        for i, word in enumerate(row):
            pairs += [(word, other) for other in row[max(0, i - window) : i] + row[i + 1 : i + 1 + window]]
    pairs = np.array(pairs)
    keep = np.minimum(1, np.sqrt(0.003 / frequency))
    return words, pairs[random.random(len(pairs)) < keep[pairs].prod(-1)], frequency


def train(pairs, frequency, width=32, steps=1200, strangers=5):
    v = nn.Parameter(mg.randn(len(frequency), width).numpy() * 0.1)
    u = nn.Parameter(np.zeros((len(frequency), width), np.float32))
    optimizer = optim.Adam([v, u], lr=0.02)
    flatter = frequency**0.75 / (frequency**0.75).sum()  # so that rare words are drawn, too
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - step / steps)
        word, neighbour = pairs[random.integers(len(pairs), size=1024)].T
        others = random.choice(len(flatter), size=(1024, strangers), p=flatter)
        context = F.embedding(np.column_stack([neighbour, others]), u)  # (1024, 1 + strangers, width)
        scores = (context @ F.embedding(word, v)[:, :, None])[..., 0]
        loss = -(F.logsigmoid(scores[:, 0]) + F.logsigmoid(-scores[:, 1:]).sum(-1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return v.numpy()


def lower(text):
    return [word.lower() for word in word_forms(text)]


words, pairs, frequency = pairs_of([lower(english) for english, _ in phrasebook().train])
vectors = train(pairs, frequency)
print(f"{len(words)} words, {len(pairs):,} pairs")
for word in ("cat", "apple", "red", "two"):
    near = nearest_words(vectors, words, word, 4)
    print(f"near {word}:", ", ".join(f"{other} {cosine:.2f}" for other, cosine in near))

# %% [markdown]
# Behind each word stands the *cosine* of the two vectors: 1 if they point the same way, 0 if they have
# nothing in common, -1 if they are opposite.

# %%
guess = predict("what is the cosine of love and hate?")
love_hate = word_similarities(vectors, words, ["love", "hate"])[0, 1]
guess.compare(love_hate)
groups = {
    "people": "man woman boy girl king queen prince princess father mother brother sister uncle aunt teacher",
    "animals": "cat dog cow horse goat mouse bird rabbit fox owl",
    "food": "apple tomato cake egg cheese bread soup meat fish milk coffee tea",
    "places": "house hotel kitchen garden bridge river museum market station church",
    "verbs": "love hate like buy eat watch drink wear",
    "colours": "red blue black white brown",
}
shown = [(word, group) for group, members in groups.items() for word in members.split()]
rows = vectors[[words.index(word) for word, _ in shown]]
unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
show(plots.embeddings(unit, [word for word, _ in shown], [group for _, group in shown]), "06-words")
assert love_hate > 0.3

# %% [markdown]
# The picture shows 60 words in the plane in which they differ most (32 numbers cannot be drawn; where names
# would overlap, some are left out). Look for the groups: words of a kind lie together, though nothing told
# the model which kinds there are. "Love" and "hate" are neighbours, too. Both stand between a person and a
# thing, and that is all that the training sees.
#
# Vectors that others have trained come as files, word2vec's or GloVe's. `load_word_vectors` reads them, and
# `fill_embedding` starts a model's table with them, so words that are rare in your own texts begin in a
# good place.
#
# ## King - man + woman
#
# In our sentences a king has *his* palace and a queen *hers*, as a man has his hat. If "queen" differs from
# "king" as "woman" does from "man", then king - man + woman must end near queen. Each line below has the
# three nearest words; which of them comes first is partly chance.

# %%
questions = "king man woman queen, uncle man woman aunt, father brother sister mother, eat ate drank drink"
found = {}
for question in questions.split(", "):
    a, b, c, answer = question.split()
    found[answer] = [word for word, _ in analogy(vectors, words, a, b, c, count=3)]
    print(f"{a} - {b} + {c} = {', '.join(found[answer])}")
assert sum(answer in near for answer, near in found.items()) >= 3

royal = word_similarities(vectors, words, ["king", "queen", "apple"])[0]
print("king and queen {:.2f}, king and apple {:.2f}".format(*royal[1:]))

# %% [markdown]
# One thing is rarely said: the words of the question are left out of the search, here as in the original
# work. Otherwise "king" itself would often be nearest, because man and woman nearly cancel.
#
# ## Two languages in one table
#
# The paper uses a single table for both languages. Take as neighbours of a word all words of its sentence
# *and* of the translation, and train again.

# %%
both = [lower(english) + lower(french) for english, french in phrasebook().train[:3000]]
joint_words, joint_pairs, joint_frequency = pairs_of(both, window=20)
joint = train(joint_pairs, joint_frequency, steps=800)
aime = word_similarities(joint, joint_words, ["love", "aime", "chat"])[0]
print("love and aime {:.2f}, love and chat (cat) {:.2f}".format(*aime[1:]))
assert aime[1] > aime[2] + 0.3

# %% [markdown]
# Nobody said which word translates which. Sentences that mean the same were enough.
#
# ## One vector, two meanings
#
# A table has one row for "bank", by the river or with money in it.

# %%
bank = word_similarities(vectors, words, ["bank", "money", "river", "cake"])[0]
print("bank and money {:.2f}, bank and river {:.2f}, bank and cake {:.2f}".format(*bank[1:]))

# %% [markdown]
# It must serve both. Only the sentence can tell which is meant, and that is what attention is for:
# `python demos/bank.py` shows how a Transformer pulls the two apart.
#
# ## Words that are not in the table
#
# "Unlovable" has no row. *Byte pair encoding* (BPE, section 5.1) begins with single characters and joins
# the pair of neighbours that is most frequent, again and again. Frequent words become one piece, and a new
# word is spelled with several, so none is unknown.

# %%
texts = [english for english, _ in phrasebook().train[:4000]]
pieces = {size: Tokenizer.train_bpe(texts, size) for size in (80, 400)}
for size, bpe in pieces.items():
    length = np.mean([len(bpe.encode(text)) for text in texts[:500]])
    print(f"{size} pieces: {bpe.tokens('unlovable queens')}; a sentence has {length:.1f} on average")
print("WordPiece:", Tokenizer.train_wordpiece(texts, 400).tokens("unlovable queens"), "(as in BERT)")
assert pieces[400].decode(pieces[400].encode("unlovable queens")) == "unlovable queens"

# %% [markdown]
# More pieces make shorter sentences and a larger table. The paper has about 37,000 pieces, shared by both
# languages.
#
# ## Change one line
#
# Train without strangers, `strangers=0`. Nothing pushes words apart any more. What will "cat" be near to?
#
# <details><summary>Answer</summary>
#
# To nearly everything: all vectors end up pointing the same way, with cosines near 1. The loss is then
# almost 0, so a low loss alone does not show that a model has learned anything.
#
# </details>
#
# ## Exercise
#
# `minitransformer learn embedding`, the lookup and its gradient. More: `minitransformer learn analogy` and
# `minitransformer learn bpe_merge`.
#
# ## Summary
#
# - A word is a row of a table, and the table is learned.
# - Words with the same neighbours get similar vectors, opposites included.
# - Byte pair encoding spells new words with pieces of known ones.
#
# Next, where a word stands: `minitransformer lesson 7`
