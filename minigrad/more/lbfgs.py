"""L-BFGS: steps along -H g, where H approximates the inverse Hessian from the last steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.argument_checks import INTEGER, is_integer, raise_argument_error
from ..core.devices import array_module, on_device
from ..core.errors import OptionError, StateError
from ..core.frames import caller
from ..core.modes import enable_grad, no_grad
from ..core.tensor import Tensor
from ..optim.optimizer import Optimizer, as_array


class Point(NamedTuple):
    """A point of a line search: step length, loss, gradient, and slope along the line."""

    t: float
    loss: float
    gradient: Any
    slope: float


class LBFGS(Optimizer):
    """The quasi-Newton method of Liu and Nocedal 1989: `step(closure)` runs up to `max_iter` iterations.

    The closure clears the gradients, recomputes them and returns the loss. A step ends early if the largest
    gradient is at most `tolerance_grad`, if nothing changes by more than `tolerance_change`, or after
    `max_eval` calls of the closure. `line_search_fn` is None (steps of length `lr`) or "strong_wolfe"
    (Nocedal and Wright 2006, algorithms 3.5 and 3.6).
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
            line_search_fn=line_search_fn,
        )
        if len(self.param_groups) > 1:
            raise OptionError("LBFGS supports only one parameter group.\nPass model.parameters().")

    def check_options(self, options: Mapping[str, Any]) -> None:
        super().check_options(options)
        search, calls = options["line_search_fn"], options["max_eval"]
        if search not in (None, "strong_wolfe"):
            raise OptionError(
                f"line_search_fn must be None or 'strong_wolfe', got {search!r}.\nPass one of them."
            )
        if not is_integer(calls):  # the constructor takes None, and computes it
            raise_argument_error("max_eval", calls, INTEGER)
        for name in ("tolerance_grad", "tolerance_change"):
            if math.isnan(options[name]):
                raise OptionError(f"{name} must not be NaN.\nPass a number.")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run up to `max_iter` iterations; return the loss before the first."""
        if closure is None:
            raise OptionError(
                "LBFGS.step needs a closure.\nPass a function that computes gradients and returns the loss."
            )
        group = self.param_groups[0]
        source = caller()
        state = self.state[group["params"][0]]
        calls = 0

        def evaluate() -> tuple[Any, float, Any]:
            nonlocal calls
            calls += 1
            with enable_grad():
                value = closure()
            return value, float(value), self._gradient()

        first, loss, g = evaluate()
        if _largest(g) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            t = min(1.0, 1.0 / float(abs(g).sum())) * group["lr"] if not state else group["lr"]
            d = self._direction(g, state)
            state.update(direction=d, gradient=g, length=np.array(t))
            before = loss
            slope = float(g @ d)
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"]:
                start = self._values()

                def at(t: float, start: Any = start, d: Any = d) -> Point:
                    self._assign(start + t * d, source)
                    _, loss, g = evaluate()
                    return Point(t, loss, g, float(g @ d))

                smallest = group["tolerance_change"] / _largest(d)
                tries = max(min(group["max_eval"] - calls, 25), 1)
                t, loss, g, _ = strong_wolfe(at, Point(0.0, loss, g, slope), t, smallest, tries)
                self._assign(start + t * d, source)
            else:
                self._assign(self._values() + t * d, source)
                if iteration < group["max_iter"]:
                    _, loss, g = evaluate()
            state["length"] = np.array(t)
            if calls >= group["max_eval"] or _largest(g) <= group["tolerance_grad"]:
                break
            if min(_largest(d * t), abs(loss - before)) <= group["tolerance_change"]:
                break
        return first

    def _direction(self, g: Any, state: dict[str, Any]) -> Any:
        """Return -H g by the two-loop recursion over the stored steps s and changes of the gradient y."""
        if not state:
            return -g
        s = state["direction"] * state["length"].item()
        y = g - state["gradient"]
        curvature = float(y @ s)
        if curvature > 1e-10:
            kept = slice(1 - self.param_groups[0]["history_size"] or len(g), None)
            for name, new in (("steps", s), ("changes", y)):
                rows = state[name][kept] if name in state else new[:0].reshape(0, len(new))
                state[name] = array_module(g).concatenate([rows, new[None]])
            state["scale"] = np.array(curvature / float(y @ y))
        pairs = list(zip(state.get("steps", ()), state.get("changes", ()), strict=True))
        q = -g
        shares = []
        for s, y in reversed(pairs):
            shares.append(float(s @ q) / float(y @ s))
            q = q - shares[-1] * y
        r = q * state["scale"].item() if "scale" in state else q
        for (s, y), share in zip(pairs, reversed(shares), strict=True):
            r = r + (share - float(y @ r) / float(y @ s)) * s
        return r

    def _gradient(self) -> Any:
        """Return the gradients of all parameters as one flat array, zeros for a parameter without one."""
        params = self.param_groups[0]["params"]
        xp = array_module(params[0].array)
        found = [xp.zeros_like(p.array) if p.grad is None else p.grad.array for p in params]
        return xp.concatenate([g.reshape(-1) for g in found])

    def _values(self) -> Any:
        params = self.param_groups[0]["params"]
        return array_module(params[0].array).concatenate([p.array.reshape(-1) for p in params])

    def _assign(self, values: Any, source: Any) -> None:
        params = self.param_groups[0]["params"]
        self.count_step(params, source)
        begin = 0
        with no_grad():
            for p in params:
                p.array[...] = values[begin : begin + p.array.size].reshape(p.shape)
                begin += p.array.size

    def loaded_state(
        self, number: int, own: Mapping[str, Any], p: Tensor, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Check the saved state, which is one for all parameters, and return copies of it."""
        size = sum(q.array.size for q in self.param_groups[0]["params"])
        shapes = {"direction": (size,), "gradient": (size,), "length": ()}
        if "steps" in own:
            rows = len(as_array(own["steps"]).reshape(-1, size))
            shapes |= {"steps": (rows, size), "changes": (rows, size), "scale": ()}
        arrays = {name: as_array(x) for name, x in own.items()}
        for name, shape in shapes.items():
            found = arrays[name].shape if name in arrays else None
            if found != shape or arrays[name].dtype.kind != "f":
                problem = "is missing" if found is None else f"has shape {found}"
                raise StateError(
                    f"optimizer state {number}.{name} {problem}, expected floats of shape {shape}.\n"
                    f"Load the state_dict() of LBFGS for the same model."
                )
        if p is not self.param_groups[0]["params"][0] or arrays.keys() - shapes:
            raise StateError(
                f"optimizer state {number} is not from LBFGS, which stores {', '.join(shapes)} for the first "
                f"parameter.\nLoad the state_dict() of LBFGS for the same model."
            )
        return {name: on_device(x, p.device) if x.ndim else x for name, x in arrays.items()}


