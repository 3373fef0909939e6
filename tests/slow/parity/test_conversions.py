"""What tensors are made from, and integers divided by 0, beside PyTorch."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import DivisionError, MinigradError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

F16 = np.float16(1)
F32 = np.float32(1)
F64 = np.float64(1)
I32 = np.int32(1)
I64 = np.int64(1)
MADE_ALIKE = {
    "a float64": lambda t: t.tensor([F64]),
    "a float32": lambda t: t.tensor([F32]),
    "a float16": lambda t: t.tensor([F16]),
    "float64 and a float": lambda t: t.tensor([F64, 2.0]),
    "a float and float64": lambda t: t.tensor([2.0, F64]),
    "float16 and a float": lambda t: t.tensor([F16, 2.0]),
    "float16 and an int": lambda t: t.tensor([F16, 2]),
    "float32 and float64": lambda t: t.tensor([F32, F64]),
    "float16 and float32": lambda t: t.tensor([F16, F32]),
    "int64 and float32": lambda t: t.tensor([I64, F32]),
    "int32 and an int": lambda t: t.tensor([I32, 2]),
    "int32": lambda t: t.tensor([I32]),
    "a bool and an int": lambda t: t.tensor([True, 2]),
    "a NumPy bool": lambda t: t.tensor([np.bool_(True)]),
    "a bool and a float": lambda t: t.tensor([True, 2.5]),
    "nested": lambda t: t.tensor([[1], [F64]]),
    "a tuple": lambda t: t.tensor((F64, 1)),
    "arrays": lambda t: t.tensor([np.array([1.0, 2.0]), [3, 4]]),
    "float32 arrays": lambda t: t.tensor([np.ones(2, "f")]),
    "an integer array": lambda t: t.tensor([np.array([1, 2])]),
    "tensors": lambda t: t.tensor([t.tensor(1.0), t.tensor(2.0)]),
    "float64 tensors": lambda t: t.tensor([t.tensor(1.0, dtype=t.float64), t.tensor(2.0)]),
    "integer tensors": lambda t: t.tensor([t.tensor(1), t.tensor(2)]),
    "as_tensor": lambda t: t.as_tensor([F64]),
    "a tensor and a float": lambda t: t.tensor([t.tensor(1), 2.5]),
    "nothing": lambda t: t.tensor([]),
    "empty lists": lambda t: t.tensor([[], []]),
    "a range": lambda t: t.tensor(range(3)),
    "10**30": lambda t: t.tensor(10**30),
    "[10**30]": lambda t: t.tensor([10**30]),
    "2**63": lambda t: t.tensor(2**63),
    "2**63 and -1": lambda t: t.tensor([2**63, -1]),
    "300 in uint8": lambda t: t.tensor(300, dtype=t.uint8),
    "[300] in uint8": lambda t: t.tensor([300], dtype=t.uint8),
    "-1 in uint8": lambda t: t.tensor(-1, dtype=t.uint8),
    "200 in int8": lambda t: t.tensor([200], dtype=t.int8),
    "an array in uint8": lambda t: t.tensor(np.array([300, -1]), dtype=t.uint8),
    "2.7": lambda t: t.tensor(2.7, dtype=t.int64),
    "nan in int64": lambda t: t.tensor(float("nan"), dtype=t.int64),
    "nan as bool": lambda t: t.tensor(float("nan"), dtype=t.bool),
    "full of nan": lambda t: t.full((2,), float("nan"), dtype=t.int64),
    "full of inf": lambda t: t.full((2,), float("inf"), dtype=t.int32),
    "full of 2.7": lambda t: t.full((2,), 2.7, dtype=t.int64),
    "full of 300": lambda t: t.full((2,), 300, dtype=t.uint8),
    "full of -1": lambda t: t.full((2,), -1, dtype=t.uint8),
    "full of 10**30": lambda t: t.full((2,), 10**30),
    "text": lambda t: t.tensor("a"),
    "None": lambda t: t.tensor([None]),
    "ragged": lambda t: t.tensor([1, [2]]),
    "a set": lambda t: t.tensor({1}),
    "a dict": lambda t: t.tensor({"a": 1}),
}


def outcome(make, library):
    try:
        x = make(library)
    except (RuntimeError, ValueError, TypeError, OverflowError):
        return "refused"
    return str(x.dtype).removeprefix("torch."), tuple(x.shape), x.tolist()


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
@pytest.mark.parametrize("name", MADE_ALIKE)
def test_tensor_creation_matches_pytorch(name):
    assert outcome(MADE_ALIKE[name], mg) == outcome(MADE_ALIKE[name], torch)


DIVISIONS = {
    "//": lambda t, x, y: x // y,
    "%": lambda t, x, y: x % y,
    "fmod": lambda t, x, y: t.fmod(x, y),
    "remainder": lambda t, x, y: t.remainder(x, y),
    "floor_divide": lambda t, x, y: t.floor_divide(x, y),
    "floor": lambda t, x, y: t.div(x, y, rounding_mode="floor"),
    "trunc": lambda t, x, y: t.div(x, y, rounding_mode="trunc"),
    "7 //": lambda t, x, y: 7 // y if isinstance(y, t.Tensor) else x // y,
    "/": lambda t, x, y: x / y,
}


@pytest.mark.parametrize("divisor", [0, [0, 1, 2], [1, 1, 3], 2], ids=str)
@pytest.mark.parametrize("dtype", ["int64", "uint8", "int8", "float32"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_are_not_divided_by_0(name, dtype, divisor):
    def divide(t):
        cast = lambda values: t.tensor(values, dtype=getattr(t, dtype))
        return DIVISIONS[name](t, cast([7, 0, 3]), divisor if isinstance(divisor, int) else cast(divisor))

    try:
        expected = divide(torch)
    except RuntimeError:
        with pytest.raises(DivisionError, match="integers divided by 0") as info:
            divide(mg)
        assert isinstance(info.value, ZeroDivisionError)
        assert isinstance(info.value, RuntimeError)
        return
    with np.errstate(all="ignore"):
        y = divide(mg)
    assert str(y.dtype) == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(y.numpy(), expected.numpy())


def test_out_of_range_integers_are_rejected():
    with pytest.raises(MinigradError, match=r"300 at index \[1\] cannot be converted to uint8"):
        mg.tensor([1, 300], dtype="uint8")
    with pytest.raises(MinigradError, match="does not fit int64"):
        mg.tensor([2**63, -1])


SEEN_ALIKE = {
    "a number": lambda t: f"{t.tensor(2.5)}",
    "with decimals": lambda t: f"{t.tensor(2.5):.2f}",
    "an integer": lambda t: f"{t.tensor(3)} {t.tensor(4):3d}",
    "a list repeated": lambda t: [0] * t.tensor(3),
    "text repeated": lambda t: "ab" * t.tensor(2),
    "a range": lambda t: list(range(t.tensor(3))),
    "an index of a list": lambda t: [10, 20, 30][t.tensor(1)],
    "in": lambda t: 2 in t.tensor([1, 2]),
    "a tensor in": lambda t: t.tensor(5) in t.tensor([1, 2]),
    "None in": lambda t: None in t.tensor([1]),
    "a list in": lambda t: [1] in t.tensor([1]),
    "== None": lambda t: t.tensor([1.0]) == None,  # noqa: E711
    "!= None": lambda t: t.tensor([1.0]) != None,  # noqa: E711
    "== text": lambda t: t.tensor([1.0]) == "a",
    "< None": lambda t: t.tensor([1.0]) < None,
    "a chain": lambda t: 1 < t.tensor([1.0, 2.0]) < 3,
    "a chain of one": lambda t: bool(1 < t.tensor(2.0) < 3),
    "bool of several": lambda t: bool(t.ones(2)),
    "bool of none": lambda t: bool(t.ones(0)),
    "bool": lambda t: bool(t.zeros(1, 1)),
    "int of nan": lambda t: int(t.tensor(float("nan"))),
    "item": lambda t: t.tensor([[3]], dtype=t.uint8).item(),
    "item of several": lambda t: t.ones(2).item(),
    "len": lambda t: len(t.ones(4, 2)),
    "len of a number": lambda t: len(t.tensor(1)),
    "iterating a number": lambda t: list(t.tensor(1)),
    "sum()": lambda t: sum(t.tensor([1.0, 2.0])).item(),
    "max()": lambda t: max(t.tensor([1.0, 3.0, 2.0])).item(),
    "two tensors in a set": lambda t: len({t.ones(1), t.ones(1)}),
    "sorted": lambda t: [x.item() for x in sorted(t.tensor([3.0, 1.0]))],
    "a tensor of one": lambda t: t.tensor(t.ones(2)).tolist(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SEEN_ALIKE)
def test_python_protocols_of_tensors_match_pytorch(name):
    def seen(library):
        try:
            return SEEN_ALIKE[name](library)
        except (RuntimeError, ValueError, TypeError):
            return "refused"

    assert seen(mg) == seen(torch)
