"""Is the vector of position pos + k a linear function of that of pos, and does a model make use of it?"""

from collections.abc import Mapping

import numpy as np

import minigrad as mg
from minigrad import Tensor

from ...layers.positions import LearnedPositions, Positions, SinusoidalPositions, positional_encoding
from .. import word_before
from ..claim import Rule, Trial, claim
from ..translating import size
from ..word_before import WordBefore, spare_d_ff

LENGTH, WORDS, WIDTH = 64, 80, 32
BACK = {"k = 1": 1, "k = 5": 5}
PENALTIES = (0.0, 1e-6, 1e-4, 1e-2, 1.0)  # ridge penalties, relative to the mean square of the vectors


@claim(
    question="Are sinusoids linear in a shift, and does attention by relative positions reach a lower loss "
    "with them?",
    says={
        "Attention Is All You Need, section 3.5": "We chose this function because we hypothesized it would "
        "allow the model to easily learn to attend by relative positions, since for any fixed offset k, "
        "PE_{pos+k} can be represented as a linear function of PE_{pos}.",
        'The Transformer Blueprint, How Do These "Timing Chips" Work?': "These functions make it easy for "
        "the model to learn about relative positions.",
        "Transformer Network, Sinusoidal Positional Encoding": "The model can learn relative positions "
        "(position 5 relates to position 3 in a consistent way)",
    },
    setting="For each word of a sentence of up to 64 words in random order, name the word k places before "
    "it: one encoder layer of width 32, 600 steps, with sinusoids, with learned positions, or with fixed "
    "random vectors of the size of sinusoids, which no linear map connects. Learned positions start with a "
    "standard deviation of 0.02, and sinusoids and random vectors have a root mean square of 0.71: the size "
    "at the start may be a cause of a difference. The loss is that after training. The map from p(pos) to "
    "p(pos + k) is fitted on half of the positions, with the best of five ridge penalties, and predicts the "
    "other half. Finally, the sentences are moved to positions 64 to 127, which did not occur in training.",
    measures={
        "unexplained": "squared error of the linear map on the other half, as a fraction of the variance",
        "loss": "held-out loss at the lengths of the training, nats per word",
        "burden": "training loss, mean over all steps, nats per word",
        "wrong": "fraction of wrong words at the positions of the training",
        "moved": "fraction of wrong words in sentences that begin at position 64",
        "parameters": "number of parameters",
    },
    arms=("sinusoids", "learned", "random"),
    cases=tuple(BACK),
    rates=(3e-3, 6e-3, 1.2e-2),
    rules=(
        Rule("sinusoids: unexplained", "random: unexplained", by=0.1, part="linear map"),
        Rule("sinusoids: unexplained", "learned: unexplained", by=0.1, part="linear map"),
        Rule("sinusoids: loss", "learned: loss", by=0.05, part="lower loss than learned positions"),
        Rule("sinusoids: loss", "random: loss", by=0.05, part="lower loss than random vectors"),
        Rule("sinusoids: moved", "sinusoids: wrong", by=-0.05, part="elsewhere as well"),
    ),
)
def relative_positions(trial: Trial) -> Mapping[str, float]:
    random = np.random.default_rng(trial.seed)
    mg.manual_seed(trial.seed)
    back = BACK[trial.case]
    model = build(trial.arm, random)
    lengths = (back + 1, LENGTH)
    losses = word_before.train(model, random, trial.rate, trial.steps(600), lengths, back)
    loss = word_before.held_out_loss(model, random, lengths, back)
    wrong = word_before.errors(model, random, LENGTH, back).mean()
    model.start = LENGTH
    return {
        "unexplained": unexplained(table(model.positions)[:LENGTH], back, random),
        "loss": loss,
        "burden": np.mean(losses),
        "wrong": wrong,
        "moved": word_before.errors(model, random, LENGTH, back).mean(),
        "parameters": size(model),
    }


def build(arm: str, random: np.random.Generator) -> WordBefore:
    """Create a model that has a vector for each of 2 x 64 positions."""
    if arm == "learned":
        return WordBefore(LearnedPositions(2 * LENGTH, WIDTH), WORDS, WIDTH)
    positions = RandomPositions(2 * LENGTH, WIDTH, random) if arm == "random" else SinusoidalPositions(WIDTH)
    return WordBefore(positions, WORDS, WIDTH, d_ff=64 + spare_d_ff(2 * LENGTH * WIDTH))


class RandomPositions(Positions):
    """Random position vectors, with the mean square of sinusoids, 1/2."""

    def __init__(self, length: int, width: int, random: np.random.Generator) -> None:
        super().__init__()
        self.table = random.normal(scale=0.5**0.5, size=(length, width)).astype(np.float32)

    def vectors(self, x: Tensor, index: slice, end: int) -> Tensor:
        return mg.tensor(self.table[index])


def table(positions: Positions) -> np.ndarray:
    """The vectors of all positions, (positions, width)."""
    if isinstance(positions, SinusoidalPositions):
        return positional_encoding(2 * LENGTH, WIDTH, np.float64)
    found = positions.weight.numpy() if isinstance(positions, LearnedPositions) else positions.table
    return found.astype(np.float64)


def unexplained(p: np.ndarray, k: int, random: np.random.Generator) -> float:
    """The fraction of the variance of p(pos + k) that a linear map of p(pos) does not explain.

    The map is fitted on half of the positions and tested on the others, with the best of PENALTIES.
    """
    fit, test = np.array_split(random.permutation(len(p) - k), 2)
    variance = ((p[test + k] - p[fit + k].mean(0)) ** 2).sum()
    errors = []
    for penalty in PENALTIES:
        ridge = np.sqrt(penalty * (p[fit] ** 2).sum(0).mean()) * np.eye(p.shape[1])
        inputs, outputs = np.concatenate([p[fit], ridge]), np.concatenate([p[fit + k], 0 * ridge])
        matrix = np.linalg.lstsq(inputs, outputs, rcond=None)[0]
        errors.append(((p[test] @ matrix - p[test + k]) ** 2).sum() / variance)
    return min(errors)
