"""The cost of recording a forward pass: the attention weights of all heads, the outputs of all modules.

Models and batches have the sizes of two recipes; weights are random.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

import minigrad as mg
from minitransformer import (
    GPT,
    GPTConfig,
    Transformer,
    TransformerConfig,
    generate,
    record_activations,
    record_attention,
)

from .children import keep_freed_memory
from .measuring import measure, ratios, spread
from .tables import Table

Recorder = Callable[[Any], AbstractContextManager[Any]]
RECORDERS: dict[str, Recorder] = {
    "forward": lambda model: nullcontext(),
    "record_attention": record_attention,
    "record_activations": record_activations,
}


def works() -> dict[str, tuple[Any, Callable[[Any], object]]]:
    """Models, and the calls that are measured."""
    keep_freed_memory()
    rng = np.random.default_rng(0)
    mg.manual_seed(0)
    translator = Transformer(TransformerConfig(1100, 128, 4, 512, 2, 2)).eval()
    # 1,024 tokens
    source = rng.integers(4, 1100, (102, 11))
    target = rng.integers(4, 1100, (102, 10))
    writer = GPT(GPTConfig(65, n_positions=64, n_embd=128, n_layer=4, n_head=4)).eval()
    text = rng.integers(0, 65, (12, 64))
    return {
        "phrasebook, a batch": (translator, lambda model: model(source, target)),
        "phrasebook, a sentence": (translator, lambda model: model(source[:1], target[:1])),
        "shakespeare-char-cpu, a batch": (writer, lambda model: model(text)),
        "shakespeare-char-cpu, 32 tokens, cached": (writer, lambda model: generate(model, text[:1, :8], 32)),
    }


def recording(repeats: int = 50, seconds: float = 20.0, clock: str = "wall") -> Table:
    """Milliseconds of a forward pass, without and with recording, in turns, and their ratios."""
    table = Table("recording a forward pass: ms, and times the forward pass alone")
    for name, (model, run) in works().items():

        def recorded(recorder: Recorder, model: Any = model, run: Callable[[Any], object] = run) -> None:
            with mg.no_grad(), recorder(model):
                run(model)

        steps = {kind: lambda r=r: recorded(r) for kind, r in RECORDERS.items()}
        times = measure(steps, repeats, seconds, clock=clock)  # type: ignore[arg-type]
        row: dict[str, Any] = {"forward, ms": spread([t * 1e3 for t in times["forward"]])}
        for kind in ("record_attention", "record_activations"):
            row[f"{kind}, ratio"] = ratios(times[kind], times["forward"])
        table.rows[name] = row
    return table
