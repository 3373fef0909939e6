"""Greedy search and sampling: each step adds a token to every text, and removes texts that end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from minigrad import NonFiniteError
from minigrad.core import random
from minigrad.ops import draws

from .decoding_state import DecodingState
from .request import GenerationConfig
from .result import Hypothesis, Step
from .scoring import log_softmax, processors


class Newest(NamedTuple):
    """The tokens of a step, the indices of the texts that they belong to, and whether they are end tokens."""

    rows: Int[np.ndarray, " n"]
    tokens: Int[np.ndarray, " n"]
    are_ends: Bool[np.ndarray, " n"]


def greedy_or_sample(
    state: DecodingState,
    config: GenerationConfig,
    ends: Int[np.ndarray, " ends"],
    found: dict[int, Hypothesis],
    steps: list[Step] | None = None,
) -> Iterator[Newest]:
    """Yield the tokens of each step. Finished texts are stored in `found`, by their indices.

    If `steps` is a list, the steps of the search are appended to it.
    """
    copies = config.num_return_sequences
    process = processors(config, state.start, state.limit, ends)
    generator = None if config.seed is None else random.Generator().manual_seed(config.seed)
    rows = np.arange(len(state.ids) * copies)  # the index of the text in each row of the batch
    scores = np.zeros(len(rows))
    step = -1
    num_ended = 0
    for step in range(state.limit):
        logits = state.logits()
        if step == 0 and copies > 1:  # each prompt is processed only once
            state.select(rows // copies)
            logits = logits[rows // copies]
        processed = logits
        for function in process:
            processed = function(processed, state.history)
        tokens = sample(processed, rows, generator) if config.do_sample else processed.argmax(-1)
        check_not_nan(processed[np.arange(len(tokens)), tokens])  # argmax selects a NaN if there is one
        state.append(tokens)
        are_ends = are_end_tokens(tokens, ends)
        ended = are_ends | meet_stopping_criteria(state, config.stopping_criteria)
        num_ended = int(np.count_nonzero(ended))
        yield Newest(rows, tokens, are_ends)
        if steps is not None:
            log_probabilities = log_softmax(logits)
            logprobs = log_probabilities[np.arange(len(rows)), tokens]
            scores += logprobs
            order = np.argsort(~ended, kind="stable")
            kept = log_probabilities if config.output_probabilities else None
            each = (order, tokens[order], logprobs[order], scores[order])
            steps.append(Step(rows[order] // copies, *each, num_ended, kept))
        if num_ended:
            for last, row in enumerate(ended.nonzero()[0].tolist()):
                ids = state.new_ids(row)
                ids, reason = (ids[:-1], "eos") if are_ends[row] else (ids, "stop")
                found[int(rows[row])] = Hypothesis(ids, float(scores[row]), reason, (step, last))
            rows = rows[~ended]
            scores = scores[~ended]
            if not len(rows):
                break
            state.select(~ended)
    for i, row in enumerate(rows.tolist()):
        found[row] = Hypothesis(state.new_ids(i), float(scores[i]), "length", (step, num_ended + i))


def sample(
    scores: Float[np.ndarray, "rows V"],
    rows: Int[np.ndarray, " rows"],
    generator: random.Generator | None = None,
) -> Int[np.ndarray, " rows"]:
    """Draw a token for each row with probabilities softmax(scores), as argmax(scores + Gumbel noise).

    The noise of a text depends only on its index in `rows`, not on the other texts in the batch.
    """
    noise = draws.generator(random.next_key("generate", generator))
    return (scores + noise.gumbel(size=(rows.max() + 1, scores.shape[-1]))[rows]).argmax(-1)


def check_not_nan(scores: Float[np.ndarray, " rows"]) -> None:
    """Raise a NonFiniteError if a chosen token's score is NaN."""
    if np.isnan(scores).any():
        raise NonFiniteError(
            "the model's logits of the next token are NaN or infinite.\n"
            "Check its weights: minigrad.debug.first_nonfinite names the first module that is not finite."
        )


def are_end_tokens(tokens: Int[np.ndarray, "*n"], ends: Int[np.ndarray, " ends"]) -> Bool[np.ndarray, "*n"]:
    """Whether each token is an end token."""
    return (tokens[..., None] == ends).any(-1)


def meet_stopping_criteria(state: DecodingState, criteria: Callable[[list[int]], bool] | None) -> Any:
    """A boolean array: whether `criteria` ends each text. False if `criteria` is None."""
    if criteria is None:
        return False
    return np.array([bool(criteria(state.new_ids(row))) for row in range(len(state.ids))])
