"""Functions with names of their own: the logistic function, the error function and its family."""

from __future__ import annotations

import math

from .costs import per_element
from .namespace import namespace
from .record import differentiable
from .samplers import real, unary

__all__ = [
    "erf", "sigmoid",
]  # fmt: skip


@differentiable(
    floating=True, samples=unary(real), latex=r"g\,\sigma(x)\,(1 - \sigma(x))", flops=per_element(4)
)
def sigmoid(x, /):
    """y = 1 / (1 + e**-x); d/dx = y (1 - y)."""
    y = namespace(x).sigmoid(x)
    return y, (lambda g: g * (y * (1 - y)),)


@differentiable(floating=True, samples=unary(real), latex=r"\frac{2g}{\sqrt\pi}\,e^{-x^2}")
def erf(x, /):
    """2/sqrt(pi) times the integral of e**(-t**2) from 0 to x; d/dx = 2/sqrt(pi) e**(-x**2)."""
    xp = namespace(x)
    return xp.erf(x), (lambda g: g * (2 / math.sqrt(math.pi) * xp.exp(-x * x)),)
