"""The decoder's input and the target of teacher forcing."""

from types import ModuleType

import numpy as np

from ..checking import compare, result_of

LESSON = 13
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
    ([[4, 5, 6], [7]], 0, 1, 0),  # as T5: the start is padding's id
    ([[5, 6, 0], [5]], 1, 2, 9),  # 0 is a word
)


def check(answer: ModuleType) -> None:
    for texts, start, end, pad in CASES:
        _check(answer, texts, start, end, pad)


def _check(answer: ModuleType, texts: list[list[int]], start: int, end: int, pad: int) -> None:
    found = result_of(answer.teacher_forcing, texts, start, end, pad, count=2)
    call = f"teacher_forcing({texts}, start_id={start}, end_id={end}, pad_id={pad})"
    width = max(map(len, texts)) + 1
    reads = _padded([[start, *text] for text in texts], pad, width)
    nexts = _padded([[*text, end] for text in texts], IGNORE, width)
    plain = [[*text, end] for text in texts]
    padded = _padded(plain, pad, width)
    texts_only = _padded(texts, pad, width - 1)
    full = [[start, *text, end] for text in texts]
    rolled = np.roll(padded, 1, 1)
    rolled_nexts = np.roll(nexts, 1, 1)
    held = _padded([[start, *text, end] for text in texts], pad, width + 1)[:, :width]
    held_nexts = _padded([[start, *text, end] for text in texts], IGNORE, width + 1)[:, :width]
    shorter = "the input holds the end of the shorter texts: nothing is predicted after it"
    compare(
        f"{call}[0]",
        found[0],
        reads,
        [
            ("the input is not shifted: it holds the token that is to be predicted", padded),
            ("the input and the target are exchanged", nexts),
            ("the start is missing: the first token is predicted from the start alone", texts_only),
            ("the start is missing: the first token is predicted from the start alone",
             _padded(texts, pad, width)),
            ("the input holds the end: nothing is predicted after it", _padded(full, pad, width + 1)),
            ("the input is shifted with np.roll: the last column comes to the front", rolled),
            ("the input is shifted with np.roll: the last column comes to the front", rolled_nexts),
            (shorter, held),
            (f"{shorter}, and IGNORE is not a token", held_nexts),
            ("the input is padded with start_id, not with pad_id",
             _padded([[start, *text] for text in texts], start, width)),
            ("the input is padded with IGNORE, which is no token: the input needs pad_id",
             _padded([[start, *text] for text in texts], IGNORE, width)),
            ("the input is padded with 0, not with pad_id",
             _padded([[start, *text] for text in texts], 0, width)),
            ("the input is padded with end_id, not with pad_id",
             _padded([[start, *text] for text in texts], end, width)),
            ("the input is padded at the front",
             _padded([[start, *text] for text in texts], pad, width, front=True)),
            ("the input starts with pad_id, not with start_id",
             _padded([[pad, *text] for text in texts], pad, width)),
            ("the input starts with end_id, not with start_id",
             _padded([[end, *text] for text in texts], pad, width)),
            ("the input lacks the last token of the longest text: a text of n tokens needs n + 1 columns",
             reads[:, :-1]),
            ("the input has one column too many: a text of n tokens needs n + 1",
             _padded([[start, *text] for text in texts], pad, width + 1)),
            ("the input ends where the shortest text ends", reads[:, : min(map(len, texts)) + 1]),
        ],
        "At each position the decoder reads the tokens so far: the start, then the text.",
    )  # fmt: skip
    first_ignored = np.where(reads == pad, IGNORE, nexts)
    compare(
        f"{call}[1]",
        found[1],
        nexts,
        [
            ("the target is the input: the decoder would learn to copy what it reads", reads),
            ("the target is the input: the decoder would learn to copy what it reads",
             _padded([[start, *text] for text in texts], IGNORE, width)),
            ("the text is followed by pad_id in the target, not by end_id",
             _padded([[*text, pad] for text in texts], IGNORE, width)),
            ("the text is followed by start_id in the target, not by end_id",
             _padded([[*text, start] for text in texts], IGNORE, width)),
            ("the target is padded with pad_id: the loss would train padding; IGNORE leaves it out", padded),
            ("the target is padded with 0, not with IGNORE", _padded(plain, 0, width)),
            ("the target is padded with end_id: the loss would train the end many times; IGNORE leaves it "
             "out", _padded(plain, end, width)),
            ("the end is missing in the target: the model would never learn to stop",
             _padded(texts, IGNORE, width)),
            ("the end is missing in the target: the model would never learn to stop",
             _padded(texts, IGNORE, width - 1)),
            ("the end is missing in the target: the model would never learn to stop",
             _padded(texts, pad, width)),
            ("the end stands in the last column, after the padding: it follows the text's last token",
             _end_last(texts, IGNORE, end, width)),
            ("the end stands in the last column, after the padding: it follows the text's last token",
             _end_last(texts, pad, end, width)),
            ("only the longest text has its end: the end follows the last token of each",
             _padded([t if len(t) < width - 1 else [*t, end] for t in texts], IGNORE, width)),
            ("the target holds the start, which is never predicted", _padded(full, IGNORE, width + 1)),
            ("the target holds the start, which is never predicted", _padded(full, pad, width + 1)),
            ("the end is ignored: the model would never learn to stop",
             np.where(nexts == end, IGNORE, nexts)),
            ("padding is found by pad_id in the input, where the start has the same id: the first token is "
             "not trained", first_ignored),
            ("the target is the input with np.roll: the start comes to the end", np.roll(reads, -1, 1)),
            ("the target is shifted twice: it holds the token after the next one",
             _padded([[*text[1:], end] for text in texts], IGNORE, width)),
            ("the target is padded at the front", _padded(plain, IGNORE, width, front=True)),
        ],
        "At each position the target is the token after those that the input has so far; after the last "
        "comes the end.",
    )  # fmt: skip


def _padded(rows: list[list[int]], fill: int, width: int, front: bool = False) -> np.ndarray:
    padding = [[fill] * (width - len(row)) for row in rows]
    pairs = zip(padding, rows, strict=True)
    return np.array([[*pad, *row] if front else [*row, *pad] for pad, row in pairs])


def _end_last(texts: list[list[int]], fill: int, end: int, width: int) -> np.ndarray:
    target = _padded(texts, fill, width)
    target[:, -1] = end
    return target
