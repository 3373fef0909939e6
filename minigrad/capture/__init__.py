"""A training step recorded once, and replayed without its Python.

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

A small step computes in less time than Python takes to say what. The first two calls run as they are: they
compile kernels and make the optimizer's state. The third is recorded: on a GPU as a CUDA graph (`graph`),
on the CPU as a list of calls over memory that was laid out once (`recording`, `plan`). From then on a call
copies its inputs and replays. A plan is confirmed first: the call after its recording runs as it is, too, and
has to be the same step (`outline`).
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

from .. import random
from ..autograd.observers import observe
from ..devices import check_device, gpu, is_array, library_of
from ..errors import ArgumentError, CaptureError
from ..kernels import active, kernels
from ..modes import Switch, modes
from ..precision import float32_matmul
from ..tensor import Tensor, as_tensor
from ..trees import flatten, leaves, map_leaves, structure
from .failures import ChangedError
from .observers import ConstantObserver, LeafObserver

if TYPE_CHECKING:
    from .graph import RecordedGraph
    from .outline import Outline
    from .plan import Plan

VALUES = (str, bytes, range, frozenset, PurePath, np.generic, np.dtype, type(None), type(...), MethodType)
WARMUP_CALLS = 2  # calls that run as they are
# signatures that are kept, the most recently used: a graph has memory of its own, plans share theirs
MOST_GRAPHS, MOST_PLANS = 16, 64


class Step:
    """A function of a user's, called with its positional arguments and its named ones."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, inputs: Any, named: Any) -> Any:
        return self.function(*inputs, **named)


