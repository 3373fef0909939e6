"""Where a NaN or an infinity was made: the first operation, or gradient, that made one out of finite numbers.

An operation *produced* a NaN if none of its operands has one, and an infinity if all of its operands (arrays,
numbers and settings) are finite. So what a user puts in on purpose, a mask filled with -inf, is nobody's
fault, and neither is what follows from it; what is produced is reported where it was.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..devices import array_module, as_array, is_array, is_floating, on_cpu
from ..errors import NonFiniteError
from ..modes import Switch, modes
from ..nodes import Node, producer, tensor_of
from ..tensor import Tensor
from ..versions import arrays_in, caller, where


class detect_anomaly(Switch):
    """Within it (or in a function it decorates) the first operation that produces a NaN or Inf is an error.

    NonFiniteError names the operation, the line that called it, the first bad element, and what the inputs
    hold there; in backward() the operation whose gradient is not finite, the gradient that came to it, and
    the line of the forward pass. With `check_inf=False` only NaN counts. (torch.autograd.detect_anomaly)
    """

    def __init__(self, check_inf: bool = True, _mode: bool = True, _at_once: bool = False) -> None:
        super().__init__(modes, "observers", NonFiniteFinder(check_inf) if _mode else None, _at_once)
        self.ignored: list[Any] = []

    def new_value(self, current: tuple[Any, ...]) -> tuple[Any, ...]:
        others = tuple(x for x in current if not isinstance(x, NonFiniteFinder))
        return others if self.value is None else (*others, self.value)

    def __enter__(self) -> None:
        super().__enter__()
        self.ignored.append(np.errstate(all="ignore"))  # what NumPy would warn of is said better here
        self.ignored[-1].__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self.ignored.pop().__exit__(*exc)


class set_detect_anomaly(detect_anomaly):
    """`set_detect_anomaly(True)` looks for anomalies from now on, or within a `with`."""

    def __init__(self, mode: bool, check_inf: bool = True) -> None:
        super().__init__(check_inf, mode, _at_once=True)


class NonFiniteFinder:
    """An observer that refuses the first NaN or infinity that an operation or a gradient produces."""

    def __init__(self, check_inf: bool = True) -> None:
        self.check_inf = check_inf

    def on_result(
        self, op: Any, operands: Sequence[Any], settings: dict[str, Any], value: Any, gradients: Any
    ) -> None:
        """Refuse what an operation's rule has just produced."""
        given = [*operands, *arrays_in(settings), *numbers_in(settings)]
        for i, result in enumerate(value if type(value) is tuple else (value,)):
            result = as_array(result)
            index = self._produced(result, given)
            if index is None:
                continue
            over = comparable_shape(op, result)
            names = operand_names(op, len(operands))
            inputs = [describe_at(*pair, index, over) for pair in zip(names, operands, strict=True)]
            which = f" {i}" if type(value) is tuple else ""
            raise NonFiniteError(
                f"{op.name} produced {shown_at(result, index)} of its result{which}, {kind_of(result)}, at "
                f"{where(caller())}.\n"
                f"There {'; '.join(inputs)}. {advice_for(op)}"
            )

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        """Refuse what a node's gradient functions have just produced."""
        upstream = [_array(part) for part in (g if type(g) is list else [g]) if part is not None]
        operands = [*upstream, *arrays_in(node.gradients)]
        for edge, r in contributions:
            array = _array(r)
            index = self._produced(array, operands)
            if index is not None:
                _refuse_gradient(node, edge, array, index, upstream)

    def on_backward_start(self, tensor: Tensor, g: Any) -> None:
        """Refuse to begin backward() with a NaN or an infinity."""
        given = on_cpu(_array(g))
        if not np.isfinite(given).all():
            index = first_index(~np.isfinite(given))
            raise NonFiniteError(
                f"the gradient given to backward() is {shown_at(given, index)}.\nBegin from finite numbers."
            )
        value = on_cpu(tensor.array)
        if np.isnan(value).any() or (self.check_inf and value.size == 1 and np.isinf(value).any()):
            index = first_index(~np.isfinite(value))
            raise NonFiniteError(
                f"backward() begins from a result that is {shown_at(value, index)}, which no operation made "
                f"while this was watched for.\n{_origin(tensor)}"
            )

    def _produced(self, result: np.ndarray, operands: list[Any]) -> tuple[int, ...] | None:
        """Where `result` has a NaN or an infinity that `operands` do not account for: the first index."""
        if not is_floating(result.dtype) or array_module(result).isfinite(result).all():
            return None
        result = on_cpu(result)
        produced = np.zeros(result.shape, bool)
        if not any(_any(np.isnan, x) for x in operands):
            produced |= np.isnan(result)
        if self.check_inf and not any(_any(not_finite, x) for x in operands):
            produced |= np.isinf(result)
        return first_index(produced) if produced.any() else None


