"""Arithmetic, broadcasting, copies and casts: the ops that the engine itself needs.

All other ops are in `minigrad.ops`.
"""

from __future__ import annotations

from .argument_checks import FLAG, raise_argument_error
from .costs import per_input, zero_flops
from .devices import device_of, on_device
from .dtypes import as_dtype, check_convertible, is_floating
from .errors import ShapeError
from .namespace import namespace, value_in_rule
from .op import differentiable
from .sums import unbroadcast
from .tensor import Tensor, destination

__family__ = "elementwise"

SAFE_DENOMINATOR = "Add an eps to the denominator, or choose a safe one (where) before dividing."


# ---------------------------------------------------------------- sums and products


def identity(g):
    """Return g: the gradient of a term of a sum, or of a view. All nodes share this one function."""
    return g


@differentiable(sign="+", latex=("g", r"\alpha\,g"))
def add(x, y, /, *, alpha=1):
    """x + alpha y."""
    if alpha == 1:
        return x + y, (identity, identity)
    return x + alpha * y, (identity, lambda g: g * alpha)


@differentiable(sign="−", latex=("g", r"-\alpha\,g"))
def subtract(x, y, /, *, alpha=1):
    """x - alpha y."""
    if alpha == 1:
        return x - y, (identity, lambda g: -g)
    return x - alpha * y, (identity, lambda g: g * -alpha)


@differentiable(sign="×", latex=(r"g\,y", r"g\,x"))
def multiply(x, y, /):
    """x * y; d/dx = y, d/dy = x."""
    return x * y, (lambda g: g * y, lambda g: g * x)


@differentiable(
    sign="÷",
    public_name="divide",
    advice=SAFE_DENOMINATOR,
    gradient_advice=SAFE_DENOMINATOR,
    floating=True,
    latex=(r"\frac{g}{y}", r"-g\,\frac{x}{y^2}"),
)
def true_divide(x, y, /):
    """q = x / y; d/dx = 1 / y, d/dy = -q / y."""
    q = x / y
    return q, (lambda g: g / y, lambda g: -g * (q / y))


@differentiable(sign="−x", latex="-g")
def negative(x, /):
    """-x."""
    return -x, (lambda g: -g,)


# ---------------------------------------------------------------- broadcasting


@differentiable(view=True, family="shape", latex=r"\sum_{\text{repetitions}} g", flops=zero_flops)
def broadcast_to(x, /, shape):
    """x repeated, without a copy, to a shape that it broadcasts to; the gradient sums over the repeats."""
    if tuple(shape) == x.shape:
        return value_in_rule("alias", lambda x: x[...], x), (identity,)  # NumPy's result would be read-only
    try:
        return namespace(x).broadcast_to(x, shape), (identity,)
    except ValueError:
        raise ShapeError(
            f"shape {x.shape} does not broadcast to {tuple(shape)}.\n"
            f"From the last axis on, an axis must have that length or 1; new axes go in front."
        ) from None


@differentiable(family="shape", exact_in_half=True, latex="g", flops=per_input(1))
def sum_to(x, /, shape):
    """x summed to `shape`: the gradient of broadcasting."""
    repeated = x.shape
    return unbroadcast(x, shape), (lambda g: namespace(g).broadcast_to(g, repeated),)


# ---------------------------------------------------------------- the same value


@differentiable(view=True, latex="g", flops=zero_flops)
def alias(x, /):
    """A tensor that shares the memory of x but has its own node."""
    return x, (identity,)


@differentiable(exact_in_half=True, latex="g", flops=zero_flops)
def clone(x, /, memory_format=None):
    """A copy of x, recorded in the graph; `memory_format` is ignored."""
    return namespace(x).copy(x), (identity,)


@differentiable(
    casts=True,
    public_name="to",
    exact_in_half=True,
    promotes=False,
    latex="g",
    flops=zero_flops,
)
def astype(x, /, dtype):
    """x in another dtype; the gradient is cast back, and integers have none."""
    source = x.dtype
    dtype = as_dtype(dtype)
    check_convertible(x, dtype)
    return x.astype(dtype), (lambda g: g.astype(source),) if is_floating(dtype) else None


@differentiable(view=True, promotes=False, latex="g", flops=zero_flops)
def to_device(x, /, device):
    """x copied to another device; the gradient is copied back."""
    back = x.device if isinstance(x, Tensor) else device_of(x)
    moved = lambda x, device: value_in_rule("to_device", on_device, x, device)
    return moved(x, device), (lambda g: moved(g, back),)


def to(x, *targets, dtype=None, device=None, copy=False, non_blocking=False, memory_format=None):
    """x in another dtype or on another device: `to("float64")`, `to("cpu", "float64")`, `to(other_tensor)`.

    Returns x itself if nothing changes, unless `copy` is set. `non_blocking` and `memory_format` are ignored.
    """
    if type(copy) is not bool and not FLAG.fits(copy):
        raise_argument_error("copy", copy, FLAG)
    dtype, device = destination(targets, dtype, device)
    y = x if device in (None, x.device) else to_device(x, device)
    if dtype is None or dtype == x.dtype:
        return clone(x) if copy and y is x else y
    return astype(y, dtype)
