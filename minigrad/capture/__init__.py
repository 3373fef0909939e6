"""Capture a training step as a CUDA graph, and replay it without running its Python code.

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

A GPU computes a small step in less time than Python takes to launch it. The first two calls run normally:
they compile kernels and create the optimizer's state. The third call is captured (see graph.py). From then
on, a call copies its inputs and replays the graph.
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
    from .graph import CapturedGraph

VALUES = (str, bytes, range, frozenset, PurePath, np.generic, np.dtype, type(None), type(...), MethodType)
WARMUP_CALLS = 2  # the number of calls that run normally
MOST_GRAPHS = 16  # how many of the most recently used graphs are kept, since each needs memory


class capture:
    """Return a function like `step_fn`, a training step, that captures it on a GPU and then replays it.

    NumPy arrays among the arguments are converted to Tensors. All Tensors are copied into fixed memory. The
    step is captured again if the arguments have another shape, dtype or structure, if an argument that is not
    an array has another value, for another seed, and after a state is loaded into the optimizer.

    Each call returns the same Tensors, which the next call overwrites; `.item()` or `.clone()` saves their
    values. Likewise, `.grad` is overwritten.

    A replay runs no Python: everything that the step reads, other than its arguments, has the value that it
    had in the capture. The learning rate, schedules (`scheduler.step()`), step counts and dropout's random
    numbers continue as without capture. Change a model's state in place, and call `random.set_step()` outside
    the step. Code that cannot be captured raises a CaptureError with its line: `.item()` and everything else
    that waits for the GPU, random numbers drawn on the CPU, float16's GradScaler. Matrix products need
    nvmath-python (pip install nvmath-python). Within `detect_anomaly()`, and on a CPU, the step runs
    normally.

    The default `device` is the one on which the first call computes.
    """

    def __init__(self, step_fn: Callable[..., Any], device: str | None = None) -> None:
        later = inspect.isgeneratorfunction(step_fn) or inspect.iscoroutinefunction(step_fn)
        if not callable(step_fn) or later:
            raise ArgumentError(
                f"mg.capture needs a function that runs a training step, got {step_fn!r}.\n"
                f"Pass the function itself: step = mg.capture(step)."
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
        """Bind the captured function to an object, as a method."""
        return self if owner is None else MethodType(self, owner)

    def _find_device(self, arguments: tuple[Any, ...]) -> Any:
        """Run the first call, to find the device on which the step computes."""
        observer = LeafObserver()
        inputs, named = arguments
        with observe(observer), Switch(modes, "data_moves", True):
            results = self.step_fn(*inputs, **named)
        self.device = observer.device
        if self.device != "cpu":
            self._step_for(arguments).calls = 1
        return results

    def _step_for(self, arguments: tuple[Any, ...]) -> CapturedStep:
        """Return the step for arguments of this signature; drop the least recently used of too many."""
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
        """The graph that the latest call replayed; None before the third call or on a CPU."""
        return next(reversed(self.steps.values())).graph if self.steps else None

    @property
    def recordings(self) -> int:
        """The number of graphs that have been captured and kept."""
        return sum(step.graph is not None for step in self.steps.values())


def _check_no_gradients(inputs: list[tuple[str, Any]]) -> None:
    for path, x in inputs:
        if isinstance(x, Tensor) and x.requires_grad:
            raise CaptureError(
                f"inputs{path} of a captured step requires a gradient, which would be lost.\n"
                f"Pass only data; the step should refer to parameters directly."
            )


def _signature(arguments: tuple[Any, ...], kernels: Hashable) -> Hashable:
    """Return the key of a graph: the kinds of arrays, values of other arguments, seed, modes and kernels."""
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
    """Return a key for an argument that is not an array: its value, or its id() if it is mutable."""
    if isinstance(x, Number | slice):
        return repr(x)  # distinguishes 0.0 from -0.0
    if getattr(vars(type(x)).get("__dataclass_params__"), "frozen", False):
        return tuple(_value(getattr(x, field.name)) for field in fields(x))
    known: Any = x if isinstance(x, VALUES) else id(x)  # the object is kept, so its id is not reused
    return known


class CapturedStep:
    """A step for arguments of one signature, with buffers for its inputs and, once captured, its graph."""

    def __init__(self, step_fn: Callable[..., Any], arguments: tuple[Any, ...], xp: Any, pool: Any) -> None:
        self.step_fn = step_fn
        self.xp = xp
        self.pool = pool
        self.calls = 0
        self.observer = LeafObserver()
        self.graph: CapturedGraph | None = None
        buffer = lambda x: Tensor(xp.empty(x.shape, x.dtype)) if isinstance(x, Tensor) else x
        self.arguments = map_leaves(buffer, arguments)  # others are kept, so that ids in a key are not reused

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        self._fill_buffers(arguments)
        if self.graph is not None and not self.graph.is_valid():
            self.calls = 0
            self.graph = None
        if self.graph is None or modes.observers:
            return self._run_python()
        return self.graph.replay()

    def _run_python(self) -> Any:
        """Run the step or, after the warm-up, capture it. `step_fn` gets new Tensors that it may change."""
        inputs, named = map_leaves(lambda x: Tensor(x.array) if isinstance(x, Tensor) else x, self.arguments)
        if modes.observers:  # such as `detect_anomaly`, which checks each result
            return self.step_fn(*inputs, **named)
        self.calls += 1
        if self.calls <= WARMUP_CALLS:
            with observe(self.observer):
                return self.step_fn(*inputs, **named)
        from .graph import CapturedGraph  # imports the CUDA kernels, so only with a GPU

        graph = CapturedGraph(self.xp, self.pool, self.observer.leaves)
        graph.capture(self.step_fn, inputs, named)
        self.graph = graph
        return graph.replay()

    def _fill_buffers(self, arguments: tuple[Any, ...]) -> None:
        """Copy inputs to the buffers that the step reads."""
        stream = self.xp.cuda.get_current_stream()
        for buffer, x in zip(leaves(self.arguments), leaves(arguments), strict=True):
            if not isinstance(x, Tensor):
                continue
            if x.device != CPU:
                buffer.array[...] = x.array
            else:
                buffer.array.set(np.ascontiguousarray(x.array).reshape(x.shape), stream)
