"""Layer norm's gradient."""

from types import ModuleType

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ..checking import check_gradient, compare

LESSON = 10
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

    g = random.normal(size=(3, 5))
    (found,) = mg.autograd.grad([value], [x], grad_outputs=[mg.tensor(g)], allow_unused=True)
    numbers = x.numpy()
    sd = np.sqrt(numbers.var(-1, keepdims=True) + 1e-5)
    h = (numbers - numbers.mean(-1, keepdims=True)) / sd
    u = g * weight.numpy()
    terms = u, _mean(u), h * _mean(u * h)
    measure = lambda: check_gradient("layer_norm(x, weight, bias)", answer.layer_norm, [x, weight, bias])
    compare(
        "the gradient of x",
        found,
        (terms[0] - terms[1] - terms[2]) / sd,
        {
            "two of three terms are missing: the mean and the variance also depend on x": u / sd,
            "the term of the mean is missing: each x also moves the mean of its row": (u - terms[2]) / sd,
            "the term of the variance is missing: each x also moves the sd of its row": (u - terms[1]) / sd,
            "u = g weight is missing: the gradient begins with g": (g - _mean(g) - h * _mean(g * h)) / sd,
            "the weight stands outside: it must be in u before the means are taken": (
                weight.numpy() * (g - _mean(g) - h * _mean(g * h)) / sd
            ),
            "it is not divided by sd": u - terms[1] - terms[2],
            "it is divided by the variance, not by sd": (u - terms[1] - terms[2]) / sd**2,
            "it is multiplied by sd": (u - terms[1] - terms[2]) * sd,
            "the terms have sums where means belong": (u - 5 * terms[1] - 5 * terms[2]) / sd,
            "the means are over all rows: each row has its own": (u - u.mean() - h * (u * h).mean()) / sd,
            "the means go down the rows, not along them": (u - u.mean(0) - h * (u * h).mean(0)) / sd,
            "in the last term, the factor h before the mean is missing": (u - terms[1] - _mean(u * h)) / sd,
            "in the last term, the mean is of u, not of u h": (u - terms[1] - h * _mean(u)) / sd,
            "a term has the wrong sign: both are subtracted": (u + terms[1] + terms[2]) / sd,
            "the term of the variance has the wrong sign": (u - terms[1] + terms[2]) / sd,
            "the term of the mean has the wrong sign": (u + terms[1] - terms[2]) / sd,
        },
        "Each x_j reaches h_i in three ways: write one term for each.",
        otherwise=measure,
    )
    measure()


def _mean(values: np.ndarray) -> np.ndarray:
    return values.mean(-1, keepdims=True)
