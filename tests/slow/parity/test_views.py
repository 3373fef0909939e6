"""`view` beside PyTorch: where the memory allows it, and memory read as another dtype."""

import itertools
import math

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import MinigradError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

SOURCES = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.permute(2, 1, 0),
    "swapped": lambda x: x.transpose(0, 1),
    "cut": lambda x: x[:, :, :2],
    "cut in front": lambda x: x[1:],
    "every other": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(4, 4, 6),
    "of length 1": lambda x: x[:, :1].transpose(0, 1),
    "empty": lambda x: x[:, 0:0].transpose(0, 2),
    "a column": lambda x: x[:, 1, :].t(),
}


def shapes_of(n):
    factors = [d for d in range(1, n + 1) if n % d == 0] if n else [0, 1]
    found = {(a, b, c) for a, b, c in itertools.product(factors, repeat=3) if a * b * c == n}
    return sorted({(n,), (-1,), *found, *[(a, b) for a, b, _ in found if a * b == n], (n + 1,), (-1, -1)})


@pytest.mark.parametrize("name", SOURCES)
def test_view_succeeds_for_the_same_shapes_as_pytorch(name):
    array = np.arange(72.0).reshape(3, 4, 6)
    x = SOURCES[name](mg.tensor(array))
    t = SOURCES[name](torch.tensor(array))
    for shape in shapes_of(math.prod(x.shape)):
        try:
            expected = t.view(shape)
        except RuntimeError:
            with pytest.raises(MinigradError, match=r"\n"):
                x.view(shape)
            continue
        y = x.view(shape)
        np.testing.assert_array_equal(y.numpy(), expected.numpy())
        assert not y.numel() or np.shares_memory(y.array, x.array)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float16", "float64", "bool"])
@pytest.mark.parametrize("name", ["contiguous", "transposed", "cut", "every other", "expanded"])
def test_viewing_memory_as_another_dtype(name, dtype):
    array = np.arange(72, dtype=np.float32).reshape(3, 4, 6)
    x = SOURCES[name](mg.tensor(array))
    t = SOURCES[name](torch.tensor(array))
    try:
        expected = t.view(getattr(torch, dtype))
    except RuntimeError:
        with pytest.raises(MinigradError, match=r"\n"):
            x.view(dtype)
        return
    y = x.view(dtype)
    assert y.shape == tuple(expected.shape)
    assert y.numpy().tobytes() == expected.numpy().tobytes()
    assert np.shares_memory(y.array, x.array)


def test_view_as_the_same_dtype_keeps_the_gradient():
    x = mg.ones(2, requires_grad=True)
    (x.view(mg.float32) * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert not x.view("int32").requires_grad
