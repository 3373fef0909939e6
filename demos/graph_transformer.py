"""A whole Transformer, folded into boxes: the figure of the paper, drawn from the recorded graph.

    python demos/graph_transformer.py -o transformer.html
    python demos/graph_transformer.py --paper -o transformer.svg

Identical layers are one box, "x2"; click it (or `graph.expand("encoder.layers.0")`) to look inside.
"""

from pathlib import Path

import numpy as np
from saving import run, save

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import Transformer, TransformerConfig

SMALL = TransformerConfig(
    vocab_size=12, d_model=8, num_heads=2, d_ff=16, num_encoder_layers=2, num_decoder_layers=2
)
TOKENS = 4  # in the source, and in the target
PAPER = TransformerConfig(vocab_size=37_000)  # the base model: 6 + 6 layers, d_model 512, 8 heads, d_ff 2048


def main(*, output: Path = Path("transformer.html"), paper: bool = False, seed: int = 0) -> None:
    """Draw a Transformer.

    Args:
        paper: The paper's base model of 6 + 6 layers instead of a tiny one.
        seed: Seed of the weights and the tokens.
    """
    mg.manual_seed(seed)
    config = PAPER if paper else SMALL
    model = Transformer(config).eval()
    source, target = np.random.default_rng(seed).integers(4, config.vocab_size, (2, 1, TOKENS))
    target_in = np.concatenate([[[config.bos_token_id]], target[:, :-1]], axis=1)
    logits = model(source, target_in)  # (1, tokens, vocabulary)
    loss = F.cross_entropy(logits[0], target[0])
    title = "The Transformer of “Attention Is All You Need”" + ("" if paper else ", small")
    save(mg.graph.trace(loss, model, title=title), output)


if __name__ == "__main__":
    run(main)
