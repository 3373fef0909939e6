"""One word, two meanings: the states of "bank" in a small BERT, which learned to fill in masked words.

    python demos/bank.py -o bank.png

A table of word vectors has one row for "bank". In BERT, that row is only the input: each layer mixes in the
context. The sentences are about money or about rivers; the model never sees these labels.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import BERT, BERTConfig
from minitransformer.plots.style import colour_map

BEFORE = {"money": ["lend", "pay", "save", "owe"], "river": ["swim", "fish", "row", "dive"]}
AFTER = {"money": ["cash", "loans", "coins", "debts"], "river": ["water", "mud", "reeds", "boats"]}
WORDS = ["[PAD]", "[CLS]", "[MASK]", "they", "at", "the", "bank", "with", "its"]
WORDS += [word for lists in (BEFORE, AFTER) for words in lists.values() for word in words]
ID = {word: i for i, word in enumerate(WORDS)}
BANK = 5  # its position in a sentence


def sentence(meaning, random):
    return f"[CLS] they {random.choice(BEFORE[meaning])} at the bank with its {random.choice(AFTER[meaning])}"


def encode(text):
    return [ID[word] for word in text.split()]


def batch(random, size=32):
    """Sentences with one word masked, and the masked words."""
    meanings = random.choice(list(BEFORE), size)
    ids = np.array([encode(sentence(meaning, random)) for meaning in meanings])
    target = np.full_like(ids, -100)
    rows = np.arange(size)
    places = random.integers(1, ids.shape[1], size)
    target[rows, places] = ids[rows, places]
    ids[rows, places] = ID["[MASK]"]
    return ids, target


def train(steps=600):
    mg.manual_seed(0)
    config = BERTConfig(
        len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=16, hidden_dropout_prob=0.0, initializer_range=0.1,
    )  # fmt: skip
    model = BERT(config)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    random = np.random.default_rng(0)
    for step in range(1, steps + 1):
        mg.random.set_step(step)
        ids, target = batch(random)
        loss = F.cross_entropy(model(ids).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.2f}")
    return model.eval()


@mg.no_grad()
def states_of_bank(model, ids):
    """The vector of "bank" in each sentence: the row of the table, then the state after each layer."""
    x = model.embed(ids)
    found = [model.embedding(ids), *(x := layer(x) for layer in model.encoder.layers)]
    return [states.numpy()[:, BANK] for states in found]


def cosines(vectors):
    """Cosines between all pairs, after subtracting the mean, which all vectors share."""
    vectors = vectors - vectors.mean(0)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def draw(states, texts, path):
    """A heat map for each layer: how alike the states of "bank" are in each pair of sentences."""
    figure = Figure(figsize=(3.8 * len(states) + 1, 4.2), layout="constrained")
    panels = figure.subplots(1, len(states), squeeze=False, sharey=True)[0]
    words = [text.split()[2] for text in texts]  # of the sentence, the word that tells the meaning
    for i, (panel, vectors) in enumerate(zip(panels, states, strict=True), 1):
        c = cosines(vectors)
        panel.imshow(c, cmap=colour_map("signed"), vmin=-1, vmax=1)
        for (row, column), cosine in np.ndenumerate(c):
            panel.text(column, row, f"{cosine:.2f}", ha="center", va="center")
        panel.set_xticks(range(len(words)), words)
        panel.set_yticks(range(len(words)), words)
        panel.set_title(f'"bank" after layer {i}')
    figure.suptitle("Cosines: alike with the same meaning, opposite with the other")
    figure.savefig(path, dpi=120)


def main(
    steps: int = 600,
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("bank.png"),
):
    """Train a small BERT on sentences with "bank", and compare the states of the word in some of them.

    Args:
        steps: Training steps; 600 take less than a minute.
        output: The picture.
    """
    model = train(steps)
    random = np.random.default_rng(1)
    texts = [sentence(meaning, random) for meaning in ("money", "money", "river", "river")]
    print("\n" + "\n".join(f"{i}  {text.removeprefix('[CLS] ')}" for i, text in enumerate(texts)))
    row, *states = states_of_bank(model, np.array([encode(text) for text in texts]))
    assert (row == row[0]).all()
    print('\nIn the table of word vectors "bank" is the same in all sentences.')
    print("The cosine between its states in two sentences, after subtracting their mean:")
    print(f"{'':<24}{'same meaning':>14}{'other meaning':>15}")
    for i, vectors in enumerate(states, 1):
        c = cosines(vectors)
        same = (c[0, 1] + c[2, 3]) / 2
        other = c[:2, 2:].mean()
        print(f"{f'state after layer {i}':<24}{same:>14.2f}{other:>15.2f}")
    masked = np.array([encode("[CLS] they lend at the bank with its [MASK]")])
    with mg.no_grad():
        p = F.softmax(model(masked)[0, -1]).numpy()
    best = np.argsort(-p)[:4]
    print("\nthey lend at the bank with its ...  " + ", ".join(f"{WORDS[i]} {p[i]:.2f}" for i in best))
    draw(states, texts, output)
    print(output)
    return same, other


if __name__ == "__main__":
    tyro.cli(main)
