"""Worked examples of three texts on the Transformer: their numbers, and ours from the same inputs.

The model of "Transformer Network" is small enough for paper: ten words, vectors of width 4, one head. It
gives the embedding and the three projections, and no other weights, so the others are trained on the pair
of sentences that it translates.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import optim
from minigrad.nn import functional as F

from ..layers.positions import positional_encoding
from ..models.presets import preset
from ..models.transformer import Transformer
from .page import Explanation, to_html
from .picture import draw
from .record import record

SENTENCE = "I love you"
TRANSLATION = "Je t'aime"
PATH = "encoder.layers.0.self_attention"
BESIDE = {"scores": "scores", "weights": "weights", "heads": "output"}  # array of the page -> its name there
Computed = dict[str, np.ndarray]


def examples() -> list[dict[str, Any]]:
    """The worked examples: inputs, and the results that are printed in the text that each is from."""
    return json.loads((files(__package__) / "documents.json").read_text(encoding="utf-8"))


def explain_documents() -> Explanation:
    """The walk-through of the model of "Transformer Network" on its sentence."""
    model, tokens = documents_model()
    source = [1, 2, 3]
    labels = [4, 5, 6, 9]
    tokenizer = {
        "layout": "word", "tokens": tokens, "merges": [], "special": [0, 9],
        "pad_id": None, "unk_id": None, "start_id": 0, "end_id": 9,
    }  # fmt: skip
    arrays = record(model, source, [0, *labels[:-1]]).arrays
    weights = arrays["decoder.layers.0.cross_attention.weights"].mean(0)
    shares = arrays["probabilities"][np.arange(4), labels]
    picture = draw(weights, shares, [tokens[i] for i in source], [tokens[i] for i in labels])
    title = "Ten words, by hand"
    page = to_html(
        model, tokenizer, SENTENCE, title=title, max_length=12, picture=picture, documents=comparison(),
        inputs={"before": [], "after": [], "marks": [], "strip": True},
    )  # fmt: skip
    return Explanation(page, picture, title)


def documents_model() -> tuple[Transformer, list[str]]:
    """The model, and its ten words."""
    given = examples()[0]["inputs"]
    state = mg.get_rng_state()
    mg.manual_seed(0)
    try:
        return _train(given), given["vocabulary"]
    finally:
        mg.set_rng_state(state)  # the caller's random draws are not affected


def _train(given: Any) -> Transformer:
    """A model with their embedding and projections, and other weights trained on their pair of sentences."""
    model = Transformer(preset("toy"))
    attention = model.encoder.layers[0].self_attention
    stacked = np.concatenate([np.array(given[w]).T for w in ("W_q", "W_k", "W_v")])
    stated = {
        model.embedding.weight: given["embedding"],
        attention.in_proj_weight: stacked,
        attention.in_proj_bias: np.zeros(12),
        attention.out_proj.weight: np.eye(4),
        attention.out_proj.bias: np.zeros(4),
    }
    for parameter, values in stated.items():
        parameter.array[...] = values
    learned = [p for p in model.parameters() if all(p is not q for q in stated)]
    optimizer = optim.Adam(learned, lr=0.03)
    for _ in range(150):
        optimizer.zero_grad()
        logits = model([[1, 2, 3]], [[0, 4, 5, 6]])
        F.cross_entropy(logits[0], mg.tensor(np.array([4, 5, 6, 9]))).backward()
        optimizer.step()
    model.eval()
    return model


# ---------------------------------------------------------------- their numbers beside ours


def comparison() -> dict[str, Any]:
    """Each example with its numbers, and the numbers shown beside the arrays of the page."""
    found = []
    for example in examples():
        ours = RECOMPUTED[example["id"]](example["inputs"])
        pairs = [
            {"name": name.replace("_", " "), "theirs": _rows(printed), "ours": _rows(ours[name])}
            for name, printed in example["printed"].items()
            if name in ours
        ]
        about = {key: example[key] for key in ("id", "about", "document", "note")}
        found.append(about | {"compared": pairs})
    printed = examples()[0]["printed"]
    beside = {f"{PATH}.{name}": printed[theirs] for name, theirs in BESIDE.items()}
    return {
        "examples": found,
        "beside": beside,
        "note": "On the other stages, the first example runs through a whole model. “Transformer Network” "
        "gives its embedding and projections; the others were trained until the model says “Je t'aime”.",
    }


def _rows(values: Any) -> list[list[float]]:
    return np.atleast_2d(np.asarray(values, dtype=float)).tolist()


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
    """The number of parameters of a layer's attention, without biases, and of the model with tied
    embeddings."""
    d, d_ff = given["d_model"], given["d_ff"]
    attention = 4 * d**2 + 4 * d
    forward = 2 * d * d_ff + d_ff + d
    norm = 2 * d
    layers = 3 * attention + 2 * forward + 5 * norm  # one of the encoder and one of the decoder
    total = given["vocabulary"] * d + given["layers"] * layers
    return {"attention_weights_per_layer": np.array(4 * d**2), "total_in_millions": np.array(total / 1e6)}


RECOMPUTED: dict[str, Callable[[Any], Computed]] = {
    "i-love-you": _i_love_you,
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
