"""Nucleus sampling's filter."""

from collections.abc import Callable
from types import ModuleType

import numpy as np

from ..checking import check_cases

LESSON = 13
REASONING = ""
HINTS = (
    "By hand: probabilities 0.1, 0.5, 0.15, 0.25 and p = 0.7. Which tokens are in the nucleus? Which sums "
    "did you compare with p?",
    "Sort the probabilities of a row in descending order. A token stays if the sum of those before it, its "
    "own left out, is below p; so the likeliest one always stays.",
    "order = np.argsort(-logits, -1); before = cumsum - probabilities, both in that order; then "
    "np.put_along_axis(dropped, order, before >= p, -1), and -inf where dropped.",
)
NINE = (0.02, 0.17, 0.05, 0.29, 0.01, 0.11, 0.23, 0.08, 0.04)


Case = tuple[np.ndarray, float]


def _cases() -> tuple[list[Case], list[Case]]:
    """Cases (logits, p): usual ones, which distinguish mistakes, and special ones."""
    logs = lambda *rows: np.log(np.array(rows)) + np.arange(1, len(rows) + 1)[:, None]  # not normalized
    mixed = logs((0.1, 0.5, 0.15, 0.25), (0.02, 0.03, 0.91, 0.04), (0.3, 0.25, 0.2, 0.25 - 1e-3))
    usual = [
        (mixed, 0.7),
        (logs(NINE, NINE[::-1]), 0.75),
        (logs(NINE), 0.45),
        (mixed, 0.01),  # less than the likeliest token's probability: this token stays
    ]
    special = [
        (mixed, 1.0),  # everything stays
        (np.array([[0.5], [-3.0]]), 0.5),  # a vocabulary of one
        (np.where(mixed < 0, -np.inf, mixed), 0.9),  # some tokens are already excluded
        (np.array([[1000.0, 998.0, 999.5], [-2000.0, -2001.0, -2000.5]]), 0.7),  # exp overflows
    ]
    return usual, special


