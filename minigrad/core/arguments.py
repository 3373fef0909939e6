"""The arguments of an op: binding, conversion to tensors, dtype promotion, autocast, devices.

Ops accept NumPy's and PyTorch's argument names, and numbers, lists and arrays in place of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from .argument_checks import Checks
from .devices import loaded
from .dtypes import (
    HALF,
    default_float,
    float32,
    float64,
    is_floating,
    plain_number,
    result_type,
)
from .error_context import (
    FOREIGN_ERRORS,
    add_context,
    describe,
    raise_extra_arguments,
    raise_unknown_arguments,
    raise_with_context,
    raised_by_library,
)
from .errors import (
    DeviceError,
    DtypeError,
    GraphError,
    MinigradError,
    OptionError,
    ShapeError,
    SignatureError,
)
from .frames import warn
from .half import any_half, half_of, round_once
from .modes import modes
from .precision import dtype_of
from .registry import ops
from .tensor import Tensor, as_tensor, from_other_library
from .trees import map_leaves

if TYPE_CHECKING:
    from .op import Op

ALIASES = {  # NumPy's names are accepted as well as PyTorch's
    "axis": "dim", "dims": "dim", "keepdims": "keepdim", "axis0": "dim0", "axis1": "dim1",
}  # fmt: skip
OPERANDS = {  # PyTorch's names for the x and y of our signatures
    "input": "x", "mat": "x", "mat1": "x", "batch1": "x", "vec1": "x", "tensor1": "x",
    "other": "y", "exponent": "y", "mat2": "y", "batch2": "y", "vec": "y", "vec2": "y", "tensor2": "y",
}  # fmt: skip


# ---------------------------------------------------------------- names


def bind(op: Op, inputs: tuple, settings: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Split the arguments of a call into arrays by position and settings by name, and check the settings."""
    operands, names = op.operands, op.settings
    if len(inputs) > op.arity + op.by_position:
        raise_extra_arguments(op.name, op.source, len(inputs))
    by_position = dict(zip(names, inputs[op.arity :]))  # noqa: B905
    if settings:
        settings = _rename(op.name, settings, (*operands, *names), op.any_setting)
        if len(inputs) < len(operands):  # f(x, other=y) as f(x, y)
            inputs = (*inputs, *[settings.pop(k) for k in operands[len(inputs) :] if k in settings])
        if twice := settings.keys() & {*operands, *by_position}:
            _check_passed_once(op, twice)
    settings = by_position | settings
    for name, setting in settings.items():
        if type(setting) not in op.checks.plain[name]:
            settings = plain_settings(op, settings)
            break
    return inputs[: op.arity], settings


def _check_passed_once(op: Op, names: set[str]) -> None:
    """Raise a SignatureError for arguments passed both by position and by name."""
    if names and not op.any_setting:
        raise SignatureError(
            f"{op.name}() got {', '.join(sorted(names))} twice: by position and by name.\nPass it once."
        )


def plain_settings(op: Op, settings: dict[str, Any]) -> dict[str, Any]:
    """Check settings, and return them with one-element tensors converted to numbers.

    A tensor that requires a gradient raises an OptionError, as no gradient flows to settings.
    """
    for name, x in settings.items():
        if isinstance(x, Tensor) and x.requires_grad and modes.grad_enabled:
            raise OptionError(
                f"{op.name} has no gradient for its setting {name}, but it requires one.\n"
                f"Pass a number, {name}.item(), or {name}.detach(); a rule's arrays stand before its `/`."
            )
    number = lambda x: x.item() if x.array.size == 1 else x
    plain = lambda x: number(x) if isinstance(x, Tensor) else plain_number(from_other_library(x))
    settings = {name: plain(x) for name, x in settings.items()}
    try:
        op.checks.check_settings(settings)
    except MinigradError as error:
        add_context(error, op.name, (), settings)
        raise
    return settings


def _rename(
    name: str, settings: dict[str, Any], own: Sequence[str], any_name: bool = False
) -> dict[str, Any]:
    """Translate NumPy's names of settings and PyTorch's names of operands into the function's own.

    `np.sum(x)` calls `x.sum(axis=None, out=None)`, so `out` is accepted if it is None.
    """
    if any_name or settings.keys() <= set(own):
        return settings
    if "out" in settings and settings["out"] is None:
        settings = {k: v for k, v in settings.items() if k != "out"}
    names = {k: k if k in own else _alias(k, own) for k in settings}
    if "dims" in own and "dim" not in own:
        names = {k: "dims" if new == "dim" else new for k, new in names.items()}
    renamed = {names[k]: v for k, v in settings.items()}
    if len(renamed) < len(settings):
        all_names = list(names.values())
        clashing = ", ".join(k for k in settings if all_names.count(names[k]) > 1)
        raise OptionError(f"{name} got one setting under two names: {clashing}.\nPass it once.")
    if unknown := renamed.keys() - set(own):
        raise_unknown_arguments(name, sorted(k for k in settings if names[k] in unknown), own)
    return renamed


