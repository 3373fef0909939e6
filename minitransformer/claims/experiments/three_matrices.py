"""Can queries, keys and values be computed by one matrix?"""

from collections.abc import Mapping
from typing import Any

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.nn import functional as F

from ...layers.attention import MultiHeadAttention
from ..claim import Rule, Trial, claim
from ..three_relations import OneLayer
from ..translating import sentences, translator
from .many_heads import TRANSLATION, train_and_score


class OneMatrix(MultiHeadAttention):
    """Attention whose queries, keys and values are computed by the same matrix and bias."""

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
        "Explain step by step ... with test data, Why Three Different Weight Matrices?": "If we used the "
        "same W for all three, Q = K = V, and attention couldn't learn different relationships!",
    },
    setting="With one matrix for all three, the parameters that it saves are spent elsewhere. Three "
    "relations: one attention layer with 4 heads, whose tokens each have to name the colours of three "
    "others, of width 36, or 48 with one matrix; 500 steps. Translation: a translator of width 64 with two "
    "layers per side on 4,000 sentences, with wider feed-forward networks if it has one matrix; 700 steps.",
    measures={
        "loss": "held-out loss, nats per colour or token",
        "error": "fraction of held-out colours or tokens that are wrong",
        "parameters": "number of parameters",
    },
    arms=("three matrices", "one matrix"),
    cases=("three relations", TRANSLATION),
    rates=(1e-3, 3e-3, 6e-3, 1e-2),
    rules=(Rule("three matrices: loss", "one matrix: loss", by=0.05),),  # 5% of perplexity
)
def three_matrices(trial: Trial) -> Mapping[str, float]:
    return train_and_score(build(trial), trial)


def build(trial: Trial) -> Any:
    mg.manual_seed(trial.seed)
    is_one = trial.arm == "one matrix"
    if trial.case != TRANSLATION:
        return OneLayer(48, OneMatrix(48, 4)) if is_one else OneLayer(36, MultiHeadAttention(36, 4))
    data = sentences(trial.seed)
    if not is_one:
        return translator(data)
    saved = 6 * 2 * 64 * (64 + 1)  # parameters of two matrices and biases of six attention modules
    model = translator(data, d_ff=256 + saved // (4 * (2 * 64 + 1)))  # divided among four networks
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.self_attention = OneMatrix(64, 4)
    for layer in model.decoder.layers:
        layer.cross_attention = OneMatrix(64, 4)
    return model
