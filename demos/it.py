"""What "it" stands for: a small translator has to know, because French has il and elle.

    python demos/it.py -o it.png

The animal did not cross the street because it was too tired.  ... parce qu'il était trop fatigué.
The animal did not cross the street because it was too wide.   ... parce qu'elle était trop large.

The grammar of the phrasebook knows which noun each "it" refers to; the model sees only sentences and their
translations. How much does "it" attend to that noun, and how much to the other one? In this model, no more to
one than to the other. The decoder, where it writes il or elle, looks for the noun and at the adjective. The
claim `minitransformer claims attention-of-it` measures the same with several seeds.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minitransformer.claims.experiments.attention_of_it import (
    HELD_OUT,
    data_of,
    look,
    reasons,
    shares,
    small_translator,
)
from minitransformer.claims.translating import train
from minitransformer.cli.parsing import parse
from minitransformer.data.phrasebook import tokens_of
from minitransformer.plots.style import colour_map

SEED = 1000  # not one of those that the claim compares


def layer_of(name):
    """The stack and the number of an attention's layer, such as "encoder 2"."""
    stack, _, layer, _ = name.split(".")
    return f"{stack} {int(layer) + 1}"


def draw_it(maps, pairs, path):
    """The attention of "it" in the encoder, and of il or elle in the decoder, for the first two sentences."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    for number, (panel, pair) in enumerate(zip(figure.subplots(2, 1), pairs, strict=False)):
        tokens = tokens_of(pair[0])
        places = pair.reference.pronoun
        rows = {}
        for name, weights in maps.items():
            if name.startswith("encoder") or "cross" in name:
                query = places["cross" in name]
                for head, each in enumerate(weights[number], 1):
                    rows[f"{layer_of(name)}, head {head}"] = each[query, : len(tokens)]
        panel.imshow(np.stack([*rows.values()]), cmap=colour_map("weights"), vmin=0, vmax=1, aspect="auto")
        panel.set_xticks(range(len(tokens)), tokens)
        panel.set_yticks(range(len(rows)), rows, fontsize=8)
        panel.set_title(pair[1])
    figure.suptitle('What "it" attends to in the encoder, and il or elle in the decoder')
    figure.savefig(path, dpi=120)


def main(
    *,
    steps: int = 400,
    output: Path = Path("it.png"),
):
    """Train a small translator on sentences with "it", and show what the word attends to.

    Args:
        steps: Training steps; 400 take less than a minute.
        output: The picture.
    """
    pairs = reasons(SEED)
    data = data_of(pairs)
    pairs = pairs[:HELD_OUT]
    mg.manual_seed(SEED)
    model = small_translator(data)
    losses = train(model, data, 3e-3, steps, SEED)
    print(f"the loss of {steps} steps: {losses[0]:.2f} at first, {np.mean(losses[-20:]):.2f} at the end")
    right, maps = look(model, data, pairs)
    found = shares(maps, pairs)
    print(f"\nil or elle is right in {right.mean():.1%} of {len(right)} sentences not trained on")
    print(f"\n{'the attention of it':<40}{'on its noun':>12}{'on the other':>14}")
    for name, heads in found.items():
        for head, (noun, other) in enumerate(heads, 1):
            print(f"{f'{layer_of(name)}, head {head}':<40}{noun:>12.2f}{other:>14.2f}")
    draw_it(maps, pairs[:2], output)
    print(output)
    return right.mean(), found


if __name__ == "__main__":
    parse(main)
