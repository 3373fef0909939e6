"""What happens when an op is called: take the arrays out of the tensors, run the rule, record a node.

This is the hot path. What is not as it should be (names, dtypes, devices) is put right in `arguments`.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..devices import as_array, bfloat16, float16, gpu
from ..errors import MinigradError, OptionError
from ..kernels import active
from ..kernels.half import compute_in_float32
from ..modes import modes, named_scope
from ..nodes import Node, Output
from ..tensor import Tensor
from ..versions import LIBRARY, VersionCounter, version_of
from .arguments import accept_aliases, autocast, bind, move_to_one_device, ops, plain_settings, prepare
from .explain import FOREIGN, explain, place

if TYPE_CHECKING:
    from .op import Op


def make_callable(op: Op, face: Callable) -> Callable:
    """The function that users call; `face` has its name and its docstring."""
    rule, names, floating, promotes = op.rule, op.settings, op.floating, op.promotes
    arity, most = op.arity, op.arity + op.by_position
    readable = accept_aliases(op.definition) if op.definition else None
    get_frame, new_tensor, ndarray = sys._getframe, Tensor.__new__, np.ndarray

    def call(*inputs: Any, **settings: Any) -> Any:
        if arity < len(inputs) <= most and not settings:  # settings by position
            settings, inputs = dict(zip(names, inputs[arity:])), inputs[:arity]  # noqa: B905
        elif settings or len(inputs) > arity:
            inputs, settings = bind(op, inputs, settings)
        for setting in settings.values():
            if isinstance(setting, Tensor):
                settings = plain_settings(op, settings)
                break
        if readable is not None and not modes.fused:
            with named_scope(op.key):
                return readable(*prepare(op, inputs, promotes=()), **settings)
        if modes.autocast_dtype is not None:
            inputs = autocast(op, inputs)

        # 1. the arrays of the tensors, and an edge for each; `ready` if they have one dtype and one device
        arrays, edges, needs = [], [], []
        dtype, half, ready, recording = None, None, not gpu.arrays, modes.grad_enabled
        for x in inputs:
            if isinstance(x, Tensor):
                array = x.array
                arrays.append(array)
                if recording:
                    tracked = x.requires_grad
                    edges.append(x.node or x if tracked else x)
                    needs.append(tracked)
                if array.dtype is not dtype:
                    if dtype is None:
                        dtype = array.dtype
                    elif array.dtype != dtype and (promotes is True or len(arrays) - 1 in promotes):
                        ready = False
                    if array.dtype is bfloat16 or array.dtype is float16:
                        half = array.dtype
            else:
                arrays.append(x)
                if recording:
                    edges.append(x)
                    needs.append(False)
                if x is not None and (type(x) not in (float, int) or dtype is None or dtype.kind not in "fV"):
                    ready = False
        if not ready or dtype is None or (floating and dtype.kind not in "fV"):
            changed = move_to_one_device(op, prepare(op, inputs, promotes))
            if changed is not inputs:
                return call(*changed, **settings)

        # 2. the value, and the functions that give its gradient
        try:
            compute = rule
            if readable is not None and half is None and type(arrays[0]) is ndarray:
                compute = op.kernel or getattr(active.cpu, op.name, rule)
            if half is bfloat16 and not op.exact_in_half:
                found = compute_in_float32(rule, half, arrays, settings)
            else:
                found = compute(*arrays, **settings)
            if found is None and readable is not None:  # a kernel does not take these arrays
                found = op.run_definition(*arrays, **settings)
            if type(found) is not tuple or len(found) != 2:
                _refuse_result(op)
            value, gradients = found
        except MinigradError as error:
            place(error, op.name, inputs, settings)
            raise
        except FOREIGN as error:
            explain(op.name, inputs, settings, error)
        if modes.observers:
            for observer in modes.observers:
                observer.on_result(op, arrays, settings, value, gradients)

        # 3. a tensor of the value, and a node that remembers how it was computed
        if type(value) is tuple:
            outs = tuple(map(Tensor, value))
        else:
            out = new_tensor(Tensor)
            out.array = value if type(value) is ndarray else as_array(value)
            out.grad = out.node = out.version = out.hooks = None
            out.requires_grad = False
        if gradients is not None and True in needs:
            frame = get_frame(1)  # the user's line: the nearest frame outside the library
            while frame.f_code.co_filename in LIBRARY and frame.f_back is not None:
                frame = frame.f_back
            source = frame.f_code, frame.f_lasti
            if type(gradients) is tuple and (len(gradients) != len(needs) or False in needs):
                gradients = _needed(op, gradients, needs)
            if type(value) is tuple:
                _record_several(op, settings, edges, needs, gradients, outs, source)
            else:
                out.node = Node(
                    op, settings, edges, needs, gradients, out.array.shape, weakref.ref(out), source
                )
                out.requires_grad = True
        if op.view:
            for view in outs if type(value) is tuple else (out,):
                _share_version(inputs[0], view)
        return outs if type(value) is tuple else out

    update_wrapper(call, face)
    call.op = op  # type: ignore[attr-defined]
    op.call = call
    ops[op.key] = op
    return call


def _record_several(
    op: Op, settings: dict, edges: list, needs: list, gradients: Any, outs: Sequence[Tensor], source: Any
) -> None:
    """One node for several results; integer ones have no gradient."""
    node = Node(op, settings, edges, needs, gradients, [], [], source)
    for i, out in enumerate(outs):
        node.shape.append(out.shape)
        node.output.append(weakref.ref(out))
        if out.dtype.kind in "fV":
            out.requires_grad, out.node = True, Output(node, i, out.shape, VersionCounter())


def _share_version(base: Tensor, view: Tensor) -> None:
    """A view and its base are changed together."""
    view.version = version_of(base)
    if view.node is not None:
        view.node.version = view.version


def _needed(op: Op, gradients: tuple, needs: list[bool]) -> tuple:
    """The gradient functions that are needed; what only the others hold can be freed."""
    if len(gradients) != len(needs):
        raise OptionError(
            f"the rule of {op.name} has {len(needs)} arrays and returned {len(gradients)} gradients.\n"
            f"Return one for each array."
        )
    kept = list(gradients)
    for i, needed in enumerate(needs):
        if not needed:
            kept[i] = None
    return tuple(kept)


def _refuse_result(op: Op) -> NoReturn:
    raise OptionError(
        f"the rule of {op.name} did not return a value and its gradients.\n"
        f"Return value, (gradient of each array, ...): functions of g, or None where there is no gradient."
    )
