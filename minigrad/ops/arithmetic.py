"""Sums, products, powers and roots, and copies of the same value.

Where a function has no derivative (a tie, a kink, a pole) the choice is PyTorch's, named at the rule.
The rest of arithmetic is in `extra/more_arithmetic.py`; every family here has such a companion.
"""

from __future__ import annotations

from ..core.costs import zero_flops
from ..core.devices import device_of, on_device
from ..core.dtypes import as_dtype, is_floating, refuse_unconvertible
from ..core.namespace import namespace, value_in_rule
from ..core.op import differentiable
from ..core.tensor import Tensor
from .samplers import away_from_zero, binary, distinct, each, unary
from .samplers import positive as positives
from .samplers import real as reals

__family__ = "elementwise"
__all__ = [
    "abs", "absolute", "add", "clone", "mul", "multiply", "neg", "negative", "pow", "power", "sqrt", "sub",
    "subtract", "true_divide",
]  # fmt: skip

TOO_LARGE = "The numbers are too large for their dtype: normalize the inputs, or lower the learning rate."
SAFE_DENOMINATOR = "Add an eps to the denominator, or choose a safe one (where) before dividing."


# ---------------------------------------------------------------- sums and products


def identity(g):
    """The gradient of what is added or passed on: one function, which all nodes share."""
    return g


@differentiable(sign="+", samples=binary(reals) | binary(reals, alpha=0.5), latex=("g", r"\alpha\,g"))
def add(x, y, /, *, alpha=1):
    """x + alpha y."""
    if alpha == 1:
        return x + y, (identity, identity)
    return x + alpha * y, (identity, lambda g: g * alpha)


@differentiable(sign="−", samples=binary(reals) | binary(reals, alpha=0.5), latex=("g", r"-\alpha\,g"))
def subtract(x, y, /, *, alpha=1):
    """x - alpha y."""
    if alpha == 1:
        return x - y, (identity, lambda g: -g)
    return x - alpha * y, (identity, lambda g: g * -alpha)


@differentiable(sign="×", samples=binary(reals), latex=(r"g\,y", r"g\,x"))
def multiply(x, y, /):
    """x * y; d/dx = y, d/dy = x."""
    return x * y, (lambda g: g * y, lambda g: g * x)


@differentiable(
    sign="÷",
    public_name="divide",
    advice=SAFE_DENOMINATOR,
    gradient_advice=SAFE_DENOMINATOR,
    floating=True,
    samples=binary(reals, away_from_zero),
    latex=(r"\frac{g}{y}", r"-g\,\frac{x}{y^2}"),
)
def true_divide(x, y, /):
    """q = x / y; d/dx = 1 / y, d/dy = -q / y."""
    q = x / y
    return q, (lambda g: g / y, lambda g: -g * (q / y))


@differentiable(sign="−x", samples=unary(reals), latex="-g")
def negative(x, /):
    """-x."""
    return -x, (lambda g: -g,)


# ---------------------------------------------------------------- powers and roots


@differentiable(
    autocast="float32",
    sign="xʸ",
    advice="Negative numbers have no powers of fractions, and 0 none of negatives: clamp the base.",
    gradient_advice="Powers below 1 have no derivative at 0.",
    samples=binary(positives, reals) | each((away_from_zero, 2, 3), 3) | each((reals, 3), 0),
    latex=(r"g\,y\,x^{y - 1}", r"g\,x^y \ln x"),
)
def power(x, y, /):
    """x ** y; d/dx = y x**(y - 1), 0 where y = 0; d/dy = x**y log(x), 0 where x = 0 and y >= 0."""
    xp = namespace(x, y)
    array = x if hasattr(x, "dtype") else y
    if array.dtype == bool:
        return x >= y, None  # False ** True alone is False
    if isinstance(y, int | float):
        if y == 0:
            return xp.ones_like(x), (lambda g: xp.zeros_like(g), None)
        return _to(x, y), (lambda g: g * (y * _to(x, y - 1)), None)
    if isinstance(x, int | float):
        x = x * xp.ones_like(y)
    value = xp.power(x, y)
    flat = lambda x, y: (x == 0) & (y >= 0)
    return value, (
        lambda g: g * xp.where(y == 0, 0.0, y * xp.power(x, xp.where(y == 0, 1.0, y - 1))),
        lambda g: g * xp.where(flat(x, y), 0.0, value * xp.log(xp.where(flat(x, y), 1.0, x))),
    )


def _to(x, n):
    """x ** n, small integer powers as products: NumPy takes hundreds of times longer for x**3 than x*x*x."""
    if n not in (-3, -2, 3, 4) or not is_floating(x.dtype):
        return x**n
    square = x * x
    product = square if n == -2 else square * square if n == 4 else square * x
    return product if n > 0 else 1 / product


@differentiable(
    sign="√",
    advice="What is below 0 has no root: clamp it, or look where its sign comes from.",
    gradient_advice="Add an eps under the root: its derivative at 0 is infinite.",
    floating=True,
    samples=unary(positives),
    latex=r"\frac{g}{2\sqrt{x}}",
)
def sqrt(x, /):
    """The square root; d/dx = 1 / (2 sqrt(x)), infinite at 0."""
    y = namespace(x).sqrt(x)
    return y, (lambda g: g / (2 * y),)


# ---------------------------------------------------------------- signs


@differentiable(samples=unary(distinct), latex=r"g\,\operatorname{sign}(x)")
def absolute(x, /):
    """|x|; the derivative at 0 is 0, and so it is at NaN, as PyTorch's."""
    xp = namespace(x)
    return xp.absolute(x), (lambda g: g * xp.sign(x),)


# ---------------------------------------------------------------- the same value


@differentiable(view=True, samples=unary(reals), latex="g", flops=zero_flops)
def alias(x, /):
    """x itself, as a node of its own."""
    return x, (identity,)


@differentiable(exact_in_half=True, samples=unary(reals), latex="g", flops=zero_flops)
def clone(x, /, memory_format=None):
    """A copy of x, recorded in the graph; `memory_format` is ignored."""
    return namespace(x).copy(x), (identity,)


@differentiable(
    casts=True,
    public_name="to",
    exact_in_half=True,
    promotes=False,
    samples=each((reals, 2, 3), dtype="float64"),
    latex="g",
    flops=zero_flops,
)
def astype(x, /, dtype):
    """x in another dtype; the gradient comes back in the first, and there is none from integers."""
    source, dtype = x.dtype, as_dtype(dtype)
    refuse_unconvertible(x, dtype)
    return x.astype(dtype), (lambda g: g.astype(source),) if is_floating(dtype) else None


@differentiable(
    view=True, promotes=False, samples=each((reals, 2, 3), device="cpu"), latex="g", flops=zero_flops
)
def to_device(x, /, device):
    """x's numbers on another device; the gradient comes back to the first."""
    back = x.device if isinstance(x, Tensor) else device_of(x)
    moved = lambda x, device: value_in_rule("to_device", on_device, x, device)
    return moved(x, device), (lambda g: moved(g, back),)


# ---------------------------------------------------------------- PyTorch's other names

abs, pow, sub, mul, neg = absolute, power, subtract, multiply, negative
