# ruff: noqa: E501
"""Positions: which kind, how they meet the words, and what is lost without them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor

from ...layers.positions import Positions
from ..claim import Rule, Trial, claim
from ..translating import held_out_loss, sentences, size, token_error, train, translator

MEASURES = {"loss": "held-out loss, nats a token", "parameters": "number of parameters"}


@claim(
    question="Do sinusoidal positions extrapolate to longer sentences than those of the training?",
    says={
        "Attention Is All You Need, section 3.5": "it may allow the model to extrapolate to sequence lengths longer "
        "than the ones encountered during training",
        "Transformers - Attention Is All You Need, Why Sinusoidal?": "Unlike learned positional embeddings, "
        "sinusoidal encodings can extrapolate to sequence lengths longer than those seen during training",
    },
    setting="A translator on 4,000 sentences of at most 6 English words, 400 steps; scored on new sentences of at "
    "least 8, of known words. To extrapolate is to make at most 0.05 more errors there than on new short ones.",
    measures={
        **MEASURES,
        "short": "wrong next words in sentences of up to 6 words, a fraction",
        "long": "wrong next words in sentences of 8 words and more, a fraction",
    },
    arms=("sinusoidal", "learned"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(
        Rule("sinusoidal: long", "learned: long", by=0.05),
        Rule("sinusoidal: long", "sinusoidal: short", by=-0.05),
    ),
)
def extrapolation(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed, longest=6)
    mg.manual_seed(trial.seed)
    model = translator(data, positions=trial.arm, max_positions=64)
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {
        "loss": held_out_loss(model, data),
        "parameters": size(model),
        "short": token_error(model, data.held_out, data),
        "long": token_error(model, data.longer, data),
    }


@claim(
    question="Is it as good to add positions to the words as to concatenate them?",
    says={
        "The Transformer Blueprint, Adding vs. Concatenating": "By choosing addition, the Transformer's designers "
        "made a clever bet",
    },
    setting="A translator of width 64 on 4,000 sentences, 400 steps. Concatenated, words and positions have 32 "
    "numbers each; what the smaller embedding saves goes into the feed-forward networks.",
    measures=MEASURES,
    arms=("added", "concatenated"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(Rule("added: loss", "concatenated: loss", by=-0.02),),
)
def add_or_concatenate(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data)
    if trial.arm == "concatenated":
        saved = data.tokenizer.vocab_size * 32
        d_ff = 256 + round(saved / (4 * (2 * 64 + 1)))  # four feed-forward networks
        model = translator(data, concatenate_positions=True, d_ff=d_ff)
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}


class Integers(Positions):
    """The position itself, 0, 1, 2, ..., in each component."""

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        return mg.tensor(np.repeat(np.arange(end)[index][..., None], x.shape[-1], -1), dtype=x.dtype)


@claim(
    question="Are integers worse positions than waves?",
    says={
        "The Transformer Blueprint, The Problem with Simple Numbers": "a massive encoding that could completely "
        "overwhelm the actual word embedding's meaning",
    },
    setting="A translator on 4,000 sentences, 400 steps; the position is added to each component of a word.",
    measures=MEASURES,
    arms=("waves", "integers"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(Rule("waves: loss", "integers: loss", by=0.05),),
)
def integer_positions(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data)
    if trial.arm == "integers":
        model.encoder_positions, model.decoder_positions = Integers(), Integers()
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}


@claim(
    question="Does a translator need positions?",
    says={
        "Attention Is All You Need, section 3.5": "in order for the model to make use of the order of the sequence, "
        "we must inject some information about the relative or absolute position",
    },
    setting="A translator on 4,000 sentences, 400 steps; without positions in the encoder, in the decoder, in both. "
    "A causal mask tells a decoder something about positions.",
    measures=MEASURES,
    arms=("with", "without"),
    cases=("encoder", "decoder", "both"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(Rule("with: loss", "without: loss", by=0.05),),
)
def no_positions(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data)
    nothing = translator(data, positions="none").encoder_positions
    if trial.arm == "without" and trial.case != "decoder":
        model.encoder_positions = nothing
    if trial.arm == "without" and trial.case != "encoder":
        model.decoder_positions = nothing
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
