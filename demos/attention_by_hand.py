"""Every number of one attention layer, for "I love you": embeddings, Q K V, scores, softmax, output.

    python demos/attention_by_hand.py

The vectors are small enough to follow with a pencil: three tokens of four numbers, one head.
"""

import numpy as np
from rich.console import Console
from rich.table import Table

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer.cli.parsing import parse
from minitransformer.layers.positions import positional_encoding

TOKENS = ["I", "love", "you"]
EMBEDDING = [[0.2, 0.5, 0.1, 0.8], [0.9, 0.1, 0.7, 0.3], [0.3, 0.8, 0.2, 0.6]]
W_Q = np.eye(4)
W_K = np.eye(4)[[1, 0, 3, 2]]
W_V = np.kron(np.eye(2), np.full((2, 2), 0.5))

console = Console()


def show(title, matrix, columns=None, rows=TOKENS):
    console.print(f"\n{title}")
    table = Table(show_header=columns is not None)
    table.add_column("")
    for name in columns or range(len(matrix[0])):
        table.add_column(str(name), justify="right")
    for name, row in zip(rows, getattr(matrix, "array", matrix), strict=True):
        table.add_row(str(name), *(f"{value:.3f}" for value in row))
    console.print(table)


def main() -> None:
    """Print every number of one attention layer, for "I love you"."""
    embedding = mg.tensor(np.array(EMBEDDING), requires_grad=True)
    x = embedding + mg.tensor(positional_encoding(3, 4, np.float64))
    show("x = embedding + positional encoding", x)
    for name, w in (("W_Q", W_Q), ("W_K: swaps neighbours", W_K), ("W_V: averages neighbours", W_V)):
        show(name, w, rows=range(4))
    q, k, v = (x @ mg.tensor(w) for w in (W_Q, W_K, W_V))
    show("Q = x W_Q", q)
    show("K = x W_K", k)
    show("V = x W_V", v)
    scores = q @ k.mT / 2  # sqrt(d_k) = 2
    show("Q Kᵀ / sqrt(d_k): how well each token (row) matches each (column)", scores, TOKENS)
    weights = F.softmax(scores)
    show("softmax of each row: how much each token takes from each", weights, TOKENS)
    output = weights @ v
    show("weights V: each token, in the context of all", output)

    kernel = F.scaled_dot_product_attention(q, k, v)
    console.print(f"the fused kernel differs by at most {(kernel - output).abs().max().item():.1e}")
    output.sum().backward()
    show("and backward: d sum(output) / d embedding", embedding.grad)


if __name__ == "__main__":
    parse(main)
