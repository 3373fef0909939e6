"""Exponentials and logarithms in other bases, and trigonometric and hyperbolic functions with inverses."""

from __future__ import annotations

import math

from ..core.costs import per_element
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..ops.arithmetic import absolute
from ..ops.axes import as_floating
from ..ops.comparisons import lt, where
from ..ops.elementary import sin
from ..ops.samplers import above_one, away_from_zero, binary, positive, real, unary, within_one

__family__ = "elementwise"
__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin",
    "asinh", "atan", "atan2", "atanh", "cosh", "exp2", "expm1", "log1p", "log2", "log10",
    "logaddexp2", "sinc", "sinh", "tan",
]  # fmt: skip

LN2, LN10 = math.log(2), math.log(10)


# ---------------------------------------------------------------- exponentials


@differentiable(autocast="float32", floating=True, samples=unary(real), latex=r"g\,2^x \ln 2")
def exp2(x, /):
    """2 ** x; d/dx = 2**x log(2)."""
    y = namespace(x).exp2(x)
    return y, (lambda g: g * (y * LN2),)


@differentiable(autocast="float32", floating=True, samples=unary(real), latex=r"g\,e^x")
def expm1(x, /):
    """e ** x - 1, exact for small x; d/dx = e ** x."""
    xp = namespace(x)
    return xp.expm1(x), (lambda g: g * xp.exp(x),)


# ---------------------------------------------------------------- logarithms


@differentiable(autocast="float32", floating=True, samples=unary(positive), latex=r"\frac{g}{x \ln 2}")
def log2(x, /):
    """The logarithm to base 2; d/dx = 1 / (x log(2))."""
    return namespace(x).log2(x), (lambda g: g / (x * LN2),)


@differentiable(autocast="float32", floating=True, samples=unary(positive), latex=r"\frac{g}{x \ln 10}")
def log10(x, /):
    """The logarithm to base 10; d/dx = 1 / (x log(10))."""
    return namespace(x).log10(x), (lambda g: g / (x * LN10),)


@differentiable(autocast="float32", floating=True, samples=unary(positive), latex=r"\frac{g}{1 + x}")
def log1p(x, /):
    """log(1 + x), exact for small x; d/dx = 1 / (1 + x)."""
    return namespace(x).log1p(x), (lambda g: g / (1 + x),)


@differentiable(
    autocast="float32",
    floating=True,
    samples=binary(real),
    latex=(r"\frac{g}{1 + 2^{y - x}}", r"\frac{g}{1 + 2^{x - y}}"),
    flops=per_element(5),
)
def logaddexp2(x, y, /):
    """log2(2**x + 2**y), without overflow; d/dx = 1 / (1 + 2**(y - x)), d/dy = 1 / (1 + 2**(x - y))."""
    xp = namespace(x, y)
    return xp.logaddexp2(x, y), (
        lambda g: g * xp.sigmoid((x - y) * LN2),
        lambda g: g * xp.sigmoid((y - x) * LN2),
    )


# ---------------------------------------------------------------- trigonometric


@differentiable(autocast="float32", floating=True, samples=unary(within_one), latex=r"g\,(1 + \tan^2 x)")
def tan(x, /):
    """tan(x); d/dx = 1 + tan(x)**2."""
    y = namespace(x).tan(x)
    return y, (lambda g: g * (1 + y * y),)


@differentiable(
    autocast="float32", floating=True, samples=unary(within_one), latex=r"\frac{g}{\sqrt{1 - x^2}}"
)
def asin(x, /):
    """The angle in [-pi/2, pi/2] with sine x; d/dx = 1 / sqrt(1 - x**2)."""
    xp = namespace(x)
    return xp.asin(x), (lambda g: g / xp.sqrt((1 - x) * (1 + x)),)


@differentiable(
    autocast="float32", floating=True, samples=unary(within_one), latex=r"-\frac{g}{\sqrt{1 - x^2}}"
)
def acos(x, /):
    """The angle in [0, pi] with cosine x; d/dx = -1 / sqrt(1 - x**2)."""
    xp = namespace(x)
    return xp.acos(x), (lambda g: -g / xp.sqrt((1 - x) * (1 + x)),)


