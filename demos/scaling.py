"""Loss against parameters and data: GPTs of four widths, each trained on few, more and all sentences.

python demos/scaling.py -o scaling.png

Every model takes the same number of steps on English sentences of the phrasebook, and is scored on sentences
that were held out. More parameters help while there is data; more data helps while there are parameters.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minitransformer import Tokenizer
from minitransformer.claims.experiments.loss_and_size import build, train
from minitransformer.claims.translating import size
from minitransformer.cli.parsing import parse
from minitransformer.data.phrasebook import phrasebook

WIDTHS = (4, 8, 16, 32, 64)


def measure(width, sentences, held_out, tokenizer, steps, seed):
    """The number of parameters, and the loss on held-out sentences after training on `sentences`."""
    mg.manual_seed(seed)
    model = build(width, tokenizer.vocab_size)
    _, found = train(model, sentences, held_out, held_out, tokenizer.end_id, 1e-2, steps, seed)  # at the end
    return size(model), found


def draw(amounts, parameters, losses, path):
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for amount, row in zip(amounts, losses, strict=True):
        left.plot(parameters, row, "o-", label=f"{amount:,} sentences")
    for count, column in zip(parameters, losses.T, strict=True):
        right.plot(amounts, column, "o-", label=f"{count:,} parameters")
    left.set(title="Parameters help while there is data", xlabel="parameters", ylabel="loss on new sentences")
    right.set(title="Data helps while there are parameters", xlabel="sentences for training")
    for panel in (left, right):
        panel.set_xscale("log")
        panel.legend()
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def main(
    *,
    widths: tuple[int, ...] = WIDTHS,
    amounts: tuple[int, ...] = (200, 1500, 10000),
    steps: int = 300,
    seed: int = 0,
    output: Path = Path("scaling.png"),
) -> np.ndarray:
    """Train a model of each width on each number of sentences, and print and draw the losses.

    Args:
        widths: Widths of the models.
        amounts: Numbers of sentences to train on.
        steps: Training steps of each model, of 48 sentences.
        seed: Of the weights and the batches.
        output: The picture.
    """
    book = phrasebook()
    texts = list(dict.fromkeys(english for english, _ in book.train))
    known = set(texts)
    new = [english for english, _ in book.test if english not in known][:300]
    tokenizer = Tokenizer.train_word([*texts, *new])
    order = np.random.default_rng(seed).permutation(len(texts))
    rows = [tokenizer.encode(texts[i]) for i in order]
    held_out = [tokenizer.encode(text) for text in new]
    amounts = sorted({min(amount, len(rows)) for amount in amounts})
    print(
        f"{tokenizer.vocab_size} tokens: without any knowledge the loss is {np.log(tokenizer.vocab_size):.2f}"
    )
    print(f"{'parameters':>10}", *(f"{amount:>8,}" for amount in amounts), "sentences")
    parameters = []
    losses = []
    for width in widths:
        found = [measure(width, rows[:amount], held_out, tokenizer, steps, seed) for amount in amounts]
        parameters.append(found[0][0])
        losses.append([loss for _, loss in found])
        print(f"{parameters[-1]:>10,}", *(f"{loss:8.2f}" for loss in losses[-1]), flush=True)
    losses = np.array(losses).T  # (amounts, widths)
    draw(amounts, parameters, losses, output)
    print(output)
    return losses


if __name__ == "__main__":
    parse(main)
