"""Scores of the next token, and the functions that change them before a token is chosen.

Scores (rows, V) are logits, or log-probabilities in a beam search. A token with a score of -inf is never
chosen. Each function returns new scores. `ids` (rows, T) are the tokens of each row so far, with -1 for
padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from minigrad import Tensor
from minigrad.nn import functional as F

from .request import GenerationConfig

Scores = Float[np.ndarray, "rows V"]
Ids = Int[np.ndarray, "rows T"]
Process = Callable[[Scores, Ids], Scores]


def log_softmax(scores: Scores) -> Scores:
    """The log-probabilities of scores: log p_i = s_i - log sum_j exp(s_j)."""
    return F.log_softmax(Tensor(scores), -1).array


def scale_by_temperature(scores: Scores, temperature: float) -> Float[np.ndarray, "rows V"]:
    """Scores divided by the temperature (Ackley et al. 1985), shifted so that the largest is 0."""
    with np.errstate(over="ignore"):  # near temperature 0, all but the best token overflow to -inf
        return (scores - scores.max(-1, keepdims=True)) / np.float64(temperature)


def keep_top_k(scores: Scores, k: int) -> Scores:
    """Set all but the k largest scores to -inf (Fan et al. 2018). Scores equal to the k-th are kept."""
    k = min(k, scores.shape[-1])
    smallest = np.partition(scores, -k, axis=-1)[:, -k, None]
    return np.where(scores < smallest, -np.inf, scores)


def keep_top_p(scores: Scores, p: float) -> Scores:
    """Set scores outside the nucleus to -inf (Holtzman et al. 2020).

    The nucleus is the smallest set of most likely tokens whose total probability is at least p.
    """
    order = np.argsort(-scores, axis=-1, kind="stable")
    probabilities = np.exp(log_softmax(np.take_along_axis(scores, order, -1)))
    likelier = probabilities.cumsum(-1) - probabilities  # the total of the tokens before each
    dropped = np.empty(scores.shape, bool)
    np.put_along_axis(dropped, order, likelier >= p, -1)
    return np.where(dropped, -np.inf, scores)


def keep_min_p(scores: Scores, p: float) -> Scores:
    """Set scores to -inf for tokens less than p times as likely as the most likely (Nguyen et al. 2024)."""
    return np.where(scores < scores.max(-1, keepdims=True) + math.log(p), -np.inf, scores)


def penalize_repetition(scores: Scores, ids: Ids, penalty: float) -> Scores:
    """Divide the positive scores of tokens in `ids` by `penalty`, and multiply the negative ones by it
    (Keskar et al. 2019)."""
    ids = np.where(ids < 0, ids[:, -1:], ids)  # replaces padding with the last token
    used = np.take_along_axis(scores, ids, -1)
    scores = scores.copy()
    np.put_along_axis(scores, ids, np.where(used < 0, used * penalty, used / penalty), -1)
    return scores


def forbid_repeated_ngrams(scores: Scores, ids: Ids, size: int) -> Scores:
    """Set scores to -inf for tokens that would repeat an n-gram of the row (Paulus et al. 2018).

    `size` is n. A row in which this would exclude every token is not changed.
    """
    length = ids.shape[1]
    if length < size:
        return scores
    ngrams = np.lib.stride_tricks.sliding_window_view(ids, size, 1)  # (rows, T - size + 1, size)
    begun = (ngrams[..., :-1] == ids[:, None, length + 1 - size :]).all(-1) & (ngrams[..., -1] >= 0)
    rows, places = begun.nonzero()
    allowed = scores.copy()
    allowed[rows, ngrams[rows, places, -1]] = -np.inf
    return np.where((allowed == -np.inf).all(-1, keepdims=True), scores, allowed)


def forbid(scores: Scores, tokens: Sequence[int]) -> Scores:
    """Set the scores of these tokens to -inf."""
    scores = scores.copy()
    scores[:, list(tokens)] = -np.inf
    return scores


def force(scores: Scores, token: int) -> Scores:
    """Set the score of this token to 0, and all others to -inf."""
    scores = np.full_like(scores, -np.inf)
    scores[:, token] = 0
    return scores


def length_penalty(length: int, alpha: float, form: str = "huggingface") -> float:
    """The divisor of the log-probability of a text of `length` tokens, including the end token.

    The form "huggingface" is length**alpha: with alpha = 1, the score of a text is the mean of its tokens'
    log-probabilities. "gnmt" is ((5 + length) / 6)**alpha (Wu et al. 2016, equation 14).
    """
    return ((5 + length) / 6 if form == "gnmt" else length) ** alpha


def processors(
    config: GenerationConfig, start: int, limit: int, ends: Sequence[int] | np.ndarray
) -> list[Process]:
    """The functions of scores and ids that the options require, in Hugging Face's order.

    The first `start` tokens are the prompt. A text has at most `limit` new tokens, and ends at a token in
    `ends`.
    """
    c = config
    functions = list[Process]()
    new = lambda ids: ids.shape[1] - start  # the number of new tokens
    if c.repetition_penalty != 1:
        functions.append(lambda scores, ids: penalize_repetition(scores, ids, c.repetition_penalty))
    if c.no_repeat_ngram_size:
        functions.append(lambda scores, ids: forbid_repeated_ngrams(scores, ids, c.no_repeat_ngram_size))
    if c.suppress_tokens:
        suppressed = list(c.suppress_tokens)
        functions.append(lambda scores, ids: forbid(scores, suppressed))
    if c.min_new_tokens:
        early = np.asarray(ends).tolist()
        functions.append(lambda scores, ids: forbid(scores, early) if new(ids) < c.min_new_tokens else scores)
    if (first := c.forced_bos_token_id) is not None:
        functions.append(lambda scores, ids: scores if new(ids) else force(scores, first))
    if (last := c.forced_eos_token_id) is not None:
        functions.append(lambda scores, ids: force(scores, last) if new(ids) == limit - 1 else scores)
    if c.do_sample:
        functions.append(lambda scores, ids: scale_by_temperature(scores, c.temperature))
        if (k := c.top_k) is not None:
            functions.append(lambda scores, ids: keep_top_k(scores, k))
        if c.top_p < 1:
            functions.append(lambda scores, ids: keep_top_p(scores, c.top_p))
        if c.min_p > 0:
            functions.append(lambda scores, ids: keep_min_p(scores, c.min_p))
    if c.renormalize_logits:
        functions.append(lambda scores, ids: log_softmax(scores))
    return functions
