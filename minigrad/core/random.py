"""Counter-based random numbers: every draw is a function of its key only.

A key is (seed, stream, step, call): the run's seed, what the draw is for ("dropout", "init", ...), the
training step, and how many draws the stream has made in that step. Philox (Salmon et al. 2011, "Parallel
Random Numbers: As Easy as 1, 2, 3") turns key and counter into bits without any state (`ops/draws.py`), so
evaluating between two steps does not change the next draw, a resumed run draws what an uninterrupted one
would have, and a slice of a batch can draw its part of the whole batch's numbers (`rows`). The keys are part
of core because a checkpoint repeats its draws.

Each thread has its own generator, and `manual_seed`, `set_step` and `restore` affect only the calling thread:
a thread that seeds itself draws the same numbers whatever other threads do. A thread that does not is seeded,
at its first draw, from the main thread's seed and its own name, so that no two draw the same. (PyTorch has
one generator for all threads: what one draws depends on the others' timing.)
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .errors import DtypeError, OptionError, StateError
from .modes import Switch
from .tensor import Tensor


class Key(NamedTuple):
    """The key of one draw. `row` is the position of its first row in the whole batch."""

    seed: int
    stream: int
    step: int
    call: int
    row: int = 0

    @property
    def counters(self) -> tuple[int, int, int]:
        """(step, call, address) for a kernel, which adds to step and call the two numbers at a GPU address.

        The address is 0 if there are none.
        """
        return self.step, self.call, 0


class Snapshot(NamedTuple):
    """The positions of all streams."""

    seed: int
    step: int
    row: int
    calls: dict[str, int]


class Generator:
    """A random number generator, which makes the keys of draws and counts each stream's (torch.Generator).

    `device` is accepted but has no effect: the numbers are the same on every device.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.first_seed, self.step, self.row = 0, 0, 0
        self.calls: dict[str, int] = {}

    def manual_seed(self, seed: int) -> Generator:
        """Restart every stream from `seed`, 0 to 2**64 - 1."""
        if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
            raise OptionError(
                f"seed must be an integer from 0 to 2**64 - 1, got {seed!r}.\nPass a seed in that range."
            )
        self.first_seed = int(seed)
        self.step = 0
        self.row = 0
        self.calls = {}
        return self

    def initial_seed(self) -> int:
        return self.first_seed

    def seed(self) -> int:
        """Start from a seed that the operating system draws, and return it."""
        return self.manual_seed(int.from_bytes(os.urandom(8))).first_seed

    def get_state(self) -> Tensor:
        """The positions of all streams as a tensor of bytes, which `save_file` can save."""
        return Tensor(np.frombuffer(json.dumps(self.snapshot()).encode(), np.uint8).copy())

    def set_state(self, state: Tensor) -> Generator:
        """Restore the state that `get_state` returned."""
        try:
            before = Snapshot(*json.loads(bytes(np.asarray(state, np.uint8))))
            numbers = (*before[:3], *before.calls.values())
            if not all(type(n) is int and 0 <= n < 2**64 for n in numbers):
                raise ValueError("not a state")
            self.restore(before)
        except (TypeError, ValueError, AttributeError, RecursionError):
            raise StateError(
                "this is not the state of a random number generator.\nPass what get_rng_state() returned."
            ) from None
        return self

    def set_step(self, step: int) -> None:
        self.step = step
        self.calls = {}

    def next_key(self, stream: str) -> Key:
        """The key of the next draw of `stream`."""
        call = self.calls.get(stream, 0)
        self.calls[stream] = call + 1
        return Key(self.first_seed, zlib.crc32(stream.encode()), self.step, call, self.row)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.first_seed, self.step, self.row, dict(self.calls))

    def restore(self, before: Snapshot) -> None:
        self.first_seed, self.step, self.row = before[:3]
        self.calls = dict(before.calls)


