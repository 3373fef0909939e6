"""Must scores be divided by the square root of d_k, and do gradients vanish or explode otherwise?

A query's gradient is measured relative to the gradient at its head's output, so that it does not depend on
the size of the loss. It is measured before training, when both arms have the same weights.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.core.backward import Node
from minigrad.core.observers import Observer, observe

from ...data.batching import collate
from ...inspection.recording import record_attention
from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..translating import (
    Sentences,
    attentions,
    held_out_loss,
    sentences,
    size,
    token_loss,
    train,
    translator,
)

HEADS = {"d_k = 8": 8, "d_k = 64": 1}
TENTH = 0.1  # a fraction of queries: about one query of a sentence, which has at most ten tokens


@claim(
    question="Do scores have to be divided by the square root of d_k?",
    says={
        "Attention Is All You Need, section 3.2.1": "We suspect that for large values of d_k, the dot "
        "products grow large in magnitude, pushing the softmax function into regions where it has extremely "
        "small gradients.",
        "Transformer Network, Scaling the Scores": "Without scaling, large d_k leads to large dot products, "
        "which makes softmax produce values very close to 0 and 1. This causes vanishing gradients during "
        "training.",
        "Transformers - Attention Is All You Need, Why Scale by √d_k?": "This pushes the softmax into "
        "regions where it has extremely small gradients (saturation)",
        "The Transformer architecture, Self-Attention in Depth": "without it, dot products could "
        "result in excessively large gradients, which can cause convergence issues during training.",
    },
    setting="A translator of width 64 with one layer per side on 4,000 sentences of at most 8 English "
    "words, 800 steps. One head has d_k = 64, as in the paper; eight heads have d_k = 8. Saturation and "
    "gradients are those of held-out sentences in the model as initialized, where both arms have the same "
    "weights. A query's gradient is small if less than a hundredth of the gradient at its head's output "
    "arrives at it, and large if more arrives than there is at the output: from layer to layer, it would "
    "grow.",
    measures={
        "loss": "held-out loss after training, nats per token",
        "saturated": "fraction of queries with a weight above 0.95, at the start",
        "small": "fraction of queries with a small gradient, at the start",
        "large": "fraction of queries with a large gradient, at the start",
        "parameters": "number of parameters",
    },
    arms=("divided", "not divided"),
    cases=tuple(HEADS),
    rates=(3e-3, 1e-2, 3e-2),
    rules=(
        Rule("divided: loss", "not divided: loss", by=0.05, part="lower loss"),  # 5% of perplexity
        Rule("divided: saturated", "not divided: saturated", by=TENTH, part="less saturation"),
        Rule("divided: small", "not divided: small", by=TENTH, part="fewer small gradients"),
        Rule("divided: large", "not divided: large", by=TENTH, part="fewer large gradients"),
    ),
)
def sqrt_dk(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    model = build(trial, data)
    start = {"saturated": saturated(model, data), **query_gradients(model, data)}
    train(model, data, trial.rate, trial.steps(800), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model), **start}


def build(trial: Trial, data: Sentences) -> Transformer:
    mg.manual_seed(trial.seed)
    model = translator(data, num_heads=HEADS[trial.case], num_encoder_layers=1, num_decoder_layers=1)
    if trial.arm == "not divided":
        for attention in attentions(model):
            attention.scale = 1.0
    return model


@mg.no_grad()
def saturated(model: Transformer, data: Sentences) -> float:
    """The fraction of queries, over all heads, that have a weight above 0.95."""
    batch = collate(data.held_out, data.tokenizer)
    with record_attention(model) as maps:
        model(batch["source"], batch["target_in"])
    is_token = {"encoder": batch["source"] != data.tokenizer.pad_id}
    is_token["decoder"] = batch["target_in"] != data.tokenizer.pad_id
    is_token["decoder"][:, 0] = False  # <START> sees only itself
    largest = [
        weights.numpy().max(-1).swapaxes(1, 2)[is_token[path.partition(".")[0]]].ravel()  # one for each query
        for path, weights in maps.items()
    ]
    return float((np.concatenate(largest) > 0.95).mean())


class QueryGradients(Observer):
    """Observes the norm of each query's gradient, divided by that of the gradient at its head's output."""

    def __init__(self, d_k: int) -> None:
        self.d_k = d_k
        self.lengths: list[np.ndarray] = []

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        if node.op.name == "multi_head_attention":
            queries = contributions[0][1][..., : g.shape[-1]]  # in self-attention, keys and values follow
            query, output = (np.linalg.norm(x.reshape(-1, self.d_k), axis=-1) for x in (queries, g))
            self.lengths.append(query[output > 0] / output[output > 0])  # no loss depends on padding


def query_gradients(model: Transformer, data: Sentences) -> dict[str, float]:
    """Return the fractions of queries whose gradient norm is below 0.01, and above 1, times the output's."""
    with observe(observer := QueryGradients(attentions(model)[0].head_dim)):
        token_loss(model, collate(data.held_out, data.tokenizer)).backward()
    model.zero_grad()
    lengths = np.concatenate(observer.lengths)
    return {"small": float((lengths < 0.01).mean()), "large": float((lengths > 1).mean())}
