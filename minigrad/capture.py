"""A training step recorded once as a CUDA graph, and replayed without Python.

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    step = mg.capture(step)
    for x, y in batches:
        loss = step(x, y)

A small step costs the GPU less time than it costs Python to ask for it. The first two calls run as they are:
they compile kernels and make the optimizer's state. The third is recorded; from then on a call copies its
inputs, writes down what the host counts (`minigrad.recording`), and launches all kernels at once.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from . import random
from .autograd import grad_mode, watch
from .devices import array_module, check_device, device_of, gpu, is_array, library_of
from .errors import CaptureError, MinigradError
from .precision import products
from .recording import cannot, data_follows, now
from .tensor import Tensor, as_tensor
from .trees import flatten, leaves, map_leaves, structure
from .versions import LIBRARY, root

UNRECORDED = 2  # calls that run as they are
LIMIT = 16  # recordings that are kept, the latest used
WORDS = 512  # of 8 bytes, that the host brings up to date at once


class capture:
    """`step_fn`, a training step, to be recorded on a GPU; on the CPU it runs as it is.

    What it is given: NumPy arrays come to it as Tensors. On a GPU these and other Tensors are copied into
    memory that stays. Another shape, dtype or structure records anew, and so does another value of any other
    argument, another seed, or a state that was loaded into the optimizer.

    What it returns are the same Tensors each time, which the next call writes over: `.item()` or `.clone()`
    keeps their numbers. `.grad` is that of the latest call, too.

    A replay runs no Python: what the step reads besides its arguments is what it was when it was recorded.
    The learning rate, schedules (`scheduler.step()`), counts of steps and dropout's draws go on as without
    capture. Change a model's state in place; call `train()`, `eval()` and `random.set_step()` outside. What
    cannot be recorded is a CaptureError that names its line, and leaves all as it was before the call:
    `.item()` and all else that waits for the GPU, numbers drawn on the CPU, float16's GradScaler. Products
    of matrices need nvmath-python (pip install nvmath-python).

    The device is that of what the first call computes, unless `device` names it.
    """

    def __init__(self, step_fn: Callable[..., Any], device: str | None = None) -> None:
        self.step_fn: Callable[..., Any] = lambda inputs, named: step_fn(*inputs, **named)
        self.device = None if device is None else check_device(device)
        self.steps: OrderedDict[Hashable, _Step] = OrderedDict()
        self.pool: Any = None  # where recordings have their memory

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        _refuse_gradients([*flatten(inputs), *flatten(named)])
        given = map_leaves(lambda x: as_tensor(x) if is_array(x) else x, (inputs, named))
        if self.device == "cpu":
            return self.step_fn(*given)
        if self.device is None:
            looker = _Looker()
            with watch.observed_by(looker), data_follows():
                results = self.step_fn(*given)
            self.device = looker.device
            if self.device != "cpu":
                self._step(given).calls = 1
            return results
        return self._step(given)(given)

    def _step(self, inputs: tuple[Any, ...]) -> _Step:
        """The step for such inputs; those that were not used for longest are forgotten."""
        assert self.device is not None
        xp, key = library_of(self.device), _signature(inputs)
        if self.pool is None:
            self.pool = xp.cuda.MemoryPool()
        step = self.steps.pop(key, None) or _Step(self.step_fn, inputs, xp, self.pool)
        self.steps[key] = step
        if len(self.steps) > LIMIT:
            self.steps.popitem(last=False)
        return step

    @property
    def recordings(self) -> int:
        """How many recordings there are to replay."""
        return sum(step.recording is not None for step in self.steps.values())


def _refuse_gradients(inputs: list[tuple[str, Any]]) -> None:
    for path, x in inputs:
        if isinstance(x, Tensor) and x.requires_grad:
            raise CaptureError(
                f"inputs{path} of a captured step requires a gradient, which would be lost.\n"
                f"Pass data; parameters are what the step refers to itself."
            )


def _signature(inputs: tuple[Any, ...]) -> Hashable:
    """What a recording is for: kinds of arrays, values of other arguments, and the modes of the library."""
    kinds: list[Hashable] = []
    for x in leaves(inputs):
        if isinstance(x, Tensor):
            kinds.append((x.shape, str(x.dtype)))
        else:
            kinds.append((type(x), x if isinstance(x, Hashable) else id(x)))
    seed, _, row, _ = random.snapshot()
    modes = grad_mode.enabled, str(grad_mode.autocast), products.precision
    return structure(inputs), tuple(kinds), seed, row, modes


class _Step:
    """A step with inputs of one signature."""

    def __init__(self, step_fn: Callable[..., Any], inputs: tuple[Any, ...], xp: Any, pool: Any) -> None:
        self.step_fn, self.xp, self.pool = step_fn, xp, pool
        self.calls, self.looker = 0, _Looker()
        self.recording: Recording | None = None
        buffer = lambda x: Tensor(xp.empty(x.shape, x.dtype)) if isinstance(x, Tensor) else x
        self.inputs = map_leaves(buffer, inputs)  # what is no Tensor is kept: a signature may hold its id

    def __call__(self, inputs: tuple[Any, ...]) -> Any:
        self._fill(inputs)
        if self.recording is not None and not self.recording.fits():
            self.calls, self.recording = 0, None
        self.calls += 1
        if self.calls <= UNRECORDED:
            with watch.observed_by(self.looker):
                return self.step_fn(*self.inputs)
        if self.recording is None:
            recording = Recording(self.xp, self.pool, self.looker.leaves)
            recording.record(self.step_fn, self.inputs)
            self.recording = recording
        return self.recording.replay()

    def _fill(self, inputs: tuple[Any, ...]) -> None:
        """Copy inputs to where the step reads them."""
        stream = self.xp.cuda.get_current_stream()
        for buffer, x in zip(leaves(self.inputs), leaves(inputs), strict=True):
            if not isinstance(x, Tensor):
                continue
            if isinstance(x.array, gpu.arrays):
                buffer.array[...] = x.array
            else:
                buffer.array.set(np.ascontiguousarray(x.array).reshape(x.shape), stream)


class _Looker:
    """Looks on while a step runs: where it computes, and which leaves get gradients."""

    def __init__(self) -> None:
        self.device = "cpu"
        self.leaves: dict[Tensor, None] = {}

    def result(self, op: Any, arrays: list[Any], settings: Any, value: Any, gradients: Any) -> None:
        for x in arrays:
            if isinstance(x, gpu.arrays):
                self.device = device_of(x)

    def pulled(self, node: Any, gradients: Any, g: Any, pulled: Iterator[Any]) -> Iterator[Any]:
        self.leaves.update((x, None) for x in node.edges if isinstance(x, Tensor) and x.requires_grad)
        yield from pulled


class Recording(_Looker):
    """One step as a graph, with all that its replays need."""

    def __init__(self, xp: Any, pool: Any, leaves: dict[Tensor, None]) -> None:
        super().__init__()
        self.xp, self.pool, self.leaves = xp, pool, dict(leaves)
        self.before: list[Callable[[], object]] = []  # what the host does before each replay
        self.conditions: list[Callable[[], bool]] = []  # while these hold it fits
        self.kept: dict[int, Any] = {}  # arrays of others that the graph reads, by id
        self.made: set[int] = set()  # the ids of arrays that ops made
        self.words: list[_Words] = []
        self.places: dict[Hashable, Any] = {}
        self.gradients: list[tuple[Tensor, Tensor | None]] = []
        self.results: Any = None
        self.graph: Any = None

    # ------------------------------------------------------------ recording

    def record(self, step_fn: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
        """Run the step's Python, while the GPU writes down what it is asked for, and does nothing."""
        entry = [(leaf, leaf.grad) for leaf in self.leaves]
        drawn_before = random.snapshot()
        self.draws = random.Draws(self)
        self.xp.cuda.runtime.deviceSynchronize()
        try:
            with self._capturing(), watch.observed_by(self):
                self.results = step_fn(*inputs)
        except BaseException as error:
            for leaf, grad in entry:
                leaf.grad = grad
            random.go_back(drawn_before)
            if isinstance(error, MinigradError) or not _is_the_gpus(error):
                raise
            _explain(error)
        self.draws.end()
        self.before.append(self.draws.advance)
        self.results = map_leaves(lambda x: x.detach() if isinstance(x, Tensor) else x, self.results)
        self._mind_gradients(dict(entry))

    @contextlib.contextmanager
    def _capturing(self) -> Iterator[None]:
        from .kernels.cuda.cublas import handle_in_use

        cuda = self.xp.cuda
        stream, _ = _streams(self.xp, cuda.runtime.getDevice())
        with stream:
            handle_in_use(self.xp)  # made now where there is none yet, which is not allowed in a capture
        with cuda.using_allocator(self.pool.malloc), _no_uploads(self.xp), stream:
            stream.begin_capture()
            now.recording = self
            try:
                yield
            except BaseException:
                now.recording = None
                with contextlib.suppress(RuntimeError):  # what was done wrong is known already
                    stream.end_capture()
                raise
            now.recording = None
            self.graph = stream.end_capture()

    def _mind_gradients(self, entry: dict[Tensor, Any]) -> None:
        """Replays leave the gradients that the step left, and go on only from what it found."""
        for leaf in self.leaves:
            found, left = entry.get(leaf), leaf.grad
            self.gradients.append((leaf, left))
            if left is found or found is None:  # added to, or made where there was none
                self.conditions.append(partial(_is_still, leaf, "grad", found))
            if left is found is not None:
                self.conditions.append(partial(_is_still, found, "array", found.array))

    # ------------------------------------------------------------ what others ask of it

    def constant(self, make: Callable[[], Any]) -> Any:
        """What `make` gives now, on another stream, which is not recorded."""
        _, aside = _streams(self.xp, self.xp.cuda.runtime.getDevice())
        now.recording = None
        try:
            with aside:
                made = make()
            aside.synchronize()
        finally:
            now.recording = self
        self.kept[id(made)] = made
        return made

    def numbers(self, key: Hashable, compute: Callable[[], Any], dtype: Any) -> Any:
        """An array on the GPU that holds in each replay what `compute` gives then."""
        if key not in self.places:
            first = np.array(compute(), dtype)
            if not self.words or not self.words[-1].has_room(first.nbytes):
                self.words.append(self.constant(lambda: _Words(self.xp)))
            here, self.places[key] = self.words[-1].take(first)

            def write() -> None:
                here[:] = compute()

            self.before.append(write)
        return self.places[key]

    def result(self, op: Any, arrays: list[Any], settings: Any, value: Any, gradients: Any) -> None:
        """Keep what an op reads and no op of this step made."""
        for x in arrays:
            if isinstance(x, gpu.arrays) and id(root(x)) not in self.made:
                self.kept[id(root(x))] = root(x)
        for x in value if type(value) is tuple else (value,):
            if isinstance(x, gpu.arrays) and id(root(x)) not in self.kept:
                self.made.add(id(root(x)))

    # ------------------------------------------------------------ replaying

    def fits(self) -> bool:
        """Whether what the step found when it was recorded is still there."""
        return all(condition() for condition in self.conditions)

    def replay(self) -> Any:
        for do in self.before:
            do()
        for words in self.words:
            words.upload()
        self.graph.launch()
        for leaf, grad in self.gradients:
            leaf.grad = grad
        return self.results


