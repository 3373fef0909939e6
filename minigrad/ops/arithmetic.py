"""Elementwise arithmetic, powers, exponentials, comparisons and choices.

Where a function has no derivative (a tie, a kink, a pole) the choice is PyTorch's, named beside the rule.
"""

from __future__ import annotations

import math

from ..devices import as_dtype, default_float, is_floating, plain_number, refuse_unconvertible
from ..errors import OptionError
from .costs import per_element
from .namespace import namespace
from .record import differentiable
from .samplers import away_from_zero, binary, distinct, positive, real, unary

__all__ = [
    "abs", "absolute", "add", "bitwise_and", "bitwise_not", "bitwise_or", "clamp", "clone", "cos",
    "div", "divide", "eq", "equal", "erf", "exp", "expm1", "floor", "floor_divide", "ge", "greater",
    "greater_equal", "gt", "isfinite", "isinf", "isnan", "le", "less", "less_equal", "log", "log1p",
    "logical_and", "logical_not", "logical_or", "lt", "maximum", "minimum", "mul", "multiply", "ne",
    "neg", "negative", "not_equal", "pow", "power", "remainder", "rsqrt", "sigmoid", "sign", "sin",
    "sqrt", "square", "sub", "subtract", "tanh", "where",
]  # fmt: skip


# ---------------------------------------------------------------- arithmetic


@differentiable(samples=binary(real), latex=("g", "g"))
def add(x, y, /):
    """x + y."""
    return x + y, (lambda g: g, lambda g: g)


@differentiable(samples=binary(real), latex=("g", "-g"))
def subtract(x, y, /):
    """x - y."""
    return x - y, (lambda g: g, lambda g: -g)


@differentiable(samples=binary(real), latex=(r"g\,y", r"g\,x"))
def multiply(x, y, /):
    """x * y; d/dx = y, d/dy = x."""
    return x * y, (lambda g: g * y, lambda g: g * x)


@differentiable(
    floating=True, samples=binary(real, away_from_zero), latex=(r"\frac{g}{y}", r"-g\,\frac{x}{y^2}")
)
def divide(x, y, /):
    """q = x / y; d/dx = 1 / y, d/dy = -q / y."""
    q = x / y
    return q, (lambda g: g / y, lambda g: -g * (q / y))


@differentiable(samples=unary(real), latex="-g")
def negative(x, /):
    """-x."""
    return -x, (lambda g: -g,)


@differentiable
def power(x, y, /):
    """x ** y; d/dx = y x**(y - 1), 0 where y = 0; d/dy = x**y log(x), 0 where x = 0 and y >= 0."""
    xp = namespace(x, y)
    if isinstance(y, int | float):
        if y == 0:
            return xp.ones_like(x), (lambda g: xp.zeros_like(g), None)
        return x**y, (lambda g: g * (y * x ** (y - 1)), None)
    if isinstance(x, int | float):
        x = x * xp.ones_like(y)
    value = xp.power(x, y)
    flat = lambda x, y: (x == 0) & (y >= 0)
    return value, (
        lambda g: g * xp.where(y == 0, 0.0, y * xp.power(x, xp.where(y == 0, 1.0, y - 1))),
        lambda g: g * xp.where(flat(x, y), 0.0, value * xp.log(xp.where(flat(x, y), 1.0, x))),
    )


@differentiable(samples=unary(real), latex=r"2\,g\,x")
def square(x, /):
    """x * x."""
    return x * x, (lambda g: g * (2 * x),)


@differentiable(samples=unary(distinct), latex=r"g\,\operatorname{sign}(x)")
def absolute(x, /):
    """|x|; the derivative at 0 is 0."""
    xp = namespace(x)
    return xp.absolute(x), (lambda g: g * xp.sign(x),)


@differentiable
def sign(x, /):
    """-1, 0 or 1; its derivative is 0."""
    xp = namespace(x)
    return xp.sign(x), (lambda g: xp.zeros_like(g),)


