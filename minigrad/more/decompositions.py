"""Decompositions of matrices: Cholesky, QR, eigenvalues of symmetric matrices, singular values.

Every function takes a matrix or a batch of matrices. The gradients follow Seeger et al. (2017),
"Auto-Differentiating Linear Algebra". Singular vectors and eigenvectors are unique only up to a sign (or a
rotation, if their values are equal), so gradients are correct only for results that do not depend on it.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ..core.devices import to_device_of
from ..core.errors import OptionError
from ..core.namespace import namespace, value_in_rule
from ..core.op import derived, differentiable
from ..core.tensor import Tensor, as_tensor, constant
from ..ops.samplers import cases, invertible, of_symmetric, real, symmetric
from .inverses import by_lapack, cubic, cutoff, inv, limits, mirrored, solve_matrices, transposed, triangle

__family__ = "matrix"
__all__ = ["cholesky", "cholesky_inverse", "cholesky_solve"]


def _symmetrize(x):
    """The symmetric part of each matrix."""
    return (x + transposed(x)) * 0.5


# ---------------------------------------------------------------- Cholesky


def _lower(x):
    return by_lapack(np.linalg.cholesky, x)


@differentiable(
    public_name="cholesky",
    floating=True,
    samples=of_symmetric(cases((symmetric, 3, 3)) | cases((symmetric, 2, 2, 2))),
    latex=r"\operatorname{sym}\left(L^{-\top}\,\operatorname{lower}(L^\top g)\,L^{-1}\right)",
    flops=cubic(1 / 3, "1/3"),
)
def cholesky_factor(x, /):
    """L with L Lᵀ = X, from the lower triangle of X.

    dX = sym(L⁻ᵀ Φ(Lᵀ G) L⁻¹), where Φ takes the lower triangle with half its diagonal.
    """
    lower = value_in_rule("cholesky_factor", _lower, x)

    def gradient(g):
        xp = namespace(g)
        half = xp.tril(transposed(lower) @ g)
        half = half - half * to_device_of(np.eye(x.shape[-1], dtype=x.dtype), x) * 0.5
        back = value_in_rule("inv", lambda x: by_lapack(np.linalg.inv, x), lower)
        return _symmetrize(transposed(back) @ half @ back)

    return lower, (gradient,)


@derived(
    samples=of_symmetric(cases((symmetric, 3, 3)) | cases((symmetric, 2, 2, 2), upper=True)),
    latex=r"\operatorname{sym}\left(L^{-\top}\,\operatorname{lower}(L^\top g)\,L^{-1}\right)",
)
def cholesky(x, upper=False):
    """Factor a positive definite X = L Lᵀ. Return the lower triangular L, or Lᵀ with upper=True.

    Only the lower (with upper=True, the upper) triangle of X is read. The gradient assumes a symmetric X.
    """
    lower = cholesky_factor(mirrored(x, True) if upper else x)
    return lower.mT if upper else lower


@derived(exact_in_half="gpu", samples=cases((invertible, 3, 3)) | cases((invertible, 2, 2, 2), upper=True))
def cholesky_inverse(factor, upper=False):
    """Compute X⁻¹ from the Cholesky factor L of X = L Lᵀ (or Lᵀ with upper=True)."""
    back = inv(triangle(factor, upper))
    return back @ back.mT if upper else back.mT @ back


@derived(
    samples=cases((real, 3, 2), (invertible, 3, 3))
    | cases((real, 2, 2, 1), (invertible, 2, 2, 2), upper=True)
)
def cholesky_solve(b, factor, upper=False):
    """Compute X⁻¹ B from the Cholesky factor L of X = L Lᵀ (or Lᵀ with upper=True)."""
    lower = triangle(factor, upper).mT if upper else triangle(factor, upper)
    return solve_matrices(lower.mT, solve_matrices(lower, b))


# ---------------------------------------------------------------- QR


class QR(NamedTuple):
    """Q with orthonormal columns, and an upper triangular R."""

    Q: Tensor
    R: Tensor


@differentiable(
    floating=True,
    samples=cases((real, 3, 3)) | cases((real, 2, 3, 2)) | cases((real, 2, 3)),
    flops=cubic(2, "about 2"),
)
def qr_factors(x, /):
    """X = Q R, reduced. With M = R G_Rᵀ - G_Qᵀ Q: dX = (G_Q + Q copyltu(M)) R⁻ᵀ.

    copyltu mirrors the lower triangle into the upper one. If X has more columns than rows, the further
    columns of R are Qᵀ times those of X.
    """
    q, r = value_in_rule("qr_factors", lambda x: tuple(by_lapack(np.linalg.qr, x, square=False)), x)
    rows, columns = x.shape[-2:]

    def gradient(gs, needs):
        xp = namespace(gs[0], gs[1])
        gq = xp.zeros_like(q) if gs[0] is None else gs[0]
        gr = xp.zeros_like(r) if gs[1] is None else gs[1]
        if columns <= rows:
            return (_qr_gradient(gq, gr, q, r),)
        left = x[..., rows:]
        right = gr[..., rows:]
        square = _qr_gradient(gq + left @ transposed(right), gr[..., :rows], q, r[..., :rows])
        return (xp.concat((square, q @ right), axis=-1),)

    return (q, r), gradient


def _qr_gradient(gq, gr, q, r):
    """The gradient of QR for a matrix with at least as many rows as columns."""
    m = r @ transposed(gr) - transposed(gq) @ q
    mirrored = namespace(m).tril(m) + transposed(namespace(m).tril(m, -1))
    back = value_in_rule(
        "solve_matrices", partial(by_lapack, np.linalg.solve), r, transposed(gq + q @ mirrored)
    )
    return transposed(back)


@derived(samples=cases((real, 3, 3)) | cases((real, 2, 3, 2)) | cases((real, 2, 3)))
def qr(a, mode="reduced"):
    """Factor X = Q R: orthonormal columns Q (..., m, k), upper triangular R (..., k, n), k = min(m, n).

    Only mode="reduced" is supported: the further columns of a complete Q have no derivative.
    """
    if mode != "reduced":
        raise OptionError(f'mode must be "reduced", got {mode!r}.\nOnly reduced columns have derivatives.')
    return QR(*qr_factors(a))


# ---------------------------------------------------------------- eigenvalues


class Eigen(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _gaps(values):
    """values[j] - values[i], and 1 on the diagonal."""
    gaps = values[..., None, :] - values[..., :, None]
    return gaps + to_device_of(np.eye(values.shape[-1], dtype=values.dtype), values)


def _off_diagonal(x):
    return x * to_device_of(1 - np.eye(x.shape[-1], dtype=x.dtype), x)


def _eigen(x, upper):
    return tuple(by_lapack(lambda x: np.linalg.eigh(x, "U" if upper else "L"), x))


@differentiable(
    public_name="eigh",
    floating=True,
    samples=of_symmetric(cases((symmetric, 3, 3)) | cases((symmetric, 2, 2, 2), upper=True)),
    latex=r"\operatorname{sym}\left(V (\operatorname{diag}(g_\lambda) + (V^\top g_V) / E)\,V^\top\right)",
    flops=cubic(9, "about 9"),
)
def eigen_factors(x, /, upper=False):
    """(λ, V) with X = V diag(λ) Vᵀ for a symmetric X.

    dX = sym(V (diag(G_λ) + (Vᵀ G_V) / E) Vᵀ), with E[i, j] = λ[j] - λ[i].
    """
    values, vectors = value_in_rule("eigen_factors", _eigen, x, upper)

    def gradient(gs, needs):
        inner = 0.0
        if gs[1] is not None:
            inner = _off_diagonal((transposed(vectors) @ gs[1]) / _gaps(values))
        if gs[0] is not None:
            inner = inner + gs[0][..., None] * to_device_of(np.eye(x.shape[-1], dtype=x.dtype), x)
        return (_symmetrize(vectors @ inner @ transposed(vectors)),)

    return (values, vectors), gradient


@derived(samples=of_symmetric(cases((symmetric, 3, 3)) | cases((symmetric, 2, 2, 2), UPLO="U")))
def eigh(a, UPLO="L"):
    """Return (eigenvalues, eigenvectors) of a symmetric matrix: in ascending order, and as columns.

    Only the lower (with UPLO="U", the upper) triangle of a is read. The gradient assumes a symmetric matrix.
    Eigenvectors of equal eigenvalues have no derivative.
    """
    return Eigen(*eigen_factors(a, _is_upper(UPLO)))


def _is_upper(UPLO):
    if UPLO not in ("L", "l", "U", "u"):
        raise OptionError(f'UPLO must be "L" or "U", got {UPLO!r}.\nIt selects the triangle that is read.')
    return UPLO in "Uu"


@derived(
    samples=of_symmetric(cases((symmetric, 3, 3)) | cases((symmetric, 2, 2, 2), UPLO="U")),
    latex=r"V \operatorname{diag}(g)\,V^\top",
)
def eigvalsh(a, UPLO="L"):
    """Return the eigenvalues of a symmetric matrix in ascending order; dX = V diag(G) Vᵀ. See `eigh`."""
    return eigen_factors(a, _is_upper(UPLO))[0]


# ---------------------------------------------------------------- singular values


class SVD(NamedTuple):
    """X = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _singular(x, full):
    return tuple(by_lapack(lambda x: np.linalg.svd(x, full_matrices=full), x, square=False))


