"""Beam search: a step keeps the `num_beams` best hypotheses (Sutskever et al. 2014, section 3.2).

A beam is an unfinished hypothesis; its score is the sum of its tokens' log-probabilities. The score of a
finished hypothesis is that sum divided by the length penalty. When a hypothesis is finished, and when the
search ends, follows Hugging Face, so that the texts are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .decoder import Decoder
from .request import GenerationConfig
from .result import Hypothesis, Step
from .scoring import length_penalty, log_softmax, processors
from .search import is_in


def beam_search(
    decoder: Decoder,
    config: GenerationConfig,
    ends: Int[np.ndarray, " ends"],
    record: list[Step] | None = None,
) -> list[list[Hypothesis]]:
    """The best texts of each input, at most `num_beams`, the best first. Steps are put in the `record`."""
    process, beams = processors(config), config.num_beams
    width = max(2, 1 + len(ends)) * beams  # of this many candidates, at least `beams` do not end
    finished: list[list[Hypothesis]] = [[] for _ in decoder.ids]
    inputs = np.arange(len(finished))  # the number of each sentence of the batch
    scores = np.zeros((len(finished), 1), np.float32)  # of each sentence's beams: one at first
    if not decoder.limit:
        return [[Hypothesis([], 0.0, "length", (-1, 0))] * beams for _ in finished]
    for step in range(decoder.limit):
        # the candidates: the best of each sentence's beams with each token
        log_probabilities = log_softmax(decoder.logits())  # (sentences * beams, V)
        processed = log_probabilities
        for function in process:
            processed = function(processed, decoder.history)
        totals = np.add(processed, scores.reshape(-1, 1), out=processed if record is None else None)
        totals = totals.reshape(len(scores), -1)
        best, places = largest(totals, width)  # (sentences, width)
        parents, tokens = np.divmod(places, processed.shape[1])
        rows = parents + np.arange(len(scores))[:, None] * scores.shape[1]  # of the batch
        is_last, are_ends = step + 1 == decoder.limit, is_in(tokens, ends)
        ended = are_ends | is_last | stopped(decoder, config, rows, tokens)

        # texts: those of the `beams` best candidates that end
        texts = (ended[:, :beams] & (best[:, :beams] > -np.inf)).nonzero()
        for last, (i, j) in enumerate(zip(*texts, strict=True)):
            ids = decoder.new_ids(int(rows[i, j])) + ([] if are_ends[i, j] else [int(tokens[i, j])])
            reason = "eos" if are_ends[i, j] else "length" if is_last else "stop"
            text = Hypothesis(ids, float(best[i, j]) / penalty(step + 1, config), reason, (step, last))
            others = finished[inputs[i]]
            others[:] = sorted([*others, text], key=lambda text: -text.score)[:beams]

        # the beams: the best candidates that do not end, of sentences that may get better texts
        order = np.argsort(ended, 1, kind="stable")[:, :beams]
        scores = np.take_along_axis(np.where(ended, -np.inf, best).astype(best.dtype), order, 1)
        best_scores = zip(inputs.tolist(), scores[:, 0].tolist(), strict=True)
        is_active = np.array(
            [may_improve(finished[i], score, step + 1, decoder, config) for i, score in best_scores]
        )
        chosen = is_active.nonzero()[0][:, None], order[is_active]
        if record is not None:
            record.append(new_step(inputs, rows, tokens, best, log_probabilities, texts, chosen, config))
        if not is_active.any():
            break
        inputs, scores = inputs[is_active], scores[is_active]
        decoder.select_beams(chosen[0][:, 0], rows[chosen])
        decoder.append(tokens[chosen].ravel())
    return finished


def may_improve(
    texts: list[Hypothesis], score: float, length: int, decoder: Decoder, config: GenerationConfig
) -> bool:
    """Whether beams, the best of this score, may lead to a text better than the worst of `texts`.

    The score is taken as if the text ended now, or with "never" at the length that is best for it. With
    early_stopping=True, the search is over as soon as there are enough texts.
    """
    if score == -np.inf or len(texts) < config.num_beams:
        return score > -np.inf
    if config.early_stopping is True:
        return False
    if config.early_stopping == "never" and config.length_penalty > 0:
        length = decoder.limit
    return score / penalty(length, config) > texts[-1].score


def penalty(length: int, config: GenerationConfig) -> float:
    return length_penalty(length, config.length_penalty, config.length_penalty_form)


def stopped(
    decoder: Decoder, config: GenerationConfig, rows: Int[np.ndarray, "B n"], tokens: Int[np.ndarray, "B n"]
) -> Any:
    """Whether the stopping function ends the text of each row with each token."""
    criteria = config.stopping_criteria
    if criteria is None:
        return False
    pairs = zip(rows.ravel().tolist(), tokens.ravel().tolist(), strict=True)
    answers = [bool(criteria([*decoder.new_ids(row), token])) for row, token in pairs]
    return np.array(answers).reshape(rows.shape)


def largest(x: Float[np.ndarray, "B N"], k: int) -> tuple[Float[np.ndarray, "B n"], Int[np.ndarray, "B n"]]:
    """The k largest values of each row, in descending order, and where they are; all, if there are fewer.

    Only values from a lower bound on are sorted: the k-th largest of the maxima of parts of the row.
    """
    B, N = x.shape
    k = min(k, N)
    size = N // max(4 * k, 64)  # of a part
    bound = np.full((B, 1), -np.inf, x.dtype)
    if size > 1:
        maxima = x[:, : N // size * size].reshape(B, size, -1).max(1)
        bound = np.partition(maxima, -k, 1)[:, -k, None]
    rows, places = np.divmod(np.flatnonzero(x >= bound), N)
    order = np.lexsort((-x[rows, places], rows))
    places = places[order][np.searchsorted(rows, np.arange(B))[:, None] + np.arange(k)]
    return np.take_along_axis(x, places, 1), places


def new_step(
    inputs: Any,
    rows: Any,
    tokens: Any,
    best: Any,
    log_probabilities: Any,
    texts: Any,
    chosen: Any,
    config: Any,
) -> Step:
    """The record of a step: the candidates (i, j) that are texts, then those that are beams."""
    i = np.append(texts[0], np.repeat(chosen[0][:, 0], chosen[1].shape[1]))
    j = np.append(texts[1], chosen[1])
    logprobs = log_probabilities[rows[i, j], tokens[i, j]]
    kept = log_probabilities if config.output_probabilities else None
    return Step(inputs[i], rows[i, j], tokens[i, j], logprobs, best[i, j], len(texts[0]), kept)
