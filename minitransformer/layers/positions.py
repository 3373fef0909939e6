"""Absolute positions: vectors that are added to the token vectors ("Attention Is All You Need", section 3.5).

Schemes inside attention, which depend on the distance between tokens, are in `relative_positions.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from minigrad import Tensor, nn
from minigrad.core.devices import to_device_of
from minigrad.core.errors import ShapeError
from minigrad.nn import functional as F
from minigrad.ops.shaping import cat

from ..errors import UserError, check_choice, counted

SCHEMES = ("none", "sinusoidal", "sinusoidal_halves", "learned", "rotary", "alibi", "t5")
SINUSOIDAL = ("sinusoidal", "sinusoidal_halves")


def positional_encoding(
    length: int, d_model: int, dtype: Any = np.float32
) -> Float[np.ndarray, "length d_model"]:
    """PE(pos, 2i) = sin(pos / 10000**(2i / d)), PE(pos, 2i + 1) = cos(pos / 10000**(2i / d)) (section 3.5).

    Wavelengths run from 2 pi to 10000 * 2 pi.

    >>> from minitransformer.layers.positions import positional_encoding
    >>> positional_encoding(2, 4).round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]], dtype=float32)
    """
    i = np.arange(0, d_model, 2)
    angle = np.arange(length)[:, None] / 10000 ** (i / d_model)  # (length, ceil(d / 2))
    table = np.empty((length, d_model))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle[:, : d_model // 2])
    return table.astype(dtype)


class Positions(nn.Module):
    """Adds a vector to x for each position, or concatenates it with `concatenate`.

    The first token of x is at position `start`. With a padding `mask` (B, 1, 1, start + T), positions count
    from the first real token of each row.
    """

    def __init__(self, concatenate: bool = False) -> None:
        super().__init__()
        self.concatenate = concatenate

    def forward(
        self, x: Float[Tensor, "B T D"], start: int = 0, mask: Tensor | None = None
    ) -> Float[Tensor, "B T E"]:
        end = start + x.array.shape[1]
        index: Any = slice(start, end)
        if mask is not None and mask.shape[1:3] == (1, 1):
            index = row_positions(mask[:, 0, 0], start, end)
            end = int(index.max()) + 1 if index.size else 0  # CuPy's max has no `initial`
        p = self.vectors(x, index, end)  # (T, D) or (B, T, D)
        p = p if p.dtype == x.dtype else p.to(x.dtype)
        return cat([x, p.expand(*x.shape[:2], -1)], -1) if self.concatenate else x + p

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        """The vectors of the positions `index`, all below `end`, on the device of x."""
        raise NotImplementedError


class SinusoidalPositions(Positions):
    """The sinusoidal encoding, for any number of positions.

    If `halves` is True, all sines come first, then all cosines, as in the authors' code (tensor2tensor).
    """

    def __init__(self, d_model: int, concatenate: bool = False, halves: bool = False) -> None:
        super().__init__(concatenate)
        self.d_model = d_model
        self.halves = halves
        self.table = positional_encoding(0, d_model)  # grows with the longest sequence

    def extra_repr(self) -> str:
        return str(self.d_model)

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        table: Any = self.table
        is_on_cpu = isinstance(table, np.ndarray)
        if len(table) < end or table.dtype != x.dtype or is_on_cpu is not isinstance(x.array, np.ndarray):
            length = len(table) if len(table) >= end else max(64, end, 2 * len(table))
            table = positional_encoding(length, self.d_model, x.dtype)
            if self.halves:
                table = np.concatenate([table[:, 0::2], table[:, 1::2]], 1)
            table = self.table = to_device_of(table, x.array)
        is_slice = isinstance(index, slice)
        return Tensor(table[index]) if is_slice else F.embedding(Tensor(index), Tensor(table))


class LearnedPositions(Positions):
    """A learned vector for each of `max_positions` positions."""

    def __init__(self, max_positions: int, d_model: int, concatenate: bool = False) -> None:
        super().__init__(concatenate)
        self.weight = nn.Parameter(np.empty((max_positions, d_model), np.float32))
        nn.init.normal_(self.weight, std=0.02)

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)

    def vectors(self, x: Tensor, index: Any, end: int) -> Tensor:
        if end > len(self.weight):
            raise UserError(
                f"a sequence of {counted(end, 'token')} is longer than the "
                f"{counted(len(self.weight), 'position')} of this model.\n"
                f"Shorten the input, or train with more positions (or sinusoidal ones, which have no limit)."
            )
        return self.weight[index] if isinstance(index, slice) else F.embedding(Tensor(index), self.weight)


class NoPositions(Positions):
    """No position vectors: tokens have no order, unless attention uses a scheme inside the layers."""

    def forward(
        self, x: Float[Tensor, "B T D"], start: int = 0, mask: Tensor | None = None
    ) -> Float[Tensor, "B T D"]:
        return x


def absolute_positions(scheme: str, d_model: int, max_positions: int, concatenate: bool = False) -> Positions:
    """The module that applies one of `SCHEMES`; `NoPositions` for those inside attention.

    If `concatenate` is True, position vectors have half of the width d_model, and token vectors the other
    half.
    """
    check_choice("positions", scheme, SCHEMES)
    width = d_model // 2 if concatenate else d_model
    if scheme in SINUSOIDAL:
        return SinusoidalPositions(width, concatenate, scheme == "sinusoidal_halves")
    return LearnedPositions(max_positions, width, concatenate) if scheme == "learned" else NoPositions()


def check_concatenation(concatenate: bool, scheme: str, name: str, width: int) -> None:
    """Raise a UserError if positions are to be concatenated but have no vectors, or the width is below 2."""
    if concatenate and scheme not in (*SINUSOIDAL, "learned"):
        raise UserError(
            f'positions = "{scheme}" has no vectors to concatenate.\n'
            f'Choose positions = "sinusoidal" or "learned", or leave concatenate_positions out.'
        )
    if concatenate and width < 2:
        raise UserError(f"{name} = {width} is too small to concatenate positions.\nChoose 2 or more.")


def row_positions(mask: Tensor, start: int, end: int) -> Int[Any, "B T"]:
    """The positions of tokens `start` to `end`, counted from the first real token of each row."""
    if tuple(mask.shape[1:]) != (end,):
        raise ShapeError(
            f"a padding mask of shape {tuple(mask.shape)} for {counted(end, 'token')}.\n"
            f"Pass True or False for each token, (batch, {end}), including those in the cache."
        )
    return (mask.array.cumsum(1) - 1).clip(0)[:, start:]
