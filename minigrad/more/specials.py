"""Special functions: logit, error functions, normal distribution, entropy, gamma."""

from __future__ import annotations

import math

from ..core.costs import per_element
from ..core.dtypes import finfo
from ..core.errors import OptionError, RangeError
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import as_tensor
from ..ops.elementary import erfc
from ..ops.samplers import above_one, binary, cases, positive, probability, real, unary, within_one

__family__ = "elementwise"
__all__ = ["digamma", "erfinv", "lgamma", "logit", "mvlgamma", "polygamma", "xlogy"]


# ---------------------------------------------------------------- the logistic function


@differentiable(
    floating=True,
    samples=unary(probability) | cases((probability, 2, 3), eps=0.01),
    latex=r"\frac{g}{x\,(1 - x)}",
    flops=per_element(3),
)
def logit(x, /, eps=None):
    """log(x / (1 - x)), the inverse of sigmoid; d/dx = 1 / (x (1 - x)).

    Outside [0, 1] both are NaN. If `eps` is given, x is first clamped to [eps, 1 - eps], outside of which
    d/dx = 0.
    """
    xp = namespace(x)
    y, outside, there = x, (x < 0) | (x > 1), math.nan
    if eps is not None:
        clamped = xp.minimum(xp.maximum(x, eps), 1 - eps)
        outside, there = x != clamped, 0.0
        y = xp.where(outside, xp.stop_gradient(clamped), x)
    return xp.log(y / (1 - y)), (lambda g: xp.where(outside, there, g / (y * (1 - y))),)


# ---------------------------------------------------------------- error functions, normal distribution


@differentiable(floating=True, samples=unary(real), latex=r"g\,\Big(2x\,y - \frac{2}{\sqrt\pi}\Big)")
def erfcx(x, /):
    """y = erfc(x) e**(x**2), without underflow for large x; d/dx = 2 x y - 2/sqrt(pi)."""
    xp = namespace(x)
    return xp.erfcx(x), (lambda g: g * xp.erfcx_derivative(x, 1),)


@differentiable(floating=True, samples=cases((real, 2, 3), 1) | cases((real, 3), 2))
def erfcx_derivative(x, /, n):
    """The derivative of order n of erfcx, accurate also where 2 x erfcx(x) and 2/sqrt(pi) cancel."""
    xp = namespace(x)
    return xp.erfcx_derivative(x, n), (lambda g: g * xp.erfcx_derivative(x, n + 1),)


@differentiable(
    autocast="float32",
    floating=True,
    samples=unary(within_one),
    latex=r"g\,\frac{\sqrt\pi}{2}\,e^{\operatorname{erfinv}(x)^2}",
)
def erfinv(x, /):
    """The y with erf(y) = x, NaN where |x| > 1; d/dx = sqrt(pi)/2 e**(y**2)."""
    xp = namespace(x)
    y = xp.erfinv(x)
    return y, (lambda g: g * (math.sqrt(math.pi) / 2 * xp.exp(y * y)),)


@derived(samples=unary(real), latex=r"\frac{g}{\sqrt{2\pi}}\,e^{-x^2/2}")
def ndtr(x):
    """The probability that a standard normal number is below x, erfc(-x / sqrt(2)) / 2."""
    return erfc(as_tensor(x) * (-1 / math.sqrt(2))) * 0.5


@differentiable(
    floating=True, samples=unary(real), latex=r"g\,\frac{\varphi(x)}{\Phi(x)}", flops=per_element(6)
)
def log_ndtr(x, /):
    """log(ndtr(x)), accurate also where ndtr(x) is near 0 or 1; d/dx = sqrt(2/pi) / erfcx(-x / sqrt(2))."""
    xp = namespace(x)
    z = x * (-1 / math.sqrt(2))
    largest = math.sqrt(math.log(finfo(x.dtype).max / 4))  # where erfcx would overflow, d/dx is 0
    tail = xp.erfcx(xp.maximum(z, -largest))
    low = xp.log(tail * 0.5) - z * z
    high = xp.log1p(xp.erfc(xp.maximum(-z, -1.0)) * -0.5)
    return xp.where(x < -1, low, high), (lambda g: g * (math.sqrt(2 / math.pi) / tail),)


@differentiable(floating=True, samples=unary(probability), latex=r"g\,\sqrt{2\pi}\,e^{\Phi^{-1}(p)^2 / 2}")
def ndtri(p, /):
    """The x with ndtr(x) = p, NaN outside [0, 1]; d/dp = sqrt(2 pi) e**(x**2 / 2)."""
    xp = namespace(p)
    x = xp.ndtri(p)
    return x, (lambda g: g * (math.sqrt(2 * math.pi) * xp.exp(x * x * 0.5)),)


# ---------------------------------------------------------------- x log(y)


