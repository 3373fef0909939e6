"""Worked examples of three texts on the Transformer: their printed numbers, and ours from the same inputs.

The text "Transformer Network" computes a model by hand: ten words, vectors of width 4, one head. It prints
the embedding and the encoder's projections. The other weights are fitted to the decoder's numbers that it
prints, by `python -m tools.by_hand`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.io import load_file
from minigrad.nn import functional as F

from ..layers.positions import positional_encoding
from ..models.presets import preset
from ..models.transformer import Transformer
from .page import Explanation, to_html
from .picture import draw
from .record import record

SENTENCE = "I love you"
SOURCE, TARGET, ANSWER = [1, 2, 3], [0, 4, 5, 6], [4, 5, 6, 9]  # <START> Je t' aime gives Je t' aime <END>
WEIGHTS = Path(__file__).with_name("documents.safetensors")
Computed = dict[str, np.ndarray]
ENCODER, DECODER = "encoder.layers.0.self_attention", "decoder.layers.0"
# arrays of the page that a text prints -> example, and the array's name in it
BESIDE = {
    f"{ENCODER}.scores": ("i-love-you", "scores"),
    f"{ENCODER}.weights": ("i-love-you", "weights"),
    f"{ENCODER}.heads": ("i-love-you", "output"),
    f"{DECODER}.self_attention.weights": ("decoder", "self-attention"),
    f"{DECODER}.cross_attention.weights": ("decoder", "cross-attention"),
    "decoder.output": ("decoder", "states"),
    "logits": ("decoder", "scores"),
    "probabilities": ("decoder", "probabilities"),
}


@cache
def examples() -> list[dict[str, Any]]:
    """The worked examples, with their inputs and the results that their texts print."""
    return json.loads(Path(__file__).with_name("documents.json").read_text(encoding="utf-8"))


def example(name: str) -> dict[str, Any]:
    return next(each for each in examples() if each["id"] == name)


def explain_documents() -> Explanation:
    """The walk-through page of the model in "Transformer Network", on its sentence."""
    model, tokens = documents_model()
    tokenizer = {
        "layout": "word", "tokens": tokens, "merges": [], "special": [0, 9],
        "pad_id": None, "unk_id": None, "start_id": 0, "end_id": 9,
    }  # fmt: skip
    arrays = record(model, SOURCE, TARGET).arrays
    weights = arrays[f"{DECODER}.cross_attention.weights"].mean(0)
    shares = arrays["probabilities"][np.arange(4), ANSWER]
    picture = draw(weights, shares, [tokens[i] for i in SOURCE], [tokens[i] for i in ANSWER])
    title = "Ten words, by hand"
    page = to_html(
        model, tokenizer, SENTENCE, title=title, max_length=12, picture=picture, documents=comparison(),
        inputs={"before": [], "after": [], "marks": [], "strip": True},
    )  # fmt: skip
    return Explanation(page, picture, title)


def documents_model() -> tuple[Transformer, list[str]]:
    """The model of "Transformer Network" with all its weights, and its vocabulary of ten words."""
    model, _ = given_model()
    model.load_state_dict(load_file(WEIGHTS), strict=False)
    model.eval()
    return model, example("i-love-you")["inputs"]["vocabulary"]


def given_model() -> tuple[Transformer, list[mg.Tensor]]:
    """The model with the weights that the text prints, and the parameters that have them."""
    given = example("i-love-you")["inputs"]
    state = mg.get_rng_state()
    model = Transformer(preset("toy"))
    mg.set_rng_state(state)  # the caller's random draws are not affected
    attention = model.encoder.layers[0].self_attention
    values = {
        model.embedding.weight: given["embedding"],
        attention.in_proj_weight: np.concatenate([np.array(given[w]).T for w in ("W_q", "W_k", "W_v")]),
        attention.in_proj_bias: np.zeros(12),
        attention.out_proj.weight: np.eye(4),
        attention.out_proj.bias: np.zeros(4),
    }
    for parameter, array in values.items():
        parameter.array[...] = array
    return model, [*values]


def printed_arrays(model: Transformer) -> Computed:
    """Compute the arrays of the decoder that the text prints, by their names in the example "decoder"."""
    arrays = record(model, SOURCE, TARGET).arrays
    return {
        "self-attention": arrays[f"{DECODER}.self_attention.weights"][0],
        "cross-attention": arrays[f"{DECODER}.cross_attention.weights"][0],
        "states": arrays["decoder.output"],
        "scores": arrays["logits"],
        "probabilities": arrays["probabilities"],
    }


# ---------------------------------------------------------------- their numbers beside ours


def comparison() -> dict[str, Any]:
    """The data of the page: each example with its numbers and ours, and numbers to show beside its arrays."""
    found = []
    for each in examples():
        ours = RECOMPUTED[each["id"]](each["inputs"])
        pairs = [
            {"name": name.replace("_", " "), "theirs": _rows(printed), "ours": _rows(ours[name])}
            for name, printed in each["printed"].items()
            if name in ours
        ]
        about = {key: each[key] for key in ("id", "about", "document", "note")}
        found.append(about | {"compared": pairs})
    return {
        "examples": found,
        "beside": {array: example(of)["printed"][name] for array, (of, name) in BESIDE.items()},
        "note": "On the other stages, the first two examples are one model. “Transformer Network” gives its "
        "embedding and the encoder's projections; the decoder's weights were fitted to the attention, "
        "states, scores and probabilities that it prints.",
    }


def _rows(values: Any) -> list[list[float | None]]:
    """Convert an array to a matrix for JSON, with None for NaN (numbers that are not printed)."""
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    return [[None if np.isnan(x) else x for x in row] for row in rows.tolist()]


def _attend(q: Any, k: Any, v: Any) -> Computed:
    q, k, v = (mg.tensor(x, dtype="float64") for x in (q, k, v))
    scores = q @ k.mT
    weights = F.softmax(scores / q.shape[-1] ** 0.5, -1)
    return {"scores": scores.numpy(), "weights": weights.numpy(), "output": (weights @ v).numpy()}


def _i_love_you(given: Any) -> Computed:
    x = np.array(given["embedding"])[given["tokens"]] + positional_encoding(3, 4, np.float64)
    return _attend(*(x @ np.array(given[w]) for w in ("W_q", "W_k", "W_v")))


def _causal_mask(given: Any) -> Computed:
    scores = mg.tensor(given["scores"], dtype="float64")
    hidden = mg.tensor(np.triu(np.ones(scores.shape, bool), 1))
    return {"weights": F.softmax(scores.masked_fill(hidden, -np.inf), -1).numpy()}


def _softmax(values: Any) -> np.ndarray:
    return F.softmax(mg.tensor(values, dtype="float64"), -1).numpy()


def _label_smoothing(given: Any) -> Computed:
    target = np.full(given["classes"], given["epsilon"] / given["classes"])
    target[given["target"]] += 1 - given["epsilon"]
    return {"target": target}


def _parameters(given: Any) -> Computed:
    """Count the weights of one attention (without biases), and the model's parameters (tied embeddings)."""
    d, d_ff = given["d_model"], given["d_ff"]
    attention = 4 * d**2 + 4 * d
    forward = 2 * d * d_ff + d_ff + d
    norm = 2 * d
    layers = 3 * attention + 2 * forward + 5 * norm  # an encoder layer and a decoder layer
    total = given["vocabulary"] * d + given["layers"] * layers
    return {"attention_weights_per_layer": np.array(4 * d**2), "total_in_millions": np.array(total / 1e6)}


RECOMPUTED: dict[str, Callable[[Any], Computed]] = {
    "i-love-you": _i_love_you,
    "decoder": lambda given: printed_arrays(documents_model()[0]),
    "causal-mask": _causal_mask,
    "next-word": lambda given: {"probabilities": _softmax(given["logits"])},
    "three-tokens": lambda given: _attend(given["q"], given["k"], given["v"]),
    "i-love-ai": lambda given: _attend(given["q"], given["k"], given["v"]),
    "query-projection": lambda given: {"q0": (np.array(given["x"]) @ np.array(given["W_q"]))[0]},
    "positional-encoding-6x4": lambda given: {
        "pe": positional_encoding(given["n"], given["d_model"], np.float64)
    },
    "why-scale": lambda given: {name: _softmax(given[name]) for name in ("unscaled", "scaled")},
    "label-smoothing": _label_smoothing,
    "paper-base-parameters": _parameters,
}
