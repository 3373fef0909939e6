"""Adam's step over flat arrays; copying, scaling and the norm of many arrays, without synchronization."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from ....core.devices import array_module
from ....core.kernels import kernel as register
from ....optim.clipping import norm_of_all, scale_down
from ....optim.optimizer import adam_update, copy_all, flatten
from .launching import CHUNK, accumulator, kernel, launches, over_elements, supports


@register(adam_update, "cuda")
def adam(p, g, m, v, hyperparameters):
    """Adam's step. `g` may be float16 or bfloat16 while the rest is float32."""
    acc = accumulator(g.dtype)
    fit = all(a.dtype == acc for a in (p, m, v)) and all(a.flags.c_contiguous for a in (p, g, m, v))
    if not fit or not supports(g):
        return None
    arguments = (p, g, m, v, p.size, hyperparameters)
    kernel(g, "optimizers", "adam")(*over_elements(p.size), arguments)
    return p


@register(norm_of_all, "cuda")
def total_norm(arrays, infinite):
    """sqrt(sum x**2) over all elements of all arrays, as a 0-d array on the GPU."""
    if infinite or not _supports_all(arrays):
        return None
    xp = array_module(arrays[0])
    sums = xp.empty(sum(-(-a.size // CHUNK) for a in arrays), np.float64)
    norm = xp.empty((), np.float64)
    end = 0
    for many, blocks in launches(arrays):
        part = sums[end : end + blocks]
        kernel(arrays[0], "clipping", "sum_of_squares")((blocks,), (256,), (many, part))
        end += blocks
    kernel(arrays[0], "clipping", "root_of_sum")((1,), (256,), (sums, norm, sums.size))
    return norm


@register(scale_down, "cuda")
def scale(arrays, norm, largest):
    """Multiply all arrays by largest / (norm + 1e-6) if that is below 1 or NaN."""
    if not _supports_all(arrays):
        return None
    for many, blocks in launches(arrays):
        kernel(arrays[0], "clipping", "scale")((blocks,), (256,), (many, norm, np.float64(largest)))
    return arrays


@register(flatten, "cuda")
def flatten_at_once(arrays, out):
    if not _supports_all([*arrays, out]):
        return None
    starts = [0, *accumulate(a.nbytes for a in arrays[:-1])]
    _copy(arrays, [out.data.ptr + start for start in starts])
    return out


@register(copy_all, "cuda")
def copy_at_once(sources, targets):
    if not _supports_all([*sources, *targets]):
        return None
    _copy(sources, [a.data.ptr for a in targets])
    return targets


def _copy(sources, addresses):
    for many, blocks in launches(sources, addresses):
        kernel(sources[0], "copies", "copy_many")((blocks,), (256,), (many,))


def _supports_all(arrays):
    """Whether all arrays are contiguous and share a supported dtype."""
    return supports(*arrays) and all(a.flags.c_contiguous for a in arrays)