@differentiable(
    floating=True,
    samples=cases((real, 3, 3), full=False)
    | cases((real, 2, 3, 2), full=False)
    | cases((real, 2, 3), full=False),
    flops=cubic(14, "about 14"),
)
def svd_factors(x, /, full=False):
    """X = U diag(S) Vᵀ; dX = U (diag(G_S) + S skew(VᵀG_V) / E + skew(UᵀG_U) / E S) Vᵀ + the rest.

    skew(A) = A - Aᵀ and E[i, j] = S[j]² - S[i]². The rest is the part of G_U / S orthogonal to U, and of
    G_V / S orthogonal to V.
    """
    u, s, vt = factors = value_in_rule("svd_factors", _singular, x, full)

    def gradient(gs, needs):
        k = s.shape[-1]
        gu = None if gs[0] is None else gs[0][..., :k]
        gv = None if gs[2] is None else transposed(gs[2][..., :k, :])
        return (_svd_gradient(gu, gs[1], gv, u[..., :k], s, transposed(vt[..., :k, :])),)

    return factors, gradient


def _svd_gradient(gu, gs, gv, u, s, v):
    """The gradient of SVD, given the gradients of U, S and V; None for those that are not needed."""
    gaps = _gaps(s * s)
    row = s[..., None, :]
    column = s[..., :, None]
    one = to_device_of(np.eye(s.shape[-1], dtype=s.dtype), s)
    core = one * 0.0 if gs is None else gs[..., None] * one
    outside = 0.0
    if gu is not None:
        inner = transposed(u) @ gu
        core = core + (inner - transposed(inner)) / gaps * row
        if u.shape[-2] > u.shape[-1]:
            outside = ((gu - u @ inner) / row) @ transposed(v)
    if gv is not None:
        inner = transposed(v) @ gv
        core = core + column * ((inner - transposed(inner)) / gaps)
        if v.shape[-2] > v.shape[-1]:
            outside = outside + u @ transposed((gv - v @ inner) / row)
    return u @ core @ transposed(v) + outside


