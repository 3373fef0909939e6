# ruff: noqa: E501
"""Heads: many or one, and what W_Q, W_K and W_V are for."""

from collections.abc import Mapping
from typing import Any

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.nn import functional as F

from ...layers.attention import MultiHeadAttention
from ..claim import Rule, Trial, claim
from ..translating import attentions, held_out_loss, sentences, size, train, translator

MEASURES = {"loss": "held-out loss, nats a token", "parameters": "number of parameters"}


@claim(
    question="Are many heads better than one at equal cost?",
    says={
        "Attention Is All You Need, section 3.2.2": "Multi-head attention allows the model to jointly attend to "
        "information from different representation subspaces at different positions. With a single attention "
        "head, averaging inhibits this.",
    },
    setting="A translator of width 64 on 4,000 sentences, 400 steps: 8 heads of width 8, or one of width 64.",
    measures=MEASURES,
    arms=("8 heads", "1 head"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(Rule("8 heads: loss", "1 head: loss", by=0.02),),
)
def many_heads(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data, num_heads=8 if trial.arm == "8 heads" else 1)
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}


class OneMatrix(MultiHeadAttention):
    """The same matrix makes queries, keys and values."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.in_proj_weight = nn.Parameter(self.in_proj_weight.array[:d_model].copy())
        self.register_parameter("in_proj_bias", nn.Parameter(self.in_proj_bias.array[:d_model].copy()))

    def project(
        self, query: Tensor, memory: Tensor | None = None, cache: Any = None
    ) -> tuple[Tensor, Tensor]:
        q = F.linear(query, self.in_proj_weight, self.in_proj_bias)
        k = q if memory is None else F.linear(memory, self.in_proj_weight, self.in_proj_bias)
        return q, mg.cat([k, k], -1)  # the values are the keys


@claim(
    question="Do queries, keys and values need matrices of their own?",
    says={
        "Transformers - Attention Is All You Need, Why Three Different Matrices?": "with one W for all three, a token "
        "would attend most to itself",
    },
    setting="A translator of width 64 on 4,000 sentences, 400 steps. With one matrix for all three, the "
    "feed-forward networks get the parameters that are saved.",
    measures=MEASURES,
    arms=("three matrices", "one matrix"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(Rule("three matrices: loss", "one matrix: loss", by=0.05),),
)
def three_matrices(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data)
    if trial.arm == "one matrix":
        saved = len(attentions(model)) * 2 * 64 * (64 + 1)
        model = translator(data, d_ff=256 + round(saved / (4 * (2 * 64 + 1))))  # four feed-forward networks
        for layer in [*model.encoder.layers, *model.decoder.layers]:
            layer.self_attention = OneMatrix(64, 4)
        for layer in model.decoder.layers:
            layer.cross_attention = OneMatrix(64, 4)
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
