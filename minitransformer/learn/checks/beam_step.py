"""One step of beam search."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...errors import counted
from ..checking import Wrong, check_cases, of_case

LESSON = 13
REASONING = "shapes"
HINTS = (
    "Write the table of candidates for 2 beams and 3 tokens: a row for each beam. What is added to which "
    "row? What does the row of a finished beam look like?",
    "Row b of the table is scores[b] + log_probabilities[b]; a finished beam has 0 at end_id and -inf "
    "elsewhere in place of its log-probabilities. In the flat table, (b, t) is at b V + t.",
    "With `steps` for the log-probabilities so changed: totals = (scores[:, None] + steps).ravel(); best = "
    "np.argsort(-totals)[:k]; then totals[best], best // V and best % V.",
)


Formula = Callable[["Case"], np.ndarray]


class Case(NamedTuple):
    scores: np.ndarray
    log_probabilities: np.ndarray
    finished: np.ndarray
    end_id: int
    k: int


def _cases() -> list[Case]:
    random = np.random.default_rng(3)

    def draw(scores: tuple[float, ...], V: int, finished: tuple[int, ...], end: int, k: int) -> Case:
        x = random.normal(size=(len(scores), V)) * 1.5
        log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
        done = np.isin(np.arange(len(scores)), finished)
        return Case(np.array(scores), log_p, done, end, k)

    return [
        draw((-1.0, -1.6, -4.0), 5, (), 0, 3),
        draw((-1.0, -1.3, -1.2), 5, (1,), 2, 3),
        draw((0.0,), 6, (), 0, 4),  # the first step
        draw((-2.0, -0.5, -1.1, -0.9), 4, (2,), 3, 4),  # as many beams as tokens
        draw((-1.5, -0.7), 7, (0, 1), 4, 2),  # all finished
        draw((-3.0, -2.5, -9.0), 4, (2,), 1, 2),  # fewer beams than before
        draw((-1.0, -1.1, -1.2, -1.3, -1.4, -9.0), 40, (3,), 7, 6),
    ]


def _is_end(c: Case) -> np.ndarray:
    return np.arange(c.log_probabilities.shape[1]) == c.end_id


def _steps(c: Case, of_finished: Callable[[Case], Any] | None = None) -> np.ndarray:
    only_end = np.where(_is_end(c), 0.0, -np.inf)
    row = only_end if of_finished is None else of_finished(c)
    return np.where(c.finished[:, None], row, c.log_probabilities)


def _with_free_end(c: Case) -> np.ndarray:
    return np.where(c.finished[:, None] & _is_end(c), 0.0, c.log_probabilities)


def _table(c: Case) -> np.ndarray:
    return c.scores[:, None] + _steps(c)


def _order(c: Case, table: np.ndarray) -> np.ndarray:
    return np.argsort(-table.ravel(), kind="stable")[: c.k]


def _right_scores(c: Case) -> np.ndarray:
    return _best(c, _table(c))


def _parents(c: Case) -> np.ndarray:
    return _flat(c) // _width(c)


def _tokens(c: Case) -> np.ndarray:
    return _flat(c) % _width(c)


def _flat(c: Case) -> np.ndarray:
    """The indices of the best candidates in the flat table."""
    return _order(c, _table(c))


def _width(c: Case) -> int:
    return c.log_probabilities.shape[1]


def _best(c: Case, table: np.ndarray) -> np.ndarray:
    return table.ravel()[_order(c, table)]


WRONG_SCORES: dict[str, Formula] = {
    "the scores of the beams are not added": lambda c: _best(c, _steps(c)),
    "the scores are multiplied: log-probabilities add up": lambda c: _best(c, c.scores[:, None] * _steps(c)),
    "finished beams grow as the others do": lambda c: _best(c, c.scores[:, None] + c.log_probabilities),
    "finished beams are left out: they compete with the others": (
        lambda c: _best(c, c.scores[:, None] + _steps(c, lambda c: -np.inf))
    ),
    "finished beams may take any token at no cost: end_id only": (
        lambda c: _best(c, c.scores[:, None] + _steps(c, lambda c: 0.0))
    ),
    "finished beams pay for the second end: it costs nothing": (
        lambda c: _best(
            c,
            c.scores[:, None]
            + np.where(
                c.finished[:, None] & ~_is_end(c),
                -np.inf,
                c.log_probabilities,
            ),
        )
    ),
    "finished and unfinished beams are exchanged": (
        lambda c: _best(c, _table(c._replace(finished=~c.finished)))
    ),
    "finished beams may still take other tokens: end_id only": (
        lambda c: _best(c, c.scores[:, None] + _with_free_end(c))
    ),
    "the log-probabilities are subtracted: they are added": (
        lambda c: _best(c, c.scores[:, None] - _steps(c))
    ),
    "the best candidate is left out": lambda c: -np.sort(-_table(c).ravel())[1 : c.k + 1],
    "the scores are indices of the flat table": lambda c: _order(c, _table(c)),
    "the end costs nothing for all beams: only for finished ones": (
        lambda c: _best(
            c, c.scores[:, None] + np.where(_is_end(c), 0.0, _steps(c))
        )
    ),
    "the worst candidates are kept, not the best": (
        lambda c: np.sort(_table(c).ravel())[: c.k]
    ),
    "the candidates are in ascending order: the best comes first": lambda c: _best(c, _table(c))[::-1],
    "each beam keeps its own best candidate: the k best of all are wanted": (
        lambda c: _table(c).max(1)
    ),
    "each beam keeps its own best candidate: the k best of all are wanted, whatever their beams": (
        lambda c: -np.sort(-_table(c).max(1))[: c.k]
    ),
    "each beam keeps its k best candidates: k of all are wanted": (
        lambda c: -np.sort(-_table(c), 1)[:, : c.k]
    ),
    "each beam keeps its k best candidates: k of all are wanted, in one row": (
        lambda c: -np.sort(-_table(c), 1)[:, : c.k].ravel()
    ),
    "the k best candidates of the first beam are kept": lambda c: -np.sort(-_table(c)[0])[: c.k],
    "the scores are probabilities, not their logarithms": lambda c: np.exp(_best(c, _table(c))),
    "probabilities are added to the scores, not log-probabilities": (
        lambda c: _best(c, c.scores[:, None] + np.exp(_steps(c)))
    ),
    "all candidates are returned: k are wanted": (
        lambda c: -np.sort(-_table(c).ravel())
    ),
    "one candidate is missing: k are wanted": lambda c: _best(c, _table(c))[:-1],
    "the scores are those of the step alone: they add up over the text": (
        lambda c: _steps(c).ravel()[_order(c, _table(c))]
    ),
    "the scores are those of the parents: the new token counts, too": (
        lambda c: c.scores[_order(c, _table(c)) // c.log_probabilities.shape[1]]
    ),
}  # fmt: skip


ROW = "a row has V entries"
WRONG_PARENTS: dict[str, Formula] = {
    "parents and tokens are exchanged: b V + t divided by V is b, and t remains": _tokens,
    "the parents are those of a table (V, beams): ravel goes row by row, and a row is a beam": (
        lambda c: (_tokens(c) * len(c.scores) + _parents(c)) // _width(c)
    ),
    "the parents are fractions: use //": lambda c: _flat(c) / _width(c),
    f"the parents are the index divided by the number of beams: {ROW}": lambda c: _flat(c) // len(c.scores),
    f"the parents are what remains of a division by the number of beams: {ROW}": (
        lambda c: _flat(c) % len(c.scores)
    ),
    f"the parents are the index divided by k: {ROW}": lambda c: _flat(c) // c.k,
    f"the parents are what remains of a division by k: {ROW}": lambda c: _flat(c) % c.k,
    "the parents are indices of the flat table": _flat,
    "each beam is its own parent: the best candidates may share one": lambda c: np.arange(c.k),
}
WRONG_TOKENS: dict[str, Formula] = {
    "the tokens are the parents: a token is what remains of the division": _parents,
    f"the tokens are what remains of a division by the number of beams: {ROW}": (
        lambda c: _flat(c) % len(c.scores)
    ),
    f"the tokens are the index divided by the number of beams: {ROW}": lambda c: _flat(c) // len(c.scores),
    f"the tokens are what remains of a division by k: {ROW}": lambda c: _flat(c) % c.k,
    "finished beams get token 0: end_id once more": (
        lambda c: np.where(c.finished[_parents(c)], 0, _tokens(c))
    ),
    "the tokens are indices of the flat table": _flat,
    "the tokens are the likeliest ones of the parents: a parent may have several children": (
        lambda c: _table(c)[_parents(c)].argmax(1)
    ),
}
OF_SCORES = (
    "Candidate (b, t) has the score scores[b] + log_probabilities[b, t]; the one candidate of a finished "
    "beam is (b, end_id), with scores[b]. The k best of the whole table are kept."
)
OF_INDICES = "In the flat table of rows of V entries, (b, t) is at b V + t."


def _call(name: str, *case: Any) -> str:
    c = Case(*case)
    finished = np.flatnonzero(c.finished).tolist()
    return f"{counted(len(c.scores), 'beam')} (finished: {finished}), V = {_width(c)}, k = {c.k}: {name}"


def _check_order(call: str, found: Any, right: np.ndarray, advice: str) -> None:
    if np.shape(found) == right.shape and np.allclose(np.sort(found), np.sort(right)):
        text = "the candidates are the right ones, and not sorted: the best comes first"
        raise Wrong(f"{call}: {text}", advice)


def check(answer: ModuleType) -> None:
    parts = (
        ("new_scores", _right_scores, WRONG_SCORES, OF_SCORES, _check_order),
        ("parents", _parents, WRONG_PARENTS, OF_INDICES, None),
        ("tokens", _tokens, WRONG_TOKENS, OF_INDICES, None),
    )
    for part, (name, right, wrong, advice, otherwise) in enumerate(parts):
        check_cases(
            answer.beam_step,
            _cases(),
            partial(of_case, Case, right),
            {words: partial(of_case, Case, formula) for words, formula in wrong.items()},
            partial(_call, name),
            advice,
            otherwise=otherwise,
            by_luck=True,
            count=3,
            part=part,
        )