def _is_still(thing: Any, name: str, value: Any) -> bool:
    return getattr(thing, name) is value


class _Words:
    """Numbers that the host writes and kernels read, copied to the GPU together."""

    def __init__(self, xp: Any) -> None:
        self.here, self.there, self.used = np.zeros(WORDS, np.uint64), xp.zeros(WORDS, np.uint64), 0

    def has_room(self, size: int) -> bool:
        return self.used + -(-size // 8) <= WORDS

    def take(self, numbers: np.ndarray) -> tuple[np.ndarray, Any]:
        """Room for as many numbers of that dtype: where the host writes them, and where they are read."""
        part = slice(self.used, self.used + -(-numbers.nbytes // 8))
        self.used = part.stop
        views = (words[part].view(numbers.dtype)[: numbers.size] for words in (self.here, self.there))
        here, there = views
        here[:] = numbers
        return here, there

    def upload(self) -> None:
        self.there.set(self.here, array_module(self.there).cuda.get_current_stream())


@lru_cache(maxsize=16)
def _streams(xp: Any, device: int) -> tuple[Any, Any]:
    """The stream that is captured, and one for what is done meanwhile; neither waits for the default one."""
    return xp.cuda.Stream(non_blocking=True), xp.cuda.Stream(non_blocking=True)


@contextlib.contextmanager
def _no_uploads(xp: Any) -> Iterator[None]:
    """Within it CuPy cannot copy from the host by itself: a replay would copy from that memory again."""
    usual = _pinned_allocator(xp.cuda)

    def malloc(size: int) -> Any:
        if now.recording is not None:
            raise _UploadError
        return usual(size)

    xp.cuda.set_pinned_memory_allocator(malloc)
    try:
        yield
    finally:
        xp.cuda.set_pinned_memory_allocator(usual)


def _pinned_allocator(cuda: Any) -> Callable[[int], Any]:
    """The one in use. CuPy does not say which that is, but whose pool its memory is from, if any's."""
    pool = getattr(cuda.alloc_pinned_memory(1).mem, "pool", None)
    if pool is None:
        return lambda size: cuda.PinnedMemoryPointer(cuda.PinnedMemory(size), 0)
    return pool().malloc  # it refers to it weakly


# ---------------------------------------------------------------- what went wrong


class _UploadError(Exception):
    """An array of the host, or a list, that CuPy was to copy to the GPU while it was captured."""


HINTS = {
    "cuBLAS": "CuPy's products cannot be. pip install nvmath-python, with which they are minigrad's own.",
    "": "It waits for the GPU, which runs nothing while a step is recorded: do it outside the step.",
}


def _is_the_gpus(error: BaseException) -> bool:
    """Whether it was raised because a stream was captured."""
    return isinstance(error, _UploadError) or "captur" in str(error).lower()


def _explain(error: BaseException) -> NoReturn:
    """Name the user's line."""
    place = _users_line(error)
    if isinstance(error, _UploadError):
        what, hint = (
            "a copy of a NumPy array or a list to the GPU",
            "Pass it as an argument, or make it a Tensor before.",
        )
    else:
        what = str(error).partition("\n")[0].rstrip(".")
        hint = next(hint for word, hint in HINTS.items() if word in what)
    try:
        cannot(what, place, hint)
    except CaptureError as named:
        raise named from error


def _users_line(error: BaseException) -> str:
    """`file:line` of the innermost place in the step that is in no library of arrays."""
    frames = traceback.extract_tb(error.__traceback__)
    start = max(i for i, frame in enumerate(frames) if frame.filename == __file__ and frame.name == "record")
    users = [frame for frame in frames[start + 1 :] if not _is_a_librarys(frame.filename)]
    return f"{users[-1].filename}:{users[-1].lineno}" if users else "a line that caught the error and went on"


def _is_a_librarys(file: str) -> bool:
    folders = {Path(str(library.__file__)).parent for library in (gpu.library, np)}
    return file in LIBRARY or file.endswith((".pyx", ".pxi")) or not folders.isdisjoint(Path(file).parents)
