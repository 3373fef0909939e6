"""Layer norm's gradient."""

from types import ModuleType

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ..checking import check_gradient, compare

LESSON = 5
REASONING = "derivation"
HINTS = (
    "First with weight 1: h depends on x in three ways: directly, through the mean, and through sd. What is "
    "the derivative of the mean by one x_j? Of sd?",
    "d mean / d x_j = 1 / n, and d sd / d x_j = h_j / n. So the gradient of x has the terms u, -mean(u), and "
    "-h mean(u h), all divided by sd.",
    "(u - u.mean(-1, keepdims=True) - h * (u * h).mean(-1, keepdims=True)) / sd with u = g * weight.",
)


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    x, weight, bias = (
        mg.tensor(random.normal(size=shape), requires_grad=True) for shape in ((3, 5), (5,), (5,))
    )
    value = answer.layer_norm(x, weight, bias)
    compare("layer_norm(x, weight, bias)", value, F.layer_norm(x, (5,), weight, bias))

    # with the row's numbers at hand a missing term is told by its name
    h = ((x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()).detach()
    sd = (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt().detach()
    mean = x.mean(-1, keepdim=True).detach()
    y = lambda h, weight, bias: h * weight + bias
    check_gradient(
        "layer_norm(x, weight, bias)",
        answer.layer_norm,
        [x, weight, bias],
        {
            "the mean and the variance are taken for constants: two of three terms are missing": (
                lambda x, weight, bias: y((x - mean) / sd, weight, bias)
            ),
            "the term of the mean is missing: each x also moves the mean of its row": (
                lambda x, weight, bias: y((x - mean) / _deviation(x), weight, bias)
            ),
            "the term of the variance is missing: each x also moves the sd of its row": (
                lambda x, weight, bias: y((x - x.mean(-1, keepdim=True)) / sd, weight, bias)
            ),
            "the gradient of x lacks the weight: it must begin with u = g weight": (
                lambda x, weight, bias: (
                    y(_normalized(x) + h * 0, weight.detach() * 0 + 1, bias) + h * (weight - weight.detach())
                )
            ),
            "the gradient of x is not divided by sd": (
                lambda x, weight, bias: (
                    y(_normalized(x) * sd, weight.detach(), bias) + h * (weight - weight.detach())
                )
            ),
        },
    )


def _deviation(x: mg.Tensor) -> mg.Tensor:
    return (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


def _normalized(x: mg.Tensor) -> mg.Tensor:
    return (x - x.mean(-1, keepdim=True)) / _deviation(x)
