"""A step as a CUDA graph, which is captured once and replayed with new numbers.

During a capture, the step's kernels are recorded in the graph and do not run. A replay launches all of them,
and runs none of the step's Python. Numbers that differ between steps are in arrays on the GPU, which are
filled before each launch (`numbers`). What the step does on the CPU is repeated before each launch
(`on_replay`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np

from ..core import random
from ..core.closures import root
from ..core.devices import CPU, array_module, device_of
from ..core.errors import MinigradError
from ..core.modes import Switch
from ..core.observers import observe
from ..core.tensor import Tensor
from ..core.trees import map_leaves
from ..kernels.cuda.cublas import handle_in_use
from .draws import CapturedGenerator
from .failures import UploadError, is_capture_error, raise_capture_error
from .interception import intercept
from .observers import LeafObserver

T = TypeVar("T")

PAGE = 512  # how many numbers of 8 bytes are uploaded at a time


class CapturedGraph(LeafObserver):
    """A captured step: a CUDA graph of its kernels, and everything that a replay needs."""

    def __init__(self, xp: Any, pool: Any, leaves: dict[Tensor, None]) -> None:
        super().__init__()
        self.xp = xp
        self.pool = pool
        self.leaves = dict(leaves)
        self.before_launch: list[Callable[[], object]] = []
        self.guards: list[Callable[[], bool]] = []
        self.kept: dict[int, Any] = {}  # arrays that the graph reads but did not create, by id
        self.made: set[int] = set()  # ids of the arrays that the step's ops created
        self.pages: list[_Page] = []
        self.numbers_by_key: dict[Hashable, Any] = {}
        self.gradients: list[tuple[Tensor, Tensor | None]] = []
        self.results: Any = None
        self.launch: Callable[[], None]
        self.thread: int | None = None  # the capturing thread

    # ------------------------------------------------------------ capturing

    def is_capturing(self) -> bool:
        """Return whether this thread is capturing."""
        return self.thread == threading.get_ident()

    def capture(self, step_fn: Callable[..., Any], inputs: Any, named: Any) -> None:
        """Run the step's Python code. CUDA records its GPU operations without running them."""
        found = {leaf: leaf.grad for leaf in self.leaves}
        draws = CapturedGenerator(self)
        self.xp.cuda.runtime.deviceSynchronize()
        try:
            generator = Switch(random.in_use, "generator", draws)
            with generator, self._stream_captured(), observe(self):
                self.results = step_fn(*inputs, **named)
        except BaseException as error:
            for leaf, grad in found.items():
                leaf._grad = grad
            if isinstance(error, MinigradError) or not is_capture_error(error):
                raise
            raise_capture_error(error, CapturedGraph.capture.__code__)
        self.on_replay(draws.advance)
        self.results = map_leaves(lambda x: x.detach() if isinstance(x, Tensor) else x, self.results)
        self._guard_gradients(found)

    @contextlib.contextmanager
    def _stream_captured(self) -> Iterator[None]:
        cuda = self.xp.cuda
        stream, _ = _streams(self.xp, cuda.runtime.getDevice())
        with stream:
            handle_in_use(self.xp)  # it cannot be created during the capture
        with (
            intercept(self),
            cuda.using_allocator(self.pool.malloc),
            _no_uploads(self),
            stream,
        ):
            stream.begin_capture()
            self.thread = threading.get_ident()
            try:
                yield
            except BaseException:
                self.thread = None
                with contextlib.suppress(RuntimeError):  # the first error is the one to report
                    stream.end_capture()
                raise
            self.thread = None
            self.launch = stream.end_capture().launch

    def _guard_gradients(self, found: dict[Tensor, Tensor | None]) -> None:
        """Let replays restore the captured `.grad`, and guard that they start from the capture's `.grad`."""
        for leaf in self.leaves:
            before = found.get(leaf)
            after = leaf.grad
            self.gradients.append((leaf, after))
            if after is before or before is None:  # the step added to the gradient, or created it
                self.guard(partial(_is_still, leaf, "grad", before))
            if after is before is not None:
                self.guard(partial(_is_still, before, "array", before.array))

    # ------------------------------------------------------------ during the capture

    def on_replay(self, do: Callable[[], object]) -> None:
        """Register a function `do` that is called before each launch."""
        self.before_launch.append(do)

    def guard(self, condition: Callable[[], bool]) -> None:
        """Add a condition that is checked before each replay. If it fails, the step is captured again."""
        self.guards.append(condition)

    def run_uncaptured(self, make: Callable[[], T]) -> T:
        """Run `make` now, on a stream that is not captured, and keep its result as long as the graph."""
        _, stream = _streams(self.xp, self.xp.cuda.runtime.getDevice())
        thread = self.thread
        self.thread = None
        try:
            with stream:
                made = make()
            stream.synchronize()
        finally:
            self.thread = thread
        self.kept[id(made)] = made
        return made

    def numbers(self, key: Hashable, compute: Callable[[], Any], now: Any, dtype: Any) -> Any:
        """Return the GPU array registered under `key`. It is filled with `compute()` before each replay.

        `now` is the current value of `compute()`.
        """
        if key not in self.numbers_by_key:
            first = np.array(now, dtype)
            if not self.pages or not self.pages[-1].has_room(first.nbytes):
                self.pages.append(self.run_uncaptured(lambda: _Page(self.xp)))
            on_host, self.numbers_by_key[key] = self.pages[-1].take(first)

            def write() -> None:
                on_host[:] = compute()

            self.on_replay(write)
        return self.numbers_by_key[key]

    def on_result(self, op: Any, arrays: Any, settings: Any, value: Any, gradients: Any) -> None:
        """Keep the arrays that an op reads, unless an op of this step created them."""
        for x in arrays:
            if device_of(x) != CPU and id(root(x)) not in self.made:
                self.kept[id(root(x))] = root(x)
        for x in value if type(value) is tuple else (value,):
            if device_of(x) != CPU and id(root(x)) not in self.kept:
                self.made.add(id(root(x)))

    # ------------------------------------------------------------ replaying

    def is_valid(self) -> bool:
        """Return whether all guards still hold."""
        return all(condition() for condition in self.guards)

    def replay(self) -> Any:
        for do in self.before_launch:
            do()
        for page in self.pages:
            page.upload()
        self.launch()
        for leaf, grad in self.gradients:
            leaf._grad = grad
        return self.results


