"""What happens when an op is called: unwrap, promote, run the rule, record a node. The hot path.

`fused(False)` computes composite ops by their readable definitions instead.
"""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import update_wrapper, wraps
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..autograd import Node, Output, creation, grad_mode, named_scope, watch
from ..devices import (
    HALF,
    as_array,
    bfloat16,
    default_float,
    float32,
    gpu,
    is_floating,
    on_device,
    result_type,
)
from ..errors import DeviceError, DtypeError, MinigradError, OptionError, ShapeError
from ..kernels import active
from ..kernels.half import compute_in_float32
from ..precision import dtype_of
from ..tensor import Tensor, as_tensor
from ..trees import map_leaves
from ..versions import LIBRARY, Cell, caller, clock, share_cell
from .explain import FOREIGN, describe, explain, place, refuse_extra

if TYPE_CHECKING:
    from .op import Op

ALIASES = {  # NumPy's names are accepted beside PyTorch's
    "axis": "dim", "dims": "dim", "keepdims": "keepdim", "axis0": "dim0", "axis1": "dim1",
}  # fmt: skip
OPERANDS = {  # PyTorch's names of what formulas, and so our signatures, call x and y
    "input": "x", "mat": "x", "mat1": "x", "batch1": "x", "vec1": "x", "tensor1": "x",
    "other": "y", "exponent": "y", "mat2": "y", "batch2": "y", "vec": "y", "vec2": "y", "tensor2": "y",
}  # fmt: skip

ops: dict[str, Op] = {}  # every op by name


class _Fused(threading.local):
    enabled = True


_fusion = _Fused()


class fused:
    """`fused(False)` computes composite ops by their readable definitions, from now on or within a `with`."""

    def __init__(self, enabled: bool = True) -> None:
        self.before, _fusion.enabled = _fusion.enabled, enabled

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _fusion.enabled = self.before

    @staticmethod
    def is_enabled() -> bool:
        return _fusion.enabled


def make_callable(op: Op, face: Callable) -> Callable:
    """The function that users call: unwrap, promote, run the rule, record a node."""
    rule, definition, arity, operands, names, view, floating = (
        op.rule,
        op.definition,
        op.arity,
        op.operands,
        op.settings,
        op.view,
        op.floating,
    )
    readable = accept_aliases(definition) if definition else None
    kernel = op.name if op.has_library_kernel else None  # its rule, without a call between
    exact_in_half = op.exact_in_half
    promoting, own = op.promotes is not False, (*op.operands, *op.settings)
    new_tensor, new_node, ndarray, new_ref = Tensor.__new__, Node.__new__, np.ndarray, weakref.ref
    get_frame = sys._getframe

    def call(*inputs: Any, **settings: Any) -> Any:
        if len(inputs) > arity:  # settings given by position
            if len(inputs) > arity + op.by_position:
                refuse_extra(op, inputs)
            given = dict(zip(names, inputs[arity:]))  # noqa: B905
            settings = _renamed(op.name, given | settings, names) if settings else given
            inputs = inputs[:arity]
        elif settings:
            settings = _renamed(op.name, settings, own)
            if len(inputs) < len(operands):  # f(x, other=y) as f(x, y)
                inputs = (*inputs, *[settings.pop(k) for k in operands[len(inputs) :] if k in settings])
        if settings:
            for setting in settings.values():
                if isinstance(setting, Tensor):
                    settings = _plain_settings(op, settings)
                    break
        if readable is not None and not _fusion.enabled:
            with named_scope(op.key):
                return readable(*(_prepare(op, inputs, False, False) or inputs), **settings)

        if grad_mode.autocast is not None:
            inputs = _autocast(op.autocast, inputs)
        arrays, edges, needs = [], [], []
        uniform, dtype, low, recording = True, None, None, grad_mode.enabled
        for x in inputs:
            if isinstance(x, Tensor):
                array = x.array
                arrays.append(array)
                if recording:
                    tracked = x.requires_grad
                    edges.append(x.node or x if tracked else x)
                    needs.append(tracked)
                of = array.dtype
                if of is not dtype:
                    if of is bfloat16:
                        low = of
                    if dtype is None:
                        dtype = of
                    elif promoting and of != dtype:
                        uniform = False
            else:
                arrays.append(x)
                if recording:
                    edges.append(x)
                    needs.append(False)
                if x is not None and (type(x) not in (float, int) or dtype is None or dtype.kind not in "fV"):
                    uniform = False
        if dtype is None or not uniform or (floating and dtype.kind not in "fV"):
            again = _prepare(op, inputs, promoting, floating)
            if again is not None:
                return call(*again, **settings)

        if gpu.arrays:
            again = _on_one_device(op, inputs)
            if again is not None:
                return call(*again, **settings)

        try:
            if kernel is not None and type(arrays[0]) is ndarray and dtype.itemsize != 2:
                found = getattr(active.cpu, kernel, rule)(*arrays, **settings)
            elif low is None or exact_in_half:
                found = rule(*arrays, **settings)
            else:
                found = compute_in_float32(rule, low, arrays, settings)
            if type(found) is not tuple or len(found) != 2:
                _refuse_result(op)
            value, gradients = found
        except MinigradError as error:
            place(error, op.name, inputs, settings)
            raise
        except FOREIGN as error:
            explain(op.name, inputs, settings, error)
        if watch.on:
            watch.check_result(op, arrays, settings, value, gradients)

        if type(value) is tuple:
            return _several(op, inputs, settings, value, gradients, edges, needs)
        out = new_tensor(Tensor)
        out.array = value if type(value) is ndarray else as_array(value)
        out.grad = out.cell = out.hooks = None
        if gradients is None or True not in needs:
            out.requires_grad, out.node = False, None
            if view:
                out.cell = inputs[0].cell or share_cell(inputs[0])
            return out

        out.requires_grad = True
        node = out.node = new_node(Node)
        node.op, node.settings, node.shape = op, settings, out.array.shape
        node.number, node.clock, node.cell, node.hooks = next(creation), clock.time, None, None
        node.output = new_ref(out)
        frame = get_frame(1)
        while frame.f_code.co_filename in LIBRARY and frame.f_back is not None:
            frame = frame.f_back
        node.source, node.scope = (frame.f_code, frame.f_lasti), grad_mode.scope
        node.edges, node.needs = edges, needs
        all_needed = type(gradients) is tuple and len(gradients) == len(needs) and False not in needs
        node.gradients = gradients if all_needed else _needed(op, gradients, needs)
        if view:
            _share(inputs[0], out)
        return out

    update_wrapper(call, face)
    call.op = op  # type: ignore[attr-defined]
    op.call = call
    ops[op.key] = op
    return call


