"""Plots the cross-attention of a trained translation model for a sentence: of a Transformer, or a Seq2Seq.

python demos/alignment.py runs/phrasebook "The cat sat on the mat" -o alignment.png
"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from matplotlib.figure import Figure

from minigrad import Tensor, no_grad
from minitransformer import generate
from minitransformer.training.run import Run


@no_grad()
def alignment(run: Run, sentence: str) -> tuple[list[str], list[str], np.ndarray]:
    """Source and target tokens, and the weights (target x source)."""
    tokenizer, model = run.tokenizer, run.model
    source = [*tokenizer.encode(sentence), tokenizer.end_id]
    (target,) = generate(model, [source], max_new_tokens=64)
    weigh = getattr(model, "attention_weights", None) or partial(last_layer_weights, model)
    weights = weigh(np.array([source]), np.array([[tokenizer.start_id, *target]]))
    names = (
        [tokenizer.id_to_token[i].strip() for i in source],
        [tokenizer.id_to_token[i].strip() for i in [*target, tokenizer.end_id]],
    )
    return *names, weights.numpy()[0]


def last_layer_weights(model: Any, source: np.ndarray, target: np.ndarray) -> Tensor:
    """The cross-attention of a Transformer's last decoder layer, the mean of its heads: (B, T, S)."""
    recorded = []

    def record(module: Any, inputs: tuple, output: Any) -> None:
        query, memory, mask, *_ = inputs
        recorded.append(module.attention_weights(query, memory, mask))

    remove = model.decoder.layers[-1].cross_attention.register_forward_hook(record)
    model(source, target)
    remove()
    return recorded[0].mean(1)


def draw(source: list[str], target: list[str], weights: np.ndarray, path: Path) -> None:
    """A heat map: one row for each target token, one column for each source token."""
    figure = Figure(figsize=(1.6 + 0.62 * len(source), 1.2 + 0.42 * len(target)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source)), source)
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for (row, column), weight in np.ndenumerate(weights):
        if weight >= 0.1:
            axes.text(
                column,
                row,
                f"{weight:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if weight > 0.5 else "black",
            )
    axes.set_xlabel("attends to", labelpad=10, fontstyle="italic")
    axes.set_ylabel("while writing", labelpad=10, fontstyle="italic")
    figure.savefig(path, dpi=130)


def main(
    run: tyro.conf.Positional[Path],
    sentence: tyro.conf.Positional[str],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("alignment.png"),
) -> None:
    """Draw what a run attends to while it translates a sentence."""
    draw(*alignment(Run(run), sentence), output)
    print(output)


if __name__ == "__main__":
    from saving import run as run_demo

    run_demo(main)