@differentiable(floating=True, samples=unary(real), latex=r"\frac{g}{1 + x^2}")
def atan(x, /):
    """The angle in (-pi/2, pi/2) with tangent x; d/dx = 1 / (1 + x**2)."""
    return namespace(x).atan(x), (lambda g: g / (1 + x * x),)


@differentiable(
    autocast="float32",
    floating=True,
    samples=binary(away_from_zero),
    latex=(r"g\,\frac{y}{x^2 + y^2}", r"-g\,\frac{x}{x^2 + y^2}"),
)
def atan2(x, y, /):
    """The angle of the point (y, x), in (-pi, pi]; d/dx = y / r**2, d/dy = -x / r**2.

    The first argument is the vertical coordinate. r**2 = x**2 + y**2; at 0 both derivatives are set to 0.
    """
    xp = namespace(x, y)

    def over_square(g, side):
        r = xp.hypot(x, y)  # its square may overflow or underflow
        zero = r == 0
        r = xp.where(zero, 1.0, r)
        return g * xp.where(zero, 0.0, side / r / r)

    return xp.atan2(x, y), (lambda g: over_square(g, y), lambda g: over_square(g, -x))


@derived(samples=unary(away_from_zero), latex=r"g\,\frac{\cos \pi x - \operatorname{sinc} x}{x}")
def sinc(x):
    """sin(pi x) / (pi x), and 1 at 0, where its derivative is 0.

    Near 0 the series of (-1)**n (pi x)**(2n) / (2n + 1)! is used, since the quotient's derivatives cancel.
    """
    x = as_floating(x)
    angle = x * math.pi
    near = lt(absolute(angle), 1.0)
    square = where(near, angle, 0.0).square()
    series = 1.0
    for n in range(9, 0, -1):
        series = 1.0 - series * square / (2 * n * (2 * n + 1))
    angle = where(near, 1.0, angle)
    return where(near, series, sin(angle) / angle)


# ---------------------------------------------------------------- hyperbolic


@differentiable(autocast="float32", floating=True, samples=unary(real), latex=r"g \cosh x")
def sinh(x, /):
    """sinh(x) = (e**x - e**-x) / 2; d/dx = cosh(x)."""
    xp = namespace(x)
    return xp.sinh(x), (lambda g: g * xp.cosh(x),)


@differentiable(autocast="float32", floating=True, samples=unary(real), latex=r"g \sinh x")
def cosh(x, /):
    """cosh(x) = (e**x + e**-x) / 2; d/dx = sinh(x)."""
    xp = namespace(x)
    return xp.cosh(x), (lambda g: g * xp.sinh(x),)


@differentiable(floating=True, samples=unary(real), latex=r"\frac{g}{\sqrt{x^2 + 1}}")
def asinh(x, /):
    """The number whose sinh is x; d/dx = 1 / sqrt(x**2 + 1)."""
    xp = namespace(x)
    return xp.asinh(x), (lambda g: g / xp.hypot(x, 1.0),)


@differentiable(floating=True, samples=unary(above_one), latex=r"\frac{g}{\sqrt{x^2 - 1}}")
def acosh(x, /):
    """The positive number whose cosh is x; d/dx = 1 / sqrt(x**2 - 1)."""
    xp = namespace(x)
    return xp.acosh(x), (lambda g: g / (xp.sqrt(x - 1) * xp.sqrt(x + 1)),)


@differentiable(floating=True, samples=unary(within_one), latex=r"\frac{g}{1 - x^2}")
def atanh(x, /):
    """The number whose tanh is x; d/dx = 1 / (1 - x**2)."""
    return namespace(x).atanh(x), (lambda g: g / ((1 - x) * (1 + x)),)


# ---------------------------------------------------------------- PyTorch's other names

arcsin = asin
arccos = acos
arctan = atan
arctan2 = atan2
arcsinh = asinh
arccosh = acosh
arctanh = atanh