def _softmax(x: np.ndarray, axis: int | None = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _dropped(x: np.ndarray, rule: Callable[[np.ndarray], np.ndarray], sign: int = -1) -> np.ndarray:
    """A mask of the tokens that `rule` drops, given the sorted probabilities, in vocabulary order."""
    order = np.argsort(sign * x, -1, kind="stable")
    result = np.empty(x.shape, bool)
    np.put_along_axis(result, order, rule(np.take_along_axis(_softmax(x), order, -1)), -1)
    return result


def _sorted_dropped(x: np.ndarray, p: float) -> np.ndarray:
    s = -np.sort(-_softmax(x), -1)
    return s.cumsum(-1) - s >= p


def _without(x: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    return np.where(dropped, -np.inf, x)


def _right(x: np.ndarray, p: float) -> np.ndarray:
    return _without(x, _dropped(x, lambda s: s.cumsum(-1) - s >= p))


def _crossing_dropped(x: np.ndarray, p: float) -> np.ndarray:
    return _without(x, _dropped(x, lambda s: s.cumsum(-1) > p + 1e-9))


def _crossing_dropped_but_first(x: np.ndarray, p: float) -> np.ndarray:
    return _without(x, _dropped(x, lambda s: (s.cumsum(-1) > p + 1e-9) & (np.arange(s.shape[-1]) > 0)))


def _one_more(x: np.ndarray, p: float) -> np.ndarray:
    return _without(
        x, _dropped(x, lambda s: s.cumsum(-1) - s - np.roll(s, 1, -1) * (np.arange(s.shape[-1]) > 0) >= p)
    )


def _ascending(x: np.ndarray, p: float) -> np.ndarray:
    return _without(x, _dropped(x, lambda s: s.cumsum(-1) - s >= p, sign=1))


def _from_logits(x: np.ndarray, p: float) -> np.ndarray:
    order = np.argsort(-x, -1, kind="stable")
    s = np.take_along_axis(x, order, -1)
    result = np.empty(x.shape, bool)
    np.put_along_axis(result, order, s.cumsum(-1) - s >= p, -1)
    return _without(x, result)


def _wrong_inverse(x: np.ndarray, p: float) -> np.ndarray:
    order = np.argsort(-x, -1, kind="stable")
    return _without(x, np.take_along_axis(_sorted_dropped(x, p), order, -1))


def _in_vocabulary_order(x: np.ndarray, p: float) -> np.ndarray:
    s = _softmax(x)
    return _without(x, s.cumsum(-1) - s >= p)


def _summed(sums: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray, float], np.ndarray]:
    return lambda x, p: _without(x, _dropped(x, lambda s: sums(s) - s >= p))


def _unsorted_sums(x: np.ndarray, p: float) -> np.ndarray:
    s = _softmax(x)
    result = np.empty(x.shape, bool)
    np.put_along_axis(result, np.argsort(-x, -1, kind="stable"), s.cumsum(-1) - s >= p, -1)
    return _without(x, result)


def _over_the_batch(x: np.ndarray, p: float) -> np.ndarray:
    flat = x.reshape(1, -1)
    return _right(flat, p).reshape(x.shape)


def _first_row_for_all(x: np.ndarray, p: float) -> np.ndarray:
    return _without(x, np.broadcast_to(np.isinf(_right(x[:1], p)), x.shape))


def _zeros(x: np.ndarray, p: float) -> np.ndarray:
    return np.where(np.isinf(_right(x, p)), 0.0, x)


def _probabilities(x: np.ndarray, p: float) -> np.ndarray:
    return np.where(np.isinf(_right(x, p)), 0.0, _softmax(x))


WRONG: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "the filter drops the token with which the sum reaches p: it belongs to the nucleus": _crossing_dropped,
    "the filter drops the token with which the sum reaches p, unless it is the first: it belongs to the "
    "nucleus": _crossing_dropped_but_first,
    "the filter keeps one token too many: p is reached before it": _one_more,
    "the filter begins with the least likely tokens: sort in descending order": _ascending,
    "the sums are over logits, not over probabilities: softmax comes first": _from_logits,
    "the sums go in the order of the vocabulary: sort the probabilities first": _in_vocabulary_order,
    "what is dropped is known in sorted order, and applied to the tokens' order: bring it back": (
        lambda x, p: _without(x, _sorted_dropped(x, p))
    ),
    "the order is applied instead of undone: sorted column i belongs to token order[i]": _wrong_inverse,
    "the logits come back sorted: column j must be token j": (
        lambda x, p: _without(-np.sort(-x, -1), _sorted_dropped(x, p))
    ),
    "the tokens of probability p or more are kept: p is about the sum": (
        lambda x, p: _without(x, _softmax(x) < p)
    ),
    "the tokens of probability 1 - p or more are kept: p is about the sum": (
        lambda x, p: _without(x, _softmax(x) < 1 - p)
    ),
    "the tokens at least p times as likely as the likeliest are kept: that is min p": (
        lambda x, p: _without(x, _softmax(x) < p * _softmax(x).max(-1, keepdims=True))
    ),
    "the nucleus is dropped, and the others are kept": (lambda x, p: _without(x, np.isfinite(_right(x, p)))),
    "the dropped logits are 0, not -inf: exp(0) is 1": _zeros,
    "the result is probabilities, not logits": _probabilities,
    "the result is probabilities, not logits; softmax will make them sum to 1 again": (
        lambda x, p: _softmax(_right(x, p))
    ),
    "the result is log-probabilities: the logits of the nucleus do not change": (
        lambda x, p: _without(np.log(_softmax(x)), np.isinf(_right(x, p)))
    ),
    "the result is log-probabilities of the nucleus: its logits do not change": (
        lambda x, p: np.log(_softmax(_right(x, p)))
    ),
    "the result is booleans: where a token stays": lambda x, p: np.isfinite(_right(x, p)),
    "the result is booleans: where a token is dropped": lambda x, p: np.isinf(_right(x, p)),
    "all rows share one nucleus: work along the last axis": _over_the_batch,
    "every row gets the nucleus of the first one": _first_row_for_all,
    "the softmax goes over all rows at once: each row sums to 1": (
        lambda x, p: _without(x, _dropped_with(x, p, _softmax(x, None)))
    ),
    "the softmax goes along the rows' axis: each row sums to 1, over the tokens": (
        lambda x, p: _without(x, _dropped_with(x, p, _softmax(x, 0)))
    ),
    "the sums go down the rows, not along the tokens": _summed(lambda s: s.cumsum(0)),
    "the sums run on from row to row: they begin anew in each": _summed(
        lambda s: s.cumsum().reshape(s.shape)
    ),
    "the sums go in the order of the vocabulary, and are taken for sums of sorted tokens": _unsorted_sums,
    "the dropped logits are -1e9: make them -inf": lambda x, p: np.where(np.isinf(_right(x, p)), -1e9, x),
    "the dropped logits are inf, not -inf": lambda x, p: np.where(np.isinf(_right(x, p)), np.inf, x),
    "nothing is dropped": lambda x, p: x,
    "only the likeliest token is kept; are the probabilities divided by their sum?": lambda x, p: _without(
        x, x < x.max(-1, keepdims=True)
    ),
}


def _dropped_with(x: np.ndarray, p: float, probabilities: np.ndarray) -> np.ndarray:
    order = np.argsort(-x, -1, kind="stable")
    s = np.take_along_axis(probabilities, order, -1)
    result = np.empty(x.shape, bool)
    np.put_along_axis(result, order, s.cumsum(-1) - s >= p, -1)
    return result


def _advice(x: np.ndarray, p: float) -> str:
    if np.abs(x[np.isfinite(x)]).max() > 700:
        return "exp overflows above 709, and is 0 below -745: subtract the row's largest logit first."
    return "From the likeliest token down: a token stays as long as the sum of those before it is below p."


def check(answer: ModuleType) -> None:
    usual, special = _cases()
    call = lambda x, p: f"top_p with probabilities {_softmax(x)[0].round(2).tolist()}, ... and p = {p}"
    check_cases(answer.top_p, usual, _right, WRONG, call, _advice, by_luck=True)
    call = lambda x, p: f"top_p({x.round(2).tolist()}, {p})"
    check_cases(answer.top_p, special, _right, {}, call, _advice)
