"""Matrix products of all ranks, batches and views."""

import numpy as np
import pytest

import minigrad as mg
from tests.leaves import assert_equal, leaf

SHAPES = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (5, 3, 2)), ((5, 2, 3), (3,)), ((2, 3), (5, 3, 2)),
    ((5, 1, 2, 3), (4, 3, 2)), ((1, 2, 3), (5, 3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_products_of_all_ranks_and_batches(left, right):
    rng = np.random.default_rng(0)
    x, y = leaf(rng.normal(size=left)), leaf(rng.normal(size=right))
    out = x @ y
    assert_equal(out, x.array @ y.array)
    mg.gradcheck(lambda x, y: x @ y, [x, y])


def test_products_of_views():
    rng = np.random.default_rng(0)
    x = leaf(rng.normal(size=(3, 2)))
    y = leaf(rng.normal(size=(2, 4, 3)))
    mg.gradcheck(lambda x, y: x.T @ y.transpose(1, 2) @ y.flip(1), [x, y])
