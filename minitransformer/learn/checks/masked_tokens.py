"""BERT's masked tokens."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..checking import check_cases, of_case

LESSON = 16
REASONING = ""
HINTS = (
    "First one array of booleans: which tokens are chosen? Then two more: which of these become the mask, "
    "and which a random word?",
    "The target needs `chosen` alone. What is read needs chosen & (kinds < 0.8), and chosen & those from 0.8 "
    "to 0.9. np.where(condition, a, b) takes from a or from b.",
    "chosen = (draws < 0.15) & ~special; read = np.where(masked, mask_id, np.where(replaced, words, ids)); "
    "target = np.where(chosen, ids, IGNORE).",
)
IGNORE = -100
MASK = 4


class Case(NamedTuple):
    ids: np.ndarray
    special: np.ndarray
    mask_id: int
    draws: np.ndarray
    kinds: np.ndarray
    words: np.ndarray


def _case(seed: int, rows: int, length: int, specials: float = 0.2, rate: float = 1.0) -> Case:
    random = np.random.default_rng(seed)
    shape = (rows, length)
    ids = random.integers(10, 1000, shape)
    special = random.random(shape) < specials
    ids[special] = random.integers(0, 3, special.sum())
    draws = random.random(shape) * rate
    return Case(ids, special, MASK, draws, random.random(shape), random.integers(1000, 2000, shape))


def _cases() -> list[Case]:
    return [
        _case(0, 4, 100),
        _case(1, 1, 12, rate=0.3),
        _case(2, 3, 5, specials=1.0),  # no token can be chosen
        _case(3, 2, 30, specials=0.0, rate=0.15),  # all tokens are chosen
        _case(4, 2, 0),  # empty texts
    ]


def _chosen(c: Case) -> np.ndarray:
    return (c.draws < 0.15) & ~c.special


def _read(c: Case, masked: np.ndarray, replaced: np.ndarray) -> np.ndarray:
    return np.where(masked, c.mask_id, np.where(replaced, c.words, c.ids))


def _right(c: Case) -> np.ndarray:
    return _read(c, _chosen(c) & (c.kinds < 0.8), _chosen(c) & (c.kinds >= 0.8) & (c.kinds < 0.9))


def _kinds(low: float, high: float) -> Callable[[Case], np.ndarray]:
    return lambda c: _chosen(c) & (c.kinds >= low) & (c.kinds < high)


def _target(where: Callable[[Case], np.ndarray]) -> Callable[[Case], np.ndarray]:
    return lambda c: np.where(where(c), c.ids, IGNORE)


WRONG_TARGETS: dict[str, Callable[[Case], np.ndarray]] = {
    "the target has special tokens: they are never chosen": _target(lambda c: c.draws < 0.15),
    "the target has special tokens only: ~special are those that can be chosen": (
        _target(lambda c: (c.draws < 0.15) & c.special)
    ),
    "the target is every token: only the chosen ones are predicted": lambda c: c.ids,
    "the target is every token that is not special: only the chosen ones are predicted": (
        _target(lambda c: ~c.special)
    ),
    "the target lacks the chosen tokens that stay, and has only those that changed: all count": (
        _target(lambda c: _chosen(c) & (c.kinds < 0.9))
    ),
    "the target has only the masked tokens: all chosen ones are predicted": _target(_kinds(0, 0.8)),
    "the target is what is read now: it is the token that stood there": (
        lambda c: np.where(_chosen(c), _right(c), IGNORE)
    ),
    "the target ignores the chosen tokens, and has the others": _target(lambda c: ~_chosen(c)),
    "the draws are compared the wrong way round: 85 % are chosen": (
        _target(lambda c: (c.draws >= 0.15) & ~c.special)
    ),
    "the draws are compared with 0.85: 15 % are chosen, but others: those below 0.15": (
        _target(lambda c: (c.draws >= 0.85) & ~c.special)
    ),
    "tokens are chosen by `kinds`: the draws choose": _target(lambda c: (c.kinds < 0.15) & ~c.special),
    "tokens are chosen by the draws or by being no special ones: both are needed": (
        _target(lambda c: (c.draws < 0.15) | ~c.special)
    ),
    "only id 0 is taken for special: `special` says which tokens are": (
        _target(lambda c: (c.draws < 0.15) & (c.ids != 0))
    ),
    "the target is decided by `kinds` for all tokens: only chosen ones are predicted": (
        _target(lambda c: c.kinds < 0.9)
    ),
    "the target is 0 elsewhere: the loss leaves out IGNORE": lambda c: np.where(_chosen(c), c.ids, 0),
    "the target is mask_id elsewhere: the loss leaves out IGNORE": (
        lambda c: np.where(_chosen(c), c.ids, c.mask_id)
    ),
    "the target is mask_id for the chosen tokens: it is the token that stood there": (
        lambda c: np.where(_chosen(c), c.mask_id, IGNORE)
    ),
    "the target is booleans: ids are wanted, and IGNORE": _chosen,
    "what is read and the target are exchanged": _right,
}
WRONG_READS: dict[str, Callable[[Case], np.ndarray]] = {
    "nothing is changed in what is read": lambda c: c.ids,
    "every chosen token becomes the mask: 10 % become a random word, and 10 % stay": (
        lambda c: _read(c, _chosen(c), np.zeros_like(c.special))
    ),
    "80 % of all tokens become the mask: 80 % of the chosen ones": (
        lambda c: _read(c, c.kinds < 0.8, _kinds(0.8, 0.9)(c))
    ),
    "80 % of all tokens become the mask and 10 % random words: these are parts of the chosen ones": (
        lambda c: _read(c, c.kinds < 0.8, (c.kinds >= 0.8) & (c.kinds < 0.9))
    ),
    "10 % of all tokens become random words: 10 % of the chosen ones": (
        lambda c: _read(c, _kinds(0, 0.8)(c), (c.kinds >= 0.8) & (c.kinds < 0.9))
    ),
    "all chosen tokens that are not masked become random words: half of them stay": (
        lambda c: _read(c, _kinds(0, 0.8)(c), _kinds(0.8, 1)(c))
    ),
    "no token becomes a random word": lambda c: _read(c, _kinds(0, 0.8)(c), np.zeros_like(c.special)),
    "no token becomes the mask: the random words take their places": (
        lambda c: _read(c, np.zeros_like(c.special), _kinds(0, 0.9)(c))
    ),
    "no token becomes the mask": lambda c: _read(c, np.zeros_like(c.special), _kinds(0.8, 0.9)(c)),
    "kinds from 0.8 to 0.9 stay and those from 0.9 on become random words: it is the other way": (
        lambda c: _read(c, _kinds(0, 0.8)(c), _kinds(0.9, 1)(c))
    ),
    "kinds below 0.1 become random words, not those from 0.8 to 0.9": (
        lambda c: _read(c, _kinds(0.1, 0.8)(c), _kinds(0, 0.1)(c))
    ),
    "kinds above 0.8 become the mask: those below 0.8": (
        lambda c: _read(c, _kinds(0.8, 1)(c), np.zeros_like(c.special))
    ),
    "the mask and the random words have exchanged their shares": (
        lambda c: _read(c, _kinds(0.8, 0.9)(c), _kinds(0, 0.8)(c))
    ),
    "kinds from 0.8 on become the mask, not only those below 0.8; no token stays": (
        lambda c: _read(c, _kinds(0, 0.9)(c), np.zeros_like(c.special))
    ),
    "special tokens are changed, too": (
        lambda c: _read(
            c, (c.draws < 0.15) & (c.kinds < 0.8), (c.draws < 0.15) & (c.kinds >= 0.8) & (c.kinds < 0.9)
        )
    ),
    "tokens that are not chosen are changed, and the chosen ones are not": (
        lambda c: _read(c, ~_chosen(c) & (c.kinds < 0.8), ~_chosen(c) & (c.kinds >= 0.8) & (c.kinds < 0.9))
    ),
    "what is read has IGNORE, which is no token: that belongs to the target": (
        lambda c: np.where(_chosen(c), _right(c), IGNORE)
    ),
    "the chosen tokens become IGNORE, which is no token: that belongs to the target": (
        lambda c: np.where(_chosen(c), IGNORE, c.ids)
    ),
    "the tokens that are not chosen become the mask": lambda c: np.where(_chosen(c), _right(c), c.mask_id),
    "the draws decide what becomes of a chosen token: `kinds` do": (
        lambda c: _read(c, _chosen(c) & (c.draws < 0.12), _chosen(c) & (c.draws >= 0.12) & (c.draws < 0.135))
    ),
    "what does not change becomes IGNORE: it is read as it is": (
        lambda c: np.where(_right(c) == c.ids, IGNORE, _right(c))
    ),
    "what does not change becomes 0: it is read as it is": (
        lambda c: np.where(_right(c) == c.ids, 0, _right(c))
    ),
    "special tokens become the mask": lambda c: np.where(c.special, c.mask_id, _right(c)),
}


def _right_target(c: Case) -> np.ndarray:
    return np.where(_chosen(c), c.ids, IGNORE)


def check(answer: ModuleType) -> None:
    of_target = (
        "The target has the ids of all chosen tokens, draws below 0.15 that are not special, and IGNORE "
        "elsewhere."
    )
    of_read = (
        "Only chosen tokens change: into mask_id if the kind is below 0.8, into the random word from there "
        "to 0.9."
    )
    parts = (
        (1, "target", _right_target, WRONG_TARGETS, of_target),
        (0, "read", _right, WRONG_READS, of_read),
    )
    for part, name, right, wrong, advice in parts:
        check_cases(
            answer.corrupt,
            _cases(),
            partial(of_case, Case, right),
            {words: partial(of_case, Case, formula) for words, formula in wrong.items()},
            lambda ids, *_, name=name: f"corrupt for {len(ids)} x {ids.shape[1]} tokens: {name}",
            advice,
            by_luck=True,
            count=2,
            part=part,
        )