def _largest(x: Any) -> float:
    return float(abs(x).max()) if x.size else 0.0


def strong_wolfe(
    at: Callable[[float], Point],
    start: Point,
    t: float,
    smallest: float,
    most: int = 25,
    c1: float = 1e-4,
    c2: float = 0.9,
) -> Point:
    """Return a point that meets the strong Wolfe conditions, or the best of `most`; the first has length `t`.

    A bracket narrower than `smallest` is not divided further.
    """

    def too_high(p: Point, than: Point) -> bool:
        return not p.loss <= start.loss + c1 * p.t * start.slope or (than.t > 0 and p.loss >= than.loss)

    before = start
    low = start
    high = None
    tries = 0
    while high is None and tries < most:  # until a minimum lies between two points
        new = at(t)
        tries += 1
        if too_high(new, before):
            low = before
            high = new
        elif abs(new.slope) <= -c2 * start.slope:
            return new
        elif new.slope >= 0:
            low = new
            high = before
        else:
            t = _minimum_of_cubic(before, new, new.t + 0.01 * (new.t - before.t), new.t * 10)
            before = low = new
    while high is not None and tries < most and abs(high.t - low.t) >= smallest:
        left, right = sorted((low.t, high.t))
        margin = 0.1 * (right - left)
        new = at(min(max(_minimum_of_cubic(low, high, left, right), left + margin), right - margin))
        tries += 1
        if too_high(new, start) or new.loss >= low.loss:
            high = new
            continue
        if abs(new.slope) <= -c2 * start.slope:
            return new
        if new.slope * (high.t - low.t) >= 0:
            high = low
        low = new
    return low


def _minimum_of_cubic(a: Point, b: Point, least: float, most: float) -> float:
    """Return where the cubic through two points, with their slopes, is lowest, clipped to the bounds.

    If it has no minimum, return the middle of the bounds.
    """
    if a.t > b.t:
        a, b = b, a
    middle = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = middle * middle - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    root = math.sqrt(square)
    width = b.slope - a.slope + 2 * root
    t = b.t - (b.t - a.t) * (b.slope + root - middle) / width if width else (least + most) / 2
    return min(max(t, least), most)
