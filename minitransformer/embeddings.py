"""Token embeddings and positional encodings ("Attention Is All You Need", sections 3.4 and 3.5)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from minigrad import Tensor, nn
from minigrad.devices import as_array, to_device_of
from minigrad.errors import ShapeError
from minigrad.nn import functional as F
from minigrad.ops.shaping import cat
from minigrad.tensor import as_tensor_like

from .errors import UserError, check_integer


def positional_encoding(
    length: int, d_model: int, dtype: Any = np.float32
) -> Float[np.ndarray, "length d_model"]:
    """PE(pos, 2i) = sin(pos / 10000**(2i / d)), PE(pos, 2i + 1) = cos(the same) (section 3.5).

    Wavelengths run from 2 pi to 10000 * 2 pi.
    """
    i = np.arange(0, d_model, 2)
    angle = np.arange(length)[:, None] / 10000 ** (i / d_model)  # (length, ceil(d / 2))
    table = np.empty((length, d_model))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle[:, : d_model // 2])
    return table.astype(dtype)


class Positions(nn.Module):
    """Gives x a vector for each of its positions: x + p, or x and p side by side (`concatenate`).

    Positions count from `start`; with a padding `mask` (B, past + T), from the first real token of each row.
    """

    def __init__(self, concatenate: bool = False) -> None:
        super().__init__()
        self.concatenate = concatenate

    def forward(
        self, x: Float[Tensor, "B T D"], start: int = 0, mask: Tensor | None = None
    ) -> Float[Tensor, "B T E"]:
        end = start + x.array.shape[1]
        index: Any = slice(start, end)
        if mask is not None:
            index = row_positions(mask, start, end)
            end = int(index.max()) + 1 if index.size else 0  # CuPy's max has no initial
        p = self.vectors(x, index, end)  # (T, D) or (B, T, D)
        return cat([x, p.expand(*x.shape[:2], -1)], -1) if self.concatenate else x + p

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        """The vectors of the positions `index`, all below `end`, with the dtype and on the device of x."""
        raise NotImplementedError


class SinusoidalPositions(Positions):
    """The sinusoidal encoding. The number of positions is unlimited."""

    def __init__(self, d_model: int, concatenate: bool = False) -> None:
        super().__init__(concatenate)
        self.d_model = d_model
        self.table = positional_encoding(0, d_model)  # grows with the longest sequence

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        table: Any = self.table
        if len(table) < end or table.dtype != x.dtype or type(table) is not type(x.array):
            table = positional_encoding(max(end, 2 * len(table)), self.d_model, x.dtype)
            table = self.table = to_device_of(table, x.array)
        return Tensor(table[index])


class LearnedPositions(Positions):
    """A learned vector for each position, for up to `max_positions`."""

    def __init__(self, max_positions: int, d_model: int, concatenate: bool = False) -> None:
        super().__init__(concatenate)
        self.weight = nn.Parameter(np.empty((max_positions, d_model), np.float32))
        nn.init.normal_(self.weight, std=0.02)

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        if end > len(self.weight):
            raise UserError(
                f"a sequence of {end} tokens is longer than the {len(self.weight)} positions of this model.\n"
                f"Shorten the input, or train with more positions (or sinusoidal ones, which have no limit)."
            )
        return self.weight[index]


def row_positions(mask: Tensor, start: int, end: int) -> Int[Any, "B T"]:
    """The positions of tokens `start` to `end`, counted from the first real token of each row."""
    if tuple(mask.shape[1:]) != (end,):
        raise ShapeError(
            f"a padding mask of shape {tuple(mask.shape)} for {end} tokens.\n"
            f"Pass True or False for each token, (batch, {end}); those in the cache count."
        )
    return (mask.array.cumsum(1) - 1).clip(0)[:, start:]


class RelativePositionBias(nn.Module):
    """A learned number for each head and distance, added to the scores (Raffel et al. 2020, section 2.1).

    Each short distance has a bucket of its own. Longer ones share buckets of equal width in the logarithm, up
    to `max_distance`; all beyond share the last. If `bidirectional`, half of the buckets are for later keys;
    otherwise these, which causal attention hides, share the bucket of distance 0.
    """

    def __init__(
        self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        check_integer("num_buckets", num_buckets, 4 if bidirectional else 2)
        if max_distance <= self._num_exact():
            raise UserError(
                f"a maximum distance of {max_distance} is too short for {num_buckets} buckets.\n"
                f"Choose at least {self._num_exact() + 1}, or fewer buckets."
            )
        self.weight = nn.Parameter(np.empty((num_buckets, num_heads), np.float32))
        nn.init.normal_(self.weight, std=0.02)

    def _num_exact(self) -> int:
        """How many buckets of one direction hold a single distance."""
        return self.num_buckets // (4 if self.bidirectional else 2)

    def buckets(self, distance: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        """The bucket of each distance, the position of the key minus that of the query."""
        size = self.num_buckets // (2 if self.bidirectional else 1)
        exact = self._num_exact()
        length = np.abs(distance) if self.bidirectional else np.maximum(-distance, 0)
        steps = np.log(np.maximum(length, 1).astype(np.float32) / exact) / math.log(self.max_distance / exact)
        wide = np.minimum(exact + (steps * (size - exact)).astype(np.int64), size - 1)
        bucket = np.where(length < exact, length, wide)
        return bucket + size * (distance > 0) if self.bidirectional else bucket

    def forward(self, queries: int, keys: int) -> Float[Tensor, "1 H T S"]:
        """The bias for the last `queries` of `keys` positions."""
        distance = np.arange(keys) - np.arange(keys - queries, keys)[:, None]  # (T, S)
        buckets = as_tensor_like(self.buckets(distance), self.weight)
        return F.embedding(buckets, self.weight).permute(2, 0, 1)[None]


def token_ids(ids: Any) -> Int[Any, "B T"]:
    """Ids as an integer array (B, T); a UserError if they are not."""
    try:
        array = ids if type(ids) is np.ndarray else ids.array if isinstance(ids, Tensor) else as_array(ids)
    except ValueError:
        raise UserError(
            "the sequences of a batch have different lengths.\nPad them to the same length."
        ) from None
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise UserError(
            f"token ids must be integers of shape (batch, length), got {array.dtype} {array.shape}.\n"
            f"Pass a single sequence as a batch of one: [ids]."
        )
    return array


class TokenEmbedding(nn.Module):
    """A learned vector for each token, times sqrt(d_model) if `scale`; also the output layer (section 3.4).

    Initialized with variance 1 / d_model, so that scaled vectors and the first logits have unit variance.
    """

    def __init__(self, vocab_size: int, d_model: int, scale: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.empty((vocab_size, d_model), np.float32))
        self.factor = math.sqrt(d_model) if scale else None
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, ids: Any) -> Float[Tensor, "B T D"]:
        x = F.embedding(as_tensor_like(token_ids(ids), self.weight), self.weight)
        return x if self.factor is None else x * self.factor

    def logits(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """A score of each token: x Eᵀ, the dot products with the token vectors."""
        return F.linear(x, self.weight)
