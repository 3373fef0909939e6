"""Nonlinearities: relu, softmax and its logarithm, GELU, and dropout."""

from __future__ import annotations

import math

from .. import random
from ..tensor import Tensor
from .namespace import namespace
from .record import composite, differentiable, made_of_ops
from .specials import sigmoid

__all__ = [
    "log_softmax", "relu", "silu", "softmax",
]  # fmt: skip


@differentiable
def relu(x, /):
    """max(x, 0); the derivative at 0 is 0."""
    xp = namespace(x)
    y = xp.maximum(x, 0)
    return y, (lambda g: xp.gate(y > 0, g),)


@made_of_ops
def silu(x):
    """x sigmoid(x) (Hendrycks and Gimpel 2016), also called swish."""
    return x * sigmoid(x)


@composite
def softmax(x, /, dim):
    """exp(x - m) / sum(exp(x - m)) along `dim`; m, the largest, changes nothing but prevents overflow."""
    e = (x - x.detach().amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


@composite
def log_softmax(x, /, dim):
    """log(softmax(x)), computed as x - m - log(sum(exp(x - m)))."""
    z = x - x.detach().amax(dim, keepdim=True)
    return z - z.exp().sum(dim, keepdim=True).log()


@composite
def gelu(x, /, approximate="none"):
    """x Phi(x), Phi the normal distribution's cumulative function (Hendrycks and Gimpel 2016).

    approximate="tanh": 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))).
    """
    if approximate == "tanh":
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh())
    return 0.5 * x * (1 + (x / math.sqrt(2)).erf())


@composite
def dropout(x, /, p, key):
    """x with each element zeroed with probability p and the others divided by 1 - p (Srivastava et al. 2014).

    p is drawn as the nearest multiple of 2**-16, and the division is by what was drawn, so that the
    expectation is x.
    """
    kept = 1 - random.drop_threshold(p) / 65536
    return x * Tensor(random.keep_mask(key, x.shape, p)) * (1 / kept if kept else 0.0)
