"""What happens when an op is called: take the arrays out of the tensors, run the rule, record a node.

This is the hot path. Arguments of other names, dtypes or devices are converted in `arguments`.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .checks import Checks
from .devices import as_array, float32, gpu
from .errors import MinigradError, OptionError, counted
from .explain import FOREIGN, explain, place
from ..kernels import active
from .modes import modes, named_scope
from .node import Node, Output, node_numbers
from .tensor import Tensor
from .versions import VersionCounter, caller, is_library, modifications, share_version
from .arguments import accept_aliases, autocast, bind, operands, ops, plain_settings, prepare

if TYPE_CHECKING:
    from .op import Op


pairs = {(p, q): (p, q) for p in (True, False) for q in (True, False)}  # shared by all nodes


def make_callable(op: Op, documented: Callable) -> Callable:
    """The function that users call; `documented` gives it its name, signature and docstring."""
    rule, names, arity, max_positional = op.rule, op.settings, op.arity, op.arity + op.by_position
    exact = op.kernel_takes_half
    definition = accept_aliases(op.definition, in_float32=not exact) if op.definition else None
    own_kernel, view, ndarray, checks = op.kernel, op.view, np.ndarray, Checks(documented)
    get_frame, new_tensor, new_ref, plain = sys._getframe, Tensor.__new__, weakref.ref, checks.plain
    new_node, neither, both = Node.__new__, (None, None), pairs[True, True]
    none: dict[str, Any] = {}  # the settings of all calls without: one object less to keep

    def call(*inputs: Any, **settings: Any) -> Any:
        if settings or len(inputs) > arity:
            if not settings and len(inputs) <= max_positional:  # settings by position
                settings, inputs = dict(zip(names, inputs[arity:])), inputs[:arity]  # noqa: B905
            else:
                inputs, settings = bind(op, inputs, settings)
            for name, setting in settings.items():
                if type(setting) not in plain[name]:
                    settings = plain_settings(op, settings, checks)
                    break
        mode = modes.__dict__  # the thread's modes: looked up once, since each attribute would cost as much
        if mode["autocast_dtype"] is not None:
            inputs = autocast(op, inputs)
        if definition is not None and not mode["fused"]:
            with named_scope(op.key):
                return definition(*prepare(op, inputs, promotes=()), **settings)
        # 1. the arrays of the tensors, an edge for each, and whether a gradient flows there
        x, y = inputs if len(inputs) == 2 else neither
        if not (
            isinstance(x, Tensor)
            and isinstance(y, Tensor)
            and x.array.dtype is y.array.dtype is float32
            and mode["grad_enabled"]
            and not gpu.arrays
        ):
            arrays, edges, needs, half, changed = operands(op, inputs, mode["grad_enabled"])
            if changed is not None:
                return call(*changed, **settings)  # from the start, with what the user meant
        else:  # the most frequent operands, in less time
            arrays, half = (x.array, y.array), None
            edges = ((x.node or x) if x._requires_grad else x, (y.node or y) if y._requires_grad else y)
            needs = pairs[x._requires_grad, y._requires_grad]

        # 2. the value, and the functions that give its gradient
        try:
            if half is not None and not op.exact_in_half:
                result = op.run_in_float32(half, arrays, settings)
            elif definition is None or half is not None or type(arrays[0]) is not ndarray:
                result = rule(*arrays, **settings) if settings else rule(*arrays)
            else:  # what `Op.run_kernel` does, without its calls
                kernel: Any = own_kernel or getattr(active.cpu, op.name, rule)
                result = kernel(*arrays, **settings) or op.run_definition(*arrays, **settings)
            if type(result) is not tuple or len(result) != 2:
                _refuse_result(op)
            value, gradients = result
        except MinigradError as error:
            place(error, op.name_in_errors, inputs, settings)
            raise
        except FOREIGN as error:
            explain(op.name_in_errors, inputs, settings, error, op.source)
        if mode["observers"]:
            value = tuple(map(as_array, value)) if type(value) is tuple else as_array(value)
            for observer in mode["observers"]:
                observer.on_result(op, arrays, settings, value, gradients)

        # 3. a tensor of the value, and a node that remembers how it was computed
        if type(value) is tuple:
            return _several(op, inputs, settings, value, gradients, edges, needs)
        out = new_tensor(Tensor)
        out.array = value if type(value) is ndarray else as_array(value)
        out._grad = out.node = out.version = out.hooks = None
        if gradients is None or True not in needs:
            out._requires_grad = False
        else:
            if type(gradients) is tuple and (needs is not both or len(gradients) != 2):
                if len(gradients) == len(needs) == 2:
                    gradients = gradients[0] if needs[0] else None, gradients[1] if needs[1] else None
                elif len(gradients) != len(needs) or False in needs:
                    gradients = _needed(op, gradients, needs)
            frame = get_frame(1)  # the user's line: the nearest frame outside the library
            while is_library[frame.f_code.co_filename] and frame.f_back is not None:
                frame = frame.f_back
            out._requires_grad, out.node = True, (node := new_node(Node))
            node.op, node.settings, node.edges, node.needs = op, settings or none, edges, needs
            node.gradients, node.shape, node.output = gradients, out.array.shape, new_ref(out)
            node.code, node.instruction, node.scope = frame.f_code, frame.f_lasti, mode["scope"]
            node.number, node.recorded_at = next(node_numbers), modifications.count
            node.version = node.hooks = None
        if view:
            share_version(inputs[0], out, op, settings)
        return out

    update_wrapper(call, documented)
    call.op = op  # type: ignore[attr-defined]
    op.call = call
    ops[op.key] = op
    return call


def _several(
    op: Op,
    inputs: Sequence[Any],
    settings: dict,
    values: tuple,
    gradients: Any,
    edges: Sequence,
    needs: Sequence,
) -> tuple[Tensor, ...]:
    """Several results of one node; integer ones have no gradient."""
    outs = tuple(map(Tensor, values))
    if gradients is not None and True in needs:
        node = Node(op, settings, edges, needs, gradients, [], [], *caller(), modes.scope)
        if type(gradients) is tuple:
            node.gradients = _needed(op, gradients, needs)
        node.version = []
        for i, out in enumerate(outs):
            out.version = version = VersionCounter()
            node.shape.append(out.shape)
            node.output.append(weakref.ref(out))
            node.version.append(version)
            if out.dtype.kind in "fV":
                out._requires_grad, out.node = True, Output(node, i, out.shape, version)
    if op.view:
        for i, out in enumerate(outs):
            share_version(inputs[0], out, op, settings, i)
    return outs


def _needed(op: Op, gradients: tuple, needs: Sequence[bool]) -> tuple:
    """The gradient functions that are needed; what only the others hold can be freed."""
    if len(gradients) != len(needs):
        raise OptionError(
            f"the rule of {op.name} has {counted(len(needs), 'array')} and returned "
            f"{counted(len(gradients), 'gradient')}.\n"
            f"Return one for each array, or None for one that has no gradient."
        )
    return tuple([f if needed else None for f, needed in zip(gradients, needs, strict=True)])


def _refuse_result(op: Op) -> NoReturn:
    raise OptionError(
        f"the rule of {op.name} did not return a value and its gradients.\n"
        f"Return value, (gradient of each array, ...): functions of g, or None where there is no gradient."
    )
