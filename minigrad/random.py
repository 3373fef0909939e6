"""Counter-based random numbers: every draw is a function of its key, and of nothing else.

A key is (seed, stream, step, call): the run's seed, what the draw is for ("dropout", "init", ...), the
training step, and how many draws the stream has made in that step. Philox (Salmon et al. 2011, "Parallel
Random Numbers: As Easy as 1, 2, 3") turns key and counter into bits without any state, so evaluating between
two steps cannot disturb the next draw, a resumed run draws what the unbroken one would have, and a slice of a
batch can draw its own part of the whole batch's numbers (`rows`).
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .errors import OptionError
from .recording import now, refuse


class Key(NamedTuple):
    """Names one draw. `row` is the global position, along the first axis, of the first element drawn."""

    seed: int
    stream: int
    step: int
    call: int
    row: int = 0


class _State:
    """The default generator: where the next key comes from."""

    def __init__(self) -> None:
        self.seed, self.step, self.row = 0, 0, 0
        self.calls: dict[str, int] = {}


_state = _State()


def manual_seed(seed: int) -> None:
    """Start every stream anew from `seed` (0 to 2**64 - 1), as `torch.manual_seed`."""
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise OptionError(f"a seed is a whole number from 0 to 2**64 - 1, got {seed!r}.\nPass another one.")
    refuse("manual_seed()", "Call it before the step.")
    _state.seed, _state.step, _state.row, _state.calls = int(seed), 0, 0, {}


def set_step(step: int) -> None:
    """Say which training step the next draws belong to; the streams' call counts begin again."""
    refuse("set_step()", "Call it before the step: a replay draws what belongs to the step that is set.")
    _state.step, _state.calls = step, {}


@contextlib.contextmanager
def rows(first: int) -> Iterator[None]:
    """Within it, the first axis of what is drawn begins at row `first` of the whole batch."""
    before, calls = _state.row, dict(_state.calls)
    _state.row = first
    try:
        yield
    finally:
        _state.row, _state.calls = before, calls


Snapshot = tuple[int, int, int, dict[str, int]]


def snapshot() -> Snapshot:
    """Where every stream stands now."""
    return _state.seed, _state.step, _state.row, dict(_state.calls)


def go_back(before: Snapshot) -> None:
    """Let all streams stand where they stood when `snapshot` gave `before`."""
    _state.seed, _state.step, _state.row, calls = before
    _state.calls = dict(calls)


@contextlib.contextmanager
def replayed(before: Snapshot) -> Iterator[None]:
    """Within it draws are those that followed when `snapshot` gave `before`; afterwards all is as it was."""
    after = snapshot()
    go_back(before)
    try:
        yield
    finally:
        go_back(after)


def first_row() -> int:
    """The row of the whole batch at which draws begin now."""
    return _state.row


def next_key(stream: str) -> Key:
    """The key of the next draw of `stream`."""
    call = _state.calls.get(stream, 0)
    _state.calls[stream] = call + 1
    return Key(_state.seed, _number(stream), _state.step, call, _state.row)


def _number(stream: str) -> int:
    return zlib.crc32(stream.encode())


# ---------------------------------------------------------------- in a recording (`minigrad.capture`)


def place_of_draws(key: Key) -> tuple[Any, int]:
    """Where a replay reads from what step and call on it draws: an array of the two on the GPU; and at which
    call the stream was when the recording began."""
    return now.recording.draws.place(key)


class Draws:
    """What a recorded step draws, replay after replay: each stream goes on from where it is then."""

    def __init__(self, recording: Any) -> None:
        self.recording, self.began = recording, snapshot()
        self.drawn: dict[str, int] = {}  # how often a step draws from each stream

    def place(self, key: Key) -> tuple[Any, int]:
        name = next(name for name in _state.calls if _number(name) == key.stream)
        places = lambda: (_state.step, _state.calls.get(name, 0))
        return self.recording.numbers(("draws", name), places, np.uint64), self.began[3].get(name, 0)

    def end(self) -> None:
        """The step has been recorded, and nothing was drawn yet."""
        calls = self.began[3]
        self.drawn = {name: n - calls.get(name, 0) for name, n in _state.calls.items()}
        go_back(self.began)

    def advance(self) -> None:
        """Count what a replay draws."""
        for name, n in self.drawn.items():
            _state.calls[name] = _state.calls.get(name, 0) + n


def generator(key: Key) -> np.random.Generator:
    """A NumPy generator at the key's place; two calls with one key give the same numbers."""
    return np.random.Generator(_philox(key, 0))


def _philox(key: Key, block: int) -> np.random.Philox:
    refuse("a random number drawn on the CPU", "Only dropout is drawn on the GPU: pass others as arguments.")
    words = lambda *numbers: np.array(numbers, dtype=np.uint64)  # a list with 2**63 in it would become floats
    return np.random.Philox(key=words(key.seed, key.stream), counter=words(block, key.call, key.step, 0))


def keep_mask(key: Key, shape: tuple[int, ...], p: float) -> np.ndarray:
    """Boolean array of `shape`: False with probability p (to a multiple of 2**-16).

    Element i of the whole batch is decided by the i-th group of 16 bits of the key's sequence, so rows
    [a, b) of a batch, drawn with `row=a`, agree with the whole batch drawn at once.
    """
    size = int(np.prod(shape))
    first = key.row * (size // shape[0] if shape and shape[0] else 0)
    block, skip = divmod(first, 16)  # a Philox block is 4 words of 64 bits, 16 groups
    words = _philox(key, block).random_raw((skip + size + 3) // 4)
    bits = words.view(np.uint16)[skip : skip + size]
    return (bits >= drop_threshold(p)).reshape(shape)


def drop_threshold(p: float) -> int:
    """Of 65,536 equally likely groups of bits, how many mean "drop"."""
    return round(p * 65536)
