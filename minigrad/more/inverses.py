"""Inverses, systems of linear equations, determinants, powers and exponentials of square matrices.

Every function takes a matrix or a batch of matrices, (..., n, n). G is the gradient of the result.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from ..core.costs import Flops
from ..core.devices import through_cpu, to_device_of
from ..core.dtypes import finfo
from ..core.errors import MinigradError, OptionError, ShapeError
from ..core.namespace import namespace, value_in_rule
from ..core.op import derived, differentiable
from ..core.tensor import Tensor, as_tensor
from ..ops.axes import axes_of
from ..ops.comparisons import where
from ..ops.creation import eye
from ..ops.samplers import cases, invertible, of_symmetric, real, symmetric

__family__ = "matrix"
__all__ = ["det", "inverse", "logdet", "matrix_exp", "matrix_power", "pinverse", "slogdet"]


def cubic(factor, text):
    """A cost of `factor` times n³ for each matrix."""
    count = lambda inputs, result, settings: int(factor * math.prod(inputs[0]) * inputs[0][-1])
    return Flops(f"{text} n³ for each matrix", count)


def transposed(x):
    """Transpose each matrix."""
    return x.swapaxes(-1, -2)


REMEDIES = {
    "is singular": "It has no inverse: its rows are linearly dependent.",
    "is not positive definite": "An eigenvalue is not positive; adding eps * mg.eye(n) raises all of them.",
}


def by_lapack(compute, x, *others, square=True):
    """compute(x, *others) by LAPACK on the CPU. If LAPACK fails, the error names the matrix of the batch."""
    check_matrix(x, square)
    return through_cpu(partial(_name_failing_matrix, compute), x, *others)


def _name_failing_matrix(compute, x, *others):
    try:
        return compute(x, *others)
    except np.linalg.LinAlgError as error:
        place = _failing(compute, x, others)
        which = f"matrix {list(place)} of the batch" if place else "the matrix"
        message = str(error).lower().removeprefix("matrix ")
        problem = "is singular" if "singular" in message else message
        remedy = REMEDIES.get(problem, "Check it for NaN and infinities.")
        raise MinigradError(f"{which} {problem}.\n{remedy}") from error


def check_matrix(x, square=True):
    if x.ndim < 2:
        raise ShapeError(f"expected a matrix or a batch of matrices, got shape {x.shape}.\nAdd an axis.")
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrices must be square, got shape {x.shape}.\nThe last two axes must be equal.")


def _failing(compute, x, others):
    """The batch index of the first matrix for which `compute` fails."""
    for place in np.ndindex(x.shape[:-2]):
        try:
            compute(x[place], *(np.broadcast_to(o, (*x.shape[:-2], *o.shape[-2:]))[place] for o in others))
        except np.linalg.LinAlgError:
            return place
    return ()


# ---------------------------------------------------------------- inverses and equations


@differentiable(
    floating=True,
    samples=cases((invertible, 3, 3)) | cases((invertible, 2, 1, 2, 2)) | cases((invertible, 0, 0)),
    latex=r"-X^{-\top} g\,X^{-\top}",
    flops=cubic(2, "2"),
)
def inv(x, /):
    """Compute the inverse Y = X⁻¹; dX = -Yᵀ G Yᵀ."""
    y = value_in_rule("inv", lambda x: by_lapack(np.linalg.inv, x), x)
    return y, (lambda g: -(transposed(y) @ g @ transposed(y)),)


inverse = inv  # PyTorch's other name


def _solution(a, b):
    return by_lapack(np.linalg.solve, a, b)


@differentiable(
    floating=True,
    samples=cases((invertible, 3, 3), (real, 3, 2)) | cases((invertible, 2, 2, 2), (real, 2, 1)),
    latex=(r"-A^{-\top} g\,X^\top", r"A^{-\top} g"),
    flops=cubic(2 / 3, "2/3"),
)
def solve_matrices(a, b, /):
    """X with A X = B; dB = A⁻ᵀ G, dA = -dB Xᵀ."""
    x = value_in_rule("solve_matrices", _solution, a, b)
    back = lambda g: value_in_rule("solve_matrices", _solution, transposed(a), g)
    return x, lambda g, needs: _of_solution(back(g), x, needs)


def _of_solution(db, x, needs):
    return (-(db @ transposed(x)) if needs[0] else None, db if needs[1] else None)


@derived(
    samples=cases((invertible, 3, 3), (real, 3))
    | cases((invertible, 3, 3), (real, 3, 2))
    | cases((invertible, 2, 2, 2), (real, 2, 2))
    | cases((invertible, 2, 2), (real, 3, 2), left=False),
    latex=(r"-A^{-\top} g\,X^\top", r"A^{-\top} g"),
)
def solve(a, b, *, left=True):
    """Solve A X = B, or with left=False X A = B, for X; b is a matrix, a vector, or a batch of either.

    As in PyTorch, b is a batch of vectors if its shape is a's without the last axis.
    """
    a, b = as_tensor(a), as_tensor(b)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    if a.ndim < 2 or not b.ndim or b.shape[-2 if left and not vector else -1] != a.shape[-1]:
        raise ShapeError(
            f"solve got matrices of shape {a.shape} and right-hand sides of shape {b.shape}.\n"
            f"A right-hand side must have as many {'rows' if left else 'columns'} as its matrix."
        )
    if vector:
        return solve_matrices(a, b.unsqueeze(-1)).squeeze(-1)
    return solve_matrices(a, b) if left else solve_matrices(a.mT, b.mT).mT


@derived(
    samples=cases((invertible, 3, 3), (real, 3, 2), upper=True)
    | cases((invertible, 2, 2, 2), (real, 2, 3), upper=False, unitriangular=True)
    | cases((invertible, 2, 2), (real, 3, 2), upper=False, left=False)
)
def solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    """Solve A X = B, or with left=False X A = B, for X; only one triangle of a is read."""
    a = triangle(a, upper)
    if unitriangular:
        a = triangle(a, upper, 1 if upper else -1) + eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return solve(a, b, left=left) if as_tensor(b).ndim > 1 else solve(a, b)


def triangle(x, upper, diagonal=0):
    """The upper or lower triangle of x."""
    return as_tensor(x).triu(diagonal) if upper else as_tensor(x).tril(diagonal)


# ---------------------------------------------------------------- symmetric matrices


@differentiable(samples=of_symmetric(cases((symmetric, 3, 3)) | cases((symmetric, 2, 2, 2), upper=True)))
def mirrored(x, /, upper=False):
    """Mirror the lower (or upper) triangle of x into the other one; dX = G, as for a symmetric x."""
    xp = namespace(x)
    half, rest = (xp.triu(x), xp.triu(x, 1)) if upper else (xp.tril(x), xp.tril(x, -1))
    return half + transposed(rest), (lambda g: g,)


# ---------------------------------------------------------------- pseudoinverses


def limits(*tolerances):
    """Convert tolerances to the numbers and arrays that `cutoff` takes."""
    return [t.numpy() if isinstance(t, Tensor) else t for t in tolerances]


def cutoff(s, shape, atol, rtol):
    """max(atol, rtol * largest): singular values up to it count as 0.

    rtol defaults to the dtype's epsilon times the longer side, or to 0 if atol is given.
    """
    if rtol is None:
        rtol = 0.0 if atol is not None else finfo(s.dtype).eps * max(shape[-2:])
    atol, rtol = (np.asarray(0.0 if t is None else t, s.dtype) for t in (atol, rtol))
    return np.maximum(atol, rtol * s.max(axis=-1, initial=0.0))[..., None]


def _pseudoinverse(x, atol, rtol):
    return through_cpu(_of_singular_values, x, atol, rtol)


def _of_singular_values(x, atol, rtol):
    u, s, vh = by_lapack(lambda x: np.linalg.svd(x, full_matrices=False), x, square=False)
    kept = s > cutoff(s, x.shape, atol, rtol)
    return transposed(vh) * np.where(kept, 1 / np.where(kept, s, 1), 0)[..., None, :] @ transposed(u)


@differentiable(
    floating=True,
    samples=cases((invertible, 2, 3), atol=None, rtol=None)
    | cases((invertible, 2, 3, 2), atol=None, rtol=None),
    latex=r"-Y^\top g\,Y^\top + (I - X Y)\,g^\top Y Y^\top + Y^\top Y g^\top (I - Y X)",
    flops=cubic(14, "about 14"),
)
def pseudoinverse(x, /, atol, rtol):
    """Y = X⁺; dX = -Yᵀ G Yᵀ + (I - X Y) Gᵀ Y Yᵀ + Yᵀ Y Gᵀ (I - Y X) (Golub and Pereyra 1973)."""
    y = value_in_rule("pseudoinverse", _pseudoinverse, x, atol, rtol)

    def gradient(g):
        h, t = transposed(g), transposed(y)
        return (h - x @ (y @ h)) @ (y @ t) + (t @ y) @ (h - (h @ y) @ x) - t @ g @ t

    return y, (gradient,)


@derived(
    exact_in_half=True,
    samples=cases((real, 2, 3)) | cases((real, 2, 3, 2), rtol=1e-3),
    latex=r"-Y^\top g\,Y^\top + (I - X Y)\,g^\top Y Y^\top + Y^\top Y g^\top (I - Y X)",
)
def pinv(x, rtol=None, hermitian=False, *, atol=None):
    """Compute the Moore-Penrose pseudoinverse; singular values up to max(atol, rtol * largest) count as 0.

    rtol defaults to the dtype's epsilon times the longer side, or to 0 if atol is given. If `hermitian` is
    True, x is taken as symmetric, and only its lower triangle is read.
    """
    return pseudoinverse(mirrored(x) if hermitian else x, *limits(atol, rtol))


@derived(
    exact_in_half=True,
    samples=cases((invertible, 3, 3)) | cases((invertible, 2, 2, 2)),
    latex=r"-Y^\top g\,Y^\top + (I - X Y)\,g^\top Y Y^\top + Y^\top Y g^\top (I - Y X)",
)
def pinverse(x, rcond=1e-15):
    """Compute the Moore-Penrose pseudoinverse; singular values up to rcond * largest count as 0."""
    return pseudoinverse(x, *limits(None, rcond))


# ---------------------------------------------------------------- determinants


@differentiable(
    floating=True,
    samples=cases((invertible, 3, 3))
    | cases((real, 2, 2, 2))
    | cases(np.array([[1.0, 2, 0], [2, 4, 0], [1, 0, 3]])),
    latex=r"g\,\det(X)\,X^{-\top}",
    flops=cubic(2 / 3, "2/3"),
)
def det(x, /):
    """Compute the determinant d; dX = G d X⁻ᵀ, as the matrix of cofactors, which exists also if d is 0.

    The second derivative is finite unless two singular values are 0.
    """
    d = value_in_rule("det", lambda x: by_lapack(np.linalg.det, x), x)
    return d, (lambda g: g[..., None, None] * _cofactors(x, d),)


def _inverse(x):
    return by_lapack(np.linalg.inv, x)


def _determinant(x):
    return by_lapack(np.linalg.det, x)


def _cofactors(x, d):
    """det(X) X⁻ᵀ = det(U) det(V) U D Vᵀ from an SVD; D[i] is the product of all S[j] with j != i."""
    if not (d == 0).any():
        return d[..., None, None] * transposed(value_in_rule("inv", _inverse, x))
    xp = namespace(x)
    u, s, vh = value_in_rule(
        "svd_factors", lambda x: tuple(by_lapack(partial(np.linalg.svd, full_matrices=False), x)), x
    )
    n = x.shape[-1]
    others = xp.where(to_device_of(np.eye(n, dtype=bool), s), 1.0, s[..., None, :])
    signs = xp.stop_gradient(value_in_rule("det", _determinant, u) * value_in_rule("det", _determinant, vh))
    return (u * (signs[..., None] * others.prod(axis=-1))[..., None, :]) @ vh


class SignAndLogarithm(NamedTuple):
    """A determinant: sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


