"""Batches of sequences of different lengths: padded, or packed for recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...core.errors import DtypeError, OptionError, ShapeError
from ...core.tensor import Tensor, as_tensor, constant
from ...ops.checked import check_all
from ...ops.comparisons import where
from ...ops.padding import pad
from ...ops.shaping import stack


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Pad sequences (length, ...) to a batch (longest, B, ...); with `batch_first`, (B, longest, ...)."""
    sequences = list(sequences)
    if not sequences or not all(isinstance(x, Tensor) and x.ndim for x in sequences):
        raise DtypeError("pad_sequence needs tensors with at least one axis.\nPass a list of them.")
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
    """Split a padded batch into sequences of the given lengths; undoes `pad_sequence`."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts: list[Any] = list(lengths)
    return [row[: int(n)] for row, n in zip(rows, counts, strict=True)]


# ---------------------------------------------------------------- packed


class PackedSequence:
    """A batch of sequences of different lengths, which RNN, LSTM and GRU read without the padding.

    It holds a padded batch and its lengths. `data`, `batch_sizes`, `sorted_indices` and `unsorted_indices`
    are PyTorch's: the elements step by step, with the sequences sorted from the longest to the shortest.
    """

    def __init__(
        self,
        data: Tensor,
        batch_sizes: Tensor,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> None:
        sizes = as_tensor(batch_sizes).numpy()
        lengths = (sizes[:, None] > np.arange(sizes.max(initial=0))).sum(0)
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = as_tensor(sorted_indices).argsort()
        rows = np.arange(len(lengths)) if unsorted_indices is None else as_tensor(unsorted_indices).numpy()
        starts = np.cumsum(sizes) - sizes
        places = starts[:, None] + rows  # where the sequences' elements are in `data`
        is_inside = np.arange(len(sizes))[:, None] < lengths[rows]
        self.padded = data[constant(np.where(is_inside, places, 0), data)]
        self.lengths = constant(lengths[rows], data)
        self.is_sorted = unsorted_indices is None

    @classmethod
    def of_padded(cls, padded: Tensor, lengths: Tensor, is_sorted: bool) -> PackedSequence:
        """Make a PackedSequence from a padded batch (T, B, ...) and the lengths of its sequences."""
        self = cls.__new__(cls)
        self.padded = padded
        self.lengths = lengths
        self.is_sorted = is_sorted
        return self

    def with_data(self, padded: Tensor) -> PackedSequence:
        """Return a PackedSequence with other elements (T, B, ...) and the same lengths."""
        return self.of_padded(padded, self.lengths, self.is_sorted)

    @property
    def data(self) -> Tensor:
        lengths = self.lengths.numpy()
        order = self._order()
        steps, places = np.nonzero(np.arange(len(self.padded))[:, None] < lengths[order])
        return self.padded[constant(steps, self.padded), constant(order[places], self.padded)]

    @property
    def batch_sizes(self) -> Tensor:
        return Tensor((np.arange(len(self.padded))[:, None] < self.lengths.numpy()).sum(1))

    @property
    def sorted_indices(self) -> Tensor | None:
        return None if self.is_sorted else constant(self._order(), self.padded)

    @property
    def unsorted_indices(self) -> Tensor | None:
        return None if self.is_sorted else constant(self._order().argsort(), self.padded)

    def _order(self) -> np.ndarray:
        return np.argsort(-self.lengths.numpy(), kind="stable")

    def __iter__(self) -> Iterator[Tensor | None]:
        return iter((self.data, self.batch_sizes, self.sorted_indices, self.unsorted_indices))

    def __getitem__(self, place: int) -> Tensor | None:
        return list(self)[place]

    def __repr__(self) -> str:
        names = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
        return f"PackedSequence({', '.join(f'{n}={x}' for n, x in zip(names, self, strict=True))})"

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequences on another device or in another dtype."""
        padded = self.padded.to(*args, **kwargs)
        return self.of_padded(padded, self.lengths.to(padded.device), self.is_sorted)

    def cpu(self) -> PackedSequence:
        return self.to("cpu")

    def cuda(self) -> PackedSequence:
        return self.to("cuda")

    def float(self) -> PackedSequence:
        return self.to("float32")

    def double(self) -> PackedSequence:
        return self.to("float64")

    @property
    def is_cuda(self) -> bool:
        return self.padded.device != "cpu"


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch (T, B, ...), or (B, T, ...) with `batch_first`, of sequences of these lengths.

    If `enforce_sorted` is True, the sequences must be sorted by length, the longest first.
    """
    if input.ndim < 2:
        raise ShapeError(
            f"a padded batch needs at least 2 axes, got shape {input.shape}.\n"
            f"Pass (T, B, ...), or (B, T, ...) with batch_first."
        )
    counts = as_tensor(lengths).numpy()
    if counts.size and counts.dtype.kind not in "iu":
        raise DtypeError(f"lengths must be integers, got {counts.dtype}.\nPass an integer for each sequence.")
    counts = counts.astype(np.int64)
    padded = input.transpose(0, 1) if batch_first else input
    steps, batch = padded.shape[:2]
    if counts.shape != (batch,):
        raise ShapeError(
            f"expected {batch} lengths, one for each sequence, got {counts.size}.\nPass one for each."
        )
    if batch and not 0 < counts.min() <= counts.max() <= steps:
        raise OptionError(
            f"lengths must be from 1 to {steps}, got {counts.min()} to {counts.max()}.\n"
            f"Pass the lengths without padding."
        )
    if enforce_sorted and (counts[1:] > counts[:-1]).any():
        raise OptionError(
            "enforce_sorted=True needs lengths in decreasing order.\nPass enforce_sorted=False."
        )
    padded = padded[: int(counts.max(initial=0))]
    return PackedSequence.of_padded(padded, constant(counts, input), enforce_sorted)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the padded batch (T, B, ...), or (B, T, ...) with `batch_first`, and the sequences' lengths."""
    if not isinstance(sequence, PackedSequence):
        raise DtypeError(
            f"pad_packed_sequence needs a PackedSequence, got {type(sequence).__name__}.\n"
            f"Make one with pack_padded_sequence or pack_sequence."
        )
    padded, lengths = sequence.padded, sequence.lengths
    steps = len(padded)
    if total_length is not None and total_length < steps:
        raise OptionError(
            f"total_length is {total_length}, but the longest sequence has {steps} elements.\n"
            f"Pass {steps} or more, or None."
        )
    is_inside = np.arange(steps)[:, None] < lengths.numpy()
    inside = constant(is_inside.reshape(is_inside.shape + (1,) * (padded.ndim - 2)), padded)
    padded = padded if is_inside.all() else where(inside, padded, padding_value)
    if total_length is not None and total_length > steps:
        padded = pad(padded, [0, 0] * (padded.ndim - 1) + [0, total_length - steps], value=padding_value)
    return padded.transpose(0, 1) if batch_first else padded, lengths.to("cpu")


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, ...); with `enforce_sorted`, they must be sorted, the longest first."""
    return pack_padded_sequence(pad_sequence(sequences), list(map(len, sequences)), False, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a PackedSequence."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))


check_all(globals())
