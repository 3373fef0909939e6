"""Distances, cosine similarity and bilinear forms, exported by `nn.functional`."""

from __future__ import annotations

import numpy as np

from ..core.errors import OptionError, ShapeError
from ..core.op import derived
from ..core.tensor import as_tensor
from ..ops.axes import all_floating, as_floating
from ..ops.linalg import linear
from ..ops.samplers import cases, real
from ..ops.shaping import broadcast_to, flatten
from .norms import norm

__family__ = "matrix"
__all__ = ["cdist", "cosine_similarity", "dist", "pairwise_distance", "pdist"]


def clamp_value(x, least):
    """max(x, least), with the gradient of x everywhere."""
    return x + (x.detach().clamp(min=least) - x.detach())


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3))
    | cases((real, 2, 3, 2), (real, 3, 2), dim=-1)
    | cases((real, 3), (real, 3), dim=0),
    latex=(
        r"\frac{g}{\lVert x_1 \rVert}\left(\frac{x_2}{\lVert x_2 \rVert}"
        r" - y\,\frac{x_1}{\lVert x_1 \rVert}\right)",
        r"\frac{g}{\lVert x_2 \rVert}\left(\frac{x_1}{\lVert x_1 \rVert}"
        r" - y\,\frac{x_2}{\lVert x_2 \rVert}\right)",
    ),
)
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Compute the cosine of the angle between x1 and x2 along `dim`; norms are at least `eps`."""
    if not eps >= 0:
        raise OptionError(f"eps must be at least 0, got {eps}.\nThe default is 1e-8.")
    x1, x2 = all_floating(x1, x2)
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = broadcast_to(x1, shape), broadcast_to(x2, shape)
    one = x1 / clamp_value(norm(x1, 2, dim, keepdim=True), eps)
    return (one * (x2 / clamp_value(norm(x2, 2, dim, keepdim=True), eps))).sum(dim)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3))
    | cases((real, 2, 3), (real, 3), p=1.0, keepdim=True)
    | cases((real, 3), (real, 3), p=3.0),
)
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """Compute the p-norm of x1 - x2 + eps along the last axis."""
    x1, x2 = all_floating(x1, x2)
    return norm(x1 - x2 + eps, p, -1, keepdim)


@derived(
    exact_in_half="gpu",
    samples=cases((real, 2, 3), (real, 2, 2), (real, 4, 3, 2), (real, 4))
    | cases((real, 3), (real, 2), (real, 1, 3, 2)),
)
def bilinear(input1, input2, weight, bias=None):
    """input1ᵀ W input2 + bias: (..., in1), (..., in2), (out, in1, in2), (out,) -> (..., out)."""
    input1 = as_tensor(input1)
    input2 = as_tensor(input2)
    weight = as_tensor(weight)
    if weight.ndim != 3 or (input1.shape[-1:] + input2.shape[-1:]) != weight.shape[1:]:
        raise ShapeError(
            f"bilinear got inputs of shape {input1.shape} and {input2.shape} and a weight of shape "
            f"{weight.shape}.\nThe weight must be (out, in1, in2), with the lengths of the inputs' last axes."
        )
    input1, input2 = all_floating(input1, input2)  # a product of integers may wrap around
    products = input1.unsqueeze(-1) * input2.unsqueeze(-2)
    return linear(flatten(products, -2), flatten(weight, 1), bias)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 2, 3))
    | cases((real, 2, 3), (real, 3), p=3)
    | cases((real,), (real, 2), p=1),
)
def dist(x, y, p: float = 2):
    """Compute the p-norm of x - y over all elements."""
    x, y = all_floating(x, y)
    return norm(x - y, p)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3), (real, 4, 3))
    | cases((real, 2, 2, 3), (real, 3, 3), p=1.0)
    | cases((real, 2, 3), (real, 2, 3), p=3.0),
)
def cdist(x1, x2, p=2.0, compute_mode=None):
    """Compute the p-norm of x1[i] - x2[j] for all pairs of rows: (..., n, D), (..., m, D) -> (..., n, m).

    The derivative at 0 is 0. Distances are computed from differences, so `compute_mode` has no effect.
    """
    x1, x2 = all_floating(x1, x2)
    _check_order(p)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"cdist needs rows of equal length, got shapes {x1.shape} and {x2.shape}.\nTranspose, or slice."
        )
    return norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@derived(autocast="float32", samples=cases((real, 4, 3)) | cases((real, 3, 2), p=1.0))
def pdist(x, p=2.0):
    """Compute the p-norm of x[i] - x[j] for each pair i < j of rows: (n, D) -> (n (n - 1) / 2,)."""
    x = as_floating(x)
    _check_order(p)
    if x.ndim != 2:
        raise ShapeError(
            f"pdist needs a matrix whose rows are points, got shape {x.shape}.\nUse cdist for batches."
        )
    first, second = np.triu_indices(x.shape[0], 1)
    return norm(x[first] - x[second], p, -1)


def _check_order(p):
    if not p >= 0:
        raise OptionError(f"p must be at least 0, got {p}.\nThe default is 2.")