@differentiable(
    floating=True,
    samples=cases((invertible, 3, 3)) | cases((invertible, 2, 2, 2)),
    latex=r"g_2\,X^{-\top}",
    flops=cubic(2 / 3, "2/3"),
)
def sign_and_log(x, /):
    """Sign and logarithm of the determinant; d log|det| / dX = X⁻ᵀ."""
    values = value_in_rule("sign_and_log", lambda x: tuple(by_lapack(np.linalg.slogdet, x)), x)

    def gradient(gs, needs):
        if gs[1] is None:
            return (namespace(gs[0]).zeros_like(x),)
        back = value_in_rule("inv", lambda x: by_lapack(np.linalg.inv, x), x)
        return (gs[1][..., None, None] * transposed(back),)

    return values, gradient


@derived(samples=cases((invertible, 3, 3)) | cases((invertible, 2, 2, 2)), latex=r"g_2\,X^{-\top}")
def slogdet(x):
    """Return (sign, log |det|) of the determinant, without overflow; d logabsdet / dX = X⁻ᵀ."""
    return SignAndLogarithm(*sign_and_log(x))


@derived(samples=cases((symmetric, 3, 3)) | cases((symmetric, 2, 2, 2)), latex=r"g\,X^{-\top}")
def logdet(x):
    """Compute the log of the determinant: NaN if it is negative, -inf if it is 0; dX = G X⁻ᵀ."""
    sign, logarithm = sign_and_log(x)
    return where(sign < 0, math.nan, logarithm)


