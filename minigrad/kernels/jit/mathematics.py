"""exp, the logistic function and the normal distribution in float32, as plain arithmetic.

A loop without branches and calls is what the compiler turns into vector instructions; numba's own exp is a
call. The polynomials are fitted when the module is imported.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# What floating-point arithmetic may be reordered into. Not among them: that there is no NaN and no infinity.
FLAGS = frozenset({"reassoc", "contract", "arcp", "nsz", "afn"})
loop = njit(fastmath=set(FLAGS), cache=True, nogil=True, error_model="numpy")
inline = njit(fastmath=set(FLAGS), cache=True, inline="always", error_model="numpy")

F = np.float32


@njit(fastmath={*FLAGS, "nnan"}, cache=True, error_model="numpy")
def largest(row):
    """The largest number of a row; a NaN may count for nothing (the row's exponentials will have it)."""
    m = F(-np.inf)
    for j in range(row.size):
        m = row[j] if row[j] > m else m
    return m


def _fitted(function, low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Coefficients, that of the highest power first, of a polynomial close to `function` on [low, high]."""
    nodes = np.polynomial.chebyshev.chebpts1(4 * degree)
    x = (low + high) / 2 + nodes * (high - low) / 2
    series = np.polynomial.Chebyshev.fit(x, [function(v) for v in x], degree, domain=[low, high])
    return tuple(F(c) for c in series.convert(kind=np.polynomial.Polynomial).coef[::-1])


def _exp_remainder(r: float) -> float:
    """(e^r - 1 - r) / r**2."""
    return (math.expm1(r) - r) / (r * r) if abs(r) > 1e-3 else 0.5 + r / 6 + r * r / 24


def _scaled_erfc(t: float) -> float:
    """log(erfc(z) e^(z**2) / t) where t = 1 / (1 + z / 2)."""
    z = 2 / t - 2
    if z < 5:
        return math.log(math.erfc(z)) + z * z - math.log(t)
    fraction = z
    for n in range(60, 0, -1):  # Abramowitz, Stegun 7.1.14
        fraction = z + n / 2 / fraction
    return -math.log(fraction * math.sqrt(math.pi)) - math.log(t)


_E = _fitted(_exp_remainder, -0.3467, 0.3467, 5)
_T = _fitted(_scaled_erfc, 0.07, 1.0, 11)
_LOG2E, _LN2_HIGH, _LN2_LOW = F(1 / math.log(2)), F(0.693359375), F(math.log(2) - 0.693359375)
_LOWEST, _HIGHEST = F(-87.3), F(88.72)
_ROOT_HALF, _DENSITY = F(math.sqrt(0.5)), F(1 / math.sqrt(2 * math.pi))


@inline
def exp(x):
    """e^x = 2**n e^r with x = n ln 2 + r, to a unit in the last place (six above 88.4); 0 below -87.3."""
    z = min(max(x, _LOWEST), _HIGHEST)
    n = min(np.floor(z * _LOG2E + F(0.5)), F(127))  # 2**128 is no float32
    r = z - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((_E[0] * r + _E[1]) * r + _E[2]) * r + _E[3]) * r + _E[4]) * r + _E[5]
    y = (p * r * r + r + F(1)) * np.int32((np.int32(n) + 127) << 23).view(np.float32)
    y = F(0) if x < _LOWEST else y
    y = F(np.inf) if x > _HIGHEST else y
    return x if x != x else y


@inline
def logistic(x):
    """1 / (1 + e^-x)."""
    return F(1) / (F(1) + exp(-x))


@inline
def normal(x):
    """(Phi, phi): the standard normal distribution's integral up to x, and its density."""
    z = abs(x) * _ROOT_HALF
    t = F(1) / (F(1) + F(0.5) * z)
    p = _T[0]
    for c in _T[1:]:
        p = p * t + c
    bell = exp(-z * z)
    half = F(0.5) * t * exp(p) * bell
    return (F(1) - half if x > 0 else half), bell * _DENSITY
