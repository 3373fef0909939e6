"""Memory shared with PyTorch by DLPack, and tensors that print alike."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import DtypeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "uint8", "bool"])
def test_dlpack_shares_memory_both_ways(dtype):
    x = mg.tensor(np.arange(6).reshape(2, 3) % 2, dtype=dtype)
    there = torch.from_dlpack(x)
    assert there.data_ptr() == x.array.ctypes.data
    assert str(there.dtype) == f"torch.{dtype}"
    there[0, 0] = 1
    assert x[0, 0].item() == 1
    back = mg.from_dlpack(there)
    assert back.array.ctypes.data == x.array.ctypes.data
    assert back.dtype == dtype


def test_dlpack_keeps_strides():
    theirs = torch.arange(12.0).reshape(3, 4).T[1:]
    ours = mg.from_dlpack(theirs)
    np.testing.assert_array_equal(ours.array, theirs.numpy())
    assert ours.array.ctypes.data == theirs.data_ptr()
    assert torch.equal(torch.from_dlpack(ours), theirs)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_pytorch_tensors_are_accepted(dtype):
    theirs = torch.tensor([0.0, 1.0]).to(getattr(torch, dtype))
    for ours in (mg.tensor(theirs), mg.as_tensor(theirs), mg.tensor([theirs[0], theirs[1]])):
        assert ours.dtype == dtype
        assert ours.tolist() == [0, 1]
    assert (mg.zeros(2) + theirs).tolist() == [0, 1]
    with pytest.raises(DtypeError, match=r"requires grad.*\nPass a NumPy array of it"):
        mg.tensor(torch.ones(2, requires_grad=True))


def test_dlpack_errors_explain_the_reason():
    with pytest.raises(DtypeError, match=r"use tensor\.detach\(\)"):
        mg.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(DtypeError, match=r"cannot be read as an array|unknown dtype"):
        mg.from_dlpack(torch.ones(2, dtype=torch.bfloat16))


@pytest.mark.parametrize("seed", range(60))
def test_tensor_printing_matches_pytorch(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, rng.integers(0, 4)))
    array = np.asarray(np.abs(rng.normal(size=shape)) * 10.0 ** rng.integers(-6, 8) + 1e-3)
    kinds = [np.float32, np.float64, np.int64, lambda a: np.round(a).astype(np.float32), lambda a: a > 0.5]
    array = np.asarray(kinds[seed % 5](array))
    ours = repr(mg.tensor(array))
    theirs = repr(torch.tensor(array)).replace("torch.", "")
    assert ours.split() == theirs.split()  # a long line may break elsewhere
