"""Does attention know anything about the order of words without positions?"""

from collections.abc import Mapping

import numpy as np

import minigrad as mg

from ...layers.positions import NoPositions, SinusoidalPositions
from .. import word_before
from ..claim import Rule, Trial, claim
from ..translating import size
from ..word_before import WordBefore

LAYERS = {"all see all": 2, "causal mask, one layer": 1, "causal mask, two layers": 2}


@claim(
    question="Is order unknown to a Transformer without positions?",
    says={
        "Transformers - Attention Is All You Need, Input Representation": "Since the Transformer has no "
        "recurrence, it has no inherent notion of token order.",
        "The Transformer Blueprint, Positional Encoding: Giving Words a Sense of Time and Place in a "
        "Parallel World": "if you shuffle the input, the attention mechanism doesn't care",
    },
    setting="For each word of a 12-word sentence in random order, name the word before it: encoder layers "
    "of width 32, 600 steps. Each word sees all words, or, as in a decoder, itself and those before it. A "
    "guess among the 11 other words is wrong with probability 0.91. With a causal mask and one layer, a "
    "word sees the set of those before it, and a guess among these is wrong with probability 0.73 on "
    "average over positions: so 0.73 instead of 0.91 does not show any knowledge of their order.",
    measures={
        "wrong": "fraction of wrong answers",
        "loss": "held-out loss, nats per word",
        "parameters": "number of parameters",
    },
    arms=("with positions", "without"),
    cases=tuple(LAYERS),
    rates=(3e-3, 6e-3, 1.2e-2),
    rules=(Rule("with positions: wrong", "without: wrong", by=0.05),),
)
def inherent_order(trial: Trial) -> Mapping[str, float]:
    random = np.random.default_rng(trial.seed)
    mg.manual_seed(trial.seed)
    positions = NoPositions() if trial.arm == "without" else SinusoidalPositions(32)
    model = WordBefore(positions, layers=LAYERS[trial.case], is_causal="causal" in trial.case)
    word_before.train(model, random, trial.rate, trial.steps(600))
    return {
        "wrong": word_before.errors(model, random, 12).mean(),
        "loss": word_before.held_out_loss(model, random),
        "parameters": size(model),
    }
