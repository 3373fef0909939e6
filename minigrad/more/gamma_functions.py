"""The logarithm of the gamma function and its derivatives for arrays, which NumPy does not have.

Each is an asymptotic series for large x (Abramowitz and Stegun 6.1.41, 6.4.11). Small x are reduced to it by
the recurrence gamma(x + 1) = x gamma(x), and negative x by reflection.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from ..core.devices import array_module
from ..ops.special_functions import in_double

# B_2, B_4, ..., B_20
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)
_LARGE = 10  # from here on the series is accurate


@in_double
def lgamma(x):
    """log|gamma(x)|, elementwise; infinite at 0, -1, -2, ..."""
    xp = array_module(x)
    reflected = x < 0.5
    z = xp.where(reflected, 1 - x, x)
    small = z < _LARGE
    product = xp.ones_like(z)
    for k in range(_LARGE):
        product = product * xp.where(small, z + k, 1)
    y = xp.where(small, z + _LARGE, xp.where(xp.isinf(z), _LARGE, z))
    series = sum(b / (2 * k * (2 * k - 1)) * y ** (1 - 2 * k) for k, b in enumerate(_BERNOULLI, 1))
    value = (y - 0.5) * xp.log(y) - y + math.log(2 * math.pi) / 2 + series - xp.log(product)
    sine = xp.abs(xp.sin(math.pi * _from_integer(x)))
    with np.errstate(divide="ignore"):
        value = xp.where(reflected, math.log(math.pi) - xp.log(sine) - value, value)
    return xp.where(xp.isinf(x), np.inf, value)


@in_double
def polygamma(x, n):
    """The derivative of order n + 1 of log(gamma(x)), elementwise: digamma for n = 0; NaN at -infinity."""
    xp = array_module(x)
    reflected = x < 0.5
    z = xp.where(reflected, 1 - x, x)
    value = _digamma(z) if n == 0 else (-1) ** (n + 1) * math.factorial(n) * _zeta(n + 1, z)
    offset = _from_integer(x)
    pole = (x <= 0) & (offset == 0)
    cotangent = 1 / xp.tan(math.pi * xp.where(offset == 0, 0.5, xp.where(x == -np.inf, np.nan, offset)))
    other = (-1) ** n * value - math.pi * _derivative_of_cotangent(n)(cotangent)
    if n == 0:  # at poles the limit depends on the side, known only for 0 and -0
        other = xp.where(pole, xp.where(x == 0, xp.copysign(np.inf, -x), np.nan), other)
    else:
        other = xp.where(pole, (-1) ** (n + 1) * np.inf, other)
    return xp.where(reflected, other, value)


def _digamma(x):
    """digamma(x) for x >= 0.5."""
    xp = array_module(x)
    y = x + _LARGE
    series = sum(b / (2 * k) * y ** (-2.0 * k) for k, b in enumerate(_BERNOULLI, 1))
    return xp.log(y) - 0.5 / y - series - sum(1 / (x + k) for k in range(_LARGE))


def _zeta(s, x):
    """Hurwitz's zeta, the sum of (x + k)**-s over k = 0, 1, ..., for x >= 0.5, by Euler and Maclaurin."""
    y = x + _LARGE
    total = sum((x + k) ** -float(s) for k in range(_LARGE)) + y ** (1.0 - s) / (s - 1) + y ** -float(s) / 2
    factor = float(s)
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + b * factor / math.factorial(2 * k) * y ** (1.0 - s - 2 * k)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    return total


def _derivative_of_cotangent(n):
    """The derivative of order n of c = cot(pi x), as a function of c; the first is -pi (1 + c**2)."""
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([-math.pi, 0.0, -math.pi])
    highest, *others = reversed(polynomial.coef.tolist())
    return lambda t: reduce(lambda value, coefficient: value * t + coefficient, others, highest)


def _from_integer(x):
    """x minus the nearest integer; 0.5 for infinities."""
    xp = array_module(x)
    finite = xp.where(xp.isinf(x), 0.5, x)
    return finite - xp.round(finite)
