"""Softmax's gradient."""

from types import ModuleType

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
    check_gradient("softmax(x)", answer.softmax, [x])