def _on_one_device(op: Op, inputs: Sequence[Any]) -> Sequence[Any] | None:
    """Bring numbers (0-d tensors) on the CPU to the others' GPU; None where nothing needs to be moved."""
    kinds = {type(x.array) for x in inputs if isinstance(x, Tensor)}
    if len(kinds) < 2:
        return None
    gpus = {x.device for x in inputs if isinstance(x, Tensor)} - {"cpu"}
    if len(gpus) > 1 or any(isinstance(x, Tensor) and x.device == "cpu" and x.ndim for x in inputs):
        given = ", ".join(
            f"{describe(x)} on {x.device}" if isinstance(x, Tensor) else describe(x) for x in inputs
        )
        raise DeviceError(
            f"{op.name} of tensors on different devices: {given}.\n"
            f"Move them to one, x.to({gpus.pop()!r}) or x.to('cpu')."
        )
    (device,) = gpus
    move = ops["to_device"].call
    return [move(x, device) if isinstance(x, Tensor) and x.device != device else x for x in inputs]


def _autocast(precision: str | None, inputs: Any) -> Any:
    """The inputs of an op, those that are floats below float64 in the dtype in which autocast computes it."""
    to = dtype_of(precision)
    if to is None:
        return inputs
    cast, others = ops["astype"].call, (HALF | {float32}) - {to}
    return map_leaves(lambda x: cast(x, to) if isinstance(x, Tensor) and x.dtype in others else x, inputs)


