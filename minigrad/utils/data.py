"""Datasets and data loaders (torch.utils.data). Batches are loaded in this process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any

import numpy as np

from ..core.dtypes import float64
from ..core.errors import DtypeError, OptionError, ShapeError
from ..core.random import Generator
from ..core.tensor import Tensor, as_tensor, from_other_library, tensor
from ..ops import stack
from ..ops.creation import randperm

__all__ = [
    "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "Subset", "TensorDataset", "default_collate",
    "random_split",
]  # fmt: skip


class Dataset:
    """Base class of datasets. Subclasses define `__getitem__` and `__len__`."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} has no __getitem__.\nDefine it to return an example."
        )

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Base class of datasets that are read in order. Subclasses define `__iter__`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__.\nDefine it to yield the examples.")


class TensorDataset(Dataset):
    """A dataset of tensors or arrays of equal length. Example i is `(x[i], y[i], ...)`."""

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tuple(as_tensor(x) for x in tensors)
        if not self.tensors or len({x.shape[:1] for x in self.tensors}) > 1 or not self.tensors[0].ndim:
            shapes = ", ".join(str(tuple(x.shape)) for x in self.tensors) or "no tensors"
            raise ShapeError(
                f"the tensors must have the same number of rows, got {shapes}.\nCheck their shapes."
            )

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Subset(Dataset):
    """The examples of `dataset` at `indices`."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """The concatenation of several datasets."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise OptionError("ConcatDataset needs at least one dataset.\nPass a list of datasets.")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for a dataset of {len(self)} examples")
        index %= len(self)
        which = next(n for n, end in enumerate(self.cumulative_sizes) if index < end)
        return self.datasets[which][index - self.cumulative_sizes[which] + len(self.datasets[which])]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Split a dataset randomly into parts of these lengths, or of these fractions if they sum to 1.

    Lengths from fractions are rounded down; each of the first parts gets one of the remaining examples.
    """
    sizes: list[Any] = list(lengths)
    if math.isclose(sum(sizes), 1) and sum(sizes) <= 1:
        sizes = [math.floor(len(dataset) * fraction) for fraction in lengths]
        for i in range(len(dataset) - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != len(dataset) or min(sizes, default=0) < 0:
        raise OptionError(
            f"lengths sum to {sum(sizes)}, but the dataset has {len(dataset)} examples.\n"
            "Pass lengths that sum to that, or fractions that sum to 1."
        )
    order = randperm(len(dataset), generator=generator).tolist()
    ends = accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def default_collate(batch: Sequence[Any]) -> Any:
    """Combine examples into a batch by stacking tensors, arrays and numbers, also in tuples, lists and dicts.

    Strings are not changed. Raise a ShapeError if shapes or lengths differ.
    """
    if isinstance(batch[0], str | bytes):  # also NumPy's strings
        return batch
    batch = list(map(from_other_library, batch))
    first = batch[0]
    shapes = {tuple(x.shape) for x in batch if isinstance(x, Tensor | np.ndarray)}
    if len(shapes) > 1:
        raise ShapeError(
            f"the examples of a batch have different shapes: {', '.join(map(str, sorted(shapes)[:3]))}.\n"
            f"Pad them (nn.utils.rnn.pad_sequence), or pass DataLoader a collate_fn."
        )
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, np.ndarray | np.generic):
        return as_tensor(np.stack(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, Mapping):
        return {key: default_collate([example[key] for example in batch]) for key in first}
    if isinstance(first, Sequence):
        if len({len(example) for example in batch}) > 1:
            raise ShapeError(
                "the examples of a batch have different lengths.\nPad them, or pass DataLoader a collate_fn."
            )
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else columns
    raise DtypeError(
        f"examples must be tensors, arrays, numbers, strings, dicts or lists, got {type(first).__name__}.\n"
        "Pass DataLoader a collate_fn that combines them into a batch."
    )


class DataLoader:
    """An iterable over a dataset in batches, in random order with `shuffle`.

    The last batch may be smaller, unless `drop_last` leaves it out. `sampler` yields indices, `batch_sampler`
    lists of indices. With `batch_size=None`, single examples are yielded. `generator` draws the random order.
    Batches are loaded in this process, so options of worker processes and of pinned memory have no effect.

    >>> data = mg.utils.data.TensorDataset(mg.arange(4), mg.arange(4) ** 2)
    >>> for x, y in mg.utils.data.DataLoader(data, batch_size=2):
    ...     print(x, y)
    tensor([0, 1]) tensor([0, 1])
    tensor([2, 3]) tensor([4, 9])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        *,
        worker_init_fn: Callable | None = None,
        generator: Generator | None = None,
        persistent_workers: bool = False,
        timeout: float = 0,
        prefetch_factor: int | None = None,
        multiprocessing_context: Any = None,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if shuffle and (
            sampler is not None or batch_sampler is not None or isinstance(dataset, IterableDataset)
        ):
            raise OptionError(
                "shuffle cannot be combined with a sampler or an IterableDataset.\nPass one of the two."
            )
        if batch_sampler is not None and (batch_size != 1 or sampler is not None or drop_last):
            raise OptionError(
                "batch_sampler cannot be combined with batch_size, sampler or drop_last.\nLeave those out."
            )
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise OptionError(f"batch_size must be a positive integer, got {batch_size!r}.\nPass 1 or more.")
        if not hasattr(dataset, "__len__") and not hasattr(dataset, "__iter__"):
            raise DtypeError(
                f"DataLoader needs a dataset, got {type(dataset).__name__}.\n"
                f"Pass a Dataset, a list, or an object with len() and dataset[i]."
            )
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.shuffle = shuffle
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or default_collate
        self.generator = generator

    def _indices(self) -> Iterable[int]:
        if self.sampler is not None:
            return self.sampler
        n = len(self.dataset)
        return randperm(n, generator=self.generator).tolist() if self.shuffle else range(n)

    def _batches(self, items: Iterable[Any]) -> Iterator[list[Any]]:
        items = iter(items)
        while batch := list(islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def _make(self, indices: list[int]) -> Any:
        if type(self.dataset) is TensorDataset and self.collate_fn is default_collate:
            return list(self.dataset[indices])  # same result, without a tensor for each row
        return self.collate_fn([self.dataset[i] for i in indices])

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return (
                iter(self.dataset)
                if self.batch_size is None
                else map(self.collate_fn, self._batches(self.dataset))
            )
        if self.batch_size is None:
            return (self.dataset[i] for i in self._indices())
        return map(self._make, self.batch_sampler or self._batches(self._indices()))

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        examples = len(self.dataset if self.sampler is None else self.sampler)  # type: ignore[arg-type]
        if self.batch_size is None:
            return examples
        return examples // self.batch_size if self.drop_last else math.ceil(examples / self.batch_size)
