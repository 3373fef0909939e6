"""Random bits on the GPU, the same as `minigrad.random` draws on the CPU.

NumPy's Philox (Salmon et al. 2011) is arithmetic on 64-bit words. Array libraries do not return the upper
half of a product, so it is computed from products of 32-bit halves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.devices import array_module
from ...core.dtypes import HALF, float32
from ...core.kernels import kernel
from ...core.random import Key
from ...ops import activations as ops
from ...ops.draws import drop_threshold, keep_scale


@kernel(ops.dropout, "cupy")
def dropout(x, p, key):
    """x * keep / (1 - p), with the mask `keep` drawn from `key`; the gradient is scaled in the same way."""
    wide = float32 if x.dtype in HALF else x.dtype
    scaled = keep_mask(array_module(x), key, x.shape, p).astype(wide)
    scaled *= keep_scale(p)
    times = lambda x: (x.astype(wide, copy=False) * scaled).astype(x.dtype, copy=False)
    return times(x), (times,)


_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B  # added to the two words of the key after each round


def keep_mask(xp: Any, key: Key, shape: tuple[int, ...], p: float) -> Any:
    """`ops.draws.keep_mask` on the GPU: False with probability p."""
    bits, threshold = drop_threshold(p)
    size = math.prod(shape)
    first = key.row * (size // shape[0] if shape and shape[0] else 0)
    block, skip = divmod(first, 256 // bits)
    words = philox(xp, key, block, -(-(skip + size) * bits // 256))
    groups = words.view(f"u{bits // 8}")[skip : skip + size]
    largest = 2**bits - 1
    keep = groups >= groups.dtype.type(threshold) if threshold <= largest else xp.zeros(size, bool)
    return keep.reshape(shape)


def philox(xp: Any, key: Key, block: int, number: int) -> Any:
    """Return the key's random words in blocks `block` to `block + number - 1`: uint64 (4 * number,)."""
    counters = xp.arange(number, dtype=np.uint64) + np.uint64(block + 1)  # NumPy increments before it draws
    others = (xp.full(number, word, dtype=np.uint64) for word in (key.call, key.step, 0))
    a, b, c, d = counters, *others
    k, m = key.seed, key.stream
    for _ in range(10):
        high, low = _product(_FACTORS[0], a)
        upper, lower = _product(_FACTORS[1], c)
        a = upper ^ b ^ np.uint64(k)
        b = lower
        c = high ^ d ^ np.uint64(m)
        d = low
        k = (k + _STEPS[0]) % 2**64
        m = (m + _STEPS[1]) % 2**64
    return xp.stack([a, b, c, d], axis=1).reshape(-1)


def _product(factor: int, x: Any) -> tuple[Any, Any]:
    """The upper and lower 64 bits of `factor` times each element of x."""
    above = np.uint64(factor >> 32)
    below = np.uint64(factor & 0xFFFFFFFF)
    high = x >> _HALF
    low = x & _LOW
    one = below * high
    other = above * low
    middle = (below * low >> _HALF) + (one & _LOW) + (other & _LOW)
    return above * high + (one >> _HALF) + (other >> _HALF) + (middle >> _HALF), x * np.uint64(factor)