def _plain_settings(op: Op, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with numbers where the user gave tensors of one element; they carry no gradient."""
    for name, x in settings.items():
        if isinstance(x, Tensor) and x.requires_grad and grad_mode.enabled:
            raise OptionError(
                f"{op.name} has no gradient for its setting {name}, which was given a tensor that requires "
                f"one.\nPass a number, {name}.item(), or {name}.detach()."
            )
    plain = lambda x: x.item() if isinstance(x, Tensor) and x.array.size == 1 else x
    return {name: plain(x) for name, x in settings.items()}


def _refuse_result(op: Op) -> NoReturn:
    raise OptionError(
        f"the rule of {op.name} did not return a pair of value and gradients.\n"
        f"Return value, (gradient of each array, ...): functions of g, None where there is none."
    )


def _needed(op: Op, gradients: Any, needs: list[bool]) -> Any:
    """Of a rule's gradient functions those that are needed; nothing else keeps what the others hold."""
    if type(gradients) is not tuple:
        return gradients
    if len(gradients) != len(needs):
        raise ValueError(
            f"the rule of {op.name} has {len(needs)} arrays and gives {len(gradients)} gradients.\n"
            f"Give one for each."
        )
    if False in needs:
        return tuple([f if needed else None for f, needed in zip(gradients, needs, strict=True)])
    return gradients


def _share(base: Tensor, view: Tensor) -> None:
    """A view and its base change together."""
    view.cell = share_cell(base)
    if view.node is not None:
        view.node.cell = view.cell


def _several(
    op: Op,
    inputs: Sequence[Any],
    settings: dict,
    values: tuple,
    gradients: Any,
    edges: list[Any],
    needs: list[bool],
) -> tuple[Tensor, ...]:
    """Several results of one node; integer ones carry no gradient."""
    outs = tuple(Tensor(value) for value in values)
    if gradients is not None and True in needs:
        node = Node.__new__(Node)
        node.op, node.settings, node.shape = op, settings, [out.shape for out in outs]
        node.number, node.clock, node.cell, node.hooks = next(creation), clock.time, None, None
        node.source, node.scope = caller(), grad_mode.scope
        node.output = [weakref.ref(out) for out in outs]
        node.edges, node.needs, node.gradients = edges, needs, _needed(op, gradients, needs)
        for i, out in enumerate(outs):
            if out.is_floating_point():
                out.requires_grad, out.node = True, Output(node, i, out.shape, Cell())
    if op.view:
        for out in outs:
            _share(inputs[0], out)
    return outs


def _prepare(op: Op, inputs: Sequence[Any], promoting: bool, floating: bool) -> Sequence[Any] | None:
    """Make arrays Tensors and cast to one dtype; None where nothing needs to be changed."""
    if not inputs:
        raise ShapeError(f"{op.name} of no tensors at all.\nGive it at least one.")
    changed = [x if isinstance(x, Tensor) or x is None else _convert(op, x) for x in inputs]
    if gpu.arrays:
        _move_given(inputs, changed)
    if not any(isinstance(x, Tensor) for x in changed):
        changed[0] = as_tensor(changed[0])
    if promoting:
        places = range(len(changed)) if op.promotes is True else op.promotes
        meeting = [changed[i] for i in places if i < len(changed) and changed[i] is not None]
        if meeting:
            dtype = result_type(*meeting)
            of_tensors = any(isinstance(x, Tensor) for x in meeting)
            if floating and not is_floating(dtype):
                dtype = default_float
            for i in places:
                x = changed[i] if i < len(changed) else None
                if isinstance(x, Tensor) and x.dtype != dtype:
                    changed[i] = ops["astype"].call(x, dtype)
                elif type(x) in (float, int, bool) and (not is_floating(dtype) or not of_tensors):
                    changed[i] = as_tensor(x, dtype=dtype)
    same = all(a is b for a, b in zip(changed, inputs, strict=True))
    return None if same else changed


def _move_given(inputs: Sequence[Any], changed: list[Any]) -> None:
    """What was given as a list or a NumPy array goes where the tensors are that it meets."""
    device = next((x.device for x in inputs if isinstance(x, Tensor)), "cpu")
    for i, x in enumerate(inputs):
        if isinstance(changed[i], Tensor) and not isinstance(x, Tensor) and changed[i].device == "cpu":
            changed[i] = Tensor(on_device(changed[i].array, device))


def _convert(op: Op, x: Any) -> Any:
    """A Python number as it is, a NumPy number as a Python number, anything else as a Tensor."""
    if type(x) in (float, int, bool):
        return x
    try:
        return x.item() if isinstance(x, np.generic) else as_tensor(x)
    except (TypeError, ValueError):
        raise DtypeError(
            f"{op.name} takes tensors, arrays and numbers, got {type(x).__name__} {describe(x)}.\n"
            f"Convert it with mg.tensor(...)."
        ) from None


def _renamed(name: str, settings: dict[str, Any], own: Sequence[str] = ()) -> dict[str, Any]:
    """NumPy's names of settings and PyTorch's of operands as the function's own names.

    `np.sum(x)` calls x.sum(axis=None, out=None): no `out` is the only one that there is.
    """
    if "out" in settings and settings["out"] is None:
        settings = {k: v for k, v in settings.items() if k != "out"}
    renamed = {k if k in own else _alias(k, own): v for k, v in settings.items()}
    if "dim" in renamed and "dims" in own and "dim" not in own:
        renamed["dims"] = renamed.pop("dim")
    if len(renamed) < len(settings):
        given = ", ".join(settings)
        raise OptionError(f"{name} was given one setting under two names: {given}.\nGive it once.")
    return renamed


def _alias(name: str, own: Sequence[str]) -> str:
    """The function's own name of what is `name` elsewhere; PyTorch's `input` is what comes first."""
    if (operand := OPERANDS.get(name, "")) in own:
        return operand
    return own[0] if name == "input" and own else ALIASES.get(name, name)


def accept_aliases(function: Callable, autocast: str | None = None) -> Callable:
    """Let a function that calls ops take their aliases of names, and explain errors as they do."""

    parameters = inspect.signature(function).parameters.values()
    own = tuple(p.name for p in parameters)
    listed = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    in_order = own[: own.index(listed) + 1] if listed else ()

    @wraps(function)
    def face(*args: Any, **settings: Any) -> Any:
        if settings:
            settings = _renamed(function.__name__, settings, own)
            if listed in settings:  # f(x, dims=(0, 1)) as f(x, 0, 1)
                args = (*args, *[settings.pop(k) for k in in_order[len(args) :] if k in settings])
        if grad_mode.autocast is not None:
            args, settings = _autocast(autocast, (args, settings))
        try:
            return function(*args, **settings)
        except MinigradError as error:
            place(error, function.__name__, args, settings)
            raise
        except FOREIGN as error:
            explain(function.__name__, args, settings, error)

    return face
