"""`shadow`, which runs a training step on two devices, and reports the first difference.

Each operation, gradient and update runs on both devices with the same inputs, those of the step. So rounding
errors do not accumulate, and a difference is due to the op itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.backward import Node
from ..core.devices import check_device, device_of, is_array, on_cpu, on_device
from ..core.dtypes import finfo, is_floating
from ..core.errors import OptionError
from ..core.frames import caller, where
from ..core.observers import Observer, observe, unobserved
from ..graph.tape import pulled_places
from ..ops.arithmetic import to_device
from ..optim import Optimizer

TOLERANCES = {
    "float64": 1e-9,
    "float32": 1e-4,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}  # relative to the largest number of an array


@dataclass
class Shadow:
    """The result of `shadow`: the number of comparisons, and a description of the first difference.

    It is true, and `first` is empty, if there is no difference.
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
        return f"{self.first}\nCompared: {done}." if self.first else f"{done} are the same on both."


def shadow(step_fn: Callable[[], Any], other: str | None = None, rtol: float | None = None) -> Shadow:
    """Run `step_fn()`, a training step, once, and compare each of its computations with another device.

    By default, the `other` device is the CPU for computations on a GPU, and a GPU for computations on the
    CPU. Two numbers differ if they are further apart than `rtol` times the largest number in their array,
    plus the rounding error of sums that cancel. The default `rtol` is 1e-9 in float64 and 1e-4 in float32. A
    step that runs only on `other` raises an OptionError.

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
            f"Pass another device, or None: then it is the CPU for a GPU, and a GPU for the CPU."
        )
    return comparison.report


class _DeviceComparison(Observer):
    """An observer that repeats each computation on the other device, and compares the results."""

    def __init__(self, other: str | None, rtol: float | None) -> None:
        self.other = other
        self.rtol = rtol
        self.report = Shadow()
        # id(f) -> gradient function f, its counterpart
        self.counterparts: dict[int, tuple[Any, Callable]] = {}
        self.skipped = 0  # how many computations ran on `other` itself

    def on_result(
        self, op: Any, arrays: Sequence[Any], settings: dict[str, Any], value: Any, gradients: Any
    ) -> None:
        if op is to_device.op or not hasattr(op, "rule") or self._is_on_other(arrays):
            return
        self.report.operations += 1
        with unobserved(), np.errstate(all="ignore"):
            expected, other_gradients = op.run(self._to_other(list(arrays)), self._to_other(settings))
        name = f"{op.name} at {where(caller())}"
        for a, b in zip(_as_tuple(value), _as_tuple(expected), strict=True):
            self._compare(name, a, b)
        for own, other in zip(_as_tuple(gradients), _as_tuple(other_gradients), strict=True):
            if own is not None:
                self.counterparts[id(own)] = own, other

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        functions = [self.counterparts.get(id(f), (None, None))[1] for f in _as_tuple(node.gradients)]
        if not any(functions):
            return
        moved = self._to_other(g)
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
        """Context manager in which every parameter update is computed on both devices."""
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
            other_p = self._to_other(p, copy=True)
            other_state = self._to_other(state, copy=True)
            other_g = self._to_other(g)
            update(optimizer, p, g, state, group)
            update(optimizer, other_p, other_g, other_state, group)
            self.report.updates += 1
            for name, a, b in (("", p, other_p), *((f" ({k})", state[k], other_state[k]) for k in state)):
                self._compare(f"{type(optimizer).__name__}.step{name} of shape {p.shape}", a, b)

        return both

    # ------------------------------------------------------------ both devices

    def _to_other(self, thing: Any, copy: bool = False) -> Any:
        """Move arrays, also those in lists, tuples and dicts, to the other device; `copy` always copies."""
        if is_array(thing):
            there = on_device(thing, self._other(thing))
            return there.copy() if copy and there is thing else there
        if type(thing) in (list, tuple):
            return type(thing)(self._to_other(x, copy) for x in thing)
        return {k: self._to_other(x, copy) for k, x in thing.items()} if type(thing) is dict else thing

    def _is_on_other(self, arrays: Sequence[Any]) -> bool:
        """Return whether the arrays are already on the other device; count these cases."""
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
    """Return the possible rounding error of the sum of all numbers of a gradient.

    Some gradients are sums that are 0 except for rounding, such as that of a bias before softmax.
    """
    arrays = [np.asarray(on_cpu(x)) for x in (g if type(g) in (list, tuple) else [g]) if is_array(x)]
    sums = [np.abs(x.astype(np.float64)).sum() * finfo(x.dtype).eps for x in arrays if is_floating(x.dtype)]
    return float(sum(x for x in sums if np.isfinite(x)))


def _differ(a: np.ndarray, b: np.ndarray, rtol: float | None, rounding: float) -> np.ndarray:
    """Return a mask of the elements that differ by more than the dtype's tolerance plus `rounding`."""
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


def _as_tuple(value: Any) -> Sequence[Any]:
    """Return a tuple unchanged, a single value as a 1-tuple, and None as ()."""
    return value if type(value) is tuple else () if value is None else (value,)


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    """Yield a class and all its subclasses."""
    yield kind
    for sub in kind.__subclasses__():
        yield from _kinds(sub)
