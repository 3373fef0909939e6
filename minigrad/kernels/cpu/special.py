"""The error function, which NumPy lacks, and the logistic function, which must not overflow."""

from __future__ import annotations

import math

import numpy as np


def _series(terms: int) -> np.ndarray:
    """Coefficients of erf(x) / x in x**2, 2/sqrt(pi) (-1)**n / (n! (2n + 1)) (Abramowitz, Stegun 7.1.5)."""
    return np.array(
        [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(terms)]
    )


def _tail() -> np.ndarray:
    """Chebyshev coefficients of log(erfc(x) e^(x^2) / t) in 2t - 1, t = 2 / (2 + x), x >= 0.

    Fitted to `math.erfc` where that is exact, beyond to its continued fraction (Abramowitz, Stegun 7.1.14).
    """

    def scaled_erfc(x: float) -> float:
        if x < 3:
            return math.erfc(x) * math.exp(x * x)
        fraction = x
        for n in range(60, 0, -1):
            fraction = x + n / 2 / fraction
        return 1 / (fraction * math.sqrt(math.pi))

    nodes = np.polynomial.chebyshev.chebpts1(48)
    t = (nodes + 1) / 2
    values = [math.log(scaled_erfc(2 / s - 2) / s) for s in t]
    return np.polynomial.chebyshev.chebfit(nodes, values, 27)


_SERIES, _TAIL = _series(18), _tail()


def erf(x: np.ndarray) -> np.ndarray:
    """erf(x), elementwise, to a few units in the last place of float64; the dtype of `x`."""
    z = np.abs(x, dtype=np.float64)
    t = 2 / (2 + z)
    tail = 1 - t * np.exp(np.polynomial.chebyshev.chebval(2 * t - 1, _TAIL) - z * z)
    near = z < 1
    head = z * np.polynomial.polynomial.polyval(np.where(near, z * z, 0), _SERIES)
    return np.copysign(np.where(near, head, tail), x).astype(np.asarray(x).dtype)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e**-x), elementwise; where x is negative as e**x / (1 + e**x), which cannot overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)
