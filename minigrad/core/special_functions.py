"""The error function and its family, which NumPy lacks, and a logistic function that cannot overflow."""

from __future__ import annotations

import math
from functools import wraps
from typing import Any

import numpy as np

from .devices import array_module, gpu
from .errors import OptionError


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
BLOCK = 1 << 14  # elements a block: the block and its temporaries stay in the second-level cache
_FAR = 40.0  # beyond it e**(-x**2) is 0 in float64


def in_double(function):
    """`function` computed in float64, a cacheful at a time; its result has the dtype of x."""

    @wraps(function)
    def computed(x: Any, *settings: Any) -> Any:
        if isinstance(x, gpu.arrays):  # whose memory is fast as it is
            return function(x.astype(np.float64), *settings).astype(x.dtype)
        x = np.asarray(x)
        flat, out = x.reshape(-1), np.empty(x.size, x.dtype)
        for start in range(0, x.size, BLOCK):
            block = slice(start, start + BLOCK)
            out[block] = function(flat[block].astype(np.float64), *settings)
        return out.reshape(x.shape)

    return computed


def _scaled(z: np.ndarray) -> np.ndarray:
    """erfc(z) e**(z**2) for z >= 0."""
    t = 2 / (2 + z)
    return t * np.exp(np.polynomial.chebyshev.chebval(2 * t - 1, _TAIL))


def _bell(z: np.ndarray) -> np.ndarray:
    """e**(-z**2), without overflow on the way."""
    return np.exp(-np.square(np.minimum(z, _FAR)))


@in_double
def erf(x):
    """erf(x), elementwise, to a few units in the last place of float64; the dtype of `x`."""
    z = np.abs(x)
    near = z < 1
    head = z * np.polynomial.polynomial.polyval(np.where(near, z * np.minimum(z, 1), 0), _SERIES)
    return np.copysign(np.where(near, head, 1 - _scaled(z) * _bell(z)), x)


@in_double
def erfc(x):
    """1 - erf(x), elementwise, with all its digits also in the tail, where erf(x) is 1."""
    z = np.abs(x)
    tail = _scaled(z) * _bell(z)
    return np.where(x < 0, 2 - tail, tail)


@in_double
def erfcx(x):
    """erfc(x) e**(x**2), elementwise, which falls as 1 / (sqrt(pi) x) where erfc(x) has long been 0."""
    z = np.abs(x)
    below = np.minimum(x, 0)
    return np.where(x < 0, 2 * np.exp(np.square(np.maximum(below, -_FAR))) - _scaled(z), _scaled(z))


@in_double
def erfcx_derivative(x, n):
    """The derivative of order n >= 1 of erfcx, elementwise (Abramowitz, Stegun 7.2.9).

    It is (-2)**n n! w_n, w_n = e**(x**2) times the n-th repeated integral of erfc, with w_-1 = 2/sqrt(pi),
    w_0 = erfcx(x) and 2 k w_k = w_{k-2} - 2 x w_{k-1} (7.2.5). For large x that difference cancels; there
    the ratios r_k = w_k / w_{k-1} = 1 / (2 (x + (k + 1) r_{k+1})) are found from a large k down.
    """
    if isinstance(x, gpu.arrays):  # seldom used: computed on the CPU
        return array_module(x).asarray(erfcx_derivative(x.get(), n))
    before, w = 2 / math.sqrt(math.pi), erfcx(np.minimum(x, 1))
    for k in range(1, n + 1):
        before, w = w, (before / 2 - np.minimum(x, 1) * w) / k
    z, last = np.maximum(x, 1), n + 100
    ratio = 1 / (z + np.sqrt(z * z + 2 * last))
    far = 2 / math.sqrt(math.pi)
    for k in range(last - 1, -1, -1):
        ratio = 1 / (2 * (z + (k + 1) * ratio))
        far = far * ratio if k <= n else far
    return (-2) ** n * math.factorial(n) * np.where(x > 1, far, w)


def _inverse(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The y with erf(y) = p and erfc(y) = q, 0 <= p = 1 - q: Winitzki's guess (2008), then Halley's steps."""
    near = p < 0.5
    inside = (q > 0) & (p >= 0)
    p, q = np.where(inside, p, 0.5), np.where(inside, q, 0.5)
    logarithm = np.where(near, np.log1p(-p * np.minimum(p, 0.5)), np.log(q) + np.log(2 - q))
    c = 2 / (math.pi * 0.147) + logarithm / 2
    y = np.sqrt(np.maximum(np.sqrt(c * c - logarithm / 0.147) - c, 0))
    for _ in range(3):
        square = y * y
        residual = np.where(
            near,
            (erf(y) - p) * np.exp(np.minimum(square, 1)),
            np.exp(np.log(q) + square) - _scaled(y),
        )
        step = residual * (math.sqrt(math.pi) / 2)
        y = y - step / (1 + y * step)
    return y


@in_double
def erfinv(x):
    """The y with erf(y) = x, elementwise; NaN where |x| > 1."""
    p = np.abs(x)
    y = np.copysign(_inverse(p, 1 - p), x)
    return np.where(p < 1, y, np.where(p == 1, np.copysign(np.inf, x), np.nan))


@in_double
def ndtri(p):
    """The quantile of the normal distribution, elementwise; NaN outside [0, 1]."""
    q = 2 * np.minimum(p, 1 - p)
    z = np.copysign(math.sqrt(2) * _inverse(1 - q, q), p - 0.5)
    return np.where(q > 0, z, np.where(q == 0, np.copysign(np.inf, p - 0.5), np.nan))


def sigmoid(x: Any) -> Any:
    """1 / (1 + e**-x), elementwise; where x is negative as e**x / (1 + e**x), which cannot overflow."""
    xp = array_module(x)
    e = xp.exp(-xp.abs(x))
    return xp.maximum(e, (x >= 0).astype(e.dtype)) / (1 + e)  # e or 1: a `where` without branches


def logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log(e**x + e**y), elementwise: NumPy's in whole passes, which take a twentieth of the time."""
    apart = np.zeros(np.broadcast(x, y).shape, np.result_type(x, y))  # of two infinities 0
    np.subtract(x, y, where=x != y, out=apart)
    return np.maximum(x, y) + np.log1p(np.exp(-np.abs(apart)))


def power(x, y):
    """x ** y; NumPy refuses negative powers of integers, PyTorch only if y is a number; 0 unless |x| is 1."""
    if y.dtype.kind != "i" or not (negative := y < 0).any():
        return np.power(x, y)
    if not y.ndim:
        raise OptionError(
            f"integers to the power of {y}, which are not integers.\nUse floats: x.float() ** {y}."
        )
    value = np.power(x, np.where(negative, y & 1, y))
    return np.where(negative & (x != 1) & (x != -1), 0, value).astype(y.dtype)
