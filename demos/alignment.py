"""Plot the cross-attention of a trained translation model, a Transformer or a Seq2Seq, for a sentence.

python demos/alignment.py runs/phrasebook "The cat sat on the mat" -o alignment.png

With --heads and --arcs, also the cross-attention of all heads, and what the encoder's words attend to.
"""

from pathlib import Path

import numpy as np

from minigrad import no_grad
from minitransformer import generate, record_attention
from minitransformer.plots import alignment, attention_arcs, attention_heads
from minitransformer.runs.run import Run


@no_grad()
def main(
    run: Path,
    sentence: str,
    *,
    output: Path = Path("alignment.png"),
    heads: Path | None = None,
    arcs: Path | None = None,
) -> None:
    """Draw the attention of a run as it translates a sentence, averaged over the last layer's heads."""
    trained = Run(run)
    tokenizer, model = trained.tokenizer, trained.model
    source = [*tokenizer.encode(sentence), tokenizer.end_id]
    (target,) = generate(model, [source], max_new_tokens=64)
    with record_attention(model) as maps:
        model(np.array([source]), np.array([[tokenizer.start_id, *target]]))
    read = [tokenizer.id_to_token[i] for i in source]
    written = [tokenizer.id_to_token[i] for i in [*target, tokenizer.end_id]]
    crossed = {path: weights for path, weights in maps.items() if not path.endswith("self_attention")}
    *_, last = crossed.values()
    alignment(last, written, read, path=output)
    if heads is not None:
        attention_heads(crossed, written, read, path=heads)
    encoders = [weights for path, weights in maps.items() if path.startswith("encoder")]
    if arcs is not None and encoders:
        attention_arcs(encoders[-1][:, :2], read, path=arcs)  # two heads: more are hard to read
    print(output)


if __name__ == "__main__":
    from saving import run as run_demo

    run_demo(main)
