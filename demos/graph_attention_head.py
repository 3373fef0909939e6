"""Every operation of one attention head (section 3.2.1 of the paper): softmax(Q Kᵀ / √d) V of three words.

    python demos/graph_attention_head.py -o attention.html

The softmax is written out, and `named_scope` names the parts of the graph.
"""

import math
from pathlib import Path

from saving import run, save

import minigrad as mg
from minigrad.graph import named_scope

WORDS, WIDTH = 3, 4


def attention(q: mg.Tensor, k: mg.Tensor, v: mg.Tensor) -> mg.Tensor:
    """Each word's mixture of all words' values. q, k, v: (words, width)."""
    with named_scope("scores"):
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (words, words): how well each matches each
    with named_scope("softmax"):
        weights = (scores - scores.detach().amax(-1, keepdim=True)).exp()  # at most 1, so none overflows
        weights = weights / weights.sum(-1, keepdim=True)  # each row sums to 1
    with named_scope("mixture"):
        return weights @ v


def main(*, output: Path = Path("attention.html"), seed: int = 0) -> None:
    """Draw one attention head.

    Args:
        seed: Seed of the words and the weights.
    """
    mg.manual_seed(seed)
    words = mg.randn(WORDS, WIDTH)
    learned = {name: mg.nn.Parameter(mg.randn(WIDTH, WIDTH)) for name in ("W_Q", "W_K", "W_V")}
    q, k, v = (words @ weight for weight in learned.values())
    output_of_head = attention(q, k, v)
    loss = (output_of_head**2).sum()  # any scalar would do: backward starts at one
    names = {**learned, "words": words, "Q": q, "K": k, "V": v, "head": output_of_head, "loss": loss}
    save(mg.graph.trace(loss, names, title="One attention head: softmax(Q Kᵀ / √d) V"), output)


if __name__ == "__main__":
    run(main)
