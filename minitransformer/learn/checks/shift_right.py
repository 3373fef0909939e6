"""The decoder's input and the target of teacher forcing."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..checking import check_cases, of_case

LESSON = 11
REASONING = "shapes"
HINTS = (
    "Write both rows for the text [7, 8], one above the other: what is read at each position, and what comes "
    "next? How long are they?",
    "The input of a text is the start and then the text, its target is the text and then the end: both have "
    "n + 1 tokens. Only what follows in the row is padding.",
    "np.full((len(texts), longest + 1), pad_id), the same with IGNORE for the target; then for each row: "
    "decoder_input[row, : n + 1] = [start_id, *text], target[row, : n + 1] = [*text, end_id].",
)
IGNORE = -100
CASES = (  # texts, start, end, pad
    ([[7, 8, 9], [5], [6, 4]], 1, 2, 3),
    ([[7, 8]], 1, 2, 0),
    ([[5, 6], [7, 8]], 1, 2, 3),
    ([[], [4, 5]], 1, 2, 0),
    ([[4, 5, 6], [7]], 0, 1, 0),  # like T5, whose start token is the padding token
    ([[5, 6, 0], [5]], 1, 2, 9),  # 0 is a word
)


class Case(NamedTuple):
    """The arguments of `teacher_forcing`, and the rows of which right and wrong answers consist."""

    texts: list[list[int]]
    start: int
    end: int
    pad: int

    @property
    def width(self) -> int:
        return max(map(len, self.texts)) + 1

    def begun(self, first: int | None = None) -> list[list[int]]:
        return [[self.start if first is None else first, *text] for text in self.texts]

    def ended(self, last: int | None = None) -> list[list[int]]:
        return [[*text, self.end if last is None else last] for text in self.texts]

    def whole(self) -> list[list[int]]:
        return [[self.start, *text, self.end] for text in self.texts]


def _padded(rows: list[list[int]], fill: int, width: int, front: bool = False) -> np.ndarray:
    padding = [[fill] * (width - len(row)) for row in rows]
    pairs = zip(padding, rows, strict=True)
    return np.array([[*pad, *row] if front else [*row, *pad] for pad, row in pairs])


def _input(c: Case) -> np.ndarray:
    return _padded(c.begun(), c.pad, c.width)


def _target(c: Case) -> np.ndarray:
    return _padded(c.ended(), IGNORE, c.width)


def _end_last(c: Case, fill: int) -> np.ndarray:
    target = _padded(c.texts, fill, c.width)
    target[:, -1] = c.end
    return target


Formula = Callable[[Case], np.ndarray]
ALONE = "the first token is predicted from the start alone"
SHORTER = "the input holds the end of the shorter texts: nothing is predicted after it"
STOP = "the model would never learn to stop"
AFTER = "the end stands in the last column, after the padding: it follows the text's last token"
WRONG_INPUTS: dict[str, Formula] = {
    "the input is not shifted: it holds the token that is to be predicted": (
        lambda c: _padded(c.ended(), c.pad, c.width)
    ),
    "the input and the target are exchanged": _target,
    f"the start is missing: {ALONE}": lambda c: _padded(c.texts, c.pad, c.width - 1),
    f"the start is missing, and there is padding in its place, at the end: {ALONE}": (
        lambda c: _padded(c.texts, c.pad, c.width)
    ),
    "the input holds the end: nothing is predicted after it": (
        lambda c: _padded(c.whole(), c.pad, c.width + 1)
    ),
    "the input is shifted with np.roll: the last column comes to the front": (
        lambda c: np.roll(_padded(c.ended(), c.pad, c.width), 1, 1)
    ),
    "the input is the target, shifted with np.roll: the last column comes to the front": (
        lambda c: np.roll(_target(c), 1, 1)
    ),
    SHORTER: lambda c: _padded(c.whole(), c.pad, c.width + 1)[:, : c.width],
    f"{SHORTER}, and IGNORE is not a token": (
        lambda c: _padded(c.whole(), IGNORE, c.width + 1)[:, : c.width]
    ),
    "the input is padded with start_id, not with pad_id": lambda c: _padded(c.begun(), c.start, c.width),
    "the input is padded with IGNORE, which is no token: the input needs pad_id": (
        lambda c: _padded(c.begun(), IGNORE, c.width)
    ),
    "the input is padded with 0, not with pad_id": lambda c: _padded(c.begun(), 0, c.width),
    "the input is padded with end_id, not with pad_id": lambda c: _padded(c.begun(), c.end, c.width),
    "the input is padded at the front": lambda c: _padded(c.begun(), c.pad, c.width, front=True),
    "the input starts with pad_id, not with start_id": lambda c: _padded(c.begun(c.pad), c.pad, c.width),
    "the input starts with end_id, not with start_id": lambda c: _padded(c.begun(c.end), c.pad, c.width),
    "the input lacks the last token of the longest text: a text of n tokens needs n + 1 columns": (
        lambda c: _input(c)[:, :-1]
    ),
    "the input has one column too many: a text of n tokens needs n + 1": (
        lambda c: _padded(c.begun(), c.pad, c.width + 1)
    ),
    "the input ends where the shortest text ends": lambda c: _input(c)[:, : min(map(len, c.texts)) + 1],
}
WRONG_TARGETS: dict[str, Formula] = {
    "the target is the input: the decoder would learn to copy what it reads": _input,
    "the target is the input, padded with IGNORE: the decoder would learn to copy what it reads": (
        lambda c: _padded(c.begun(), IGNORE, c.width)
    ),
    "the text is followed by pad_id in the target, not by end_id": (
        lambda c: _padded(c.ended(c.pad), IGNORE, c.width)
    ),
    "the text is followed by start_id in the target, not by end_id": (
        lambda c: _padded(c.ended(c.start), IGNORE, c.width)
    ),
    "the target is padded with pad_id: the loss would train padding; IGNORE leaves it out": (
        lambda c: _padded(c.ended(), c.pad, c.width)
    ),
    "the target is padded with 0, not with IGNORE": lambda c: _padded(c.ended(), 0, c.width),
    "the target is padded with end_id: the loss would train the end many times; IGNORE leaves it out": (
        lambda c: _padded(c.ended(), c.end, c.width)
    ),
    f"the end is missing in the target: {STOP}": lambda c: _padded(c.texts, IGNORE, c.width),
    f"the end is missing in the target, which is a column shorter: {STOP}": (
        lambda c: _padded(c.texts, IGNORE, c.width - 1)
    ),
    f"the end is missing in the target, which is padded with pad_id: {STOP}": (
        lambda c: _padded(c.texts, c.pad, c.width)
    ),
    AFTER: lambda c: _end_last(c, IGNORE),
    f"{AFTER}, which is IGNORE": lambda c: _end_last(c, c.pad),
    "only the longest text has its end: the end follows the last token of each": (
        lambda c: _padded([t if len(t) < c.width - 1 else [*t, c.end] for t in c.texts], IGNORE, c.width)
    ),
    "the target holds the start, which is never predicted": (
        lambda c: _padded(c.whole(), IGNORE, c.width + 1)
    ),
    "the target holds the start, which is never predicted, and is padded with pad_id": (
        lambda c: _padded(c.whole(), c.pad, c.width + 1)
    ),
    f"the end is ignored: {STOP}": lambda c: np.where(_target(c) == c.end, IGNORE, _target(c)),
    "padding is found by pad_id in the input, where the start has the same id: the first token is not "
    "trained": lambda c: np.where(_input(c) == c.pad, IGNORE, _target(c)),
    "the target is the input with np.roll: the start comes to the end": lambda c: np.roll(_input(c), -1, 1),
    "the target is shifted twice: it holds the token after the next one": (
        lambda c: _padded([[*text[1:], c.end] for text in c.texts], IGNORE, c.width)
    ),
    "the target is padded at the front": lambda c: _padded(c.ended(), IGNORE, c.width, front=True),
}
OF_INPUT = "At each position the decoder reads the tokens so far: the start, then the text."
OF_TARGET = (
    "At each position the target is the token after those that the input has so far; after the last comes "
    "the end."
)


def check(answer: ModuleType) -> None:
    parts = ((_input, WRONG_INPUTS, OF_INPUT), (_target, WRONG_TARGETS, OF_TARGET))
    for part, (right, wrong, advice) in enumerate(parts):
        check_cases(
            answer.teacher_forcing,
            CASES,
            partial(of_case, Case, right),
            {words: partial(of_case, Case, formula) for words, formula in wrong.items()},
            lambda texts, start, end, pad, part=part: (
                f"teacher_forcing({texts}, start_id={start}, end_id={end}, pad_id={pad})[{part}]"
            ),
            advice,
            count=2,
            part=part,
        )