class capture:
    """`step_fn`, a training step, to be recorded.

    NumPy arrays among the arguments come to it as Tensors. These and other Tensors are copied into memory
    that stays. Another shape, dtype or structure records anew, and so does another value of any other
    argument, another seed, or a state that was loaded into the optimizer.

    It returns the same Tensors each time, which the next call overwrites: `.item()` or `.clone()` keeps their
    numbers. `.grad` is that of the latest call, too.

    A replay runs no Python: what the step reads besides its arguments is what it was when it was recorded.
    The learning rate, schedules (`scheduler.step()`), counts of steps and dropout's draws go on as without
    capture. Change a model's state in place, and call `random.set_step()` outside. What
    cannot be recorded is a CaptureError that names its line, and leaves everything as it was before the call:
    `.item()` and all else by which Python may decide, numbers drawn by NumPy, float16's GradScaler. On a GPU
    matrix products need nvmath-python (pip install nvmath-python). Within `detect_anomaly()` the step runs as
    it is.

    On the CPU `print(step.plan)` shows the calls of the latest signature.

    The device is that of what the first call computes, unless `device` names it.
    """

    def __init__(self, step_fn: Callable[..., Any], device: str | None = None) -> None:
        later = inspect.isgeneratorfunction(step_fn) or inspect.iscoroutinefunction(step_fn)
        if not callable(step_fn) or later:
            raise ArgumentError(
                f"mg.capture records a function that makes a training step when it is called, and was given "
                f"{step_fn!r}.\nPass such a function itself: step = mg.capture(step)."
            )
        self.step_fn = Step(step_fn)
        self.device: str | None = None if device is None else check_device(device)
        self.steps: OrderedDict[Hashable, CapturedStep] = OrderedDict()
        self.keys: dict[Hashable, Hashable] = {}  # of steps, by what `_kinds` gives
        self.pool: Any = None  # the memory of all graphs or plans

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        kinds = None if named or self.device != "cpu" or modes.observers else _kinds(inputs)
        step = self.steps.get(self.keys.get(kinds)) if kinds is not None else None
        if step is not None:
            self.steps.move_to_end(self.keys[kinds])
            return step.of_arrays(inputs)
        _refuse_gradients([*flatten(inputs), *flatten(named)])
        arguments = map_leaves(lambda x: as_tensor(x) if is_array(x) else x, (inputs, named))
        if modes.observers and self.device == "cpu":  # within another captured step, too
            return self.step_fn(*arguments)
        if self.device is None:
            observer = LeafObserver()  # where the inputs belong shows only as the step computes
            with observe(observer), Switch(modes, "data_moves", True):
                results = self.step_fn(*arguments)
            self.device = observer.device
            self._step_for(arguments).calls = 1
            return results
        step = self._step_for(arguments)
        if kinds is not None:
            self.keys[kinds] = next(reversed(self.steps))
        return step(arguments)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Of an object whose method it is: called with that first."""
        return self if owner is None else MethodType(self, owner)

    def _step_for(self, arguments: tuple[Any, ...]) -> CapturedStep:
        """The step for arguments of this signature; the least recently used signature is forgotten."""
        assert self.device is not None
        xp = library_of(self.device)
        key = _signature(arguments, kernels(xp.empty(0)))
        if self.pool is None:
            from .layout import Space

            self.pool = Space() if xp is np else xp.cuda.MemoryPool()
        step = self.steps.pop(key, None) or CapturedStep(self.step_fn, arguments, xp, self.pool)
        self.steps[key] = step
        if len(self.steps) > (MOST_PLANS if xp is np else MOST_GRAPHS):
            self.steps.popitem(last=False)
            self.keys = {kinds: key for kinds, key in self.keys.items() if key in self.steps}
        return step

    @property
    def plan(self) -> Any:
        """What the latest call replayed: on the CPU a `Plan`; None before the third call."""
        return next(reversed(self.steps.values())).graph if self.steps else None

    @property
    def recordings(self) -> int:
        """How many graphs there are to replay; a plan counts before the next call has confirmed it."""
        return sum(step.graph is not None for step in self.steps.values())


def _refuse_gradients(inputs: list[tuple[str, Any]]) -> None:
    for path, x in inputs:
        if isinstance(x, Tensor) and x.requires_grad:
            raise CaptureError(
                f"inputs{path} of a captured step requires a gradient, which would be lost.\n"
                f"Pass data; parameters are what the step refers to itself."
            )


def _signature(arguments: tuple[Any, ...], kernels_in_use: Hashable) -> Hashable:
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
        kernels_in_use,
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


def _kinds(inputs: tuple[Any, ...]) -> Hashable:
    """A signature that is found in less time, if all arguments are arrays on the CPU or Tensors of such."""
    mode, draws = modes.__dict__, random.in_use.generator
    kinds: list[Hashable] = [
        mode["grad_enabled"],
        mode["fused"],
        mode["autocast_dtype"],
        draws.first_seed,
        draws.row,
    ]
    for x in inputs:
        array = x.array if type(x) is Tensor and not x._requires_grad else x
        if type(array) is not np.ndarray:
            return None
        kinds += (array.shape, array.dtype.num)
    return float32_matmul.precision, active.cpu, *kinds


class CapturedStep:
    """A step with arguments of one signature: buffers for its inputs, and its graph once it is recorded."""

    def __init__(self, step_fn: Step, arguments: tuple[Any, ...], xp: Any, pool: Any) -> None:
        self.step_fn, self.xp, self.pool = step_fn, xp, pool
        self.calls, self.observer = 0, LeafObserver()
        self.same_modes: Callable[[], bool] = lambda: True  # of modules, as in the call before
        self.graph: RecordedGraph | Plan | None = None
        self.unconfirmed: tuple[Plan, Outline] | None = None  # a plan that the next call has to confirm
        buffer = lambda x: Tensor(xp.empty(x.shape, x.dtype)) if isinstance(x, Tensor) else x
        self.arguments = map_leaves(buffer, arguments)  # others are kept: a signature may hold their ids
        self.buffers = [x.array for x in leaves(self.arguments) if isinstance(x, Tensor)]

    def of_arrays(self, inputs: tuple[Any, ...]) -> Any:
        """The step of these arrays, or Tensors, of its signature."""
        for buffer, x in zip(self.buffers, inputs, strict=True):
            buffer[...] = x.array if type(x) is Tensor else x
        return self.run()

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        self._fill_buffers(arguments)
        return self.run()

    def run(self) -> Any:
        """The step of what its buffers hold."""
        if self.graph is not None and not self.graph.is_valid():
            self.calls, self.graph, self.unconfirmed = 0, None, None
        if self.graph is None or self.unconfirmed or modes.observers:
            return self._run_python()
        return self.graph.replay()

    def _run_python(self) -> Any:
        """The step as it is, recorded if it is time; what it does to its arguments stays with this call."""
        arguments = map_leaves(lambda x: Tensor(x.array) if isinstance(x, Tensor) else x, self.arguments)
        if modes.observers:  # they look at each result, as `detect_anomaly` does
            return self.step_fn(*arguments)
        self.calls += 1
        if self.xp is np and self.calls > WARMUP_CALLS and not self.same_modes():
            self.calls = WARMUP_CALLS  # what the recording is compared with
        if self.calls <= WARMUP_CALLS:
            if self.xp is np and self.calls == WARMUP_CALLS:
                return self._run_observed(arguments)
            with observe(self.observer):
                return self.step_fn(*arguments)
        if isinstance(self.observer, ConstantObserver):
            from .recording import confirm, record

            try:
                if self.unconfirmed is None:
                    plan, outline = record(self.step_fn, arguments, self.observer, self.pool)
                    self.graph, self.unconfirmed = plan, (plan, outline)
                    return plan.results
                results = confirm(self.step_fn, arguments, self.observer, *self.unconfirmed)
            except CaptureError as error:
                self.graph = self.unconfirmed = None
                if isinstance(error, ChangedError):  # the next call, which runs as it is, is what counts
                    self.calls = WARMUP_CALLS - 1
                raise
            self.observer, self.unconfirmed = LeafObserver(), None
            return results
        if self.graph is None:
            from .graph import RecordedGraph  # imports the CUDA kernels, so only with a GPU

            graph = RecordedGraph(self.xp, self.pool, self.observer.leaves)
            graph.record(self.step_fn, arguments)
            self.graph = graph
        return self.graph.replay()

    def _run_observed(self, arguments: tuple[Any, ...]) -> Any:
        """The step as it is, and what the recording in the next call is compared with."""
        from .guards import modules_noted, same_modes

        self.observer, modules = ConstantObserver(self.observer.leaves), dict[Any, None]()
        with observe(self.observer), modules_noted(modules):
            results = self.step_fn(*arguments)
        self.same_modes = same_modes(modules)
        return results

    def _fill_buffers(self, arguments: tuple[Any, ...]) -> None:
        """Copy inputs to where the step reads them."""
        stream = None if self.xp is np else self.xp.cuda.get_current_stream()
        for buffer, x in zip(leaves(self.arguments), leaves(arguments), strict=True):
            if not isinstance(x, Tensor):
                continue
            if stream is None or isinstance(x.array, gpu.arrays):
                buffer.array[...] = x.array
            else:
                buffer.array.set(np.ascontiguousarray(x.array).reshape(x.shape), stream)
