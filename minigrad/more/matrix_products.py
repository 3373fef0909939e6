"""PyTorch's other products of vectors and matrices, composed of `matmul` and `multiply`."""

from __future__ import annotations

import numpy as np

from ..core.dtypes import result_type
from ..core.errors import ShapeError
from ..core.op import derived
from ..core.tensor import as_tensor, constant
from ..ops.arithmetic import multiply
from ..ops.axes import all_floating, axis_of
from ..ops.linalg import matmul
from ..ops.samplers import cases, real
from ..ops.shaping import stack
from ..ops.stacking import unbind

__family__ = "matrix"
__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "cross", "dot", "ger", "mm", "mv", "outer",
    "vdot",
]  # fmt: skip


# ---------------------------------------------------------------- two vectors or matrices


def _require_ndims(*counts):
    """Return a function that converts its arguments to tensors and checks their numbers of axes."""
    kinds = ("numbers", "vectors", "matrices", "batches of matrices")

    def checked(*inputs):
        tensors = [as_tensor(x) for x in inputs]
        if any(x.ndim != n for x, n in zip(tensors, counts, strict=True)):
            expected = " and ".join(dict.fromkeys(kinds[n] for n in counts))
            shapes = " and ".join(str(x.shape) for x in tensors)
            raise ShapeError(f"expected {expected}, got shapes {shapes}.\nUse matmul for other shapes.")
        return tensors

    return checked


_vectors, _matrices, _batches = _require_ndims(1, 1), _require_ndims(2, 2), _require_ndims(3, 3)

_matrix_and_vector = _require_ndims(2, 1)


@derived(exact_in_half=True, samples=cases((real, 2, 3), (real, 3, 4)), latex=(r"g\,y^\top", r"x^\top g"))
def mm(x, y):
    """Multiply two matrices, (n, m) and (m, p) -> (n, p)."""
    return matmul(*_matrices(x, y))


@derived(
    exact_in_half=True, samples=cases((real, 2, 2, 3), (real, 2, 3, 4)), latex=(r"g\,y^\top", r"x^\top g")
)
def bmm(x, y):
    """Multiply two batches of matrices, (B, n, m) and (B, m, p) -> (B, n, p)."""
    x, y = _batches(x, y)
    if x.shape[0] != y.shape[0]:
        raise ShapeError(
            f"bmm got batches of {x.shape[0]} and {y.shape[0]} matrices.\n"
            f"Pass equally many, or use matmul, which broadcasts."
        )
    return matmul(x, y)


@derived(exact_in_half=True, samples=cases((real, 2, 3), (real, 3)), latex=(r"g\,y^\top", r"x^\top g"))
def mv(x, y):
    """Multiply a matrix and a vector, (n, m) and (m,) -> (n,)."""
    return matmul(*_matrix_and_vector(x, y))


@derived(exact_in_half=True, samples=cases((real, 3), (real, 3)), latex=(r"g\,y", r"g\,x"))
def dot(x, y):
    """Compute the dot product of two vectors."""
    return matmul(*_vectors(x, y))


vdot = dot  # they differ only for complex numbers


@derived(exact_in_half=True, samples=cases((real, 3), (real, 2)), latex=(r"g\,y", r"g^\top x"))
def outer(x, y):
    """Compute the outer product x[i] * y[j] of two vectors."""
    x, y = _vectors(x, y)
    return multiply(x.unsqueeze(1), y)


@derived(
    autocast="lower", samples=cases((real, 2, 3), (real, 2, 3)) | cases((real, 2, 3), (real, 3, 2, 1), dim=1)
)
def vecdot(x, y, *, dim=-1):
    """Compute dot products along an axis; the other axes broadcast."""
    return multiply(*all_floating(x, y)).sum(dim)


# ---------------------------------------------------------------- a product plus an input


def _factors(x, y, beta, alpha):
    """Convert x and y to floats if beta or alpha is a float: products of integers may wrap around."""
    return all_floating(x, y) if isinstance(beta, float) or isinstance(alpha, float) else (x, y)


def _scaled_sum(input, product, beta, alpha):
    """beta * input + alpha * product; with beta = 0 `input` is ignored, even if it is NaN."""
    if alpha != 1:
        product = alpha * product
    input = as_tensor(input)
    own = product.shape[max(product.ndim - input.ndim, 0) :]
    if len(own) < input.ndim or any(n not in (1, m) for n, m in zip(input.shape, own, strict=True)):
        raise ShapeError(
            f"input of shape {input.shape} does not broadcast to the product's shape {product.shape}.\n"
            f"Reshape the input."
        )
    return product if beta == 0 else (input if beta == 1 else beta * input) + product


