"""Vector norms, and normalization by them."""

from __future__ import annotations

import math

from ..core.costs import per_input
from ..core.dtypes import as_dtype, is_floating
from ..core.errors import DtypeError, OptionError, ShapeError
from ..core.namespace import namespace, value_in_rule
from ..core.op import derived, differentiable
from ..core.sums import stable_sum
from ..core.tensor import as_tensor
from .axes import axes_of, count, expand_reduced
from .samplers import along_axis, away_from_zero, cases, distinct, real, reducing
from .scaled_norms import scaled_norm

__family__ = "reduction"


@differentiable(
    autocast="float32",
    public_name="norm",
    floating=True,
    samples=reducing(distinct, p=2)
    | along_axis(away_from_zero, p=3.5)
    | along_axis(away_from_zero, p=-0.5)
    | reducing(distinct, p=1)
    | reducing(distinct, p=math.inf)
    | cases((distinct, 2, 3), p=-math.inf, dim=1)
    | cases((distinct, 2, 3), p=0, dim=1),
    latex=r"g\,\operatorname{sign}(x)\left(\frac{|x|}{y}\right)^{p - 1}",
    flops=per_input(2),
)
def p_norm(x, /, p, dim=None, keepdim=False):
    """n = sum(|x|**p)**(1/p); d/dx = sign(x) (|x| / n)**(p - 1), and 0 where x or n is 0.

    p = inf is the largest |x|, -inf the smallest (ties share the gradient), and 0 counts the nonzero
    elements.
    """
    shape = x.shape
    axes = axes_of(dim, x.ndim)
    n = value_in_rule("p_norm", _length, x, p, axes, True)
    value = n if keepdim else n.reshape(tuple(m for i, m in enumerate(shape) if i not in axes))
    return value, (lambda g: expand_reduced(g, shape, axes, keepdim) * _slope(x, n, p, axes),)


def _length(x, p, axes, keepdim):
    """The p-norm of an array, with the reduced axes kept as axes of length 1."""
    size = abs(x)
    options = {"axis": axes, "keepdims": keepdim}
    if math.isinf(p) and not count(x.shape, axes):
        raise ShapeError(f"this norm of no elements is undefined, shape {x.shape}.\nPass at least one.")
    if p == 0:
        return (x != 0).sum(**options, dtype=x.dtype)
    if p == 1:
        return stable_sum(size, axes, keepdim)
    if math.isinf(p):
        return size.max(**options) if p > 0 else size.min(**options)
    return scaled_norm(x, p, axes)


def _slope(x, n, p, axes):
    """The derivative of the norm n with respect to each element."""
    xp = namespace(x)
    if p == 0:
        return xp.zeros_like(x)
    if p == 1:
        return xp.sign(x)
    if p == 2:
        return xp.where(n == 0, 0.0, x / xp.where(n == 0, 1.0, n))
    if math.isinf(p):
        chosen = xp.stop_gradient((xp.absolute(x) == n) | (x != x)).astype(x.dtype)
        return xp.sign(x) * (chosen / chosen.sum(axis=axes, keepdims=True))
    size = xp.where(x == 0, 1.0, xp.absolute(x))
    slope = (size / xp.where(n == 0, 1.0, n)) ** (p - 1)
    return xp.sign(x) * xp.where(n == 0, 0.0, slope)  # below order 0, one 0 makes n 0


@derived(
    autocast="float32",
    exact_in_half=True,
    samples=reducing(distinct) | along_axis(away_from_zero, ord=3),
    latex=r"g\,\operatorname{sign}(x)\left(\frac{|x|}{y}\right)^{\text{ord} - 1}",
)
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """sum(|x|**ord)**(1/ord); inf and -inf give the largest and smallest |x|, 0 counts nonzero elements.

    The derivative at 0 is 0.
    """
    x = as_tensor(x)
    if isinstance(ord, bool) or not isinstance(ord, int | float):
        raise OptionError(f"ord of a vector norm must be a number, got {ord!r}.\nPass 2, math.inf, ...")
    if dtype is not None and is_floating(x.dtype) and as_dtype(dtype).itemsize < x.dtype.itemsize:
        raise DtypeError(f"dtype {dtype} is narrower than the tensor's, {x.dtype}.\nUse norm(x).to(dtype).")
    x = x if dtype is None else x.to(dtype)
    return p_norm(x, ord, dim, keepdim)


@derived(
    autocast="float32",
    samples=cases((real, 2, 3)) | cases((real, 2, 3), 1.0, -1) | cases((real, 3), 3.0, 0, 0.1),
)
def normalize(input, p=2.0, dim=1, eps=1e-12):
    """Divide x by its p-norm along `dim`, or by `eps` where that is larger."""
    x = as_tensor(input)
    return x / vector_norm(x, p, dim, keepdim=True).clamp_min(eps)
