"""Lengths of vectors."""

from __future__ import annotations

import math

from ..errors import OptionError
from ..tensor import as_tensor
from .record import made_of_ops

__all__ = ["norm"]


def root(x):
    """sqrt(x), with 0 for its infinite derivative at 0."""
    zero = x == 0
    return x.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)


@made_of_ops
def norm(x, p=2, dim=None, keepdim=False):
    """The length of vectors, sum(|x|**p)**(1/p), with p 1, 2 or inf; where it is 0 its derivative is 0."""
    x = as_tensor(x)
    if p == math.inf:
        return x.abs().amax(dim, keepdim)
    if p not in (1, 2):
        raise OptionError(f"norm has p = 1, 2 or inf, got {p!r}.\nChoose one of them.")
    return x.abs().sum(dim, keepdim) if p == 1 else root(x.square().sum(dim, keepdim))
