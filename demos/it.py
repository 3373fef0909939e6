"""What "it" stands for: a small translator has to know, because French has il and elle.

    python demos/it.py -o it.png

The animal did not cross the street because it was too tired.  ... parce qu'il était trop fatigué.
The animal did not cross the street because it was too wide.   ... parce qu'elle était trop large.

The grammar of the phrasebook knows which noun each "it" refers to; the model sees only sentences and their
translations. How much does "it" attend to that noun, and how much to the other one? In this model, no more to
one than to the other. The decoder, where it writes il or elle, looks for the noun and at the adjective.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F
from minitransformer import Transformer, TransformerConfig, record_attention
from minitransformer.data.batching import pad_rows
from minitransformer.data.phrasebook import tokens_of
from minitransformer.data.phrasebook.choices import BalancedSampler
from minitransformer.data.phrasebook.documents import crossing
from minitransformer.data.phrasebook.reasons import giving_a_reason
from minitransformer.plots.style import colour_map

PAD, START, END = range(3)
HELD_OUT = 200


def sentences(count=6000):
    """Different sentences with "it" (not he or she), each with where its pronoun and its nouns are."""
    draw = BalancedSampler(0)
    drawn = [crossing("actor", "tired"), crossing("thing", "wide")]
    drawn += [giving_a_reason(draw) for _ in range(count)]
    return list({each[0]: each for each in drawn if "it" in tokens_of(each[0])}.values())


def rows_of(pairs, ids):
    """Padded ids: the source, and the target between its start and its end."""
    source = [[ids[token] for token in tokens_of(english)] for english, _ in pairs]
    target = [[START, *(ids[token] for token in tokens_of(french)), END] for _, french in pairs]
    return pad_rows(source, PAD), pad_rows(target, PAD)


def train(pairs, ids, steps):
    mg.manual_seed(0)
    config = TransformerConfig(
        len(ids), d_model=64, num_heads=4, d_ff=128, num_encoder_layers=2, num_decoder_layers=1, dropout=0.0,
        pad_token_id=PAD, bos_token_id=START, eos_token_id=END,
    )  # fmt: skip
    model = Transformer(config)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    random = np.random.default_rng(0)
    for step in range(1, steps + 1):
        mg.random.set_step(step)
        chosen = random.integers(0, len(pairs), 32)
        source, target = rows_of([pairs[i] for i in chosen], ids)
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.2f}")
    return model.eval()


@mg.no_grad()
def look(model, pairs, ids):
    """Whether each il or elle is right, given the words before it, and the attention in the model."""
    source, target = rows_of(pairs, ids)
    with record_attention(model) as maps:
        logits = model(source, target[:, :-1]).numpy()
    places = [pair.parts.reference.pronoun[1] for pair in pairs]
    right = [logits[i, t].argmax() == target[i, t + 1] for i, t in enumerate(places)]
    return np.array(right), {name: np.asarray(weights) for name, weights in maps.items()}


def shares(maps, pairs):
    """For each head, its attention from "it" on the noun that it refers to, and on the other one; in
    cross-attention, from the place where il or elle is written. (heads, 2)"""
    found = {}
    for name, weights in maps.items():
        if name.startswith("encoder") or "cross" in name:
            side = int("cross" in name)
            references = [pair.parts.reference for pair in pairs]
            on = [
                weights[i, :, each.pronoun[side], [each.noun[0], each.other[0]]].T
                for i, each in enumerate(references)
            ]
            found[name] = np.mean(on, 0)
    return found


def layer_of(name):
    """The stack and the number of an attention's layer, such as "encoder 2"."""
    stack, _, layer, _ = name.split(".")
    return f"{stack} {int(layer) + 1}"


def draw_it(maps, pairs, path):
    """The attention of "it" in the encoder, and of il or elle in the decoder, for the first two sentences."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    for number, (panel, pair) in enumerate(zip(figure.subplots(2, 1), pairs, strict=False)):
        tokens = tokens_of(pair[0])
        places = pair.parts.reference.pronoun
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
    steps: int = 250,
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("it.png"),
):
    """Train a small translator on sentences with "it", and show what the word attends to.

    Args:
        steps: Training steps; 250 take less than a minute.
        output: The picture.
    """
    pairs = sentences()
    words = sorted({token for pair in pairs for text in pair for token in tokens_of(text)})
    ids = {word: number for number, word in enumerate(["<PAD>", "<START>", "<END>", *words])}
    model = train(pairs[HELD_OUT:], ids, steps)
    right, maps = look(model, pairs[:HELD_OUT], ids)
    found = shares(maps, pairs[:HELD_OUT])
    print(f"\nil or elle is right in {right.mean():.1%} of {len(right)} sentences not trained on")
    print(f"\n{'the attention of it':<40}{'on its noun':>12}{'on the other':>14}")
    for name, heads in found.items():
        for head, (noun, other) in enumerate(heads, 1):
            print(f"{f'{layer_of(name)}, head {head}':<40}{noun:>12.2f}{other:>14.2f}")
    draw_it(maps, pairs, output)
    print(output)
    return right.mean(), found


if __name__ == "__main__":
    tyro.cli(main)
