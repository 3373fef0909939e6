"""One word, two meanings: the states of "bank" in a small BERT, which learned to fill in masked words.

    python demos/bank.py -o bank.png

A table of word vectors has one row for "bank". In BERT, that row is only the input: each layer mixes in the
context. The sentences are about money or about rivers; the model never sees these labels. The claim
`minitransformer claims contextual-meaning` measures the same with several seeds.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer.claims.experiments.contextual_meaning import (
    AFTER,
    BEFORE,
    WORDS,
    bert,
    cosines,
    encode,
    fill_in_words,
    same_and_other,
    sentence,
    states_of_bank,
)
from minitransformer.cli.parsing import parse
from minitransformer.plots.style import colour_map

SEED = 1000  # not one of those that the claim compares


def draw(states, texts, path):
    """A heat map for each layer: how alike the states of "bank" are in each pair of sentences."""
    figure = Figure(figsize=(3.8 * len(states) + 1, 4.2), layout="constrained")
    panels = figure.subplots(1, len(states), squeeze=False, sharey=True)[0]
    words = [text.split()[2] for text in texts]  # the word that tells the meaning
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
    *,
    steps: int = 1000,
    output: Path = Path("bank.png"),
):
    """Train a small BERT on sentences with "bank", and compare the states of the word in some of them.

    Args:
        steps: Training steps; 1000 take less than a minute.
        output: The picture.
    """
    mg.manual_seed(SEED)
    model = bert()
    losses = fill_in_words(model, 1e-2, steps, SEED)
    print(f"the loss of {steps} steps: {losses[0]:.2f} at first, {np.mean(losses[-20:]):.2f} at the end")
    meanings = np.repeat(["money", "river"], 2)
    texts = [  # not trained on
        sentence(BEFORE[meaning][i], AFTER[meaning][i])
        for meaning, i in zip(meanings, (4, 5) * 2, strict=True)
    ]
    print("\n" + "\n".join(f"{i}  {text.removeprefix('[CLS] ')}" for i, text in enumerate(texts)))
    row, *states = states_of_bank(model, texts)
    assert (row == row[0]).all()
    print('\nIn the table of word vectors "bank" is the same in all sentences.')
    print("The cosine between its states in two sentences, after subtracting their mean:")
    print(f"{'':<24}{'same meaning':>14}{'other meaning':>15}")
    for i, vectors in enumerate(states, 1):
        same, other = same_and_other(vectors, meanings)
        print(f"{f'state after layer {i}':<24}{same:>14.2f}{other:>15.2f}")
    with mg.no_grad():
        masked = np.array([encode("[CLS] they lend at the bank with its [MASK]")])
        p = F.softmax(model(masked)[0, -1]).numpy()
    best = np.argsort(-p)[:4]
    print("\nthey lend at the bank with its ...  " + ", ".join(f"{WORDS[i]} {p[i]:.2f}" for i in best))
    draw(states, texts, output)
    print(output)
    return same, other


if __name__ == "__main__":
    parse(main)
