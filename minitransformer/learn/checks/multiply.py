"""The gradients of a product."""

from types import ModuleType

import minigrad as mg

from ..checking import check_gradient, compare

LESSON = 2
REASONING = "derivation"
HINTS = (
    "Hold y fixed. If x grows by 1, by how much does z = x y grow?",
    "z grows by y, so dz/dx = y. The chain rule multiplies that by g.",
    "`gradient_of_x` returns g times y. By the same argument, `gradient_of_y` returns g times x.",
)


def check(answer: ModuleType) -> None:
    x = mg.tensor([[1.0, -2.0, 0.5], [3.0, 0.7, -1.1]], dtype="float64", requires_grad=True)
    y = mg.tensor([[0.3, 1.5, -0.8], [2.0, -0.4, 0.9]], dtype="float64", requires_grad=True)
    compare("multiply(x, y)", answer.multiply(x, y), x.numpy() * y.numpy())
    check_gradient("multiply(x, y)", answer.multiply, [x, y])