def _alias(name: str, own: Sequence[str]) -> str:
    """The function's own name for an alias, or the name itself; PyTorch's `input` is the first operand."""
    if (operand := OPERANDS.get(name, "")) in own:
        return operand
    return own[0] if name == "input" and own else ALIASES.get(name, name)


def accept_aliases(
    function: Callable,
    autocast: str | None = None,
    in_float32: bool = False,
    products: bool = False,
    like_first: bool = False,
) -> Callable:
    """Wrap a function that calls ops, so that it accepts NumPy's names and explains errors as an op does.

    With `in_float32`, it computes 16-bit tensors in float32 (see `round_once`).
    """
    name = function.__name__
    checks_of = cache(lambda: Checks(function))  # made when first used
    compute_in_float32 = round_once(function, autocast, products, like_first) if in_float32 else None

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        checks = checks_of()
        if settings:
            settings = _rename(name, settings, checks.names, checks.any_setting)
            if checks.listed in settings:  # f(x, dims=(0, 1)) as f(x, 0, 1)
                args = (*args, *[settings.pop(k) for k in checks.in_order[len(args) :] if k in settings])
        if modes.autocast_dtype is not None:
            args, settings = cast_for_autocast(autocast, (args, settings))
        try:
            if settings or len(args) > checks.first:
                for x, types in zip(args[checks.first :], checks.plain_by_position):  # noqa: B905
                    if type(x) not in types:
                        checks.check(args, {})
                for key, x in settings.items():
                    if type(x) not in checks.plain.get(key, ()):
                        checks.check_settings(settings)
            if compute_in_float32 is not None and (any_half(args) or any_half(settings.values())):
                return compute_in_float32(*args, **settings)
            return function(*args, **settings)
        except MinigradError as error:
            checks.check_rest(name, args, error)
            add_context(error, name, args, settings)
            raise
        except FOREIGN_ERRORS as error:
            if not raised_by_library(error):
                raise
            checks.check_rest(name, args, error)
            raise_with_context(name, args, settings, error, function)

    return call


# ---------------------------------------------------------------- dtypes


def autocast(op: Op, inputs: Any) -> Any:
    """The inputs in the dtype that autocast uses for the op."""
    return cast_for_autocast(op.autocast, inputs)


def cast_for_autocast(precision: str | None, inputs: Any) -> Any:
    """`inputs`, with floating tensors except float64 cast as `precision` says (see `About.autocast`)."""
    to = dtype_of(precision)
    if to is None:
        return inputs
    cast = ops["astype"].call
    others = (HALF | {float32}) - {to}
    return map_leaves(lambda x: cast(x, to) if isinstance(x, Tensor) and x.dtype in others else x, inputs)


def operands(
    op: Op, inputs: Sequence[Any]
) -> tuple[Sequence[Any], list[Any], list[Any], list[bool], np.dtype | None]:
    """Return the inputs as tensors of one dtype on one device, or numbers, and what a call needs of them.

    That is, for each input: its array, its graph edge, and whether it needs a gradient; and last, the 16-bit
    dtype of the first input that has one, or None.
    """
    arrays = []
    edges = []
    needs = []
    dtype = None
    uniform = not loaded
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor):
            array = x.array
            arrays.append(array)
            edges.append(x.node or x)
            needs.append(x._requires_grad)
            if dtype is None:
                dtype = array.dtype
            elif array.dtype is not dtype and (op.promotes is True or i in op.promotes):
                uniform = False
        else:
            arrays.append(x)
            edges.append(x)
            needs.append(False)
            if x is not None and (type(x) not in (float, int) or dtype is None or not is_floating(dtype)):
                uniform = False
    if uniform and dtype is not None and (is_floating(dtype) or not op.floating):
        return inputs, arrays, edges, needs, half_of(arrays)
    changed = move_to_one_device(op, prepare(op, inputs, op.promotes))
    if changed is not inputs:
        return operands(op, changed)
    return inputs, arrays, edges, needs, half_of(arrays)


def prepare(op: Op, inputs: Sequence[Any], promotes: Any) -> Sequence[Any]:
    """Convert arrays and lists to Tensors of one dtype; return `inputs` itself if nothing changes."""
    if not inputs:
        if op.operands:
            raise_extra_arguments(op.name, op.source, 0)
        raise ShapeError(f"{op.name} got no tensors.\nPass at least one.")
    changed = [x if isinstance(x, Tensor) or x is None else _convert(op, x) for x in inputs]
    if loaded:
        _move_converted(inputs, changed)
    if not any(isinstance(x, Tensor) for x in changed):
        changed[0] = as_tensor(changed[0])
    if promotes:
        _promote(op, changed)
    return inputs if all(a is b for a, b in zip(changed, inputs, strict=True)) else changed