@derived(samples=cases((real, 3, 3), full_matrices=False) | cases((real, 2, 3, 2), full_matrices=False))
def svd(a, full_matrices=True):
    """Factor X = U diag(S) Vh, with the singular values S in descending order.

    The further columns of U or rows of Vh, which full_matrices=False leaves out, have no derivative. Nor have
    the singular vectors of equal singular values.

    >>> u, s, vh = mg.linalg.svd(mg.tensor([[3.0, 0.0], [0.0, -2.0]]))
    >>> s
    tensor([3., 2.])
    """
    return SVD(*svd_factors(a, bool(full_matrices)))


@derived(samples=cases((real, 3, 3)) | cases((real, 2, 3, 2)), latex=r"U \operatorname{diag}(g)\,V^\top")
def svdvals(a):
    """Return the singular values in descending order; dX = U diag(G) Vᵀ."""
    return svd_factors(a)[1]


@derived(samples=cases((real, 3, 3)) | cases((real, 2, 3, 2), atol=0.1))
def matrix_rank(a, *, atol=None, rtol=None, hermitian=False):
    """Count the singular values above max(atol, rtol * largest), as int64.

    rtol defaults to the dtype's epsilon times the longer side, or to 0 if atol is given. If `hermitian` is
    True, the matrix is taken as symmetric, and only its lower triangle is read.
    """
    a = as_tensor(a).detach()
    s = svdvals(mirrored(a) if hermitian else a).numpy()
    return constant((s > cutoff(s, a.shape, *limits(atol, rtol))).sum(-1), a)
