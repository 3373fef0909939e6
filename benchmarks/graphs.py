"""The cost of drawing: traces of the paper's base model, their pictures and pages, and their limits.

6 + 6 layers, d_model 512, 8 heads, d_ff 2048, 37,000 tokens of vocabulary; one pair of 16 tokens.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import Transformer, TransformerConfig

TOKENS = 16
KIB = 1024


def paper_base() -> Transformer:
    """The base model of table 3, ready to be used."""
    mg.manual_seed(0)
    return Transformer(TransformerConfig(vocab_size=37_000)).eval()


def loss_of(model: Transformer) -> mg.Tensor:
    source, target = np.random.default_rng(0).integers(4, model.config.vocab_size, (2, 1, TOKENS))
    target_in = np.concatenate([[[model.config.bos_token_id]], target[:, :-1]], axis=1)
    return F.cross_entropy(model(source, target_in)[0], target[0])


def gradients_of(model: Transformer) -> list[mg.Tensor]:
    """The gradients of all weights, with a graph of their own."""
    return list(mg.autograd.grad(loss_of(model), list(model.parameters()), create_graph=True))


def timed(do: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = do()
    return time.perf_counter() - start, result


def measure(
    output: Callable[[Transformer], Any], model: Transformer, readable: bool, unfolded: bool, repeats: int
) -> dict[str, float | None]:
    """Seconds of a trace and of its picture; the picture's contents, and the size of the page."""
    with mg.fused(not readable):
        computed = output(model)
        traces = []
        pictures = []
        for _ in range(repeats):
            seconds, graph = timed(lambda: mg.graph.trace(computed, model))
            traces.append(seconds)
            seen = graph.expand() if unfolded else graph
            seconds, _ = timed(seen.to_svg)
            pictures.append(seconds)
    trace = statistics.median(traces)
    picture = statistics.median(pictures)
    return {
        "nodes": len(graph.vertices),
        "boxes": seen.folding.count,
        "trace, s": trace,
        "SVG, s": picture,
        "both, s": trace + picture,
        "page, KiB": len(seen.to_html().encode()) / KIB,
    }


def graphs(repeats: int = 3) -> dict[str, dict[str, float | None]]:
    """Title -> column -> number, for the folded picture and for unfolded ones."""
    model = paper_base()
    no = dict.fromkeys(("nodes", "boxes", "trace, s", "SVG, s", "both, s", "page, KiB"))
    return {
        "folded": measure(loss_of, model, False, False, repeats),
        "at most": {**no, "boxes": 40, "both, s": 3, "page, KiB": 1024},
        "readable, all unfolded": measure(loss_of, model, True, True, repeats),
        "at most ": {**no, "SVG, s": 10, "page, KiB": 1024},
        "with its gradients, all unfolded": measure(gradients_of, model, True, True, repeats),
        "at most  ": {**no, "SVG, s": 10},
    }
