"""Randomness: a draw is a function of its key alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad import nn, random
from minigrad.errors import OptionError
from minigrad.nn import functional as F

DRAWS = {
    "rand": lambda: mg.rand(3, 4),
    "randn": lambda: mg.randn(3, 4),
    "randint": lambda: mg.randint(0, 100, (3, 4)),
    "dropout": lambda: F.dropout(mg.ones(3, 4), 0.5),
    "init": lambda: nn.Linear(4, 3).weight,
}
EACH = pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))


@EACH
def test_one_seed_one_sequence(draw):
    mg.manual_seed(1)
    first, second = draw().array.copy(), draw().array.copy()
    mg.manual_seed(1)
    np.testing.assert_array_equal(draw().array, first)
    np.testing.assert_array_equal(draw().array, second)
    assert (first != second).any()
    mg.manual_seed(2)
    assert (draw().array != first).any()


@EACH
def test_draws_of_other_streams_do_not_disturb(draw):
    mg.manual_seed(1)
    expected = draw().array.copy()
    mg.manual_seed(1)
    for other in DRAWS.values():
        if other is not draw:
            other()
    np.testing.assert_array_equal(draw().array, expected)


def test_a_step_draws_its_own_whatever_came_before():
    def dropped(step):
        random.set_step(step)
        return [F.dropout(mg.ones(8), 0.5).array.copy() for _ in range(2)]

    mg.manual_seed(1)
    run = [dropped(step) for step in range(4)]
    mg.manual_seed(1)
    np.testing.assert_array_equal(dropped(3), run[3])
    F.dropout(mg.ones(8), 0.5)  # evaluation, say
    np.testing.assert_array_equal(dropped(2), run[2])
    assert len({np.array(r).tobytes() for r in run}) == 4


def test_every_64_bit_seed_is_another():
    draws = set()
    for seed in (0, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1):
        mg.manual_seed(seed)
        draws.add(mg.randn(4).array.tobytes())
    assert len(draws) == 5


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_other_seeds_are_refused(seed):
    with pytest.raises(OptionError, match="seed"):
        mg.manual_seed(seed)


SIZES = st.integers(1, 21)


@given(rows=st.integers(1, 9), width=st.lists(SIZES, max_size=2), first=st.integers(0, 8), p=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_rows_of_a_batch_drop_what_the_whole_batch_drops_there(rows, width, first, p):
    first = min(first, rows - 1)
    whole = random.Key(seed=3, stream=1, step=2, call=4)
    mask = random.keep_mask(whole, (rows, *width), p)
    part = random.keep_mask(whole._replace(row=first), (rows - first, *width), p)
    np.testing.assert_array_equal(part, mask[first:])


@pytest.mark.parametrize(
    "draw",
    [
        lambda n: F.dropout(mg.ones(n, 5, 3), 0.3),
        lambda n: mg.rand(n, 5),
        lambda n: mg.randn(n, 3),
        lambda n: mg.randint(0, 9, (n, 7)),
        lambda n: F.scaled_dot_product_attention(*[mg.ones(n, 3, 2)] * 3, dropout_p=0.5),
    ],
    ids=["dropout", "rand", "randn", "randint", "attention"],
)
def test_micro_batches_draw_what_the_whole_batch_draws(draw):
    mg.manual_seed(5)
    whole = draw(6).array.copy()
    mg.manual_seed(5)
    parts = []
    for first, n in ((0, 1), (1, 3), (4, 2)):
        with random.rows(first):
            parts.append(draw(n).array)
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_a_mask_keeps_the_fraction_it_should():
    key = random.Key(seed=0, stream=0, step=0, call=0)
    for p in (0.0, 0.1, 0.5, 1.0):
        assert random.keep_mask(key, (100, 1000), p).mean() == pytest.approx(1 - p, abs=0.005)


def test_keys_differ_in_every_part():
    key = random.Key(seed=1, stream=2, step=3, call=4)
    keys = [key, *(key._replace(**{field: 9}) for field in ("seed", "stream", "step", "call"))]
    assert len({random.keep_mask(k, (64,), 0.5).tobytes() for k in keys}) == 5
    assert len({random.generator(k).random(4).tobytes() for k in keys}) == 5