class _Page:
    """Numbers that the CPU writes, kernels read, and one upload copies."""

    def __init__(self, xp: Any) -> None:
        self.on_host = np.zeros(PAGE, np.uint64)
        self.on_gpu = xp.zeros(PAGE, np.uint64)
        self.used = 0

    def has_room(self, size: int) -> bool:
        return self.used + -(-size // 8) <= PAGE

    def take(self, numbers: np.ndarray) -> tuple[np.ndarray, Any]:
        """Copy numbers into free space. Return the views of that space on the CPU and on the GPU."""
        part = slice(self.used, self.used + -(-numbers.nbytes // 8))
        self.used = part.stop
        on_host, on_gpu = (x[part].view(numbers.dtype)[: numbers.size] for x in (self.on_host, self.on_gpu))
        on_host[:] = numbers
        return on_host, on_gpu

    def upload(self) -> None:
        self.on_gpu.set(self.on_host, array_module(self.on_gpu).cuda.get_current_stream())


def _is_still(thing: Any, name: str, value: Any) -> bool:
    """Return whether an attribute is still the same object."""
    return getattr(thing, name) is value


@lru_cache(maxsize=16)
def _streams(xp: Any, device: int) -> tuple[Any, Any]:
    """Return a stream to capture and a stream for other work. Neither waits for the default stream."""
    return xp.cuda.Stream(non_blocking=True), xp.cuda.Stream(non_blocking=True)


@contextlib.contextmanager
def _no_uploads(graph: CapturedGraph) -> Iterator[None]:
    """Context manager in which CuPy's implicit uploads raise an error.

    A replay would copy the same host memory, which may have changed.
    """
    cuda = graph.xp.cuda
    usual = _pinned_allocator(cuda)

    def malloc(size: int) -> Any:
        if graph.is_capturing():
            raise UploadError
        return usual(size)

    cuda.set_pinned_memory_allocator(malloc)
    try:
        yield
    finally:
        cuda.set_pinned_memory_allocator(usual)


def _pinned_allocator(cuda: Any) -> Callable[[int], Any]:
    """Return the allocator of pinned memory in use, which CuPy only reveals by an allocation's pool."""
    pool = getattr(cuda.alloc_pinned_memory(1).mem, "pool", None)
    if pool is None:
        return lambda size: cuda.PinnedMemoryPointer(cuda.PinnedMemory(size), 0)
    return pool().malloc  # `pool` is a weak reference
