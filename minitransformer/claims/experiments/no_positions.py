"""What does a translator lose without positions in the encoder, in the decoder, or in both?"""

from collections.abc import Mapping

import minigrad as mg

from ...layers.positions import NoPositions
from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, sentences, size, token_error, train, translator


@claim(
    question="Does a translator need positions?",
    says={
        "Attention Is All You Need, section 3.5": "in order for the model to make use of the order of the "
        "sequence, we must inject some information about the relative or absolute position",
        "Explain step by step ... with test data, The Problem": "Without position information, the "
        "model can't distinguish word order!",
    },
    setting="A translator of width 64 on 4,000 sentences, 400 steps, with sinusoidal positions, or without "
    "them in the encoder, in the decoder, or in both. (A causal mask says something about positions: the "
    "first word sees one word, the second two.)",
    measures={
        "wrong": "wrong next words in held-out sentences, given the right words before, a fraction",
        "loss": "held-out loss, nats a token",
        "parameters": "number of parameters",
    },
    arms=("with positions", "not in the encoder", "not in the decoder", "in neither"),
    rates=(3e-3, 6e-3, 1.2e-2),
    rules=(
        Rule("with positions: wrong", "not in the encoder: wrong", by=0.05, part="encoder"),
        Rule("with positions: wrong", "not in the decoder: wrong", by=0.05, part="decoder"),
        Rule("with positions: wrong", "in neither: wrong", by=0.05, part="both"),
    ),
)
def no_positions(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = build(trial.arm, data)
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {
        "wrong": token_error(model, data.held_out, data),
        "loss": held_out_loss(model, data),
        "parameters": size(model),
    }


def build(arm: str, data: Sentences) -> Transformer:
    model = translator(data)
    if arm in ("not in the encoder", "in neither"):
        model.encoder_positions = NoPositions()
    if arm in ("not in the decoder", "in neither"):
        model.decoder_positions = NoPositions()
    return model
