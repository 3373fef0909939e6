"""Positions inside attention: rotated queries and keys, or a bias that is added to the scores.

Only the distance between a query and a key matters, so padding on the left changes nothing. The scheme of
"Attention Is All You Need", vectors that are added to the token vectors, is in `positions.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from minigrad import Tensor, nn
from minigrad.core.composites import composite
from minigrad.core.devices import to_device_of
from minigrad.core.tensor import as_tensor_like, constant
from minigrad.nn import functional as F
from minigrad.ops.samplers import each, real
from minigrad.ops.shaping import cat

from ..errors import UserError, check_integer

# ---------------------------------------------------------------- rotary positions


@dataclass(frozen=True)
class RotaryScaling:
    """Lowers the frequencies of rotary positions, for texts longer than those a model was first trained on.

    A pair that makes fewer than `low` turns in `length` positions is slowed by `factor`. A pair that makes
    more than `high` turns is not slowed, and pairs in between are interpolated (Llama 3.1). Without `low` and
    `high`, all pairs are slowed by `factor`.

    >>> from minitransformer.layers.relative_positions import RotaryScaling
    >>> RotaryScaling(factor=4.0)(np.array([1.0, 0.1]))
    array([0.25 , 0.025])
    """

    factor: float
    low: float = math.inf
    high: float = math.inf
    length: int = 8192

    def __call__(self, frequencies: Float[np.ndarray, " pairs"]) -> Float[np.ndarray, " pairs"]:
        if math.isinf(self.low):
            return frequencies / self.factor
        turns = self.length * frequencies / (2 * math.pi)
        kept = np.clip((turns - self.low) / (self.high - self.low), 0, 1)
        return kept * frequencies + (1 - kept) * frequencies / self.factor


def _angles(
    start: int, length: int, head_dim: int, theta: float, scaling: RotaryScaling | None, dtype: Any
) -> tuple[Any, Any]:
    """cos and sin of pos / theta**(2i / d) for positions from `start`, each of shape (length, 1, d / 2)."""
    end = start + length
    cos, sin = _angle_table(_table_length(end), head_dim, theta, scaling, dtype)
    return cos[start:end], sin[start:end]


@lru_cache(maxsize=16)
def _angle_table(
    length: int, head_dim: int, theta: float, scaling: RotaryScaling | None, dtype: Any
) -> tuple[Any, Any]:
    frequencies = theta ** -(np.arange(0, head_dim, 2) / head_dim)
    if scaling is not None:
        frequencies = scaling(frequencies)
    angle = np.arange(length)[:, None, None] * frequencies
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def _table_length(length: int) -> int:
    """The length rounded up to a power of two, at least 64, so that a growing table is rarely recomputed."""
    return max(64, 1 << (length - 1).bit_length())


def _rotate(x: Any, cos: Any, sin: Any, heads: int) -> Any:
    """`rotary` of an array. The gradient is the rotation by the negative angle, which is the transpose."""
    batch, length, _ = x.shape
    y = x.copy()
    d = 2 * cos.shape[-1]
    pairs, turned = (a[..., : heads * d].reshape(batch, length, heads, 2, d // 2) for a in (x, y))
    first, second = pairs[..., 0, :], pairs[..., 1, :]
    turned[..., 0, :] = first * cos - second * sin
    turned[..., 1, :] = second * cos + first * sin
    return y


def _kernel(x, heads, head_dim, theta=10000.0, start=0, scaling=None):
    table = _angles(start, x.shape[1], head_dim, theta, scaling, x.dtype)
    cos, sin = (to_device_of(part, x) for part in table)
    return _rotate(x, cos, sin, heads), (lambda g: _rotate(g, cos, -sin, heads),)


@composite(
    kernel=_kernel,
    family="attention",
    samples=each((real, 2, 3, 10), heads=2, head_dim=4)
    | each((real, 1, 2, 4), heads=1, head_dim=4, start=5)
    | each((real, 1, 2, 4), heads=1, head_dim=4, start=5, scaling=RotaryScaling(4.0, 1.0, 2.0, 8)),
    latex=(r"R^\top g, \quad R \text{ the rotation of each pair}",),
)
def rotary(x, /, heads, head_dim, theta=10000.0, start=0, scaling=None):
    """Rotate the first `heads` heads in x (B, T, width) by their positions; the rest of x is not changed.

    In a head with halves a and b, the pair (a_i, b_i) at position pos is rotated by the angle
    pos / theta**(2i / head_dim) (Su et al. 2021, equation 34; this order of the pairs is Hugging Face's).
    The dot product of a rotated query and a rotated key depends only on their distance. `scaling` is a
    `RotaryScaling`, which changes the frequencies theta**(-2i / head_dim).
    """
    batch, length, width = x.shape
    cos, sin = (constant(part, x) for part in _angles(start, length, head_dim, theta, scaling, x.dtype))
    turned, rest = x.split([heads * head_dim, width - heads * head_dim], -1)
    a, b = turned.reshape(batch, length, heads, 2, -1).unbind(-2)
    turned = cat([a * cos - b * sin, b * cos + a * sin], -1)
    return cat([turned.flatten(-2), rest], -1)


# ---------------------------------------------------------------- a bias of the scores


class ALiBi(nn.Module):
    """Minus the distance between query and key, times a fixed slope per head (Press et al. 2022, section 3).

    If n is a power of two, the slopes of n heads are 2**(-8/n), 2**(-16/n), ..., 2**-8. Otherwise they are
    the slopes of the next lower power of two, followed by every other slope of the next higher one.
    """

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        lower = 2 ** int(math.log2(num_heads))
        slopes = lambda n: 2.0 ** (-8 / n * np.arange(1, n + 1))
        self.slopes = np.concatenate([slopes(lower), slopes(2 * lower)[::2]])[:num_heads].astype(np.float32)
        self.row = np.empty((1, num_heads, 1, 0), np.float32)  # the bias of a single query, cached

    def extra_repr(self) -> str:
        return f"num_heads={len(self.slopes)}"

    def forward(self, queries: int, keys: int) -> Float[Tensor, "1 H T S"]:
        """The bias for the last `queries` of `keys` positions."""
        if queries > 1:
            return Tensor(self._bias(queries, keys))
        if self.row.shape[-1] < keys:
            self.row = self._bias(1, _table_length(keys))
        return Tensor(self.row[..., self.row.shape[-1] - keys :])

    def _bias(self, queries: int, keys: int) -> Float[np.ndarray, "1 H T S"]:
        distance = np.abs(np.arange(keys) - np.arange(keys - queries, keys)[:, None])  # (T, S)
        return -self.slopes[None, :, None, None] * distance.astype(np.float32)


class RelativePositionBias(nn.Module):
    """A learned number for each head and distance, added to the scores (Raffel et al. 2020, section 2.1).

    Each short distance has its own bucket. Longer distances share buckets, whose widths grow logarithmically
    up to `max_distance`, and all distances beyond that share the last bucket. If `bidirectional`, half of the
    buckets are for later keys. Otherwise later keys, which causal attention hides, share the bucket of
    distance 0.
    """

    def __init__(
        self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        check_integer("num_buckets", num_buckets, 4 if bidirectional else 2)
        if max_distance <= self._num_exact():
            raise UserError(
                f"a maximum distance of {max_distance} is too small for {num_buckets} buckets.\n"
                f"Choose at least {self._num_exact() + 1}, or fewer buckets."
            )
        self.weight = nn.Parameter(np.empty((num_buckets, num_heads), np.float32))
        self.row = np.empty((1, 0), np.int64)  # the buckets of a single query, cached
        nn.init.normal_(self.weight, std=0.02)

    def extra_repr(self) -> str:
        sizes = "num_buckets={}, num_heads={}".format(*self.weight.shape)
        return f"{sizes}, max_distance={self.max_distance}, bidirectional={self.bidirectional}"

    def _num_exact(self) -> int:
        """The number of buckets, per direction, that hold a single distance."""
        return self.num_buckets // (4 if self.bidirectional else 2)

    def buckets(self, distance: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        """The bucket of each distance, which is the key's position minus the query's."""
        size = self.num_buckets // (2 if self.bidirectional else 1)
        exact = self._num_exact()
        length = np.abs(distance) if self.bidirectional else np.maximum(-distance, 0)
        steps = np.log(np.maximum(length, 1).astype(np.float32) / exact) / math.log(self.max_distance / exact)
        wide = np.minimum(exact + (steps * (size - exact)).astype(np.int64), size - 1)
        bucket = np.where(length < exact, length, wide)
        return bucket + size * (distance > 0) if self.bidirectional else bucket

    def forward(self, queries: int, keys: int) -> Float[Tensor, "1 H T S"]:
        """The bias for the last `queries` of `keys` positions."""
        if queries > 1:
            buckets = self._buckets(queries, keys)
        else:
            if self.row.shape[-1] < keys:
                self.row = self._buckets(1, _table_length(keys))
            buckets = self.row[:, self.row.shape[-1] - keys :]
        return F.embedding(as_tensor_like(buckets, self.weight), self.weight).permute(2, 0, 1)[None]

    def _buckets(self, queries: int, keys: int) -> Int[np.ndarray, "T S"]:
        return self.buckets(np.arange(keys) - np.arange(keys - queries, keys)[:, None])
