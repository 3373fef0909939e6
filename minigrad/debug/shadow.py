"""One training step on two devices: every operation, gradient and update is computed on both, from the same
numbers, and the first that differs is named.

Each computation gets the inputs that it has in the step, so rounding does not add up: what differs is the op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.devices import check_device, device_of, is_array, on_cpu, on_device
from ..core.dtypes import finfo, is_floating
from ..core.errors import OptionError
from ..core.frames import caller, where
from ..core.node import Node
from ..core.observers import Observer, observe, unobserved
from ..graph.tape import pulled_places
from ..ops.arithmetic import to_device
from ..optim import Optimizer

TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}  # of the largest number


@dataclass
class Shadow:
    """The result of `shadow`: what was compared. `first` says what differed first, "" if nothing did.

    True if nothing differed.
    """

    operations: int = 0
    gradients: int = 0
    updates: int = 0
    first: str = ""

    @property
    def passed(self) -> bool:
        return not self.first

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        done = f"{self.operations} operations, {self.gradients} gradients and {self.updates} updates"
        return f"{self.first}\nIt is the first of {done}." if self.first else f"{done} are the same on both."


def shadow(step_fn: Callable[[], Any], other: str | None = None, rtol: float | None = None) -> Shadow:
    """Run `step_fn()`, a training step, once, and each of its computations on the `other` device too.

    By default that is the CPU for what the step computes on a GPU, and a GPU for the CPU. Numbers differ if
    they are further apart than `rtol` times the largest in their array: by default 1e-9 in float64, 1e-4 in
    float32. What rounding leaves of sums that cancel is not such a difference. A step that runs only on
    `other` is an OptionError.

        def step():
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()

        print(mg.shadow(step))
    """
    comparison = _DeviceComparison(other and check_device(other), rtol)
    with observe(comparison), comparison.optimizers():
        step_fn()
    if comparison.skipped and not comparison.report.operations + comparison.report.updates:
        raise OptionError(
            f"the whole step ran on {comparison.other}, the device to compare it with.\n"
            f"Pass another device, or none: then it is the CPU for a GPU, and a GPU for the CPU."
        )
    return comparison.report


class _DeviceComparison(Observer):
    """Computes on the other device what it observes, and compares."""

    def __init__(self, other: str | None, rtol: float | None) -> None:
        self.other = other
        self.rtol = rtol
        self.report = Shadow()
        self.counterparts: dict[int, tuple[Any, Callable]] = {}  # by id of a gradient function: both devices'
        self.skipped = 0  # computations on `other` itself

    def on_result(
        self, op: Any, arrays: Sequence[Any], settings: dict[str, Any], value: Any, gradients: Any
    ) -> None:
        if op is to_device.op or not hasattr(op, "rule") or self._is_on_other(arrays):
            return
        self.report.operations += 1
        with unobserved(), np.errstate(all="ignore"):
            expected, other_gradients = op.run(self._moved(list(arrays)), self._moved(settings))
        name = f"{op.name} at {where(caller())}"
        for a, b in zip(_several(value), _several(expected), strict=True):
            self._compare(name, a, b)
        for own, other in zip(_several(gradients), _several(other_gradients), strict=True):
            if own is not None:
                self.counterparts[id(own)] = own, other

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        functions = [self.counterparts.get(id(f), (None, None))[1] for f in _several(node.gradients)]
        if not any(functions):
            return
        moved = self._moved(g)
        rounding = _rounding_of_sum(g)
        with unobserved(), np.errstate(all="ignore"):
            if type(node.gradients) is tuple:
                expected = [f and f(moved) for f in functions]
            else:
                (function,) = functions
                expected = list(function(moved, node.needs))  # type: ignore[misc]
        for place, r in pulled_places(node, contributions):
            if expected[place] is not None and is_array(r):
                self.report.gradients += 1
                self._compare(f"the gradient of {node}, for its input {place}", r, expected[place], rounding)

    # ------------------------------------------------------------ updates

    @contextlib.contextmanager
    def optimizers(self) -> Iterator[None]:
        """Compute every parameter update on both devices."""
        updates = {kind: vars(kind)["update"] for kind in _kinds(Optimizer) if "update" in vars(kind)}
        try:
            for kind, update in updates.items():
                kind.update = self._on_both(update)
            yield
        finally:
            for kind, update in updates.items():
                kind.update = update

    def _on_both(self, update: Callable) -> Callable:
        def both(optimizer: Any, p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
            if self._is_on_other([p]):
                update(optimizer, p, g, state, group)
                return
            other_p = self._moved(p, copy=True)
            other_state = self._moved(state, copy=True)
            other_g = self._moved(g)
            update(optimizer, p, g, state, group)
            update(optimizer, other_p, other_g, other_state, group)
            self.report.updates += 1
            for name, a, b in (("", p, other_p), *((f" ({k})", state[k], other_state[k]) for k in state)):
                self._compare(f"{type(optimizer).__name__}.step{name} of shape {p.shape}", a, b)

        return both

    # ------------------------------------------------------------ both

    def _moved(self, thing: Any, copy: bool = False) -> Any:
        """Arrays, also in lists, tuples and dicts, on the other device; with `copy` new ones."""
        if is_array(thing):
            there = on_device(thing, self._other(thing))
            return there.copy() if copy and there is thing else there
        if type(thing) in (list, tuple):
            return type(thing)(self._moved(x, copy) for x in thing)
        return {k: self._moved(x, copy) for k, x in thing.items()} if type(thing) is dict else thing

    def _is_on_other(self, arrays: Sequence[Any]) -> bool:
        """Whether these are on the other device already."""
        found = {device_of(x) for x in arrays if is_array(x)} == {self.other}
        self.skipped += found
        return found

    def _other(self, array: Any) -> str:
        if self.other is not None:
            return self.other
        return check_device("cuda") if device_of(array) == "cpu" else "cpu"

    def _compare(self, name: str, a: Any, b: Any, rounding: float = 0.0) -> None:
        if self.report.first or not (is_array(a) or is_array(b)):
            return
        here = device_of(a) if is_array(a) else "cpu"
        a, b = np.asarray(on_cpu(a)), np.asarray(on_cpu(b))
        what = f"{name}: {a.dtype}{list(a.shape)}"
        if a.shape != b.shape or a.dtype != b.dtype:
            self.report.first = f"{what} on {here}, {b.dtype}{list(b.shape)} on the other device."
            return
        wrong = _differ(a, b, self.rtol, rounding)
        if wrong.any():
            index = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
            self.report.first = (
                f"{what} differs in {int(wrong.sum())} of {a.size} elements: "
                f"at {list(index)} it is {a[index]} on {here}, and {b[index]} on the other device."
            )


def _rounding_of_sum(g: Any) -> float:
    """What rounding may leave of a sum of all numbers of a gradient. The gradient of a bias before softmax is
    such a sum, which is 0 but for rounding."""
    arrays = [np.asarray(on_cpu(x)) for x in (g if type(g) in (list, tuple) else [g]) if is_array(x)]
    sums = [np.abs(x.astype(np.float64)).sum() * finfo(x.dtype).eps for x in arrays if is_floating(x.dtype)]
    return float(sum(x for x in sums if np.isfinite(x)))


def _differ(a: np.ndarray, b: np.ndarray, rtol: float | None, rounding: float) -> np.ndarray:
    """A mask of the elements that differ by more than the dtype's tolerance, and more than `rounding`."""
    if not is_floating(a.dtype):
        return np.asarray(a != b)
    tolerance = TOLERANCES[str(a.dtype)] if rtol is None else rtol
    x = a.astype(np.float64)
    y = b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    size = np.abs(y[finite]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(~(same | (finite & (np.abs(x - y) <= tolerance * size + rounding))))


def _several(value: Any) -> Sequence[Any]:
    """A tuple unchanged, a single value as a 1-tuple, None as ()."""
    return value if type(value) is tuple else () if value is None else (value,)


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    """A class and all its subclasses."""
    yield kind
    for sub in kind.__subclasses__():
        yield from _kinds(sub)