# ---------------------------------------------------------------- powers and exponentials


@derived(
    exact_in_half="gpu",
    samples=cases((invertible, 3, 3), 3)
    | cases((invertible, 2, 2, 2), -2)
    | cases((invertible, 2, 2), 1)
    | cases((invertible, 2, 2), 6),
)
def matrix_power(x, n):
    """Raise a matrix to the integer power n by repeated squaring; a negative n inverts it first."""
    x = as_tensor(x)
    check_matrix(x)
    if n < 0:
        return matrix_power(inv(x), -n)
    if n == 0:
        one = eye(x.shape[-1], dtype=x.dtype, device=x.device)
        return where(one >= 0, one, x)  # the identity, with a gradient of 0 for x
    power = None
    while n:
        if n & 1:
            power = x if power is None else power @ x
        n >>= 1
        x = x @ x if n else x
    return power


# coefficients of the Padé approximation of order 13 (Higham 2005, table 2.3), divided by the first
PADE = [n / 64764752532480000 for n in (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)]  # fmt: skip


@derived(exact_in_half="gpu", samples=cases((real, 3, 3)) | cases((real, 2, 2, 2)))
def matrix_exp(x):
    """Compute e^X = I + X + X² / 2! + ... by scaling and squaring (Higham 2005, algorithm 2.3)."""
    x = as_tensor(x)
    check_matrix(x)
    size = float(np.abs(x.numpy()).sum(-2).max(initial=0.0))
    halvings = max(0, math.ceil(math.log2(size / 5.37))) if math.isfinite(size) and size else 0
    x, one = x / 2.0**halvings, eye(x.shape[-1], dtype=x.dtype, device=x.device)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x2 @ x4
    low = lambda i: PADE[i] * one + PADE[i + 2] * x2 + PADE[i + 4] * x4 + PADE[i + 6] * x6
    high = lambda i: x6 @ (PADE[i + 8] * x2 + PADE[i + 10] * x4 + PADE[i + 12] * x6)
    even = low(0) + high(0)
    odd = x @ (low(1) + high(1))
    y = solve_matrices(even - odd, even + odd)
    for _ in range(halvings):
        y = y @ y
    return y


