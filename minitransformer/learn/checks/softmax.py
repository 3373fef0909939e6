"""Softmax's gradient."""

from types import ModuleType

import numpy as np

import minigrad as mg
from minigrad.nn import functional as F

from ..checking import check_gradient, compare

LESSON = 5
REASONING = "derivation"
HINTS = (
    "Write the sum over i of g_i dy_i/dx_j with both cases, and take the factor y_j out of all terms.",
    "What remains in the bracket is g_j minus a sum over i of g_i y_i. That sum is one number for each row.",
    "y * (g - s), where s is the sum of g * y along the last axis, kept as an axis of length 1.",
)


def check(answer: ModuleType) -> None:
    x = mg.tensor([[1.0, 2.0, 0.5], [-1.0, 0.3, 0.2]], dtype="float64", requires_grad=True)
    compare("softmax(x)", answer.softmax(x), F.softmax(x, -1))
    y = F.softmax(x, -1).numpy()
    g = np.array([[1.0, -0.5, 2.0], [0.3, 1.2, -1.0]])
    s = (g * y).sum(-1, keepdims=True)
    (found,) = mg.autograd.grad([answer.softmax(x)], [x], grad_outputs=[mg.tensor(g)], allow_unused=True)
    measure = lambda: check_gradient("softmax(x)", answer.softmax, [x])
    compare(
        "the gradient of x",
        found,
        y * (g - s),
        {
            "only the case i = j counts: the sum over the other i is missing": g * y * (1 - y),
            "the sum over i is missing: each x changes all y of its row": g * y,
            "the case i = j counts twice: the sum over i has it already": g * y * (1 - y) - y * s,
            "the sum lacks the factor y: it is the sum of g y": y * (g - g.sum(-1, keepdims=True)),
            "the sum lacks the factor g: it is the sum of g y": (g * (y - (y * y).sum(-1, keepdims=True))),
            "the sum is over all rows: each row has its own": y * (g - (g * y).sum()),
            "the sum goes down the rows, not along them": y * (g - (g * y).sum(0)),
            "the factor y in front is missing": g - s,
            "the sign of the sum is wrong": y * (g + s),
            "the sum is a mean": y * (g - s / 3),
        },
        "Take y_j out of the sum over i: what remains in the bracket is g_j minus one number for the row.",
        otherwise=measure,
    )
    measure()
