"""exp, the logistic function and the normal distribution in float32, as plain arithmetic.

A loop without branches and calls is what the compiler turns into vector instructions; numba's own exp is a
call. The polynomials are fitted when the module is imported. After a change here delete `__pycache__` of this
folder: numba keeps a compiled loop for as long as the file that the loop is in stays as it was.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import extending, njit

# What the compiler may assume. Not among it: that there is no NaN and no infinity.
FLAGS = frozenset({"reassoc", "contract", "arcp", "nsz", "afn"})
OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "cache": True, "nogil": True, "error_model": "numpy"}
loop = njit(**OPTIONS)
intrinsic: Any = extending.intrinsic  # whose own type counts the typing context among the arguments
inline = njit(**{**OPTIONS, "nogil": False, "inline": "always"})

F = np.float32


@inline
def _flipped(bits):
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@inline
def largest(row):
    """The largest number of a row; a NaN may count for nothing (the row's exponentials will have it).

    Floats have the order of their bits read as integers, once those of negative ones are flipped; for the
    largest integer of a row the compiler makes vector instructions.
    """
    bits, m = row.view(np.int32), np.int32(-(2**31))
    for j in range(bits.size):
        m = max(m, _flipped(bits[j]))
    return np.int32(_flipped(m)).view(np.float32)


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
    """erfc(z) e^(z**2) / t where t = 1 / (1 + z / 2)."""
    z = 2 / t - 2
    if z < 5:
        return math.erfc(z) * math.exp(z * z) / t
    fraction = z
    for n in range(60, 0, -1):  # Abramowitz, Stegun 7.1.14
        fraction = z + n / 2 / fraction
    return 1 / (fraction * math.sqrt(math.pi) * t)


EXP = _fitted(_exp_remainder, -0.3467, 0.3467, 5)
_T = _fitted(_scaled_erfc, 0.07, 1.0, 9)
LOG2E, LN2_HIGH, LN2_LOW = F(1 / math.log(2)), F(0.693359375), F(math.log(2) - 0.693359375)
EXP_LOWEST, _HIGHEST = F(-87.3), F(88.72)
_ROOT_HALF, _DENSITY = F(math.sqrt(0.5)), F(1 / math.sqrt(2 * math.pi))


@inline
def exp(x):
    """e^x = 2**n e^r with x = n ln 2 + r, to a unit in the last place (six above 88.4); 0 below -87.3."""
    n = _powers_of_two(min(x if x > EXP_LOWEST else EXP_LOWEST, _HIGHEST))  # a number, even where x is NaN
    y = _power(x, min(n, F(127)))  # 2**128 is not a float32
    y = F(0) if x < EXP_LOWEST else y
    return F(np.inf) if x > _HIGHEST else y


@inline
def exp_below(x):
    """`exp` of x <= 0 in fewer steps; up to 88 it has the same value."""
    y = _power(x, _powers_of_two(x if x > EXP_LOWEST else EXP_LOWEST))
    return F(0) if x < EXP_LOWEST else y


@inline
def logistic(x):
    """1 / (1 + e^-x), where e^-x is infinite above 88.4; of a NaN it is some number."""
    z = min(max(-x, EXP_LOWEST), _HIGHEST)
    return F(1) / (F(1) + _power(z, _powers_of_two(z)))


@inline
def tanh(x):
    """(1 - e^-2x) / (1 + e^-2x), by e^-2|x| - 1 = 2**n (e^r - 1) + (2**n - 1): near 0 it has its digits."""
    z = F(-2) * abs(x)
    n = _powers_of_two(z if z > EXP_LOWEST else EXP_LOWEST)
    r = z - n * LN2_HIGH - n * LN2_LOW
    p = ((((EXP[0] * r + EXP[1]) * r + EXP[2]) * r + EXP[3]) * r + EXP[4]) * r + EXP[5]
    scale = np.int32((np.int32(n) + 127) << 23).view(np.float32)
    e = (p * r * r + r) * scale + (scale - F(1))
    y = F(1) if z < F(-20) else -e / (F(2) + e)
    return y if x > 0 else -y


@inline
def _powers_of_two(x):
    """n."""
    return np.floor(x * LOG2E + F(0.5))


@inline
def _power(x, n):
    """2**n e^r; infinite where n is 128."""
    r = x - n * LN2_HIGH - n * LN2_LOW
    p = ((((EXP[0] * r + EXP[1]) * r + EXP[2]) * r + EXP[3]) * r + EXP[4]) * r + EXP[5]
    return (p * r * r + r + F(1)) * np.int32((np.int32(n) + 127) << 23).view(np.float32)


@inline
def normal(x):
    """(Phi, phi): the standard normal distribution's integral up to x, and its density."""
    z = abs(x) * _ROOT_HALF
    t = F(1) / (F(1) + F(0.5) * z)
    p = _T[0]
    for c in _T[1:]:
        p = p * t + c
    bell = exp_below(-z * z)
    half = F(0.5) * t * p * bell
    return (F(1) - half if x > 0 else half), bell * _DENSITY
