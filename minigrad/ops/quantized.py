"""Products with matrices of 8-bit integers and a scale for each row, in a quarter of float32's memory."""

from __future__ import annotations

import numpy as np

from ..core.composites import composite
from ..core.errors import ShapeError
from .linalg import matmul_flops
from .samplers import cases, integers, positive, real


@composite(
    promotes=False,
    autocast="lower",
    family="matrix",
    samples=cases((real, 2, 3), (integers(-127, 128), 4, 3), (positive, 4), (real, 4))
    | cases((real, 2, 2, 3), (integers(-127, 128), 4, 3), (positive, 4), None),
    latex=(r"(g \odot s)\, Q", None, r"\sum_{\text{rows}} g \odot (x Q^\top)", r"\sum_{\text{rows}} g"),
    flops=matmul_flops,
)
def quantized_linear(x, weight, scale, bias, /):
    """x Wᵀ + b with W = s Q: x (..., in), integers Q (out, in), scales s (out,), bias (out,) or None.

    Row i of W is scale[i] * weight[i] (Dettmers et al. 2022, section 2.1, "absmax" for each row).
    """
    y = (x @ weight.to(x.dtype).transpose(0, 1)) * scale
    return y if bias is None else y + bias


def quantize_rows(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantize a matrix: return integers from -127 to 127 (rows, columns), and scales (rows,)."""
    if array.ndim != 2:
        raise ShapeError(f"only a matrix can be quantized by rows, got shape {array.shape}.\nPass a matrix.")
    if array.size > 1 and not any(array.strides):  # one number, broadcast; the results are, too
        weight, scale = quantize_rows(np.array(array[:1, :1]))
        return np.broadcast_to(weight, array.shape), np.broadcast_to(scale, len(array))
    weight = np.empty(array.shape, np.int8)
    scale = np.empty(len(array), np.float32)
    for start in range(0, len(array), 256):  # only one block at a time is in float32
        rows = np.asarray(array[start : start + 256], np.float32)
        largest = np.abs(rows).max(1, initial=0)
        scale[start : start + 256] = np.where(largest > 0, largest / 127, 1)
        weight[start : start + 256] = np.rint(rows / scale[start : start + 256, None])
    return weight, scale
