"""exp, the logistic function and the normal distribution in float32, as plain arithmetic.

The compiler vectorizes loops without branches and calls, and numba's own exp is a call. The polynomials are
fitted when the module is imported. After a change here, delete `__pycache__` of this folder: numba reuses a
compiled loop until the file that contains the loop changes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import extending

from .compiler import compiled

# In all loops the compiler may fuse a product and a sum into one instruction, which rounds once. It may not
# reorder ("reassoc"): `x - m - shift` could become `x - (m + shift)`, in which a large m absorbs `shift`. It
# may not multiply by reciprocals ("arcp") or approximate roots ("afn"), which give 0 or infinity at the ends
# of the range. Only the additions of `accumulate` may be reordered: sums over a row are not vectorized
# otherwise.
FLAGS = frozenset({"contract"})
OPTIONS: dict[str, Any] = {"fastmath": set(FLAGS), "nogil": True, "error_model": "numpy"}
loop = compiled(**OPTIONS)
intrinsic: Any = extending.intrinsic  # Any: its type wrongly includes the typing context in the arguments
inline = compiled(**{**OPTIONS, "nogil": False, "inline": "always"})

F = np.float32


@compiled(**{**OPTIONS, "nogil": False, "fastmath": {*FLAGS, "reassoc"}})
def accumulate(total, term):
    """total + term, for a sum in any order: the compiler may give each vector lane its own total.

    Only this addition has the flag "reassoc", also when inlined into a loop; `term` is computed as written.
    """
    return total + term


@inline
def _ordered_bits(bits):
    """Map the bits of floats to integers with the same order, and back."""
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@inline
def largest(row):
    """The largest number of a row. NaN may be ignored (it shows up in the row's exponentials).

    Compares the bits as integers, with those of negative numbers flipped, since the compiler vectorizes the
    maximum of integers.
    """
    bits = row.view(np.int32)
    m = np.int32(-(2**31))
    for j in range(bits.size):
        m = max(m, _ordered_bits(bits[j]))
    return np.int32(_ordered_bits(m)).view(np.float32)


def _fit_polynomial(function, low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Fit a polynomial to `function` on [low, high]. Return its coefficients, highest power first."""
    nodes = np.polynomial.chebyshev.chebpts1(4 * degree)
    x = (low + high) / 2 + nodes * (high - low) / 2
    series = np.polynomial.Chebyshev.fit(x, [function(v) for v in x], degree, domain=[low, high])
    return tuple(F(c) for c in series.convert(kind=np.polynomial.Polynomial).coef[::-1])


def _exp_remainder(r: float) -> float:
    """(e^r - 1 - r) / r**2."""
    return (math.expm1(r) - r) / (r * r) if abs(r) > 1e-3 else 0.5 + r / 6 + r * r / 24


def _scaled_erfc(t: float) -> float:
    """erfc(z) e^(z**2) / t, with t = 1 / (1 + z / 2)."""
    z = 2 / t - 2
    if z < 5:
        return math.erfc(z) * math.exp(z * z) / t
    fraction = z
    for n in range(60, 0, -1):  # Abramowitz and Stegun 7.1.14
        fraction = z + n / 2 / fraction
    return 1 / (fraction * math.sqrt(math.pi) * t)


EXP = _fit_polynomial(_exp_remainder, -0.3467, 0.3467, 4)
_T = _fit_polynomial(_scaled_erfc, 0.07, 1.0, 9)
LOG2E, LN2 = F(1 / math.log(2)), F(math.log(2))
EXP_LOWEST, _HIGHEST = F(-87.3), F(88.72)
# Adding ROUND rounds a number to an integer n. The last bits of n + ROUND are n + 127, the exponent of 2**n.
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
    """`exp` for x <= 0, in fewer steps; correct up to 88."""
    y = _power(x, _powers_of_two(x if x > EXP_LOWEST else EXP_LOWEST))
    return F(0) if x < EXP_LOWEST else y


@inline
def logistic(x):
    """1 / (1 + e^-x); e^-x is infinite for x < -88.4."""
    z = -x
    z = EXP_LOWEST if z < EXP_LOWEST else z
    z = _HIGHEST if z > _HIGHEST else z
    return F(1) / (F(1) + _power(z, _powers_of_two(z)))


@inline
def tanh(x):
    """(1 - e^-2x) / (1 + e^-2x), with e^-2|x| - 1 = 2**n (e^r - 1) + (2**n - 1), which is exact near 0."""
    z = F(-2) * abs(x)
    n = _powers_of_two(z if z > EXP_LOWEST else EXP_LOWEST)
    r = _remainder(z, n)
    scale = _two_to(n)
    e = (_polynomial(r) * (r * r) + r) * scale + (scale - F(1))
    y = F(1) if z < F(-20) else -e / (F(2) + e)
    return y if x > 0 else -y


@inline
def _powers_of_two(x):
    """n + ROUND, with n = x / ln 2 rounded to an integer."""
    return x * LOG2E + ROUND


@inline
def _two_to(n):
    """2**n, given n + ROUND; infinite if n is 128."""
    return np.int32(F(n).view(np.int32) << np.int32(23)).view(np.float32)


@inline
def _remainder(x, n):
    """r = x - n ln 2, given n + ROUND."""
    return x - (n - ROUND) * LN2


@inline
def _polynomial(r):
    """(e^r - 1 - r) / r**2, evaluated in pairs of terms, which shortens the chain of dependent operations."""
    square = r * r
    return (EXP[0] * square + (EXP[1] * r + EXP[2])) * square + (EXP[3] * r + EXP[4])


@inline
def _power(x, n):
    """2**n e^r, given n + ROUND."""
    r = _remainder(x, n)
    return (_polynomial(r) * (r * r) + (r + F(1))) * _two_to(n)


@inline
def normal(x):
    """(Phi(x), phi(x)): the standard normal distribution's cumulative distribution function and density."""
    z = abs(x) * _ROOT_HALF
    t = F(1) / (F(1) + F(0.5) * z)
    p = _T[0]
    for c in _T[1:]:
        p = p * t + c
    bell = exp_below(-z * z)
    half = F(0.5) * t * p * bell
    return (F(1) - half if x > 0 else half), bell * _DENSITY