@derived(
    autocast="lower",
    samples=cases((real, 2, 4), (real, 2, 3), (real, 3, 4))
    | cases((real, 4), (real, 2, 3), (real, 3, 4), beta=0.5, alpha=2),
    latex=(r"\beta\,g", r"\alpha\,g\,y^\top", r"\alpha\,x^\top g"),
)
def addmm(input, x, y, *, beta=1, alpha=1):
    """beta * input + alpha * x @ y, for matrices x and y."""
    return _scaled_sum(input, mm(*_factors(x, y, beta, alpha)), beta, alpha)


@derived(
    autocast="lower",
    samples=cases((real, 2), (real, 2, 3), (real, 3))
    | cases((real,), (real, 2, 3), (real, 3), beta=0.5, alpha=2),
    latex=(r"\beta\,g", r"\alpha\,g\,y^\top", r"\alpha\,x^\top g"),
)
def addmv(input, x, y, *, beta=1, alpha=1):
    """beta * input + alpha * x @ y, for a matrix x and a vector y."""
    return _scaled_sum(input, mv(*_factors(x, y, beta, alpha)), beta, alpha)


@derived(
    autocast="lower",
    samples=cases((real, 3, 2), (real, 3), (real, 2))
    | cases((real,), (real, 3), (real, 2), beta=0.5, alpha=2),
    latex=(r"\beta\,g", r"\alpha\,g\,y", r"\alpha\,g^\top x"),
)
def addr(input, x, y, *, beta=1, alpha=1):
    """beta * input + alpha * outer(x, y)."""
    x, y = _factors(x, y, beta, alpha)
    dtype = result_type(*map(as_tensor, (input, x, y)))
    return _scaled_sum(as_tensor(input).to(dtype), outer(x, y).to(dtype), beta, alpha)


@derived(
    autocast="lower",
    samples=cases((real, 2, 2, 4), (real, 2, 2, 3), (real, 2, 3, 4))
    | cases((real, 4), (real, 2, 2, 3), (real, 2, 3, 4), beta=0.5, alpha=2),
    latex=(r"\beta\,g", r"\alpha\,g\,y^\top", r"\alpha\,x^\top g"),
)
def baddbmm(input, x, y, *, beta=1, alpha=1):
    """beta * input + alpha * x @ y, for batches of matrices x and y."""
    return _scaled_sum(input, bmm(*_factors(x, y, beta, alpha)), beta, alpha)


@derived(
    autocast="lower",
    samples=cases((real, 2, 4), (real, 2, 2, 3), (real, 2, 3, 4))
    | cases((real, 4), (real, 2, 2, 3), (real, 2, 3, 4), beta=0.5, alpha=2),
    latex=(r"\beta\,g", r"\alpha\,g\,y^\top", r"\alpha\,x^\top g"),
)
def addbmm(input, x, y, *, beta=1, alpha=1):
    """beta * input + alpha * sum of x @ y over the batch."""
    x, y = _batches(*_factors(x, y, beta, alpha))
    rows = x.transpose(0, 1).reshape(x.shape[1], x.shape[0] * x.shape[2])
    columns = y.reshape(y.shape[0] * y.shape[1], y.shape[2])
    return _scaled_sum(input, matmul(rows, columns), beta, alpha)


# ---------------------------------------------------------------- cross products and powers


@derived(
    samples=cases((real, 2, 3), (real, 2, 3)) | cases((real, 3, 1), (real, 3, 2), dim=0),
    latex=(r"y \times g", r"g \times x"),
)
def cross(x, y, dim=None):
    """Compute the cross product along an axis of length 3, by default the first such axis."""
    x, y = as_tensor(x), as_tensor(y)
    if dim is None:
        dim = next((i for i, n in enumerate(x.shape) if n == 3), -1)
    if x.ndim != y.ndim or not x.ndim or not x.shape[dim] == y.shape[dim] == 3:
        raise ShapeError(
            f"cross got shapes {x.shape} and {y.shape} along axis {dim}.\n"
            f"Both must have equally many axes, and length 3 along that axis."
        )
    x0, x1, x2 = unbind(x, dim)
    y0, y1, y2 = unbind(y, dim)
    return stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis_of(dim, x.ndim))


@derived(autocast="float32", samples=cases((real, 3)) | cases((real, 2, 3), N=4) | cases((real, 2), N=1))
def vander(x, N=None):
    """Compute the powers x**0, x**1, ..., x**(N - 1) of each element, along a new last axis.

    N defaults to the length of x's last axis. A 0-d tensor is taken as a vector of one element.
    """
    x = as_tensor(x)
    x = x if x.ndim else x.reshape(1)
    return x.unsqueeze(-1) ** constant(np.arange(x.shape[-1] if N is None else N), x)


ger = outer  # PyTorch's other name
