"""Inverse and scaled error functions of arrays, which NumPy does not have."""

from __future__ import annotations

import math

import numpy as np

from ..core.devices import CPU, device_of, through_cpu
from ..ops.special_functions import FAR, erf, in_double, scaled_erfc


@in_double
def erfcx(x):
    """erfc(x) e**(x**2), elementwise; for large x, where erfc(x) underflows, about 1 / (sqrt(pi) x)."""
    z = np.abs(x)
    below = np.minimum(x, 0)
    return np.where(x < 0, 2 * np.exp(np.square(np.maximum(below, -FAR))) - scaled_erfc(z), scaled_erfc(z))


@in_double
def erfcx_derivative(x, n):
    """The derivative of order n >= 1 of erfcx, elementwise (Abramowitz and Stegun 7.2.9).

    It is (-2)**n n! w_n, with w_n = e**(x**2) times the n-th repeated integral of erfc: w_-1 = 2/sqrt(pi),
    w_0 = erfcx(x) and 2 k w_k = w_{k-2} - 2 x w_{k-1} (7.2.5). For large x that difference cancels, and the
    ratios r_k = w_k / w_{k-1} = 1 / (2 (x + (k + 1) r_{k+1})) are computed from a large k downwards.
    """
    if device_of(x) != CPU:  # rarely used, so always computed on the CPU
        return through_cpu(erfcx_derivative, x, n)
    before = 2 / math.sqrt(math.pi)
    w = erfcx(np.minimum(x, 1))
    for k in range(1, n + 1):
        before, w = w, (before / 2 - np.minimum(x, 1) * w) / k
    z = np.maximum(x, 1)
    last = n + 100
    ratio = 1 / (z + np.sqrt(z * z + 2 * last))
    far = 2 / math.sqrt(math.pi)
    for k in range(last - 1, -1, -1):
        ratio = 1 / (2 * (z + (k + 1) * ratio))
        far = far * ratio if k <= n else far
    return (-2) ** n * math.factorial(n) * np.where(x > 1, far, w)


def _inverse(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The y with erf(y) = p and erfc(y) = q, p = 1 - q >= 0: Winitzki's guess (2008), refined by Halley."""
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
            np.exp(np.log(q) + square) - scaled_erfc(y),
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
