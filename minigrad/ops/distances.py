"""How far vectors are apart, the angle between them, forms of two: the names are in `nn.functional`."""

from __future__ import annotations

import numpy as np

from ..errors import ShapeError
from ..tensor import as_tensor
from .linalg import linear
from .norms import norm
from .record import made_of_ops
from .samplers import each, real
from .shaping import broadcast_to, flatten

__all__ = ["bilinear", "cosine_similarity", "pairwise_distance"]


def no_less(x, least):
    """x, at least `least`, by which its gradient is not cut off."""
    return x + (x.detach().clamp(min=least) - x.detach())


@made_of_ops(
    samples=each((real, 2, 3), (real, 2, 3))
    | each((real, 2, 3, 2), (real, 3, 2), dim=-1)
    | each((real, 3), (real, 3), dim=0),
    latex=(
        r"\frac{g}{\lVert x_1 \rVert}\left(\frac{x_2}{\lVert x_2 \rVert}"
        r" - y\,\frac{x_1}{\lVert x_1 \rVert}\right)",
        r"\frac{g}{\lVert x_2 \rVert}\left(\frac{x_1}{\lVert x_1 \rVert}"
        r" - y\,\frac{x_2}{\lVert x_2 \rVert}\right)",
    ),
)
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between x1 and x2 along `dim`; no length counts as less than `eps`."""
    x1, x2 = as_tensor(x1), as_tensor(x2)
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = broadcast_to(x1, shape), broadcast_to(x2, shape)
    one = x1 / no_less(norm(x1, 2, dim, keepdim=True), eps)
    return (one * (x2 / no_less(norm(x2, 2, dim, keepdim=True), eps))).sum(dim)


@made_of_ops(
    samples=each((real, 2, 3), (real, 2, 3))
    | each((real, 2, 3), (real, 3), p=1.0, keepdim=True)
    | each((real, 3), (real, 3), p=3.0)
)
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The norm of order p of x1 - x2 + eps along the last axis."""
    return norm(as_tensor(x1) - x2 + eps, p, -1, keepdim)


@made_of_ops(
    samples=each((real, 2, 3), (real, 2, 2), (real, 4, 3, 2), (real, 4))
    | each((real, 3), (real, 2), (real, 1, 3, 2))
)
def bilinear(input1, input2, weight, bias=None):
    """input1ᵀ Weight input2 + bias: (..., in1), (..., in2), (out, in1, in2), (out,) -> (..., out).

    It is linear in all products of a number of input1 and one of input2.
    """
    input1, input2, weight = as_tensor(input1), as_tensor(input2), as_tensor(weight)
    if weight.ndim != 3 or (input1.shape[-1:] + input2.shape[-1:]) != weight.shape[1:]:
        raise ShapeError(
            f"bilinear of inputs {input1.shape} and {input2.shape} with a weight of shape {weight.shape}.\n"
            f"A weight is (out, in1, in2), with the inputs' last axes."
        )
    products = input1.unsqueeze(-1) * input2.unsqueeze(-2)
    return linear(flatten(products, -2), flatten(weight, 1), bias)