def _promote(op: Op, inputs: list[Any]) -> None:
    """Cast inputs to their common dtype, as PyTorch promotes them."""
    places = [i for i in (range(len(inputs)) if op.promotes is True else op.promotes) if i < len(inputs)]
    meeting = [inputs[i] for i in places if inputs[i] is not None]
    if not meeting:
        return
    dtype = result_type(*meeting)
    has_tensor = any(isinstance(x, Tensor) for x in meeting)
    if op.floating and not is_floating(dtype):
        dtype = default_float
    if dtype == float64 and op.autocast == "lower":
        _warn_of_float64(op, meeting)
    widens = dtype in HALF and not (op.kernel_takes_half or op.compares)  # see `half`
    has_axes = widens and any(isinstance(x, Tensor) and x.ndim for x in meeting)
    for i in places:
        x = inputs[i]
        if isinstance(x, Tensor) and x.dtype != dtype:
            to = float32 if has_axes and not x.ndim else dtype  # a scalar is not rounded to 16 bits
            if x.dtype != to:
                inputs[i] = ops["astype"].call(x, to)
        elif type(x) in (float, int, bool) and (not is_floating(dtype) or not has_tensor):
            inputs[i] = as_tensor(np.asarray(x), dtype=dtype)  # integers wrap around


def _warn_of_float64(op: Op, inputs: Sequence[Any]) -> None:
    """Warn that float64 data (NumPy's default) makes a float32 model compute in float64.

    PyTorch raises an error instead. Only ops that autocast computes in 16 bits, such as matrix products and
    attention, are checked, as they have most of the parameters.
    """
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    data = [x for x in tensors if x.dtype == float64 and not x.requires_grad]
    parameters = [x for x in tensors if x.dtype == float32 and x.requires_grad and x.node is None]
    if data and parameters:
        warn(
            f"{op.name} of float64 data {list(data[0].shape)} and a float32 parameter computes in float64, "
            f"and so do all later operations.\nConvert the data, x.float() (arrays: x.astype('float32')), or "
            f"the model, model.double()."
        )


def _convert(op: Op, x: Any) -> Any:
    """Convert a NumPy scalar to a Python number, and an array or a list to a Tensor."""
    if type(x) in (float, int, bool):
        return x
    try:
        return x.item() if isinstance(x, np.generic) else as_tensor(x)
    except GraphError:
        raise
    except (TypeError, ValueError) as error:
        why = ": " + str(error).partition(".\n")[0] if isinstance(error, ShapeError) else ""
        raise DtypeError(
            f"{op.name} takes tensors, arrays and numbers, got {type(x).__name__} {describe(x)}{why}.\n"
            f"Convert it with mg.tensor(...)."
        ) from None


# ---------------------------------------------------------------- devices


def _move_converted(inputs: Sequence[Any], changed: list[Any]) -> None:
    """Move lists and NumPy arrays to the device of the tensors among the inputs."""
    device = next((x.device for x in inputs if isinstance(x, Tensor)), "cpu")
    for i, x in enumerate(inputs):
        if (
            isinstance(changed[i], Tensor)
            and not isinstance(x, Tensor)
            and changed[i].device == "cpu" != device
        ):
            changed[i] = ops["to_device"].call(changed[i], device)  # a list of tensors has gradients


def move_to_one_device(op: Op, inputs: Sequence[Any]) -> Sequence[Any]:
    """Move 0-d CPU tensors to the GPU of the other inputs, or raise a DeviceError if larger ones differ."""
    if len({type(x.array) for x in inputs if isinstance(x, Tensor)}) < 2:
        return inputs
    gpus = {x.device for x in inputs if isinstance(x, Tensor)} - {"cpu"}
    stays = lambda x: x.device == "cpu" and x.ndim and (x.requires_grad or not modes.data_moves)
    if len(gpus) > 1 or any(isinstance(x, Tensor) and stays(x) for x in inputs):
        operands = ", ".join(
            f"{describe(x)} on {x.device}" if isinstance(x, Tensor) else describe(x) for x in inputs
        )
        raise DeviceError(
            f"{op.name} of tensors on different devices: {operands}.\n"
            f"Move them to one, x.to({gpus.pop()!r}) or x.to('cpu')."
        )
    (device,) = gpus
    move = ops["to_device"].call
    return [move(x, device) if isinstance(x, Tensor) and x.device != device else x for x in inputs]
