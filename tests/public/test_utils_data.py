"""minigrad.utils.data: datasets, and batches of them."""

from collections import namedtuple

import numpy as np
import pytest

import minigrad as mg
from minigrad.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)
from tests.leaves import message


class Squares(Dataset):
    """Pairs of a number and its square."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return mg.tensor([float(index)]), index**2


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


def numbers(loader):
    return [batch[0].flatten().tolist() for batch in loader]


def test_batches_come_in_order_and_the_last_may_be_smaller():
    loader = DataLoader(Squares(5), batch_size=2)
    assert numbers(loader) == [[0, 1], [2, 3], [4]]
    assert [y.tolist() for _, y in loader] == [[0, 1], [4, 9], [16]]
    assert len(loader) == 3
    short = DataLoader(Squares(5), batch_size=2, drop_last=True)
    assert len(short) == len(list(short)) == 2


def test_shuffling_is_reproducible_with_a_seed():
    loader = DataLoader(Squares(20), batch_size=6, shuffle=True)
    mg.manual_seed(3)
    epoch = lambda: [n for batch in numbers(loader) for n in batch]
    first, second = epoch(), epoch()
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    mg.manual_seed(3)
    assert epoch() == first


def test_tensor_dataset_batches_match_single_items():
    x = np.arange(12.0).reshape(6, 2)
    y = np.arange(6)
    dataset = TensorDataset(x, mg.tensor(y))
    at_once = list(DataLoader(dataset, batch_size=4))
    one_by_one = list(DataLoader(Subset(dataset, range(6)), batch_size=4))
    for a, b in zip(at_once, one_by_one, strict=True):
        assert isinstance(a, list)
        for p, q in zip(a, b, strict=True):
            assert p.dtype == q.dtype
            assert p.tolist() == q.tolist()
    assert [t.tolist() for t in dataset[1]] == [[2.0, 3.0], 1]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (list(np.array(["foo", "bar"])), ["foo", "bar"]),
        (list(np.array([b"foo", b"bar"])), [b"foo", b"bar"]),
        ([{"path": np.str_("x")}, {"path": np.str_("y")}], {"path": ["x", "y"]}),
        ([(np.str_("x"), 1), (np.str_("y"), 2)], [("x", "y"), [1, 2]]),
    ],
)
def test_numpy_strings_are_collated_as_strings(batch, expected):
    found = default_collate(batch)
    if isinstance(found, list) and isinstance(found[-1], mg.Tensor):
        found[-1] = found[-1].tolist()
    assert found == expected


def test_data_loader_accepts_samplers_streams_and_collate_fn():
    assert numbers(DataLoader(Squares(5), batch_size=2, sampler=[4, 0, 2])) == [[4, 0], [2]]
    assert len(DataLoader(Squares(5), batch_size=2, sampler=[4, 0, 2])) == 2
    assert numbers(DataLoader(Squares(5), batch_sampler=[[1], [3, 2]])) == [[1], [3, 2]]
    assert [y for _, y in DataLoader(Squares(3), batch_size=None)] == [0, 1, 4]
    assert [b.tolist() for b in DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert list(DataLoader(Squares(3), batch_size=3, collate_fn=lambda examples: len(examples))) == [3]


def test_collate_stacks_within_tuples_lists_and_dicts():
    Point = namedtuple("Point", "x name")
    batch = default_collate(
        [{"p": Point(1.5, "a"), "n": [np.ones(2), True]}, {"p": Point(2.5, "b"), "n": [np.zeros(2), False]}]
    )
    assert batch["p"].x.tolist() == [1.5, 2.5]
    assert batch["p"].x.dtype == mg.float64
    assert list(batch["p"].name) == ["a", "b"]
    assert batch["n"][0].tolist() == [[1, 1], [0, 0]]
    assert batch["n"][1].dtype == np.bool_


def test_gradients_flow_through_a_batch():
    x = mg.ones(4, 2, requires_grad=True)
    for (batch,) in DataLoader(TensorDataset(x), batch_size=3):
        (batch * batch).sum().backward()
    assert x.grad.tolist() == [[2, 2]] * 4


def test_random_split_and_concat_dataset():
    parts = random_split(Squares(10), [0.45, 0.55])
    assert [len(part) for part in parts] == [5, 5]  # 4 + 5, and what is left to the first
    assert sorted(y for part in parts for _, y in part_of(part)) == [i**2 for i in range(10)]
    joined = Squares(2) + Squares(3)
    assert isinstance(joined, ConcatDataset)
    assert [joined[i][1] for i in range(-5, 5)] == [0, 1, 0, 1, 4] * 2
    with pytest.raises(IndexError):
        joined[5]


def part_of(dataset):
    return (dataset[i] for i in range(len(dataset)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DataLoader(Squares(3), batch_size=0), "batch_size must be a positive integer, got 0"),
        (lambda: DataLoader(Squares(3), shuffle=True, sampler=[1]), "shuffle"),
        (lambda: DataLoader(Stream(), shuffle=True), "shuffle"),
        (lambda: DataLoader(Squares(3), batch_size=2, batch_sampler=[[1]]), "batch_sampler"),
        (lambda: TensorDataset(mg.ones(3), mg.ones(4)), "same number of rows"),
        (lambda: TensorDataset(), "no tensors"),
        (lambda: random_split(Squares(10), [3, 3]), "lengths sum to 6, but the dataset has 10"),
        (lambda: ConcatDataset([]), "at least one dataset"),
        (lambda: default_collate([object()]), "examples must be tensors"),
        (lambda: default_collate([[1, 2], [1]]), "different lengths"),
    ],
)
def test_invalid_data_loader_arguments_are_rejected(call, message):
    with pytest.raises(mg.MinigradError, match=message):
        call()


def test_a_generator_determines_splits_and_shuffling():
    def order(seed):
        g = mg.Generator().manual_seed(seed)
        split = [part.indices for part in random_split(range(20), [15, 5], generator=g)]
        return split, [x.item() for x in DataLoader(range(20), batch_size=1, shuffle=True, generator=g)]

    mg.manual_seed(0)
    expected = mg.rand(2)
    mg.manual_seed(0)
    assert order(1) == order(1)
    assert order(1) != order(2)
    assert mg.equal(mg.rand(2), expected)


def test_a_subclass_of_a_tensor_dataset_gets_one_index_at_a_time():
    class Augmented(TensorDataset):
        def __getitem__(self, i):
            (x,) = super().__getitem__(i)
            return x + i % 2

    loader = DataLoader(Augmented(mg.zeros(4)), batch_size=4, prefetch_factor=2, timeout=1, in_order=True)
    assert next(iter(loader)).tolist() == [0, 1, 0, 1]


def test_data_loader_and_random_split_reject_invalid_input():
    with pytest.raises(mg.DtypeError, match="needs a dataset, got int"):
        DataLoader(5)
    with pytest.raises(mg.OptionError, match="lengths sum to"):
        random_split(range(3), [-1, 4])
    assert [len(part) for part in random_split([7], [0.5, 0.5])] == [1, 0]


@pytest.mark.parametrize(
    "examples",
    [[mg.ones(2), mg.ones(3)], [np.ones(2), np.ones(3)], [[1, 2], [3]], [(mg.ones(2), 1), (mg.ones(3), 0)]],
)
def test_collating_different_shapes_suggests_padding(examples):
    error_message = message(lambda: next(iter(DataLoader(examples, batch_size=2))), mg.errors.ShapeError)
    assert "Pad them" in error_message
    assert "collate_fn" in error_message