# ---------------------------------------------------------------- exponentials, roots, circles


@differentiable(floating=True, samples=unary(real), latex=r"g\,e^x")
def exp(x, /):
    """e ** x, its own derivative."""
    y = namespace(x).exp(x)
    return y, (lambda g: g * y,)


@differentiable(floating=True, samples=unary(positive), latex=r"\frac{g}{x}")
def log(x, /):
    """The natural logarithm; d/dx = 1 / x."""
    return namespace(x).log(x), (lambda g: g / x,)


@differentiable(floating=True)
def log1p(x, /):
    """log(1 + x), exact for small x; d/dx = 1 / (1 + x)."""
    return namespace(x).log1p(x), (lambda g: g / (1 + x),)


@differentiable(floating=True)
def expm1(x, /):
    """e ** x - 1, exact for small x; d/dx = e ** x."""
    y = namespace(x).expm1(x)
    return y, (lambda g: g * (y + 1),)


@differentiable(floating=True)
def sqrt(x, /):
    """The square root; d/dx = 1 / (2 sqrt(x)), infinite at 0."""
    y = namespace(x).sqrt(x)
    return y, (lambda g: g / (2 * y),)


@differentiable(floating=True)
def rsqrt(x, /):
    """1 / sqrt(x); d/dx = -1/2 x**(-3/2)."""
    y = 1 / namespace(x).sqrt(x)
    return y, (lambda g: g * (-0.5 * y * y * y),)


@differentiable(floating=True)
def sin(x, /):
    """sin(x); d/dx = cos(x)."""
    xp = namespace(x)
    return xp.sin(x), (lambda g: g * xp.cos(x),)


@differentiable(floating=True)
def cos(x, /):
    """cos(x); d/dx = -sin(x)."""
    xp = namespace(x)
    return xp.cos(x), (lambda g: g * -xp.sin(x),)


@differentiable(floating=True)
def tanh(x, /):
    """tanh(x); d/dx = 1 - tanh(x)**2."""
    y = namespace(x).tanh(x)
    return y, (lambda g: g * (1 - y * y),)


@differentiable(
    floating=True, samples=unary(real), latex=r"g\,\sigma(x)\,(1 - \sigma(x))", flops=per_element(4)
)
def sigmoid(x, /):
    """y = 1 / (1 + e**-x); d/dx = y (1 - y)."""
    y = namespace(x).sigmoid(x)
    return y, (lambda g: g * (y * (1 - y)),)


@differentiable(floating=True)
def erf(x, /):
    """2/sqrt(pi) times the integral of e**(-t**2) from 0 to x; d/dx = 2/sqrt(pi) e**(-x**2)."""
    xp = namespace(x)
    return xp.erf(x), (lambda g: g * (2 / math.sqrt(math.pi) * xp.exp(-x * x)),)


# ---------------------------------------------------------------- choices


@differentiable
def maximum(x, y, /):
    """The larger of each pair; where they are equal each gets half of the gradient."""
    xp = namespace(x, y)
    return xp.maximum(x, y), (lambda g: _won(xp, x, y, x > y, g), lambda g: _won(xp, y, x, y > x, g))


@differentiable
def minimum(x, y, /):
    """The smaller of each pair; where they are equal each gets half of the gradient."""
    xp = namespace(x, y)
    return xp.minimum(x, y), (lambda g: _won(xp, x, y, x < y, g), lambda g: _won(xp, y, x, y < x, g))


def _won(xp, own, other, chosen, g):
    """g where `own` was chosen, half of it at a tie, 0 elsewhere."""
    return xp.where(chosen, g, xp.where(own == other, g * 0.5, 0.0))


