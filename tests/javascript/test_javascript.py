"""The parts of the pages' JavaScript that need no page, in Node, beside what the engine computed."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.graph.page import _Data
from minitransformer import Transformer, TransformerConfig
from minitransformer.explain import record
from minitransformer.explain.structure import structure
from tests.graph.pages import network, transformer


def numbers(array):
    return {"shape": list(array.shape), "data": np.asarray(array, float).reshape(-1).tolist()}


def translator():
    """A model as a page has it, what it reads, and every array that it computes."""
    mg.manual_seed(0)
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1, "num_decoder_layers": 2}
    model = Transformer(TransformerConfig(vocab_size=11, dropout=0.0, **sizes)).eval()
    source, target = [5, 6, 7, 3], [2, 8, 9]
    arrays = record(model, source, target).arrays
    return {
        "payload": {
            "model_type": model.model_type,
            "config": vars(model.config),
            "weights": {name: numbers(weight) for name, weight in model.state_dict().items()},
        },
        "structure": structure(model, ()),
        "inputs": {"source": source, "target": target},
        "arrays": {name: numbers(array) for name, array in arrays.items() if np.isfinite(array).all()},
    }


@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
def test_node_finds_the_modules_right(tmp_path):
    graphs = [_Data(graph.folding, "family").text(1_000_000) for graph in (network(), transformer())]
    halves = np.append(np.random.default_rng(0).normal(size=99) * 10.0 ** np.arange(-9, 2).repeat(9), 65520)
    with np.errstate(over="ignore"):
        rounded = [float(x) if np.isfinite(x) else str(x) for x in halves.astype(np.float16)]
    data = {"graphs": graphs, "halves": halves.tolist(), "rounded": rounded, "translator": translator()}
    (tmp_path / "data.json").write_text(json.dumps(data, default=list, allow_nan=False), encoding="utf-8")
    done = subprocess.run(
        ["node", "--test", *Path(__file__).parent.glob("*.test.js")],
        env=os.environ | {"DATA": str(tmp_path / "data.json")}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
