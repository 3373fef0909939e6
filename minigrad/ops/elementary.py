"""Exponentials and logarithms, trigonometric and hyperbolic functions, error functions."""

from __future__ import annotations

import math

from ..core.costs import per_element
from ..core.namespace import namespace
from ..core.op import differentiable
from .samplers import binary, positive, real, unary

__family__ = "elementwise"
__all__ = ["cos", "erf", "erfc", "exp", "log", "logaddexp", "sin", "tanh"]


# ---------------------------------------------------------------- exponentials


@differentiable(
    autocast="float32",
    sign="eˣ",
    advice="Subtract the largest before exp (softmax, logsumexp), or clamp.",
    floating=True,
    samples=unary(real),
    latex=r"g\,e^x",
)
def exp(x, /):
    """e ** x, which is its own derivative."""
    y = namespace(x).exp(x)
    return y, (lambda g: g * y,)


# ---------------------------------------------------------------- logarithms


@differentiable(
    autocast="float32",
    advice="Add an eps, or clamp; for probabilities use log_softmax or cross_entropy instead.",
    gradient_advice="Add an eps: the derivative at 0 is infinite.",
    floating=True,
    samples=unary(positive),
    latex=r"\frac{g}{x}",
)
def log(x, /):
    """The natural logarithm; d/dx = 1 / x."""
    return namespace(x).log(x), (lambda g: g / x,)


@differentiable(
    autocast="float32",
    floating=True,
    samples=binary(real),
    latex=(r"g\,\sigma(x - y)", r"g\,\sigma(y - x)"),
    flops=per_element(5),
)
def logaddexp(x, y, /):
    """log(e**x + e**y), without overflow; d/dx = sigmoid(x - y), d/dy = sigmoid(y - x)."""
    xp = namespace(x, y)
    return xp.logaddexp(x, y), (lambda g: g * xp.sigmoid(x - y), lambda g: g * xp.sigmoid(y - x))


# ---------------------------------------------------------------- trigonometric


@differentiable(floating=True, samples=unary(real), latex=r"g \cos x")
def sin(x, /):
    """sin(x); d/dx = cos(x)."""
    xp = namespace(x)
    return xp.sin(x), (lambda g: g * xp.cos(x),)


@differentiable(floating=True, samples=unary(real), latex=r"-g \sin x")
def cos(x, /):
    """cos(x); d/dx = -sin(x)."""
    xp = namespace(x)
    return xp.cos(x), (lambda g: g * -xp.sin(x),)


# ---------------------------------------------------------------- hyperbolic


@differentiable(floating=True, samples=unary(real), latex=r"g\,(1 - \tanh^2 x)")
def tanh(x, /):
    """y = tanh(x) = sinh(x) / cosh(x); d/dx = 1 - y**2, which is 0 where y rounds to 1."""
    y = namespace(x).tanh(x)
    return y, (lambda g: g * (1 - y * y),)


# ---------------------------------------------------------------- error functions


@differentiable(floating=True, samples=unary(real), latex=r"\frac{2g}{\sqrt\pi}\,e^{-x^2}")
def erf(x, /):
    """The error function; d/dx = 2/sqrt(pi) e**(-x**2)."""
    xp = namespace(x)
    return xp.erf(x), (lambda g: g * (2 / math.sqrt(math.pi) * xp.exp(-x * x)),)


@differentiable(floating=True, samples=unary(real), latex=r"-\frac{2g}{\sqrt\pi}\,e^{-x^2}")
def erfc(x, /):
    """1 - erf(x), also accurate where erf(x) is near 1; d/dx = -2/sqrt(pi) e**(-x**2)."""
    xp = namespace(x)
    return xp.erfc(x), (lambda g: g * (-2 / math.sqrt(math.pi) * xp.exp(-x * x)),)
