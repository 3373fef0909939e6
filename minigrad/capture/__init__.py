"""A training step recorded on a GPU as a CUDA graph, and replayed without its Python.

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

A GPU computes a small step in less time than Python takes to say what. The first two calls run as they are:
they compile kernels and make the optimizer's state. The third is recorded (`graph`). From then on a call
copies its inputs and replays.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import fields
from numbers import Number
from pathlib import PurePath
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import random
from ..core.devices import CPU, check_device, device_of, is_array, library_of
from ..core.errors import ArgumentError, CaptureError
from ..core.kernels import kernels_in_use
from ..core.modes import Switch, modes
from ..core.observers import observe
from ..core.precision import float32_matmul
from ..core.tensor import Tensor, as_tensor
from ..core.trees import flatten, leaves, map_leaves, structure
from .observers import LeafObserver

if TYPE_CHECKING:
    from .graph import RecordedGraph

VALUES = (str, bytes, range, frozenset, PurePath, np.generic, np.dtype, type(None), type(...), MethodType)
WARMUP_CALLS = 2  # calls that run as they are
MOST_GRAPHS = 16  # signatures that are kept, the most recently used: each graph has memory of its own


class capture:
    """`step_fn`, a training step, to be recorded.

    NumPy arrays among the arguments come to it as Tensors. These and other Tensors are copied into memory
    that stays. Another shape, dtype or structure records again, and so does another value of any other
    argument, another seed, or a state that was loaded into the optimizer.

    It returns the same Tensors each time, which the next call overwrites: `.item()` or `.clone()` keeps their
    numbers. `.grad` is that of the latest call, too.

    A replay runs no Python: what the step reads besides its arguments is what it was when it was recorded.
    The learning rate, schedules (`scheduler.step()`), counts of steps and dropout's draws go on as without
    capture. Change a model's state in place, and call `random.set_step()` outside. What
    cannot be recorded is a CaptureError that names its line: `.item()` and all else that waits for the GPU,
    numbers drawn on the CPU, float16's GradScaler. Matrix products need nvmath-python
    (pip install nvmath-python). Within `detect_anomaly()` the step runs normally.

    On a CPU there is nothing to record: the step runs normally.

    The device is that of what the first call computes, unless `device` names it.
    """

    def __init__(self, step_fn: Callable[..., Any], device: str | None = None) -> None:
        later = inspect.isgeneratorfunction(step_fn) or inspect.iscoroutinefunction(step_fn)
        if not callable(step_fn) or later:
            raise ArgumentError(
                f"mg.capture records a function that makes a training step when it is called, and was given "
                f"{step_fn!r}.\nPass such a function itself: step = mg.capture(step)."
            )
        self.step_fn = step_fn
        self.device: str | None = None if device is None else check_device(device)
        self.steps: OrderedDict[Hashable, CapturedStep] = OrderedDict()
        self.pool: Any = None  # the memory of all graphs

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        _check_no_gradients([*flatten(inputs), *flatten(named)])
        arguments = map_leaves(lambda x: as_tensor(x) if is_array(x) else x, (inputs, named))
        if self.device == "cpu":
            inputs, named = arguments
            return self.step_fn(*inputs, **named)
        if self.device is None:
            return self._find_device(arguments)
        return self._step_for(arguments)(arguments)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Of an object whose method it is: called with that first."""
        return self if owner is None else MethodType(self, owner)

    def _find_device(self, arguments: tuple[Any, ...]) -> Any:
        """The first call: where the inputs belong shows only as the step computes."""
        observer = LeafObserver()
        inputs, named = arguments
        with observe(observer), Switch(modes, "data_moves", True):
            results = self.step_fn(*inputs, **named)
        self.device = observer.device
        if self.device != "cpu":
            self._step_for(arguments).calls = 1
        return results

    def _step_for(self, arguments: tuple[Any, ...]) -> CapturedStep:
        """The step for arguments of this signature; the least recently used signature is forgotten."""
        assert self.device is not None
        xp = library_of(self.device)
        key = _signature(arguments, kernels_in_use(xp.empty(0)))
        if self.pool is None:
            self.pool = xp.cuda.MemoryPool()
        step = self.steps.pop(key, None) or CapturedStep(self.step_fn, arguments, xp, self.pool)
        self.steps[key] = step
        if len(self.steps) > MOST_GRAPHS:
            self.steps.popitem(last=False)
        return step

    @property
    def plan(self) -> Any:
        """The graph that the latest call replayed; None before the third call, and on a CPU."""
        return next(reversed(self.steps.values())).graph if self.steps else None

    @property
    def recordings(self) -> int:
        """How many graphs there are to replay."""
        return sum(step.graph is not None for step in self.steps.values())


