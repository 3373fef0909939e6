"""What shares memory: in-place operations that read what they write, and states that are copied or not."""

import numpy as np
import pytest

import minigrad as mg


def in_place_methods():
    """Names of in-place methods that take one more tensor, tried on two vectors."""
    for name in sorted(vars(mg.Tensor)):
        if not name.endswith("_") or name.startswith("_"):
            continue
        try:
            x = mg.tensor([1.5, 2.5, 0.5, 2.0])
            getattr(x, name)(mg.tensor([2.0, 1.0, 3.0, 0.5]))
        except (mg.MinigradError, TypeError, ValueError):
            continue
        yield name


@pytest.mark.parametrize("name", list(in_place_methods()))
@pytest.mark.parametrize(
    ("target", "operand"),
    [
        (lambda x: x[1:], lambda x: x[:-1]),
        (lambda x: x[:-1], lambda x: x[1:]),
        (lambda x: x, lambda x: x.flip(0)),
        (lambda x: x.reshape(3, 3), lambda x: x.reshape(3, 3).T),
        (lambda x: x.reshape(3, 3), lambda x: x.reshape(3, 3)[:, :1]),
        (lambda x: x[::2], lambda x: x[:5]),
    ],
    ids=["later", "earlier", "reversed", "transposed", "column", "strided"],
)
def test_in_place_ops_with_overlapping_operands(name, target, operand):
    if name in ("set_", "swapaxes_", "random_", "bernoulli_"):
        pytest.skip("draws, or changes the shape")
    numbers = np.linspace(0.5, 2.5, 9)
    x, y = mg.tensor(numbers), mg.tensor(numbers)
    mg.manual_seed(0)
    expected = getattr(target(y).clone(), name)(operand(mg.tensor(numbers)).clone())
    mg.manual_seed(0)
    getattr(target(x), name)(operand(x))
    np.testing.assert_array_equal(target(x).numpy(), expected.numpy())


def test_assigning_overlapping_slices():
    x = mg.arange(6.0)
    x[1:] = x[:-1]
    assert x.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    x.index_copy_(0, mg.tensor([1, 2, 3]), x[:3])
    assert x.tolist() == [0.0, 0.0, 0.0, 1.0, 3.0, 4.0]
    x.masked_scatter_(mg.tensor([False, False, False, True, True, True]), x[2:5])
    assert x.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 3.0]


def test_copying_between_overlapping_strided_views():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(4, 20))
        step, other = (int(rng.integers(1, 4)) for _ in range(2))
        target = slice(int(rng.integers(0, n)), None, step)
        source = slice(int(rng.integers(0, n)), None, other)
        count = min(len(range(n)[target]), len(range(n)[source]))
        for write in (lambda x, y: x.copy_(y), lambda x, y: x.__setitem__(..., y)):
            x = mg.arange(float(n))
            expected = x[source][:count].tolist()
            write(x[target][:count], x[source][:count])
            assert x[target][:count].tolist() == expected, (n, target, source)
