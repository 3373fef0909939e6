"""Beam search: each step keeps the `num_beams` best hypotheses (Sutskever et al. 2014, section 3.2).

With 2 beams, "a" (score -0.5) and "b" (-0.7), and the log-probabilities of each next token:

    after "a":  x -0.2   y -1.5   end -3.0        a x    -0.7   a beam of the next step
    after "b":  x -2.0   y -0.6   end -0.4        b end  -1.1   a finished text: score -1.1 / length penalty
                                                  b y    -1.3   a beam of the next step
                                                  a y    -2.0   dropped

A beam is an unfinished hypothesis, whose score is the sum of its tokens' log-probabilities. The score of a
finished hypothesis is that sum divided by the length penalty. Hypotheses and searches end under the same
conditions as in Hugging Face's transformers, so that the texts are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from .decoding_state import DecodingState
from .request import GenerationConfig
from .result import Hypothesis, Step
from .sampling import are_end_tokens, check_not_nan
from .scoring import length_penalty, log_softmax, processors


def beam_search(
    state: DecodingState,
    config: GenerationConfig,
    ends: Int[np.ndarray, " ends"],
    steps: list[Step] | None = None,
) -> list[list[Hypothesis]]:
    """The `num_beams` best texts of each input, or fewer if fewer are found, in descending order of score.

    The steps of the search are appended to `steps`.
    """
    process = processors(config, state.start, state.limit, ends)
    beams = config.num_beams
    width = max(2, 1 + len(ends)) * beams  # so many that at least `beams` of them do not end
    finished: list[list[Hypothesis]] = [[] for _ in state.ids]
    inputs = np.arange(len(finished))  # the input of each sentence that is still in the batch
    scores = np.zeros((len(finished), 1), np.float32)  # in the first step, each sentence has one beam
    if not state.limit:
        return [[Hypothesis([], 0.0, "length", (-1, 0))] * beams for _ in finished]
    for step in range(state.limit):
        # candidates: the best continuations of each sentence's beams by one token
        log_probabilities = log_softmax(state.logits())  # (sentences * beams, V)
        check_not_nan(log_probabilities[:, 0])  # a NaN in the logits makes the whole row NaN
        processed = log_probabilities
        for function in process:
            processed = function(processed, state.history)
        best, rows, tokens = best_candidates(processed, scores, width)  # (sentences, width)
        is_last = step + 1 == state.limit
        are_ends = are_end_tokens(tokens, ends)
        are_stopped = np.broadcast_to(meet_stopping_criteria(state, config, rows, tokens), rows.shape)
        ended = are_ends | is_last | are_stopped

        # texts: the candidates that end, if they are among the `beams` best
        texts = (ended[:, :beams] & (best[:, :beams] > -np.inf)).nonzero()
        for last, (i, j) in enumerate(zip(*texts, strict=True)):
            ids = state.new_ids(int(rows[i, j])) + ([] if are_ends[i, j] else [int(tokens[i, j])])
            reason = "eos" if are_ends[i, j] else "stop" if are_stopped[i, j] else "length"
            text = Hypothesis(ids, float(best[i, j]) / score_divisor(step + 1, config), reason, (step, last))
            others = finished[inputs[i]]
            others[:] = sorted([*others, text], key=lambda text: -text.score)[:beams]

        # beams: the best candidates that do not end, for sentences that may still get better texts
        order = np.argsort(ended, 1, kind="stable")[:, :beams]
        if step:
            order = align_with_parents(order, np.take_along_axis(rows, order, 1) % beams)
        scores = np.take_along_axis(np.where(ended, -np.inf, best).astype(best.dtype), order, 1)
        best_scores = zip(inputs.tolist(), scores.max(1).tolist(), strict=True)
        is_active = np.array(
            [may_improve(finished[i], score, step + 1, state, config) for i, score in best_scores]
        )
        active = compact_rows(is_active)
        chosen = active[:, None], order[active]
        if steps is not None:
            steps.append(make_step(inputs, rows, tokens, best, log_probabilities, texts, chosen, config))
        if not len(active):
            break
        inputs = inputs[active]
        scores = scores[active]
        state.select_beams(active, rows[chosen])
        state.append(tokens[chosen].ravel())
    return finished


def may_improve(
    texts: list[Hypothesis], score: float, length: int, state: DecodingState, config: GenerationConfig
) -> bool:
    """Whether beams, the best of which has this score, may lead to a better text than the worst of `texts`.

    The score of the text is estimated as if it ended at `length`, or with early_stopping="never" at the
    length that is best for it. With early_stopping=True, the search ends once there are `num_beams` texts.
    """
    if score == -np.inf or len(texts) < config.num_beams:
        return score > -np.inf
    if config.early_stopping is True:
        return False
    if config.early_stopping == "never" and config.length_penalty > 0:
        length = state.limit
    return score / score_divisor(length, config) > texts[-1].score


def score_divisor(length: int, config: GenerationConfig) -> float:
    """The divisor of the score of a text of `length` tokens, from the options of the length penalty."""
    return length_penalty(length, config.length_penalty, config.length_penalty_form)


def meet_stopping_criteria(
    state: DecodingState,
    config: GenerationConfig,
    rows: Int[np.ndarray, "B n"],
    tokens: Int[np.ndarray, "B n"],
) -> Any:
    """Whether `stopping_criteria` ends the text of each row after each token: (B, n), or False without it."""
    criteria = config.stopping_criteria
    if criteria is None:
        return False
    pairs = zip(rows.ravel().tolist(), tokens.ravel().tolist(), strict=True)
    answers = [bool(criteria([*state.new_ids(row), token])) for row, token in pairs]
    return np.array(answers).reshape(rows.shape)


def best_candidates(
    x: Float[np.ndarray, "rows V"], scores: Float[np.ndarray, "B beams"], k: int
) -> tuple[Float[np.ndarray, "B n"], Int[np.ndarray, "B n"], Int[np.ndarray, "B n"]]:
    """The k largest sums x[row, token] + scores of each sentence, which has `beams` rows of x.

    Returns the sums in descending order, and the row and the token of each; all of them if there are fewer
    than k. It is a faster version of:

        sums = (x.reshape(B, beams, V) + scores[..., None]).reshape(B, beams * V)
        chosen = np.argsort(-sums, 1, kind="stable")[:, :k]  # row chosen // V, token chosen % V

    Sums are computed only if they reach a lower bound: the k-th largest of the maxima of parts of rows.
    """
    B, beams = scores.shape
    V = x.shape[1]
    k = min(k, beams * V)
    parts = min(V, 2 * k // beams + 1)  # the number of parts that a row is split into
    maxima = x[:, : V // parts * parts].reshape(B, beams, parts, -1).max(-1) + scores[..., None]
    bound = np.partition(maxima.reshape(B, -1), -k, 1)[:, -k, None]
    rounding = 4 * np.finfo(x.dtype).eps * (abs(bound) + abs(scores))
    with np.errstate(invalid="ignore"):  # where fewer than k sums are finite
        bound = np.where(bound == -np.inf, bound, bound - scores - rounding)
    is_candidate = x.reshape(B, beams, V) >= bound[..., None]
    rows, tokens = np.divmod(np.flatnonzero(is_candidate), V)
    sums = x[rows, tokens] + scores.reshape(-1)[rows]
    sentences = rows // beams
    order = np.lexsort((-sums, sentences))
    chosen = order[np.searchsorted(sentences, np.arange(B))[:, None] + np.arange(k)]
    return sums[chosen], rows[chosen], tokens[chosen]


def compact_rows(is_active: Bool[np.ndarray, " B"]) -> Int[np.ndarray, " n"]:
    """The indices of the active sentences, ordered such that few caches move: the last ones fill the gaps."""
    n = int(is_active.sum())
    numbers = np.arange(n)
    numbers[~is_active[:n]] = n + is_active[n:].nonzero()[0]
    return numbers


def align_with_parents(
    order: Int[np.ndarray, "B beams"], parents: Int[np.ndarray, "B beams"]
) -> Int[np.ndarray, "B beams"]:
    """Permute the `order` of beams such that few caches move: one beam of each parent takes its position.

    The other beams take the positions of parents that no beam continues.
    """
    beams = parents.shape[1]
    same = parents[:, :, None] == parents[:, None, :]
    others = (same & np.tri(beams, k=-1, dtype=bool)).any(2)  # beams that are not the first of their parent
    unused = ~(parents[:, :, None] == np.arange(beams)).any(1)
    moved = np.empty_like(order)
    places = np.argsort(unused, 1, kind="stable")
    choices = np.argsort(np.where(others, beams, parents), 1, kind="stable")
    np.put_along_axis(moved, places, np.take_along_axis(order, choices, 1), 1)
    return moved


def make_step(
    inputs: Any,
    rows: Any,
    tokens: Any,
    best: Any,
    log_probabilities: Any,
    texts: Any,
    chosen: Any,
    config: Any,
) -> Step:
    """The Step of the candidates that ended a text, followed by those that are beams of the next step."""
    i = np.append(texts[0], np.repeat(chosen[0][:, 0], chosen[1].shape[1]))
    j = np.append(texts[1], chosen[1])
    logprobs = log_probabilities[rows[i, j], tokens[i, j]]
    kept = log_probabilities if config.output_probabilities else None
    return Step(inputs[i], rows[i, j], tokens[i, j], logprobs, best[i, j], len(texts[0]), kept)