@differentiable(
    floating=True, samples=binary(real, positive), latex=(r"g \ln y", r"g\,\frac{x}{y}"), flops=per_element(2)
)
def xlogy(x, y, /):
    """x log(y), 0 where x = 0 (NaN if y is); d/dx = log(y), 0 where x = 0 and y <= 0; d/dy = x / y."""
    xp = namespace(x, y)
    x, y = _as_arrays(xp, x, y)
    zero = (x == 0) & (y == y)
    flat = zero & (y <= 0)
    return xp.where(zero, 0.0, x * xp.log(xp.where(zero, 1.0, y))), (
        lambda g: xp.where(flat, 0.0, g * xp.log(xp.where(flat, 1.0, y))),
        lambda g: g * (x / y),
    )


@differentiable(
    floating=True,
    samples=binary(real, positive),
    latex=(r"g \ln(1 + y)", r"g\,\frac{x}{1 + y}"),
    flops=per_element(3),
)
def xlog1py(x, y, /):
    """x log(1 + y), 0 where x = 0; d/dx = log(1 + y) or, if x = 0 and y <= -1, 0; d/dy = x / (1 + y)."""
    xp = namespace(x, y)
    x, y = _as_arrays(xp, x, y)
    zero = (x == 0) & (y == y)
    flat = zero & (y <= -1)
    return xp.where(zero, 0.0, x * xp.log1p(xp.where(zero, 0.0, y))), (
        lambda g: xp.where(flat, 0.0, g * xp.log1p(xp.where(flat, 0.0, y))),
        lambda g: g * (x / (1 + y)),
    )


def _as_arrays(xp, x, y):
    """Convert two operands, one of which may be a Python number, to arrays of one dtype."""
    if isinstance(x, int | float):
        return x * xp.ones_like(y), y
    return x, y * xp.ones_like(x) if isinstance(y, int | float) else y


@differentiable(floating=True, samples=unary(positive), latex=r"-g\,(1 + \ln x)", flops=per_element(2))
def entr(x, /):
    """-x log(x), the entropy of a probability: 0 at 0, -infinity below; d/dx = -1 - log(x)."""
    xp = namespace(x)
    value = -x * xp.log(xp.where(x > 0, x, 1.0))
    return xp.where(x < 0, -math.inf, value), (lambda g: g * (-1 - xp.log(x)),)


# ---------------------------------------------------------------- the gamma function


@differentiable(
    autocast="float32", floating=True, samples=unary(above_one) | cases((real, 2, 3)), latex=r"g\,\psi(x)"
)
def lgamma(x, /):
    """log|gamma(x)|, infinite at 0, -1, -2, ...; d/dx = digamma(x)."""
    xp = namespace(x)
    return xp.lgamma(x), (lambda g: g * xp.gamma_derivative(x, 0),)


@differentiable(
    floating=True,
    samples=cases((above_one, 2, 3), 0) | cases((positive, 3), 2),
    latex=r"g\,\psi^{(n + 1)}(x)",
)
def gamma_derivative(x, /, n):
    """The derivative of order n + 1 of lgamma; d/dx is that of order n + 2."""
    xp = namespace(x)
    return xp.gamma_derivative(x, n), (lambda g: g * xp.gamma_derivative(x, n + 1),)


@derived(exact_in_half=True, samples=unary(above_one), latex=r"g\,\psi'(x)")
def digamma(x):
    """The derivative of lgamma, -infinity at 0 and NaN at -1, -2, ..."""
    return gamma_derivative(x, 0)


@derived(
    exact_in_half=True,
    samples=cases(0, (above_one, 3)) | cases(2, (above_one, 2)),
    latex=(None, r"g\,\psi^{(n + 1)}(x)"),
)
def polygamma(n, x):
    """The derivative of order n of digamma(x)."""
    if not isinstance(n, int) or not 0 <= n <= 100:
        raise OptionError(f"n must be an integer from 0 to 100, got {n!r}.\nCall polygamma(n, x).")
    return gamma_derivative(x, n)


@derived(
    autocast="float32",
    samples=unary(above_one, p=2),
    latex=r"g \sum_{i=1}^p \psi\Big(x + \frac{1 - i}{2}\Big)",
)
def mvlgamma(x, p: int):
    """log of the multivariate gamma function of dimension p: p (p - 1)/4 log(pi) + sum of lgamma(x - i/2)."""
    x = as_tensor(x)
    if not isinstance(p, int) or p < 1:
        raise OptionError(f"p must be a positive integer, got {p!r}.\nCall mvlgamma(x, p).")
    if x.numel() and not (smallest := x.array.min()) > (p - 1) / 2:
        raise RangeError(
            f"mvlgamma with p={p} needs numbers above {(p - 1) / 2}, got {smallest}.\n"
            f"Pass larger numbers, or a smaller p."
        )
    constant = p * (p - 1) / 4 * math.log(math.pi)
    return sum((lgamma(x - i / 2) for i in range(1, p)), lgamma(x) + constant)
