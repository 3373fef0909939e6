"""Graphs whose pages are tested in a browser, and what their tests read from them."""

import numpy as np

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn
from minigrad.graph.labels import number
from minitransformer import GPT, GPTConfig, Transformer, TransformerConfig


def scalar(x):
    return mg.tensor(x, dtype=mg.float64, requires_grad=True)


def expression():
    """micrograd's kind of expression: a value used three times, one used twice by one op."""
    a, b = scalar(-4.0), scalar(2.0)
    c = a * b
    d = c * c + a
    e = d.relu() + b / a
    return mg.graph.trace(e, {"a": a, "b": b, "c": c, "d": d, "e": e}, title="An expression")


def network():
    """Two layers, whose arrays are small enough to be shown whole."""
    mg.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    loss = F.cross_entropy(model(mg.randn(5, 3)), mg.tensor(np.array([0, 1, 1, 0, 1])))
    return mg.graph.trace(loss, model, title="A network")


def transformer(size=8, layers=2, vocabulary=20):
    config = TransformerConfig(
        vocab_size=vocabulary, d_model=size, num_heads=2 if size < 512 else 8, d_ff=4 * size,
        num_encoder_layers=layers, num_decoder_layers=layers,
    )  # fmt: skip
    model = Transformer(config)
    generator = np.random.default_rng(0)
    source, target, labels = (mg.tensor(generator.integers(4, vocabulary, (2, 6))) for _ in range(3))
    loss = F.cross_entropy(model(source, target).reshape(-1, vocabulary), labels.reshape(-1))
    return mg.graph.trace(loss, model, title="A Transformer")


def gpt():
    config = GPTConfig(vocab_size=20, n_positions=8, n_embd=8, n_layer=3, n_head=2)
    model = GPT(config)
    ids = np.random.default_rng(0).integers(0, 20, (1, 6))
    return mg.graph.trace(F.cross_entropy(model(ids)[0], ids[0]), model, title="A GPT")


def lstm():
    """As the operations of its definition, step by step."""
    mg.manual_seed(0)
    model = nn.LSTM(3, 2)
    with mg.fused(False):
        loss = (model(mg.randn(4, 1, 3))[0] ** 2).mean()
    return mg.graph.trace(loss, model, title="An LSTM")


def find(graph, name, kind="op"):
    """The vertex of that name or label."""
    return next(v for v in graph.vertices if v.kind == kind and name in (v.name, v.label))


def shown(numbers, digits=3):
    """Numbers as the page shows them, in arithmetic with six digits; it has no minus zero."""
    return [number(float(x) + 0.0, digits) for x in np.asarray(numbers).reshape(-1)]
