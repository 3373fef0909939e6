"""One training step on two devices at once: every operation, gradient and update is computed on both, from
the same numbers, and the first that differs is named.

Since each is given what the step itself has at that place, rounding does not pile up: what differs is the op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd.observers import observe, unobserved
from ..devices import check_device, device_of, is_array, is_floating, on_cpu, on_device
from ..errors import OptionError
from ..nodes import Node
from ..ops.arithmetic import to_device
from ..optim import Optimizer
from ..versions import caller, where

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}  # of the largest number


@dataclass
class Shadow:
    """How far a step was the same on both devices. `first` says which op differed first, "" if none did."""

    operations: int = 0
    gradients: int = 0
    updates: int = 0
    first: str = ""

    @property
    def passed(self) -> bool:
        return not self.first

    def __str__(self) -> str:
        done = f"{self.operations} operations, {self.gradients} gradients and {self.updates} updates"
        return f"{self.first}\nOf {done} it is the first." if self.first else f"{done} are the same on both."


def shadow(step_fn: Callable[[], Any], other: str | None = None, rtol: float | None = None) -> Shadow:
    """Run `step_fn()`, a training step, once, and each of its computations on the `other` device too.

    That is the CPU for what the step computes on a GPU, and the other way round. Numbers differ where they
    are further apart than `rtol` times the largest of their array: by default 1e-9 in float64, 1e-4 in
    float32. A step that computes on `other` alone is an OptionError.

        def step():
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()

        print(mg.shadow(step))
    """
    watcher = _Watcher(other and check_device(other), rtol)
    with observe(watcher), watcher.optimizers():
        step_fn()
    if watcher.passed_by and not watcher.report.operations + watcher.report.updates:
        raise OptionError(
            f"the step computed on {watcher.other} alone, the device that it was to be compared with.\n"
            f"Name another one, or none: then it is the CPU for a GPU, and a GPU for the CPU."
        )
    return watcher.report


class _Watcher:
    def __init__(self, other: str | None, rtol: float | None) -> None:
        self.other, self.rtol, self.report = other, rtol, Shadow()
        self.twins: dict[int, tuple[Any, Callable]] = {}  # by gradient function: it, and the other device's
        self.passed_by = 0  # computations on `other` itself

    # ------------------------------------------------------------ operations

    def on_result(
        self, op: Any, arrays: list[Any], settings: dict[str, Any], value: Any, gradients: Any
    ) -> None:
        """Compute what a rule has just computed once more."""
        if op is to_device.op or not hasattr(op, "rule") or self._passes_by(arrays):
            return
        self.report.operations += 1
        with unobserved(), np.errstate(all="ignore"):
            twin, back = op.run(self._moved(arrays), self._moved(settings))
        whose = f"{op.name} at {where(caller())}"
        for a, b in zip(_several(value), _several(twin), strict=True):
            self._compare(whose, a, b)
        for own, others in zip(_functions(gradients), _functions(back), strict=True):
            if own is not None:
                self.twins[id(own)] = own, others

    # ------------------------------------------------------------ gradients

    def on_backward_start(self, tensor: Any, g: Any) -> None:
        """What a step begins backward with is its own."""

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        """Compute the gradients that a node sends to its inputs once more."""
        gradients = node.gradients
        twins = [self.twins.get(id(f), (None, None))[1] for f in _functions(gradients)]
        places = [i for i, needed in enumerate(node.needs) if needed]
        elsewhere = self._moved(g)
        with np.errstate(all="ignore"):
            if type(gradients) is tuple:
                found = [None if twin is None else twin(elsewhere) for twin in twins]
            else:
                (twin,) = twins
                found = [None] * len(node.needs) if twin is None else list(twin(elsewhere, node.needs))
        if type(gradients) is tuple:
            places = [i for i, f in enumerate(gradients) if f is not None]
        else:
            places = [i for i in places if found[i] is not None or twin is None]
        for place, (_, r) in zip(places, contributions, strict=False):
            if found[place] is not None and is_array(r):
                self.report.gradients += 1
                self._compare(f"the gradient of {node}, for its input {place}", r, found[place])

    # ------------------------------------------------------------ updates

    @contextlib.contextmanager
    def optimizers(self) -> Iterator[None]:
        """Within it, every update of parameters is computed twice."""
        updates = {kind: vars(kind)["update"] for kind in _kinds(Optimizer) if "update" in vars(kind)}
        try:
            for kind, update in updates.items():
                kind.update = self._twice(update)
            yield
        finally:
            for kind, update in updates.items():
                kind.update = update

    def _twice(self, update: Callable) -> Callable:
        def both(optimizer: Any, p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
            if self._passes_by([p]):
                update(optimizer, p, g, state, group)
                return
            twin, of_twin = self._moved(p, copy=True), self._moved(state, copy=True)
            slope = self._moved(g)
            update(optimizer, p, g, state, group)
            update(optimizer, twin, slope, of_twin, group)
            self.report.updates += 1
            for name, a, b in (("", p, twin), *((f" ({k})", state[k], of_twin[k]) for k in state)):
                self._compare(f"{type(optimizer).__name__}.step{name} of shape {p.shape}", a, b)

        return both

    # ------------------------------------------------------------ both

    def _moved(self, thing: Any, copy: bool = False) -> Any:
        """Arrays, in whatever holds them, on the other device; with `copy` in memory of their own."""
        if is_array(thing):
            there = on_device(thing, self._other(thing))
            return there.copy() if copy and there is thing else there
        if type(thing) in (list, tuple):
            return type(thing)(self._moved(x, copy) for x in thing)
        return {k: self._moved(x, copy) for k, x in thing.items()} if type(thing) is dict else thing

    def _passes_by(self, arrays: list[Any]) -> bool:
        """Whether these are on the other device already."""
        there = {device_of(x) for x in arrays if is_array(x)} == {self.other}
        self.passed_by += there
        return there

    def _other(self, array: Any) -> str:
        if self.other is not None:
            return self.other
        return check_device("cuda") if device_of(array) == "cpu" else "cpu"

    def _compare(self, whose: str, a: Any, b: Any) -> None:
        if self.report.first or not (is_array(a) or is_array(b)):
            return
        here = device_of(a) if is_array(a) else "cpu"
        a, b = np.asarray(on_cpu(a)), np.asarray(on_cpu(b))
        said = f"{whose}: {a.dtype}{list(a.shape)}"
        if a.shape != b.shape or a.dtype != b.dtype:
            self.report.first = f"{said} on {here}, {b.dtype}{list(b.shape)} on the other device."
            return
        wrong = _apart(a, b, self.rtol)
        if wrong.any():
            index = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
            self.report.first = (
                f"{said} differs in {int(wrong.sum())} of {a.size} elements: "
                f"at {list(index)} it is {a[index]} on {here}, and {b[index]} on the other device."
            )


def _apart(a: np.ndarray, b: np.ndarray, rtol: float | None) -> np.ndarray:
    """Where two arrays differ by more than their dtype explains."""
    if not is_floating(a.dtype):
        return np.asarray(a != b)
    tolerance = TOLERANCES[str(a.dtype)] if rtol is None else rtol
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    size = np.abs(y[finite]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(~(same | (finite & (np.abs(x - y) <= tolerance * size))))


def _several(value: Any) -> Sequence[Any]:
    return value if type(value) is tuple else (value,)


def _functions(gradients: Any) -> Sequence[Any]:
    """A rule's gradient functions; none where it has none."""
    if gradients is None:
        return ()
    return gradients if type(gradients) is tuple else (gradients,)


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    """A class and all that are made from it."""
    yield kind
    for sub in kind.__subclasses__():
        yield from _kinds(sub)
