"""The stand-in for CuPy is as strict as CuPy is, and has what it has."""

import json

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.slow import standin
from tests.slow.standin.names import of_cupy


@pytest.fixture
def cupy():
    with standin.installed() as module:
        yield module


def test_the_standin_has_the_names_of_cupy():
    """Where CuPy is installed; it needs no GPU for that."""
    real = pytest.importorskip("cupy")
    if real.__version__ != standin.NAMES["version"]:
        pytest.skip(f"the names are those of CuPy {standin.NAMES['version']}, here is {real.__version__}")
    assert json.loads(json.dumps(of_cupy())) == standin.NAMES


def test_standin_arrays_have_no_extra_attributes():
    real = pytest.importorskip("cupy").ndarray
    public = {name for name in dir(standin.ndarray) if name.startswith("__") or not name.startswith("_")}
    assert public - set(dir(real)) <= {"__annotations__", "__del__", "__dict__", "__weakref__"}  # Python's


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, n: np.asarray(x),
        lambda x, n: np.exp(x),
        lambda x, n: x + n,
        lambda x, n: n + x,
        lambda x, n: n[x],
        lambda x, n: n.__setitem__(slice(None), x),
        lambda x, n: x.max(initial=0),
        lambda x, n: x.__iadd__(n),
    ],
)
def test_standin_arrays_do_not_mix_with_numpy_arrays(cupy, mix):
    with pytest.raises(TypeError):
        mix(cupy.arange(3), np.arange(3))


def test_the_standin_lacks_what_cupy_lacks(cupy):
    for name in ("vecdot", "unstack", "errstate"):
        with pytest.raises(AttributeError):
            getattr(cupy, name)
    with pytest.raises(NotImplementedError):
        cupy.maximum.accumulate(cupy.arange(3))
    for dtype in ("float16", "int64"):
        with pytest.raises(TypeError):
            cupy.add.at(cupy.zeros(3, dtype), cupy.arange(2), 1)
    with pytest.raises(AttributeError):
        _ = cupy.arange(3).flags.writeable


def test_the_standin_behaves_like_cupy(cupy):
    x = cupy.arange(6).reshape(2, 3)
    assert isinstance(x.sum(), cupy.ndarray)
    first = x[0, 0]
    first += 5  # a view
    assert x.get().tolist() == [[5, 1, 2], [3, 4, 5]]
    assert x[np.array([3, -4])].get().tolist() == [[3, 4, 5], [5, 1, 2]]  # beyond the end it wraps
    x[np.array([0, 0])] = cupy.array([[1, 1, 1], [2, 2, 2]])
    assert x[0].get().tolist() != [2, 2, 2]  # whichever comes last
    assert x[0].base is x.base is not None
    assert cupy.broadcast_to(x[0], (4, 3)).base is x.base
    assert x.copy().base is None


def test_the_standin_is_as_strict_as_cupy_on_a_gpu(cupy):
    """Differences that tests on an H200 found (CuPy 14.2)."""
    half = cupy.zeros(3, bfloat16)
    assert cupy.where(half == 0, half, half).dtype == np.float32
    with pytest.raises(TypeError, match="incorrect type"):
        cupy.broadcast_to(0.0, (3,))
