"""Conversion between float32, float16 and bfloat16, four elements at a time."""

from __future__ import annotations

from ....core import arithmetic
from ....core.devices import array_module
from ....core.dtypes import HALF, as_dtype, float32
from ....core.kernels import kernel as register
from .launching import SCALARS, contiguous, kernel, over_elements

KINDS = HALF | {float32}


@register(arithmetic.astype, "cuda")
def astype(x, dtype):
    source = x.dtype
    dtype = as_dtype(dtype)
    if not (source in KINDS and dtype in KINDS and x.size and x.flags.c_contiguous):
        return None
    return _convert(x, dtype), (lambda g: _convert(contiguous(g), source),)


def _convert(x, dtype):
    y = array_module(x).empty(x.shape, dtype)
    function = kernel(x, "conversion", "convert", TARGET=SCALARS[dtype.name])
    function(*over_elements(-(-x.size // 4)), (x, y, x.size))
    return y
