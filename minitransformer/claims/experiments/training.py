# ruff: noqa: E501
"""What the loss is: smoothed targets, and the causal mask that keeps it honest."""

from collections.abc import Mapping

import numpy as np

import minigrad as mg

from ..claim import Rule, Trial, claim
from ..translating import (
    held_out_loss,
    probabilities,
    sentence_error,
    sentences,
    size,
    token_error,
    train,
    translator,
)


def calibration_error(p: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error: |confidence - accuracy|, in bins of confidence (Guo et al. 2017)."""
    confidence = p.max(-1)
    is_right = p.argmax(-1) == right
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    return sum(
        abs(confidence[place == i].mean() - is_right[place == i].mean()) * (place == i).mean()
        for i in np.unique(place)
    )


@claim(
    question="Does label smoothing hurt perplexity, and improve translations and calibration?",
    says={
        "Attention Is All You Need, section 5.4": "This hurts perplexity, as the model learns to be more unsure, but "
        "improves accuracy and BLEU score.",
        "Transformers - Attention Is All You Need, Label Smoothing": "prevents the model from becoming "
        "overconfident and improves generalization, at the cost of slightly higher perplexity",
    },
    setting="A translator on 4,000 sentences, 600 steps, with smoothing of 0.1 and without.",
    measures={
        "loss": "held-out loss without smoothing, nats a token: log of the perplexity",
        "error": "sentences that are not translated word for word, a fraction",
        "calibration": "expected calibration error",
        "parameters": "number of parameters",
    },
    arms=("smoothed", "not smoothed"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(
        Rule("not smoothed: loss", "smoothed: loss", by=0.01),
        Rule("smoothed: error", "not smoothed: error", by=0.01),
        Rule("smoothed: calibration", "not smoothed: calibration", by=0.01),
    ),
)
def smoothing(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data)
    smoothed = 0.1 if trial.arm == "smoothed" else 0.0
    train(model, data, trial.rate, trial.steps(600), trial.seed, smoothing=smoothed)
    return {
        "loss": held_out_loss(model, data),
        "error": sentence_error(model, data.held_out, data),
        "calibration": calibration_error(*probabilities(model, data.held_out, data)),
        "parameters": size(model),
    }


@claim(
    question="Does a decoder without a causal mask cheat: a lower loss, and no translation?",
    says={
        "Transformer Network, The Problem: Preventing Cheating": "the model could just COPY the answer",
        "The Transformer Blueprint, Masked Multi-Head Attention": 'stops the model from "cheating" during training '
        "by seeing the correct answer for future steps",
    },
    setting="A translator on 4,000 sentences, 400 steps, with the causal mask and without.",
    measures={
        "loss": "held-out loss with teacher forcing, nats a token",
        "word error": "wrong next words with teacher forcing, a fraction",
        "error": "sentences that are not translated word for word, a fraction",
        "parameters": "number of parameters",
    },
    arms=("masked", "not masked"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(
        Rule("not masked: loss", "masked: loss", by=0.02),
        Rule("masked: error", "not masked: error", by=0.3),
    ),
)
def cheating(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(data, is_causal=trial.arm == "masked")
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {
        "loss": held_out_loss(model, data),
        "word error": token_error(model, data.held_out, data),
        "error": sentence_error(model, data.held_out, data),
        "parameters": size(model),
    }