def _check_no_gradients(inputs: list[tuple[str, Any]]) -> None:
    for path, x in inputs:
        if isinstance(x, Tensor) and x.requires_grad:
            raise CaptureError(
                f"inputs{path} of a captured step requires a gradient, which would be lost.\n"
                f"Pass data; parameters are what the step refers to itself."
            )


def _signature(arguments: tuple[Any, ...], kernels: Hashable) -> Hashable:
    """What a graph is recorded for: kinds of arrays, values of other arguments, the library's modes, and its
    kernels."""
    kinds: list[Hashable] = []
    for x in leaves(arguments):
        if isinstance(x, Tensor):
            kinds.append((x.shape, str(x.dtype)))
        else:
            kinds.append((type(x), _value(x)))
    draws = random.snapshot()
    settings = (
        modes.grad_enabled,
        modes.fused,
        str(modes.autocast_dtype),
        float32_matmul.precision,
        kernels,
    )
    return structure(arguments), tuple(kinds), draws.seed, draws.row, settings


def _value(x: Any) -> Hashable:
    """What says whether an argument other than an array is the same: its value, or which object it is."""
    if isinstance(x, Number | slice):
        return repr(x)  # 0.0 is not -0.0
    if getattr(vars(type(x)).get("__dataclass_params__"), "frozen", False):
        return tuple(_value(getattr(x, field.name)) for field in fields(x))
    known: Any = x if isinstance(x, VALUES) else id(x)  # which stays its own, as the object is kept
    return known


class CapturedStep:
    """A step with arguments of one signature: buffers for its inputs, and its graph once it is recorded."""

    def __init__(self, step_fn: Callable[..., Any], arguments: tuple[Any, ...], xp: Any, pool: Any) -> None:
        self.step_fn = step_fn
        self.xp = xp
        self.pool = pool
        self.calls = 0
        self.observer = LeafObserver()
        self.graph: RecordedGraph | None = None
        buffer = lambda x: Tensor(xp.empty(x.shape, x.dtype)) if isinstance(x, Tensor) else x
        self.arguments = map_leaves(buffer, arguments)  # others are kept: a signature may hold their ids

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        self._fill_buffers(arguments)
        if self.graph is not None and not self.graph.is_valid():
            self.calls = 0
            self.graph = None
        if self.graph is None or modes.observers:
            return self._run_python()
        return self.graph.replay()

    def _run_python(self) -> Any:
        """The step as it is, recorded if it is time; what it does to its arguments stays with this call."""
        inputs, named = map_leaves(lambda x: Tensor(x.array) if isinstance(x, Tensor) else x, self.arguments)
        if modes.observers:  # they look at each result, as `detect_anomaly` does
            return self.step_fn(*inputs, **named)
        self.calls += 1
        if self.calls <= WARMUP_CALLS:
            with observe(self.observer):
                return self.step_fn(*inputs, **named)
        from .graph import RecordedGraph  # imports the CUDA kernels, so only with a GPU

        graph = RecordedGraph(self.xp, self.pool, self.observer.leaves)
        graph.record(self.step_fn, inputs, named)
        self.graph = graph
        return graph.replay()

    def _fill_buffers(self, arguments: tuple[Any, ...]) -> None:
        """Copy inputs to where the step reads them."""
        stream = self.xp.cuda.get_current_stream()
        for buffer, x in zip(leaves(self.arguments), leaves(arguments), strict=True):
            if not isinstance(x, Tensor):
                continue
            if x.device != CPU:
                buffer.array[...] = x.array
            else:
                buffer.array.set(np.ascontiguousarray(x.array).reshape(x.shape), stream)
