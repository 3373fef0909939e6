"""Are sinusoids better than integers as positions?"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor, nn

from ...layers.positions import Positions, SinusoidalPositions
from .. import translating, word_before
from ..claim import Rule, Trial, claim
from ..translating import held_out_loss, sentences, size, translator
from ..word_before import WordBefore

FIRST = {"word before, from 0": 0, "word before, from 10,000": 10_000}  # the position of the first word


@claim(
    question="Are sinusoids better positions than integers?",
    says={
        "The Transformer Blueprint, The Problem with Simple Numbers: A Fading Signal": "What if our sentence "
        "is 10,000 words long? Word 10,000 would have a massive encoding that could completely overwhelm the "
        "actual word embedding's meaning.",
        "Explain step by step ... with test data, Why Sin/Cos? Key Properties": "Won't explode or "
        "dominate embeddings",
    },
    setting="Two tasks: name the word before each word of a 12-word sentence (one encoder layer of width "
    "32, 400 steps), where the first word has position 0 or 10,000; and translate (width 64, 4,000 "
    "sentences, 400 steps). Integers are added to each component of a word's vector, or multiply a vector "
    "that is learned and added. Positions from 10,000 test whether large numbers overwhelm the words. From "
    "0, integers have another limit: in one layer, what a key's position adds to its score is linear in "
    "this number. So attention can prefer one end of the sentence, but not position i - 1 for each i, "
    "whatever the size of the numbers.",
    measures={"loss": "held-out loss, nats per word", "parameters": "number of parameters"},
    arms=("sinusoids", "integers", "integers times a vector"),
    cases=(*FIRST, "translation"),
    rates=(3e-3, 6e-3, 1.2e-2),
    rules=(
        Rule("sinusoids: loss", "integers: loss", by=0.05, part="integers in each component"),
        Rule("sinusoids: loss", "integers times a vector: loss", by=0.05, part="integers times a vector"),
    ),
)
def integer_positions(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    if trial.case == "translation":
        data = sentences(trial.seed)
        model: Any = translator(data)
        model.encoder_positions, model.decoder_positions = (positions(trial.arm, 64) for _ in range(2))
        translating.train(model, data, trial.rate, trial.steps(400), trial.seed)
        return {"loss": held_out_loss(model, data), "parameters": size(model)}
    random = np.random.default_rng(trial.seed)
    model = WordBefore(positions(trial.arm, 32), start=FIRST[trial.case])
    word_before.train(model, random, trial.rate, trial.steps(400))
    return {"loss": word_before.held_out_loss(model, random), "parameters": size(model)}


def positions(arm: str, width: int) -> Positions:
    if arm == "integers":
        return Integers()
    return IntegersTimesVector(width) if arm == "integers times a vector" else SinusoidalPositions(width)


class Integers(Positions):
    """Positions whose vectors have the position in each component."""

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        return mg.tensor(np.repeat(np.arange(end)[index][..., None], x.shape[-1], -1), dtype=x.dtype)


class IntegersTimesVector(Integers):
    """Positions times a learned vector, which has a direction and a size."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.vector = nn.Parameter(np.empty(width, np.float32))
        nn.init.normal_(self.vector, std=0.02)  # like learned positions

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        return super().vectors(x, index, end) * self.vector