@differentiable
def clamp(x, /, min=None, max=None):
    """x, no less than `min`, no more than `max`; the derivative is 1 within (limits included), 0 outside."""
    if min is None and max is None:
        raise OptionError("clamp with neither min nor max.\nGive one of them.")
    xp = namespace(x)
    if x.dtype.kind != "f" and (isinstance(min, float) or isinstance(max, float)):
        x = x.astype(default_float)
    y = x
    if min is not None:
        y = xp.maximum(y, plain_number(min))
    if max is not None:
        y = xp.minimum(y, plain_number(max))
    return y, (lambda g: xp.gate(x == y, g),)


@differentiable(promotes=(1, 2))
def where(condition, x, y, /):
    """x where `condition` is True, y elsewhere."""
    xp = namespace(condition, x, y)
    return xp.where(condition, x, y), (
        None,
        lambda g: xp.where(condition, g, 0.0),
        lambda g: xp.where(condition, 0.0, g),
    )


# ---------------------------------------------------------------- comparisons and logic, without derivatives


@differentiable
def equal(x, y, /):
    """x == y."""
    return x == y, None


@differentiable
def not_equal(x, y, /):
    """x != y."""
    return x != y, None


@differentiable
def less(x, y, /):
    """x < y."""
    return x < y, None


@differentiable
def less_equal(x, y, /):
    """x <= y."""
    return x <= y, None


@differentiable
def greater(x, y, /):
    """x > y."""
    return x > y, None


@differentiable
def greater_equal(x, y, /):
    """x >= y."""
    return x >= y, None


@differentiable
def bitwise_and(x, y, /):
    """x & y, bit by bit; of booleans, whether both are true."""
    return x & y, None


@differentiable
def bitwise_or(x, y, /):
    """x | y, bit by bit; of booleans, whether either is true."""
    return x | y, None


@differentiable
def bitwise_not(x, /):
    """~x, bit by bit; of booleans, whether it is false."""
    return ~x, None


@differentiable
def logical_not(x, /):
    """Whether x is 0 or False."""
    return namespace(x).logical_not(x), None


@differentiable
def logical_and(x, y, /):
    """Whether both are true; on booleans this is `&`."""
    return namespace(x, y).logical_and(x, y), None


@differentiable
def logical_or(x, y, /):
    """Whether either is true; on booleans this is `|`."""
    return namespace(x, y).logical_or(x, y), None


@differentiable(floating=True)
def isnan(x, /):
    """Whether x is not a number."""
    return namespace(x).isnan(x), None


@differentiable(floating=True)
def isinf(x, /):
    """Whether x is infinite."""
    return namespace(x).isinf(x), None


@differentiable(floating=True)
def isfinite(x, /):
    """Whether x is neither infinite nor NaN."""
    return namespace(x).isfinite(x), None


@differentiable
def floor_divide(x, y, /):
    """x // y, rounded down."""
    return x // y, None


@differentiable
def remainder(x, y, /):
    """x - y floor(x / y), of the sign of y."""
    xp = namespace(x, y)
    return xp.remainder(x, y), (lambda g: g, lambda g: g * -xp.floor(x / y))


@differentiable
def floor(x, /):
    """The next whole number below; its derivative is 0."""
    xp = namespace(x)
    return xp.floor(x), (lambda g: xp.zeros_like(g),)


# ---------------------------------------------------------------- the same value


@differentiable(view=True)
def alias(x, /):
    """x itself, as a node of its own."""
    return x, (lambda g: g,)


@differentiable
def clone(x, /):
    """A copy of x, within the graph."""
    return namespace(x).copy(x), (lambda g: g,)


@differentiable(promotes=False)
def astype(x, /, dtype):
    """x in another dtype; the gradient comes back in the first, and there is none from whole numbers."""
    source, dtype = x.dtype, as_dtype(dtype)
    refuse_unconvertible(x, dtype)
    return x.astype(dtype), (lambda g: g.astype(source),) if is_floating(dtype) else None


# ---------------------------------------------------------------- PyTorch's other names

abs, pow, sub, mul, div, neg = absolute, power, subtract, multiply, divide, negative
eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
