"""Norms of vectors and matrices."""

from __future__ import annotations

import math

from ..core.errors import OptionError, ShapeError
from ..core.op import derived
from ..core.tensor import as_tensor
from ..ops.axes import as_floating, axis_of
from ..ops.comparisons import where
from ..ops.norms import vector_norm
from ..ops.samplers import along_axis, away_from_zero, cases, distinct, invertible, real, reducing
from .decompositions import svdvals
from .inverses import inv

__family__ = "reduction"
__all__ = ["norm", "renorm"]


# ---------------------------------------------------------------- vectors


@derived(
    autocast="float32",
    samples=reducing(distinct) | along_axis(away_from_zero, p=3) | cases((real, 2, 3), p="nuc"),
    latex=r"g\,\operatorname{sign}(x)\left(\frac{|x|}{y}\right)^{p - 1}",
)
def norm(x, p="fro", dim=None, keepdim=False, *, dtype=None):
    """Compute sum(|x|**p)**(1/p) over all elements or along `dim`; the derivative at 0 is 0.

    "fro" means p = 2; "nuc" is the sum of the singular values of the matrices in two axes.
    """
    x = as_tensor(x)
    if p == "nuc":
        return matrix_norm(x, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(x, 2 if p in (None, "fro") else p, dim, keepdim, dtype=dtype)


# ---------------------------------------------------------------- matrices


@derived(
    autocast="float32",
    samples=cases((real, 3, 2))
    | cases((real, 2, 3, 2), ord="nuc")
    | cases((real, 2, 3, 2), ord=2, dim=(0, 1), keepdim=True)
    | cases((real, 3, 3), ord=-2)
    | cases((distinct, 3, 3), ord=1)
    | cases((distinct, 3, 3), ord=-math.inf),
)
def matrix_norm(x, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """Compute a norm of the matrices in two axes.

    `ord`: "fro" is the root of the sum of squares; "nuc", 2 and -2 are the sum, maximum and minimum of the
    singular values; 1 and -1 the maximum and minimum sum of |x| over a column; inf and -inf over a row.
    """
    x = as_tensor(x)
    if dtype is not None:
        x = x.to(dtype)
    axes = [axis_of(d, x.ndim) for d in (dim if isinstance(dim, tuple | list) else (dim,))]
    if len(set(axes)) != 2 or x.ndim < 2:
        raise ShapeError(f"a matrix norm needs two axes, got dim={dim} for shape {x.shape}.\nPass two.")
    if ord == "fro":
        return vector_norm(x, 2, axes, keepdim)
    if ord in ("nuc", 2, -2):
        rest = [i for i in range(x.ndim) if i not in axes]
        s = svdvals(x.permute(*rest, *axes))
        value = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord == 2 else s.amin(-1)
        return value.reshape([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdim else value
    if ord not in (1, -1, math.inf, -math.inf):
        raise OptionError(
            f'ord must be "fro", "nuc", inf, -inf, 1, -1, 2 or -2, got {ord!r}.\nChoose one of them.'
        )
    summed, left = axes if abs(ord) == 1 else reversed(axes)
    sums = vector_norm(x, 1, summed, keepdim=True)
    value = sums.amax(left, keepdim=True) if ord > 0 else sums.amin(left, keepdim=True)
    return value if keepdim else value.squeeze(tuple(axes))


@derived(
    autocast="float32",
    samples=cases((real, 2, 3)) | cases((real, 3, 3), 2) | cases((distinct, 2, 3), math.inf, 1),
)
def linalg_norm(x, ord=None, dim=None, keepdim=False, *, dtype=None):
    """Compute a vector norm, or a matrix norm if `dim` names two axes, or x has two and `ord` is given.

    If `ord` is not given, it is the root of the sum of squares of all elements.
    """
    x = as_tensor(x)
    axes = tuple(dim) if isinstance(dim, tuple | list) else None if dim is None else (dim,)
    if ord is None:
        return vector_norm(x, 2, axes, keepdim, dtype=dtype)
    if axes is None and x.ndim not in (1, 2):
        raise ShapeError(f"a norm of order {ord!r} needs one or two axes, got {x.ndim}.\nName them by `dim`.")
    axes = axes or tuple(range(x.ndim))
    kind = matrix_norm if len(axes) == 2 else vector_norm
    return kind(x, ord, axes, keepdim, dtype=dtype)


@derived(
    autocast="float32",
    samples=cases((invertible, 3, 3))
    | cases((invertible, 2, 2, 2), p="fro")
    | cases((invertible, 3, 3), p=1),
)
def cond(x, p=None):
    """Compute the condition number |X| |X⁻¹| in a matrix norm, by default of order 2."""
    x = as_tensor(x)
    if 0 in x.shape[-2:]:
        return as_floating(x).sum((-2, -1))
    if p in (None, 2, -2):
        s = svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(x, p) * matrix_norm(inv(x), p)


@derived(
    autocast="float32",
    samples=cases((away_from_zero, 2, 3), 2, 0, 1.0) | cases((away_from_zero, 2, 3, 2), 1.5, 1, 2.0),
)
def renorm(x, p: float, dim, maxnorm):
    """Scale down each slice along `dim` whose p-norm is above `maxnorm` to that norm."""
    x = as_tensor(x)
    dim = axis_of(dim, x.ndim)
    if not p > 0 or not maxnorm >= 0 or x.ndim < 2:
        raise OptionError(
            f"renorm got {x.ndim} axes, p={p} and maxnorm={maxnorm}.\n"
            f"Pass at least two axes, p above 0 and maxnorm of at least 0."
        )
    lengths = vector_norm(x, p, [i for i in range(x.ndim) if i != dim], keepdim=True)
    return x * where(lengths > maxnorm, maxnorm / (lengths + 1e-7), 1.0)
