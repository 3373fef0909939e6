"""Sequences of different lengths as one tensor, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...checks import check_all
from ...errors import DtypeError, OptionError
from ...ops.shaping import stack
from ...tensor import Tensor
from ..functional import pad


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (length, ...) as (longest, batch, ...), or (batch, longest, ...) with `batch_first`."""
    sequences = list(sequences)
    if not sequences or not all(isinstance(x, Tensor) and x.ndim for x in sequences):
        raise DtypeError("pad_sequence takes tensors of one axis at least.\nPass a list of them.")
    if padding_side not in ("left", "right"):
        raise OptionError(f'padding_side must be "left" or "right", got {padding_side!r}.\nChoose one.')
    longest = max(len(x) for x in sequences)

    def padded(x: Tensor) -> Tensor:
        missing = longest - len(x)
        ends = [missing, 0] if padding_side == "left" else [0, missing]
        return pad(x, [0, 0] * (x.ndim - 1) + ends, value=padding_value)

    return stack([padded(x) for x in sequences], 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """The sequences that `pad_sequence` put together, of these lengths."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts: list[Any] = list(lengths)
    return [row[: int(n)] for row, n in zip(rows, counts, strict=True)]


check_all(globals())
