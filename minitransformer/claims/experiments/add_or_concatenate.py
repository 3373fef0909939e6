"""Is it better to add positions to the word embeddings, or to concatenate them?"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import minigrad as mg

from ...layers.positions import SinusoidalPositions
from ...models.transformer import Transformer
from .. import translating, word_before
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, sentences, size, translator
from ..word_before import WordBefore


@claim(
    question="Are added positions easier to learn from than concatenated ones?",
    says={
        "The Transformer Blueprint, The Separate Courses: Why We Don't Concatenate (Usually)": "While "
        "certainly workable, it would force the subsequent layers to learn how to combine these two separate "
        "pieces of information. It adds an extra learning burden.",
    },
    setting="Two tasks: name the word before each word of a 12-word sentence (one encoder layer of width "
    "32, 300 steps), and translate (width 64, 4,000 sentences, 400 steps). Concatenated, positions either "
    "take half of the width, and the feed-forward networks are wider by what the embedding saves; or the "
    "width is a quarter larger, and they are narrower. So the shape differs as well. A quarter wider, the "
    "translator has width 80, d_ff 117 instead of 256, and logits from 64 of the 80 numbers; the other "
    "model has width 40, and d_ff 20 instead of 64. Half and half, the translator has d_ff 317, and logits "
    "from 32 of the 64 numbers; the other model has d_ff 72.",
    measures={
        "burden": "training loss, mean over all steps, nats per word",
        "loss": "held-out loss after training, nats per word",
        "parameters": "number of parameters",
    },
    arms=("added", "half and half", "a quarter wider"),
    cases=("word before", "translation"),
    rates=(3e-3, 6e-3, 1.2e-2),
    tuned_by="burden",
    rules=(
        Rule("added: burden", "half and half: burden", by=0.05, part="than half and half"),
        Rule("added: burden", "a quarter wider: burden", by=0.05, part="than a quarter wider"),
    ),
)
def add_or_concatenate(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    if trial.case == "word before":
        random = np.random.default_rng(trial.seed)
        model: Any = word_model(trial.arm)
        losses = word_before.train(model, random, trial.rate, trial.steps(300))
        loss = word_before.held_out_loss(model, random)
    else:
        data = sentences(trial.seed)
        model = translation_model(trial.arm, data)
        losses = translating.train(model, data, trial.rate, trial.steps(400), trial.seed)
        loss = held_out_loss(model, data)
    return {"burden": np.mean(losses), "loss": loss, "parameters": size(model)}


def word_model(arm: str) -> WordBefore:
    if arm == "added":
        return WordBefore(SinusoidalPositions(32))
    if arm == "half and half":
        return WordBefore(SinusoidalPositions(16, concatenate=True), word_width=16, d_ff=72)
    return WordBefore(SinusoidalPositions(8, concatenate=True), word_width=32, width=40, d_ff=20)


def translation_model(arm: str, data: Sentences) -> Transformer:
    if arm == "added":
        return translator(data)
    if arm == "half and half":
        return translator(data, concatenate_positions=True, d_ff=317)
    model = translator(data, d_model=80, d_ff=117)
    model.embedding = translator(data).embedding  # of width 64: logits use the first 64 of 80 numbers
    model.encoder_positions = SinusoidalPositions(16, concatenate=True)
    model.decoder_positions = SinusoidalPositions(16, concatenate=True)
    return model
