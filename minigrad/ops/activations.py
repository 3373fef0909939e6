"""Nonlinearities: relu, sigmoid, SiLU, GELU, softmax and its logarithm, and dropout.

At a kink, rules use the derivative of the flat side, as in PyTorch, unless they say otherwise.
"""

from __future__ import annotations

import math

from ..core import random
from ..core.composites import composite
from ..core.costs import per_element
from ..core.namespace import namespace
from ..core.op import derived, differentiable
from ..core.tensor import constant
from . import draws
from .arithmetic import astype, multiply, negative
from .axes import as_floating
from .elementary import erfc, logaddexp
from .samplers import along_axis, cases, distinct, real, unary

__family__ = "activation"
__all__ = ["log_softmax", "relu", "sigmoid", "silu", "softmax"]


@differentiable(samples=unary(distinct), latex=r"g\,[x > 0]")
def relu(x, /):
    """max(x, 0); the derivative at 0 is 0."""
    y = namespace(x).maximum(x, 0)
    return y, (lambda g: g * (y != 0),)


@differentiable(
    floating=True, samples=unary(real), latex=r"g\,\sigma(x)\,(1 - \sigma(x))", flops=per_element(4)
)
def sigmoid(x, /):
    """y = 1 / (1 + e**-x); d/dx = y (1 - y)."""
    y = namespace(x).sigmoid(x)
    return y, (lambda g: g * (y * (1 - y)),)


@differentiable(floating=True, samples=unary(real), latex=r"g\,\sigma(x)\,\sigma(-x)", flops=per_element(4))
def logistic(x, /):
    """sigmoid(x) for the derivatives of other ops; d/dx = sigmoid(x) sigmoid(-x).

    The gradient is computed from x, as 1 - sigmoid(x) is 0 where sigmoid(x) rounds to 1 (from x = 17 on in
    float32).
    """
    xp = namespace(x)
    y = xp.sigmoid(x)
    return y, (lambda g: g * (y * xp.sigmoid(-x)),)


# ---------------------------------------------------------------- smooth


@derived(samples=unary(real), latex=r"g\,\sigma(x)\,(1 + x\,(1 - \sigma(x)))")
def silu(x):
    """x sigmoid(x) (Hendrycks and Gimpel 2016), also called swish.

    d/dx = s (1 + x (1 - s)) with s = sigmoid(x).
    """
    return multiply(x, sigmoid(x))


@derived(autocast="float32", samples=unary(real), latex=r"g\,\sigma(-x)")
def logsigmoid(x):
    """log(sigmoid(x)) = -log(1 + e**-x), without overflow."""
    return negative(logaddexp(negative(as_floating(x)), 0.0))


@composite(
    samples=unary(real) | unary(real, approximate="tanh"),
    latex=r"g\,(\Phi(x) + x\,\varphi(x))",
    flops=per_element(5),
)
def gelu(x, /, approximate="none"):
    """x Phi(x), with Phi the cumulative normal distribution function (Hendrycks and Gimpel 2016).

    approximate="tanh": 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x**3), which is x sigmoid(2 u).
    d/dx = Phi(x) + x phi(x), phi the normal density (of the exact form). Phi(x) is erfc(-x / sqrt(2)) / 2,
    which keeps its digits where 1 + erf(x / sqrt(2)) would be rounded to 0.
    """
    if approximate == "tanh":
        return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * erfc(x * (-1 / math.sqrt(2)))


# ---------------------------------------------------------------- along an axis


MASKED = (
    "A row needs a finite score: a fully masked row has no softmax. Leave such rows out, "
    "mask with a large negative number, or use scaled_dot_product_attention(mask=...)."
)


def _largest(x, dim):
    """The largest element along `dim`, as a constant; 0 if x is empty."""
    return x.detach().amax(dim, keepdim=True) if x.numel() else 0.0


@composite(
    autocast="float32",
    advice=MASKED,
    samples=along_axis(real),
    latex=r"y \odot \Big(g - \sum_j g_j\,y_j\Big)",
    flops=per_element(5),
)
def softmax(x, /, dim, dtype=None):
    """exp(x - m) / sum(exp(x - m)) along `dim`; subtracting m, the largest element, prevents overflow.

    With y the result, dy_i/dx_j = y_i ((i = j) - y_j): a gradient g of y gives y (g - sum(g y)) for x. x is
    cast to `dtype` first, if one is given.

    >>> mg.softmax(mg.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([0.0900, 0.2447, 0.6652])
    """
    x = x if dtype is None else astype(x, dtype)
    e = (x - _largest(x, dim)).exp()
    return e / e.sum(dim, keepdim=True)


@composite(
    autocast="float32",
    advice=MASKED,
    samples=along_axis(real),
    latex=r"g - \operatorname{softmax}(x) \sum_j g_j",
    flops=per_element(5),
)
def log_softmax(x, /, dim, dtype=None):
    """log(softmax(x)), computed as x - m - log(sum(exp(x - m))); x is cast to `dtype` first, if one is given.

    A gradient g of the result gives g - softmax(x) sum(g) for x.
    """
    x = x if dtype is None else astype(x, dtype)
    z = x - _largest(x, dim)
    return z - z.exp().sum(dim, keepdim=True).log()


# ---------------------------------------------------------------- at random

_KEY = random.Key(seed=0, stream=1, step=0, call=0)


@composite(
    samples=cases((real, 4, 4), p=0.5, key=_KEY) | cases((real, 2, 3), p=1.0, key=_KEY),
    latex=r"\frac{g\,[\text{kept}]}{1 - p}",
)
def dropout(x, /, p, key):
    """Zero each element with probability p, and divide the others by 1 - p (Srivastava et al. 2014).

    The gradient is multiplied by the same mask and factor.
    """
    return x * constant(draws.keep_mask(key, x.shape, p), x) * draws.keep_scale(p)
