"""exp, the logistic function and the normal distribution in float32, as plain arithmetic.

A loop without branches and calls is what the compiler turns into vector instructions; numba's own exp is a
call. The polynomials are fitted when the module is imported. After a change here delete `__pycache__` of this
folder: numba keeps a compiled loop for as long as the file that the loop is in stays as it was.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import extending

from .compiler import compiled

# What the compiler may do to any operation of any loop: make one instruction, which rounds once, of a
# product and a sum. It may not reorder ("reassoc"): of `x - m - shift` it would make `x - (m + shift)`, in
# which a large m leaves nothing of `shift`. Nor multiply by a reciprocal ("arcp"), or estimate a root
# ("afn"), which are 0 or infinite at the ends of the range. Only the additions of `accumulate` may be
# reordered: a loop that needs them has sums over a row, which the compiler would not turn into vector
# instructions otherwise.
FLAGS = frozenset({"contract"})
OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "nogil": True, "error_model": "numpy"}
loop = compiled(**OPTIONS)
intrinsic: Any = extending.intrinsic  # whose own type counts the typing context among the arguments
inline = compiled(**{**OPTIONS, "nogil": False, "inline": "always"})

F = np.float32


@compiled(**{**OPTIONS, "nogil": False, "fastmath": {*FLAGS, "reassoc"}})
def accumulate(total, term):
    """total + term of a sum in any order: the compiler gives each lane of a vector a total of its own.

    This addition alone has the flag "reassoc", also where LLVM puts it into the loop that calls it; what is
    added is computed as it is written.
    """
    return total + term


@inline
def _flipped(bits):
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@inline
def largest(row):
    """The largest number of a row; a NaN may count for nothing (the row's exponentials will have it).

    Floats have the order of their bits read as integers, once those of negative ones are flipped; for the
    largest integer of a row the compiler makes vector instructions.
    """
    bits = row.view(np.int32)
    m = np.int32(-(2**31))
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


EXP = _fitted(_exp_remainder, -0.3467, 0.3467, 4)
_T = _fitted(_scaled_erfc, 0.07, 1.0, 9)
LOG2E, LN2 = F(1 / math.log(2)), F(math.log(2))
EXP_LOWEST, _HIGHEST = F(-87.3), F(88.72)
# Numbers of this size have no fraction: of n + ROUND the last bits are n + 127, the exponent of 2**n.
ROUND = F(1.5 * 2**23 + 127)
_ROOT_HALF, _DENSITY = F(math.sqrt(0.5)), F(1 / math.sqrt(2 * math.pi))


@inline
def exp(x):
    """e^x = 2**n e^r with x = n ln 2 + r, to two units in the last place; 0 below -87.3."""
    n = _powers_of_two(min(x if x > EXP_LOWEST else EXP_LOWEST, _HIGHEST))
    twice = F(2) if n > ROUND + F(127) else F(1)  # 2**128 is not a float32
    r = _remainder(x, n)
    y = (_polynomial(r) * (r * r) + (r + F(1))) * _two_to(min(n, ROUND + F(127))) * twice
    y = F(0) if x < EXP_LOWEST else y
    return F(np.inf) if x > _HIGHEST else y


@inline
def exp_below(x):
    """`exp` of x <= 0 in fewer steps; up to 88 it has the same value."""
    y = _power(x, _powers_of_two(x if x > EXP_LOWEST else EXP_LOWEST))
    return F(0) if x < EXP_LOWEST else y


@inline
def logistic(x):
    """1 / (1 + e^-x), where e^-x is infinite above 88.4."""
    z = -x
    z = EXP_LOWEST if z < EXP_LOWEST else z
    z = _HIGHEST if z > _HIGHEST else z
    return F(1) / (F(1) + _power(z, _powers_of_two(z)))


@inline
def tanh(x):
    """(1 - e^-2x) / (1 + e^-2x), by e^-2|x| - 1 = 2**n (e^r - 1) + (2**n - 1): near 0 it has its digits."""
    z = F(-2) * abs(x)
    n = _powers_of_two(z if z > EXP_LOWEST else EXP_LOWEST)
    r = _remainder(z, n)
    scale = _two_to(n)
    e = (_polynomial(r) * (r * r) + r) * scale + (scale - F(1))
    y = F(1) if z < F(-20) else -e / (F(2) + e)
    return y if x > 0 else -y


@inline
def _powers_of_two(x):
    """n + ROUND."""
    return x * LOG2E + ROUND


@inline
def _two_to(n):
    """2**n of n + ROUND; infinite where n is 128."""
    return np.int32(F(n).view(np.int32) << np.int32(23)).view(np.float32)


@inline
def _remainder(x, n):
    """r = x - n ln 2 of n + ROUND."""
    return x - (n - ROUND) * LN2


@inline
def _polynomial(r):
    """(e^r - 1 - r) / r**2, by pairs of terms: a short chain of operations that wait for each other."""
    square = r * r
    return (EXP[0] * square + (EXP[1] * r + EXP[2])) * square + (EXP[3] * r + EXP[4])


@inline
def _power(x, n):
    """2**n e^r of n + ROUND."""
    r = _remainder(x, n)
    return (_polynomial(r) * (r * r) + (r + F(1))) * _two_to(n)


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