def _refuse_gradient(node: Node, edge: Any, r: np.ndarray, index: tuple, upstream: list[Any]) -> NoReturn:
    place = next(i for i, e in enumerate(node.edges) if e is edge)
    name = operand_names(node.op, len(node.edges))[place]
    kept = tensor_of(edge)
    over = comparable_shape(node.op, r)
    known = [describe_at("the gradient g that came to it", g, index, over) for g in upstream]
    if kept is not None and hasattr(kept, "array"):
        known.append(describe_at(name, _array(kept), index, over))
    raise NonFiniteError(
        f"the gradient of {node} with respect to {name}, {kind_of(r)}, is {shown_at(r, index)}.\n"
        f"There {'; '.join(known)}. Keep {name} away from where the derivative is infinite: "
        f"choose safe values (where, clamp) before {node.op.name}, not after it. "
        f"{node.op.gradient_advice}".rstrip()
    )


def _origin(tensor: Tensor) -> str:
    """Where in a graph something not finite was put in."""
    stack = [] if tensor.node is None else [producer(tensor.node)]
    seen = set(stack)
    found: list[tuple[int, str]] = []
    while stack:
        node = stack.pop()
        for i, edge in enumerate(node.edges):
            before = producer(edge)
            if type(before) is Node:
                if before not in seen:
                    seen.add(before)
                    stack.append(before)
            elif _any(not_finite, array := _array(edge)):
                at = shown_at(array, first_index(not_finite(array)))
                name = operand_names(node.op, len(node.edges))[i]
                found.append((node.number, f"{node} was given {name} = {at}."))
    if not found:
        return "Let detect_anomaly() surround the forward pass too."
    return f"It was put in: {min(found)[1]}"


def operand_names(op: Any, count: int) -> list[str]:
    """What an op's rule calls its arrays: x, y; xs[0], xs[1], ... where it takes any number."""
    parameters = inspect.signature(op.source).parameters.values() if hasattr(op, "source") else ()
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            return [f"{p.name}[{i}]" for i in range(count)]
    named = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    return named if len(named) == count else [f"input {i}" for i in range(count)]


# ---------------------------------------------------------------- numbers


def _array(x: Any) -> Any:
    """The array of a Tensor, anything else as it is."""
    return x if is_array(x) or isinstance(x, np.generic) else getattr(x, "array", x)


def not_finite(x: Any) -> Any:
    return ~np.isfinite(on_cpu(x))


def _any(test: Callable[[Any], Any], x: Any) -> bool:
    """Whether some number in `x`, an array, a number or anything else, passes the test."""
    if isinstance(x, float):
        return bool(test(np.float64(x)))
    return hasattr(x, "dtype") and is_floating(x.dtype) and bool(test(on_cpu(_array(x))).any())


def numbers_in(thing: Any) -> list[float]:
    """Every float within settings."""
    if isinstance(thing, float):
        return [thing]
    if isinstance(thing, dict):
        thing = tuple(thing.values())
    return [x for item in thing for x in numbers_in(item)] if isinstance(thing, tuple | list) else []


def first_index(mask: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), np.shape(mask)))


def shown_at(array: np.ndarray, index: tuple[int, ...]) -> str:
    """`nan at [0, 2] (3 of 12 elements are not finite)`."""
    if not array.ndim:
        return f"{float(array):g}"
    array = on_cpu(array)
    bad = int((~np.isfinite(array)).sum())
    return f"{float(array[index]):g} at {list(index)} ({bad} of {array.size} elements are not finite)"


def kind_of(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def advice_for(op: Any) -> str:
    """What to do where an op's result is not finite."""
    return op.advice or f"Keep the inputs where {op.public_name} is finite (clamp, add an eps)."


def comparable_shape(op: Any, result: np.ndarray) -> tuple[int, ...] | None:
    """The shape in which operands and result can be compared element by element, if in any."""
    return None if op.family == "matrix" else result.shape


def describe_at(name: str, x: Any, index: tuple[int, ...], over: tuple[int, ...] | None) -> str:
    """What `x` holds at `index` of a shape that it is broadcast to; else what it holds altogether."""
    if x is None:
        return f"{name} = None"
    x = np.asarray(on_cpu(_array(x)))
    with contextlib.suppress(ValueError):
        if over is not None and x.ndim:
            return f"{name} = {np.broadcast_to(x, over)[index].item():.6g}"
    if not x.ndim:
        return f"{name} = {x.item():.6g}"
    if is_floating(x.dtype) and not np.isfinite(x).all():
        return f"{name}, {kind_of(x)}, has {int((~np.isfinite(x)).sum())} elements that are not finite"
    span = f" from {x.min().item():.6g} to {x.max().item():.6g}" if x.size else ""
    return f"{name}, {kind_of(x)}, is finite,{span}"
