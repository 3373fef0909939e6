"""Do many heads learn more than one head of the same total width?"""

from collections.abc import Mapping
from typing import Any

import minigrad as mg

from ...layers.attention import MultiHeadAttention
from ..claim import Rule, Trial, claim
from ..three_relations import OneLayer, layer_scores, train_layer
from ..translating import held_out_loss, sentences, size, token_error, train, translator

TRANSLATION = "translation"
HEADS = {"4 heads": 4, "1 head": 1}


@claim(
    question="Are four heads better than one at equal cost?",
    says={
        "Attention Is All You Need, section 3.2.2": "Multi-head attention allows the model to jointly attend "
        "to information from different representation subspaces at different positions. With a single "
        "attention head, averaging inhibits this.",
        "Transformers - Attention Is All You Need, Why Multiple Heads?": "A single attention head can only "
        "capture one type of relationship at a time.",
    },
    setting="Four heads of a quarter of the width, or one of the full width: as many parameters and "
    "multiplications. Three relations: one attention layer of width 48, whose tokens each have to name the "
    "colours of three others; 500 steps. Translation: a translator of width 64 with two layers per side on "
    "4,000 sentences; 700 steps.",
    measures={
        "loss": "held-out loss, nats per colour or token",
        "error": "fraction of held-out colours or tokens that are wrong",
        "parameters": "number of parameters",
    },
    arms=("4 heads", "1 head"),
    cases=("three relations", TRANSLATION),
    rates=(1e-3, 3e-3, 6e-3, 1e-2),
    # in the paper, a translator with one head loses log(5.29 / 4.92) = 0.07 nats per word piece (Table 3, A)
    rules=(Rule("4 heads: loss", "1 head: loss", by=0.05),),
)
def many_heads(trial: Trial) -> Mapping[str, float]:
    return train_and_score(build(trial), trial)


def build(trial: Trial) -> Any:
    mg.manual_seed(trial.seed)
    heads = HEADS[trial.arm]
    if trial.case == TRANSLATION:
        return translator(sentences(trial.seed), num_heads=heads)
    return OneLayer(48, MultiHeadAttention(48, heads))


def train_and_score(model: Any, trial: Trial) -> Mapping[str, float]:
    """Train a translator, or a layer for three relations, and return the measures."""
    found = {"parameters": size(model)}
    if trial.case == TRANSLATION:
        data = sentences(trial.seed)
        train(model, data, trial.rate, trial.steps(700), trial.seed)
        error = token_error(model, data.held_out, data)
        return {"loss": held_out_loss(model, data), "error": error, **found}
    train_layer(model, trial.rate, trial.steps(500), trial.seed)
    return {**layer_scores(model, trial.seed), **found}
