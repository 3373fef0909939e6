"""What happens when an op is called: arrays and edges in, the rule, a node out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from .arguments import accept_aliases, autocast, bind, operands, ops, prepare
from .checks import Checks
from .devices import as_array
from .errors import MinigradError, OptionError, counted
from .explain import FOREIGN, explain, place
from .modes import modes, named_scope
from .node import Node
from .tensor import Tensor
from .versions import share_version

if TYPE_CHECKING:
    from .op import Op


def make_callable(op: Op, documented: Callable) -> Callable:
    """The function that users call; `documented` gives it its name, signature and docstring."""
    checks = Checks(documented)
    readable = accept_aliases(op.definition, in_float32=not op.kernel_takes_half) if op.definition else None

    def call(*inputs: Any, **settings: Any) -> Any:
        if settings or len(inputs) > op.arity:
            inputs, settings = bind(op, inputs, settings, checks)
        if modes.autocast_dtype is not None:
            inputs = autocast(op, inputs)
        if readable is not None and not modes.fused:
            with named_scope(op.key):
                return readable(*prepare(op, inputs, promotes=()), **settings)

        # 1. arrays and edges in
        inputs, arrays, edges, needs = operands(op, inputs)

        # 2. the rule
        try:
            value, gradients = checked_result(op, op.run(arrays, settings))
        except MinigradError as error:
            place(error, op.name_in_errors, inputs, settings)
            raise
        except FOREIGN as error:
            explain(op.name_in_errors, inputs, settings, error, op.source)
        for observer in modes.observers:
            observer.on_result(op, arrays, settings, value, gradients)

        # 3. a node out
        if gradients is None or True not in needs or not modes.grad_enabled:
            node = None
        else:
            node = Node(op, settings, edges, needs, needed_only(op, gradients, needs))
        if type(value) is tuple:
            return several_results(op, inputs, settings, node, value)
        result = Tensor(value)
        if node is not None:
            node.attach(result)
        if op.view:
            share_version(inputs[0], result, op, settings)
        return result

    update_wrapper(call, documented)
    call.op = op  # type: ignore[attr-defined]
    op.call = call
    ops[op.key] = op
    return call


def checked_result(op: Op, result: Any) -> tuple[Any, Any]:
    """What a rule returned: the value, an array or a tuple of arrays, and the functions for its gradient."""
    if type(result) is not tuple or len(result) != 2:
        raise OptionError(
            f"the rule of {op.name} did not return a value and its gradients.\n"
            f"Return value, (gradient of each array, ...): functions of g, or None where there is none."
        )
    value, gradients = result
    return tuple(map(as_array, value)) if type(value) is tuple else as_array(value), gradients


def needed_only(op: Op, gradients: Any, needs: Sequence[bool]) -> Any:
    """The gradient functions that are needed: what only the others hold can be freed."""
    if type(gradients) is not tuple:
        return gradients
    if len(gradients) != len(needs):
        raise OptionError(
            f"the rule of {op.name} has {counted(len(needs), 'array')} and returned "
            f"{counted(len(gradients), 'gradient')}.\n"
            f"Return one for each array, or None for one that has no gradient."
        )
    if False not in needs:
        return gradients
    return tuple([f if needed else None for f, needed in zip(gradients, needs, strict=True)])


def several_results(
    op: Op, inputs: Sequence[Any], settings: dict[str, Any], node: Node | None, values: tuple
) -> tuple[Tensor, ...]:
    """The results of an op that has several."""
    results = tuple(map(Tensor, values))
    if node is not None:
        node.attach_all(results)
    if op.view:
        for i, result in enumerate(results):
            share_version(inputs[0], result, op, settings, i)
    return results
