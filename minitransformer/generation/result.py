"""The hypotheses of a search, and what `generate` returns with `return_dict=True`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .request import GenerationConfig


class Step(NamedTuple):
    """The tokens that a step of a search added: those that ended a text, then those of the next batch."""

    inputs: Int[np.ndarray, " n"]  # the input that each belongs to
    parents: Int[np.ndarray, " n"]  # the row of this step's batch that each continues
    tokens: Int[np.ndarray, " n"]
    logprobs: Float[np.ndarray, " n"]  # the model's log-probability of each
    scores: Float[np.ndarray, " n"]  # the search's score of the text up to this token
    num_ended: int
    log_probabilities: Float[np.ndarray, "rows V"] | None  # the model's, of each row of this step's batch


class Hypothesis(NamedTuple):
    """A finished hypothesis."""

    ids: list[int]  # without the end token
    score: float
    finish_reason: str  # "eos", "stop" (stopping_criteria) or "length"
    last: tuple[int, int]  # its last token: the number of the step, and of the token in it


@dataclass(frozen=True)
class BeamStep:
    """One depth of the tree of a beam search: the tokens that were added to an input's beams, best first."""

    parents: Int[np.ndarray, " n"]  # which node of the depth before each continues; 0 at the first
    tokens: Int[np.ndarray, " n"]
    scores: Float[np.ndarray, " n"]  # the score of the text up to the token, without the length penalty
    ended: Bool[np.ndarray, " n"]  # whether the text ends with it


@dataclass(frozen=True)
class GenerationResult:
    """Texts in the order of the inputs, `num_return_sequences` for each, the best first."""

    ids: list[list[int]]  # the new tokens, without the end token
    scores: list[
        float
    ]  # the sum of `logprobs`; with beam search, the sum that ranks beams, divided by the length penalty
    logprobs: list[list[float]]  # the model's log-probability of each token, the end token included
    finish_reasons: list[str]  # "eos", "stop" (stopping_criteria) or "length"
    probabilities: list[Float[np.ndarray, "_ V"]] | None = None  # the model's, before options change them
    beams: list[list[BeamStep]] | None = None  # the steps of each input


def make_result(
    found: list[list[Hypothesis]], steps: list[Step], config: GenerationConfig, vocab_size: int
) -> GenerationResult:
    """The texts of each input, with their log-probabilities and beams from the steps."""
    texts = [text for group in found for text in group]
    paths = [trace_back(steps, text.last) for text in texts]
    probabilities = None
    beams = None
    if config.output_probabilities:
        size = steps[0].log_probabilities.shape[1] if steps else vocab_size  # type: ignore[union-attr]
        probabilities = [
            np.exp([step.log_probabilities[step.parents[i]] for step, i in path]).reshape(-1, size)  # type: ignore[index]
            for path in paths
        ]
    if config.output_beams:
        beams = [beam_tree(steps, number) for number in range(len(found))]
    logprobs = [[float(step.logprobs[i]) for step, i in path] for path in paths]
    return GenerationResult(
        [text.ids for text in texts], [text.score for text in texts], logprobs,
        [text.finish_reason for text in texts], probabilities, beams,
    )  # fmt: skip


def trace_back(steps: list[Step], last: tuple[int, int]) -> list[tuple[Step, int]]:
    """The steps of a text and its token in each, from the first to the last."""
    number, i = last
    found: list[tuple[Step, int]] = []
    while number >= 0:
        step = steps[number]
        found.append((step, i))
        number -= 1
        i = steps[number].num_ended + int(step.parents[i])
    return found[::-1]


def beam_tree(steps: list[Step], number: int) -> list[BeamStep]:
    """The tree of an input's beams: its tokens in each step."""
    tree = []
    node_of = {number: 0}  # the node of each row of the batch
    for step in steps:
        nodes = (step.inputs == number).nonzero()[0]
        nodes = nodes[np.argsort(-step.scores[nodes], kind="stable")]
        if not len(nodes):
            break
        parents = np.array([node_of[row] for row in step.parents[nodes].tolist()])
        tree.append(BeamStep(parents, step.tokens[nodes], step.scores[nodes], nodes < step.num_ended))
        node_of = {row - step.num_ended: node for node, row in enumerate(nodes.tolist())}
    return tree
