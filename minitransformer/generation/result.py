"""The steps and hypotheses of a search, and the result of `generate` with `return_dict=True`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .request import GenerationConfig


class Step(NamedTuple):
    """The n tokens that a step of a search added: first those that ended a text, then the next batch's."""

    inputs: Int[np.ndarray, " n"]  # the input that each token belongs to
    parents: Int[np.ndarray, " n"]  # the row of this step's batch that each token continues
    tokens: Int[np.ndarray, " n"]
    logprobs: Float[np.ndarray, " n"]  # the model's log-probability of each token
    scores: Float[np.ndarray, " n"]  # the search's score of the text up to each token
    num_ended: int  # the number of tokens that ended a text
    log_probabilities: Float[np.ndarray, "rows V"] | None  # the model's, for each row of this step's batch


class Hypothesis(NamedTuple):
    """A finished hypothesis."""

    ids: list[int]  # without the end token
    score: float
    finish_reason: str  # "eos", "stop" (stopping_criteria) or "length"
    last: tuple[int, int]  # the last token: the index of its step, and its index in the step


@dataclass(frozen=True)
class BeamStep:
    """One level of the tree of a beam search: the tokens that a step added to an input's beams, sorted."""

    parents: Int[np.ndarray, " n"]  # the index in the previous level of each token's parent; 0 in the first
    tokens: Int[np.ndarray, " n"]
    scores: Float[np.ndarray, " n"]  # the score of the text up to each token, without the length penalty
    ended: Bool[np.ndarray, " n"]  # whether the text ends with the token


@dataclass(frozen=True)
class GenerationResult:
    """The generated texts, in the order of the inputs. Each input has `num_return_sequences`, best first."""

    ids: list[list[int]]  # the new tokens, without the end token
    scores: list[float]  # the sum of `logprobs`; in beam search, the beam's score / the length penalty
    logprobs: list[list[float]]  # the model's log-probability of each token, including the end token
    finish_reasons: list[str]  # "eos", "stop" (stopping_criteria) or "length"
    probabilities: list[Float[np.ndarray, "_ V"]] | None = None  # the model's, before options change them
    beams: list[list[BeamStep]] | None = None  # the levels of each input's tree


def make_result(
    found: list[list[Hypothesis]], steps: list[Step], config: GenerationConfig, vocab_size: int
) -> GenerationResult:
    """Assemble the result from the texts found for each input, and the steps of the search."""
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
    """The path of a text through the steps, from the first: each step, and the index of the text's token."""
    number, i = last
    found: list[tuple[Step, int]] = []
    while number >= 0:
        step = steps[number]
        found.append((step, i))
        number -= 1
        i = steps[number].num_ended + int(step.parents[i])
    return found[::-1]


def beam_tree(steps: list[Step], number: int) -> list[BeamStep]:
    """The tree of the beams of input `number`: one level for each step in which the input was searched."""
    tree = []
    node_of = {number: 0}  # row of the batch -> its node in the previous level
    for step in steps:
        nodes = (step.inputs == number).nonzero()[0]
        nodes = nodes[np.argsort(-step.scores[nodes], kind="stable")]
        if not len(nodes):
            break
        parents = np.array([node_of[row] for row in step.parents[nodes].tolist()])
        tree.append(BeamStep(parents, step.tokens[nodes], step.scores[nodes], nodes < step.num_ended))
        node_of = {row - step.num_ended: node for node, row in enumerate(nodes.tolist())}
    return tree
