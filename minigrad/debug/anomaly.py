"""`detect_anomaly`, which raises an error at the first operation that produces a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from ..core.backward import Node, producer, tensor_of
from ..core.closures import arrays_in
from ..core.devices import as_array, on_cpu
from ..core.errors import NonFiniteError
from ..core.frames import caller, where
from ..core.modes import Switch, modes, no_grad
from ..core.tensor import Tensor
from ..graph.tape import operand_names
from ..nn.module import Module
from .nonfinite import (
    Index,
    advice_for,
    array_of,
    contains,
    describe_array,
    describe_element,
    describe_input,
    describe_inputs,
    describe_result,
    describe_upstream,
    first_index,
    first_produced,
    gradient_advice_for,
    nonfinite,
    nonfinite_error,
    values_in,
)


class detect_anomaly(Switch):
    """Context manager that raises a NonFiniteError at the first operation that produces a NaN or infinity.

    The error names the operation, the line that called it, the first bad element, and the inputs there. In
    backward(), it names the operation whose gradient is not finite, its line in the forward pass, and the
    upstream gradient. With `check_inf=False`, infinities are allowed. (torch.autograd.detect_anomaly)
    """

    def __init__(self, check_inf: bool = True, _mode: bool = True, _at_once: bool = False) -> None:
        super().__init__(modes, "observers", NonFiniteFinder(check_inf) if _mode else None, _at_once)
        self.ignored: list[Any] = []  # one context for each open `with`

    def _new_value(self, current: tuple[Any, ...]) -> tuple[Any, ...]:
        others = tuple(x for x in current if not isinstance(x, NonFiniteFinder))
        return others if self.value is None else (*others, self.value)

    def __enter__(self) -> None:
        super().__enter__()
        self.ignored.append(np.errstate(all="ignore"))  # errors replace NumPy's warnings
        self.ignored[-1].__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self.ignored.pop().__exit__(*exc)

    def _copy(self) -> detect_anomaly:
        copy = cast(detect_anomaly, super()._copy())
        copy.ignored = []
        return copy


class set_detect_anomaly(detect_anomaly):
    """Turn anomaly detection on or off: at once when called, or as a context manager or decorator."""

    def __init__(self, mode: bool, check_inf: bool = True) -> None:
        super().__init__(check_inf, mode, _at_once=True)


class NonFiniteFinder:
    """An observer that raises an error at the first operation that produces a NaN or infinity."""

    def __init__(self, check_inf: bool = True) -> None:
        self.check_inf = check_inf

    def on_result(
        self, op: Any, operands: Sequence[Any], settings: dict[str, Any], value: Any, gradients: Any
    ) -> None:
        inputs = [*operands, *values_in(settings)]
        several = type(value) is tuple
        for i, result in enumerate(value if several else (value,)):
            result = as_array(result)
            index = first_produced(result, inputs, self.check_inf)
            if index is not None:
                raise nonfinite_error(
                    f"{op.name} produced {describe_result(result, index, i if several else None)}, at "
                    f"{where(caller())}.\n"
                    f"There {'; '.join(describe_inputs(op, operands, index, result))}. {advice_for(op)}"
                )

    def on_pull(self, node: Node, g: Any, contributions: Sequence[tuple[Any, Any]]) -> None:
        upstream = [array_of(part) for part in (g if type(g) is list else [g]) if part is not None]
        inputs = [*upstream, *arrays_in(node.gradients)]
        for edge, r in contributions:
            index = first_produced(array_of(r), inputs, self.check_inf)
            if index is not None:
                _raise_gradient_error(node, edge, array_of(r), index, upstream)

    def on_backward_start(self, tensor: Tensor, g: Any) -> None:
        seed = on_cpu(array_of(g))
        if not np.isfinite(seed).all():
            element = describe_element(seed, first_index(nonfinite(seed)))
            raise nonfinite_error(f"the gradient passed to backward() is {element}.\nPass finite numbers.")
        value = on_cpu(tensor.array)
        if np.isnan(value).any() or (self.check_inf and value.size == 1 and np.isinf(value).any()):
            element = describe_element(value, first_index(nonfinite(value)))
            raise nonfinite_error(
                f"backward() starts at a result that is {element}, which no operation produced under "
                f"detect_anomaly().\n{_origin(tensor)}"
            )


def _raise_gradient_error(
    node: Node, edge: Any, r: np.ndarray, index: Index, upstream: list[Any]
) -> NoReturn:
    place = next(i for i, e in enumerate(node.edges) if e is edge)
    name = operand_names(node.op, len(node.edges))[place]
    known = describe_upstream(node.op, upstream, index, r)
    operand = tensor_of(edge)
    if hasattr(operand, "array"):
        known.append(describe_input(node.op, name, operand, index, r))
    raise nonfinite_error(
        f"the gradient of {node} with respect to {name}, {describe_array(r)}, is "
        f"{describe_element(r, index)}.\n"
        f"There {'; '.join(known)}. {gradient_advice_for(node.op, name, node.op.public_name)}"
    )


def _origin(tensor: Tensor) -> str:
    """Describe the earliest operation behind `tensor` that read a constant or leaf that is not finite."""
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
            elif contains(nonfinite, array := array_of(edge)):
                element = describe_element(array, first_index(nonfinite(array)))
                name = operand_names(node.op, len(node.edges))[i]
                found.append((node.number, f"{node} was given {name} = {element}."))
    return min(found)[1] if found else "Run the forward pass under detect_anomaly() too."


def first_nonfinite(model: Module, forward: Callable[[], Any]) -> str | None:
    """Run `forward()` and return the path of the first module that has or produces a NaN or infinity.

    Parameters are checked first, then operations. Return "" for an operation outside all modules, and None if
    everything is finite.
    """
    for path, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return path.rpartition(".")[0]
    paths = {id(module): path for path, module in model.named_modules()}
    try:
        with no_grad(), detect_anomaly():
            forward()
    except NonFiniteError as error:
        return next((paths[id(m)] for m in error.modules if id(m) in paths), "")
    return None
