"""`x[index]` beside PyTorch: rules, and random expressions (`index_expressions.py`)."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import MinigradError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, 500, 100))
def test_random_index_expressions_match_pytorch(start):
    from .index_expressions import difference

    assert [text for text in map(difference, range(start, start + 100)) if text] == []


A = [0, 1]
B = [2, 0]
BYTES = np.array([1, 0, 1], np.uint8)
ALIKE = [
    (0, slice(None), A), (0, None, A), (slice(None), 0, A), (A, slice(None), 0), (0, ..., A), (A, ..., B),
    (slice(None), A, ..., B), (0, A, slice(None)), (None, 0, slice(None), A), (0, slice(None), True),
    (0, slice(None), False), (True, slice(None), 0), (False, 0), (slice(None), [[0], [1]], 0), (0, [], 1),
    (A, None, 0), (0, slice(1, 3), [[0, 1], [2, 3]]), [A, B], [[0], [1], [2]], [slice(None), 0], [0, None],
    [0, 1], [True, False, True], [], [[]], range(2), True, False, None, (), np.int64(1), np.array(1), BYTES,
    (slice(None), 0, None), (range(2), range(2)), slice(5, 2), slice(1, 10**20), ([True, False, True], A),
    (0, slice(None), np.array(0)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", ALIKE, ids=repr)
def test_indexing_matches_pytorch(index):
    array = np.arange(60.0).reshape(3, 4, 5)
    ours = mg.tensor(array, requires_grad=True)
    theirs = torch.tensor(array, requires_grad=True)
    y = ours[index]
    z = theirs[index]
    assert y.shape == z.shape
    np.testing.assert_array_equal(y.numpy(), z.detach().numpy())
    (y * y).sum().backward()
    (z * z).sum().backward()
    np.testing.assert_array_equal(ours.grad.numpy(), theirs.grad.numpy())
    if y.numel():
        assert np.shares_memory(y.array, ours.array) == (z._base is theirs)


REFUSED = [
    1.5, (1.0,), "a", object, {}, slice(None, None, -1), slice(None, None, 0), 5, -4, [5], (0, 0, 0, 0),
    [True, False], (slice(None), [True, False, True]), (A, [0, 1, 2]), (False, A), slice(0, 1.5), slice("a"),
    10**20, np.float64(1), 1j, (..., 0, ..., 0), (0, slice(None), [7]), (0, slice(None), [True]),
]  # fmt: skip


@pytest.mark.parametrize("index", REFUSED, ids=repr)
def test_an_index_is_refused_as_in_pytorch(index):
    array = np.zeros((3, 4, 5), np.float32)
    with pytest.raises((IndexError, ValueError, TypeError)):
        torch.tensor(array)[index]
    with pytest.raises(MinigradError, match=r"(?s).+\n.+"):
        mg.tensor(array)[index]
    with pytest.raises(MinigradError, match=r"(?s).+\n.+"):
        mg.tensor(array)[index] = 1.0


@pytest.mark.parametrize("seed", range(40))
def test_index_put_as_in_pytorch(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
    items = []
    for n in shape[: rng.integers(1, len(shape) + 1)]:
        places = rng.integers(-n, n, [(), (2,), (1,), (3, 2)][rng.integers(4)])
        items.append(rng.random(n) < 0.7 if rng.random() < 0.2 else places)
    array = rng.normal(size=shape)
    accumulate = bool(rng.random() < 0.6)
    try:
        chosen = torch.tensor(array)[tuple(map(torch.tensor, items))]
    except IndexError:  # shapes that do not broadcast
        with pytest.raises(MinigradError):
            mg.tensor(array).index_put(tuple(items), 0.0)
        return
    if len(set(chosen.reshape(-1).tolist())) < chosen.numel() and not accumulate:
        return  # which of the values for one place stays is not defined
    values = rng.normal(size=[chosen.shape, chosen.shape[1:], ()][rng.integers(3)] if chosen.ndim else ())
    x = mg.tensor(array, requires_grad=True)
    v = mg.tensor(values, requires_grad=True)
    t = torch.tensor(array, requires_grad=True)
    u = torch.tensor(values, requires_grad=True)
    y = x.index_put(tuple(map(mg.tensor, items)), v, accumulate)
    z = t.index_put(tuple(map(torch.tensor, items)), u, accumulate)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy())
    (y * y).sum().backward()
    (z * z).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy())
    np.testing.assert_allclose(v.grad.numpy(), u.grad.numpy())


def test_values_that_do_not_fit_an_index_are_refused():
    for values in (np.ones((3, 4, 5)), np.ones((1, 1, 2, 4, 5)), np.ones(2)):
        with pytest.raises(RuntimeError):
            torch.zeros(3, 4, 5).double().index_put((torch.tensor(A),), torch.tensor(values))
        with pytest.raises(MinigradError, match=r"\n"):
            mg.zeros(3, 4, 5, dtype="float64").index_put((mg.tensor(A),), mg.tensor(values))
