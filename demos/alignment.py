"""Plots the cross-attention of a trained translation model for a sentence: of a Transformer, or a Seq2Seq.

python demos/alignment.py runs/phrasebook "The cat sat on the mat" -o alignment.png
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from minigrad import no_grad
from minitransformer import generate, record_attention
from minitransformer.plots import alignment
from minitransformer.training.run import Run


@no_grad()
def main(
    run: tyro.conf.Positional[Path],
    sentence: tyro.conf.Positional[str],
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("alignment.png"),
) -> None:
    """Draw what a run attends to while it translates a sentence: the mean of the last layer's heads."""
    trained = Run(run)
    tokenizer, model = trained.tokenizer, trained.model
    source = [*tokenizer.encode(sentence), tokenizer.end_id]
    (target,) = generate(model, [source], max_new_tokens=64)
    with record_attention(model) as maps:
        model(np.array([source]), np.array([[tokenizer.start_id, *target]]))
    *_, last = maps.values()  # the decoder's, of its last layer
    written = [tokenizer.id_to_token[i] for i in [*target, tokenizer.end_id]]
    alignment(last, written, [tokenizer.id_to_token[i] for i in source], path=output)
    print(output)


if __name__ == "__main__":
    from saving import run as run_demo

    run_demo(main)
