"""How much does a translator lose without positions in the encoder, in the decoder, or in both?"""

from collections.abc import Mapping
from functools import cache

import numpy as np

import minigrad as mg

from ...layers.positions import NoPositions
from ...models.transformer import Transformer
from ...text.tokenizer import Tokenizer
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, sentences, size, token_error, train, translator

STEPS = {"copy": 400, "translate": 300}


@claim(
    question="Does a translator of short sentences need positions?",
    says={
        "Attention Is All You Need, section 3.5": "in order for the model to make use of the order of the "
        "sequence, we must inject some information about the relative or absolute position",
        "Explain step by step ... with test data, The Problem": "Without position information, the "
        "model can't distinguish word order!",
    },
    setting="An encoder and a decoder with sinusoidal positions, or without them in the encoder, in the "
    "decoder, or in both. Two tasks: copy sentences of 8 different words in random order, where only the "
    "order matters (width 64, one layer per side, 400 steps), and translate (two layers per side, 300 "
    "steps), where the words themselves say much about their order. 4,000 sentences each. Of the sentences "
    "to translate, which have at most 8 words, only 1.7% have the same words and punctuation as another one "
    "in another order (2.4% if case is ignored), so the order of the English words can hardly cost much.",
    measures={
        "wrong": "fraction of wrong next words in held-out sentences with teacher forcing",
        "loss": "held-out loss, nats per token",
        "parameters": "number of parameters",
    },
    arms=("with positions", "not in the encoder", "not in the decoder", "in neither"),
    cases=tuple(STEPS),
    rates=(3e-3, 6e-3, 1.2e-2),
    rules=(
        Rule("with positions: wrong", "not in the encoder: wrong", by=0.05, part="encoder"),
        Rule("with positions: wrong", "not in the decoder: wrong", by=0.05, part="decoder"),
        Rule("with positions: wrong", "in neither: wrong", by=0.05, part="both"),
    ),
)
def no_positions(trial: Trial) -> Mapping[str, float]:
    data = copies(trial.seed) if trial.case == "copy" else sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = build(trial.arm, data, layers=1 if trial.case == "copy" else 2)
    train(model, data, trial.rate, trial.steps(STEPS[trial.case]), trial.seed)
    return {
        "wrong": token_error(model, data.held_out, data),
        "loss": held_out_loss(model, data),
        "parameters": size(model),
    }


def build(arm: str, data: Sentences, layers: int = 2) -> Transformer:
    model = translator(data, num_encoder_layers=layers, num_decoder_layers=layers)
    if arm in ("not in the encoder", "in neither"):
        model.encoder_positions = NoPositions()
    if arm in ("not in the decoder", "in neither"):
        model.decoder_positions = NoPositions()
    return model


@cache
def copies(seed: int) -> Sentences:
    """Draw sentences of 8 different words out of 32, in random order, each paired with itself."""
    names = [chr(ord("a") + i) * 2 for i in range(26)] + [str(i) for i in range(6)]
    tokenizer = Tokenizer.train_word(names)
    words = np.array([tokenizer.encode(name)[0] for name in names])
    random = np.random.default_rng(seed)
    drawn = words[random.permuted(np.tile(np.arange(32), (4300, 1)), axis=1)[:, :8]].tolist()
    pairs = [(ids, ids) for ids in drawn]
    return Sentences(pairs[:4000], pairs[4000:], [], tokenizer)