# ---------------------------------------------------------------- tensors


@derived(samples=cases((invertible, 4, 4), ind=1) | cases((invertible, 2, 2), ind=1))
def tensorinv(a, ind=2):
    """Invert a as a linear map from its last axes to its first `ind` axes."""
    a = as_tensor(a)
    if not 0 < ind <= a.ndim:
        raise OptionError(
            f"ind must be from 1 to {a.ndim} for a tensor with {a.ndim} axes, got {ind}.\nThe default is 2."
        )
    rows, columns = tuple(a.shape[:ind]), tuple(a.shape[ind:])
    return inv(a.reshape(math.prod(rows), math.prod(columns))).reshape(*columns, *rows)


@derived(samples=cases((invertible, 4, 4), (real, 4)))
def tensorsolve(a, b, dims=None):
    """Solve tensordot(a, X, X.ndim) = b for X; the axes `dims` of a are moved to its end first."""
    a, b = as_tensor(a), as_tensor(b)
    if dims is not None:
        axes_of(dims, a.ndim)  # raises for invalid or repeated axes
        moved = [d % a.ndim for d in dims]
        a = a.permute(*(d for d in range(a.ndim) if d not in moved), *moved)
    shape = tuple(a.shape[b.ndim :])
    n = math.prod(shape)
    return solve(a.reshape(n, n), b.reshape(n)).reshape(shape)