class _ThreadSeeds:
    """Seeds of threads that do not seed themselves.

    A seed is derived from the main thread's seed, the thread's name, and how many threads of that name have
    been seeded since the main thread's `manual_seed`.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.named = dict[str, int]()

    def next_seed(self, name: str) -> int:
        with self.lock:
            number = self.named[name] = self.named.get(name, -1) + 1
        words = np.random.SeedSequence(default_generator.first_seed, spawn_key=(number, *name.encode()))
        return int(words.generate_state(1, np.uint64)[0])

    def restart(self) -> None:
        with self.lock:
            self.named.clear()


default_generator = Generator()  # the main thread's
_thread_seeds = _ThreadSeeds()


class _InUse(threading.local):
    def __init__(self) -> None:  # runs in each thread, when it first draws
        self.noted: tuple[dict[Generator, Snapshot], ...] = ()  # see `noted_generators`
        thread = threading.current_thread()
        self.generator = default_generator
        if thread is not threading.main_thread():
            self.generator = Generator()
            self.generator.manual_seed(_thread_seeds.next_seed(thread.name))

    @property
    def draws(self) -> Snapshot:
        """The positions of the generator's streams."""
        return self.generator.snapshot()

    @draws.setter
    def draws(self, before: Snapshot) -> None:
        self.generator.restore(before)


in_use = _InUse()  # each thread's generator


def manual_seed(seed: int) -> Generator:
    """Restart every stream of this thread from `seed`, 0 to 2**64 - 1 (torch.manual_seed).

    >>> _ = mg.manual_seed(0)
    >>> a = mg.randn(3)
    >>> _ = mg.manual_seed(0)
    >>> mg.equal(a, mg.randn(3))
    True
    """
    in_use.generator.manual_seed(seed)
    if in_use.generator is default_generator:
        _thread_seeds.restart()
    return in_use.generator


def seed() -> int:
    """Start from a seed that the operating system draws, and return it (torch.seed)."""
    return manual_seed(int.from_bytes(os.urandom(8))).first_seed


def initial_seed() -> int:
    """Return the seed that the random streams started from (torch.initial_seed)."""
    return in_use.generator.initial_seed()


def get_rng_state() -> Tensor:
    """The positions of all streams as a tensor of bytes (torch.get_rng_state)."""
    return in_use.generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restore the state that `get_rng_state` returned (torch.set_rng_state)."""
    in_use.generator.set_state(new_state)


def set_step(step: int) -> None:
    """Set the training step of the following draws; the streams' call counts restart at 0."""
    if not 0 <= step < 2**63:
        raise OptionError(f"step must be at least 0, got {step}.\nPass an integer from 0 to 2**63 - 1.")
    in_use.generator.set_step(int(step))


def snapshot() -> Snapshot:
    """The current positions of all streams."""
    return in_use.draws


def restore(before: Snapshot) -> None:
    """Reset all streams to the positions `before`, which `snapshot` returned."""
    in_use.draws = before


class replayed(Switch):
    """Replays the draws that followed the snapshot `before`."""

    def __init__(self, before: Snapshot) -> None:
        super().__init__(in_use, "draws", before)


class noted_generators(Switch):
    """Notes, in `noted`, each generator that is passed to a draw, with its state before the first draw."""

    def __init__(self, noted: dict[Generator, Snapshot]) -> None:
        super().__init__(in_use, "noted", noted)

    def _new_value(self, current: tuple[dict[Generator, Snapshot], ...]) -> Any:
        return (*current, self.value)


@contextmanager
def generators_replayed(noted: dict[Generator, Snapshot]) -> Iterator[None]:
    """Resets the generators in `noted` to their noted states, and restores them afterwards."""
    now = {each: each.snapshot() for each in noted}
    for each, before in noted.items():
        each.restore(before)
    try:
        yield
    finally:
        for each, before in now.items():
            each.restore(before)


class fork_rng(Switch):
    """Restores the streams at its end, so that its draws do not affect later ones (torch.random.fork_rng)."""

    def __init__(self, devices: object = None) -> None:  # draws are the same for all devices
        super().__init__(in_use, "draws", None)

    def _new_value(self, current: Snapshot) -> Snapshot:
        return current


class rows(Switch):
    """Makes the first axis of draws start at row `first` of the whole batch."""

    def __init__(self, first: int) -> None:
        super().__init__(in_use, "draws", first)

    def _new_value(self, current: Snapshot) -> Snapshot:
        return current._replace(row=self.value)


def first_row() -> int:
    """The row of the whole batch at which draws start."""
    return in_use.generator.row


def next_key(stream: str, generator: Generator | None = None) -> Key:
    """The key of the next draw of `stream`, by this thread's generator or a given one."""
    if generator is None:
        return in_use.generator.next_key(stream)
    if not isinstance(generator, Generator):
        raise DtypeError(f"generator must be a Generator, got {generator!r}.\nMake one: mg.Generator().")
    for noted in in_use.noted:
        noted.setdefault(generator, generator.snapshot())
    return generator.next_key(stream)
