"""Draws stay in their range: [0, 1) without 1, [low, high) without high, no class of weight 0.

A number between the last two of a dtype is rounded to one of them, and the largest that a generator gives is
rounded up. So a generator stands in here that gives the ends of its range, and numbers about them.
"""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core import random
from minigrad.core.errors import OptionError
from minigrad.nn import functional as F
from minigrad.ops import draws

FLOATS = ["bfloat16", "float16", "float32", "float64"]
ENDS = [0.0, 2.0**-53, 2.0**-30, 0.5, 1 - 2.0**-5, 1 - 2.0**-9, 1 - 2.0**-12, 1 - 2.0**-26, 1 - 2.0**-53]


class Ends:
    """What NumPy's generator gives at the ends of its range."""

    def random(self, shape):
        return np.resize(ENDS, shape)

    def uniform(self, a, b, shape):
        return a + (b - a) * self.random(shape)

    def integers(self, low, high, shape):
        return np.resize([low, high - 1, high - 2, (low + high) // 2], shape).clip(low, high - 1)

    def standard_normal(self, shape):
        return np.resize([-8.5, 8.5, 0.0], shape)


@pytest.fixture
def ends(monkeypatch):
    monkeypatch.setattr(draws, "generator", lambda key: Ends())


UNIFORM = {  # low, high and the draw
    "rand": (0, 1, lambda dtype: mg.rand(9, dtype=dtype)),
    "rand_like": (0, 1, lambda dtype: mg.rand_like(mg.zeros(9, dtype=dtype))),
    "uniform_": (0, 1, lambda dtype: mg.zeros(9, dtype=dtype).uniform_()),
    "uniform_(1, 2)": (1, 2, lambda dtype: mg.zeros(9, dtype=dtype).uniform_(1, 2)),
    "uniform_(-1, 1)": (-1, 1, lambda dtype: mg.zeros(9, dtype=dtype).uniform_(-1, 1)),
    "uniform_(0.1, 0.3)": (0.1, 0.3, lambda dtype: mg.zeros(9, dtype=dtype).uniform_(0.1, 0.3)),
    "uniform_(100, 101)": (100, 101, lambda dtype: mg.zeros(9, dtype=dtype).uniform_(100, 101)),
    "init.uniform_": (0, 1, lambda dtype: nn.init.uniform_(mg.zeros(9, dtype=dtype))),
    "init.uniform_(1, 2)": (1, 2, lambda dtype: nn.init.uniform_(mg.zeros(9, dtype=dtype), 1, 2)),
    "xavier_uniform_": (-1, 1, lambda dtype: nn.init.xavier_uniform_(mg.zeros(3, 3, dtype=dtype))),
    "kaiming_uniform_": (-1, 1, lambda dtype: nn.init.kaiming_uniform_(mg.zeros(6, 6, dtype=dtype))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNIFORM)
def test_uniform_draws_exclude_the_upper_bound(name, dtype, ends):
    low, high, draw = UNIFORM[name]
    x = draw(dtype)
    assert x.dtype == dtype
    assert (x >= low).all()
    assert (x < high).all()
    assert len(set(x.reshape(-1).tolist())) > 1


def test_uniform_over_an_empty_range_is_constant(ends):
    assert mg.zeros(3).uniform_(0.1, 0.1).tolist() == mg.full((3,), 0.1).tolist()


def test_excluding_the_upper_bound_keeps_all_other_draws():
    """Of float32 all that is not the high end: runs that are resumed depend on them."""
    mg.manual_seed(0)
    x = mg.rand(1000)
    y = mg.zeros(1000).uniform_(-3, 5)
    mg.manual_seed(0)
    keys = [random.next_key("random"), random.next_key("random")]
    first, second = (draws.generator(key).random(1000).astype(np.float32) for key in keys)
    np.testing.assert_array_equal(x.numpy(), first)
    np.testing.assert_array_equal(y.numpy(), second * 8 + -3)


INTEGERS = [(0, 300), (0, 2049), (-300, 300), (0, 60_000), (0, 2**24 + 3), (5, 6)]


@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
@pytest.mark.parametrize(("low", "high"), INTEGERS)
def test_integers_are_below_their_bound_in_each_dtype(low, high, dtype, ends):
    if dtype == "float16" and high > 65504:
        with pytest.raises(OptionError, match="but float16 ranges from"):
            mg.randint(low, high, (4,), dtype=dtype)
        return
    like = mg.zeros(4, dtype=dtype)
    for x in (
        mg.randint(low, high, (4,), dtype=dtype),
        mg.randint_like(like, low, high),
        like.clone().random_(low, high),
    ):
        assert x.dtype == dtype
        assert low <= min(x.double().tolist()) <= max(x.double().tolist()) < high


@pytest.mark.parametrize(
    "draw",
    [
        lambda: mg.randint(0, 300, (3,), dtype="uint8"),
        lambda: mg.randint(0, 3, (3,), dtype="bool"),
        lambda: mg.zeros(3, dtype="uint8").random_(-5, 5),
        lambda: mg.zeros(3, dtype="float16").random_(0, 70_000),
        lambda: mg.zeros(3, dtype="float16").uniform_(0, 1e6),
        lambda: mg.zeros(3).uniform_(-3e38, 3e38),
        lambda: mg.randperm(300, dtype="uint8"),
        lambda: mg.randperm(3000, dtype="float16"),
        lambda: mg.randperm(300, dtype="bfloat16"),
    ],
)
def test_bounds_out_of_range_of_the_dtype_are_rejected(draw):
    with pytest.raises(OptionError, match=r"ranges from|does not fit|at most"):
        draw()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16"])
def test_a_permutation_has_each_number_once(dtype):
    x = mg.randperm(256, dtype=dtype)
    assert sorted(x.tolist()) == list(range(256))


def test_random_draws_up_to_a_dtypes_largest_integer(ends):
    for dtype, largest in (
        ("bfloat16", 2**8),
        ("float16", 2**11),
        ("float32", 2**24),
        ("uint8", 255),
        ("bool", 1),
    ):
        assert mg.zeros(4, dtype=dtype).random_().max().item() == largest


DISTRIBUTIONS = {  # distributions of positive numbers, or of finite ones
    "exponential_": (True, lambda x: x.exponential_()),
    "exponential_(1e-3)": (True, lambda x: x.exponential_(1e-3)),
    "log_normal_": (True, lambda x: x.log_normal_(1.0, 3.0)),
    "log_normal_(-20)": (True, lambda x: x.log_normal_(-20.0, 3.0)),
    "geometric_": (True, lambda x: x.geometric_(1e-3)),
    "cauchy_": (False, lambda x: x.cauchy_()),
    "normal_": (False, lambda x: x.normal_()),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_are_finite_and_in_the_support(name, dtype, ends):
    positive, draw = DISTRIBUTIONS[name]
    x = draw(mg.zeros(9, dtype=dtype))
    assert x.isfinite().all()
    assert not positive or x.log().isfinite().all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_gumbel_softmax_is_finite_for_extreme_draws(dtype, ends):
    shares = F.gumbel_softmax(mg.zeros(9, dtype=dtype))
    assert shares.isfinite().all()
    assert float(shares.double().sum()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_truncated_normal_stays_between_its_bounds(dtype):
    x = nn.init.trunc_normal_(mg.zeros(20_000, dtype=dtype), std=2.0, a=-0.3, b=0.7)
    assert (x >= -0.3).all()
    assert (x <= 0.7).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_with_probability_0_or_1_is_certain(dtype, ends):
    p = mg.tensor([0.0, 1.0] * 9).to(dtype)
    assert (p.bernoulli() == p).all()
    assert (mg.zeros(18, dtype=dtype).bernoulli_(p) == p).all()
    assert (mg.zeros(18, dtype=dtype).bernoulli_(1.0) == 1).all()
    assert (mg.zeros(18, dtype=dtype).bernoulli_(0.0) == 0).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "weights", [[0, 1, 0], [0, 0, 2], [3, 0, 0], [0, 1e-7, 0, 1, 0], [0, 0.1, 0.2, 0.7, 0]]
)
def test_a_class_of_weight_0_is_never_drawn(weights, dtype, ends):
    weights = mg.tensor(weights).to(dtype)
    count = int((weights > 0).sum().item())
    for drawn in (mg.multinomial(weights, 9, replacement=True), mg.multinomial(weights, count)):
        assert (weights[drawn] > 0).all()
    with pytest.raises(OptionError, match="without replacement"):
        mg.multinomial(weights, count + 1)


def test_multinomial_accepts_very_large_and_small_weights(ends):
    large = mg.tensor(np.array([0.0, 1e308, 1e308, 0.0]))
    assert set(mg.multinomial(large, 9, replacement=True).tolist()) == {1, 2}
    least = mg.tensor(np.array([0.0, 5e-324, 0.0]))
    assert mg.multinomial(least, 1).tolist() == [1]


def test_dropout_with_p_0_and_1():
    x = mg.ones(1000)
    assert (F.dropout(x, 1.0) == 0).all()
    assert (F.dropout(x, 0.0) == x).all()
    assert math.isfinite(float(F.dropout(x, 1 - 2**-30).sum()))
