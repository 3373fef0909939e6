"""Elementwise functions at infinities, NaN, both zeros, kinks, and of whole numbers: as PyTorch's.

PyTorch's operator database draws ordinary numbers; these are the others.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

inf, nan = np.inf, np.nan
EDGES = np.array([-inf, -800.0, -6.0, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, -1e-30, -0.0, 0.0, 1e-30, 0.5,
                  1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 20.0, 21.0, 100.0, 800.0, inf, nan])  # fmt: skip
PAIRS = [
    a.copy()
    for a in np.broadcast_arrays(EDGES[::2, None], np.array([-inf, -2.5, -0.0, 0.0, 1.0, 3.0, inf, nan]))
]

UNARY = [
    "abs", "acos", "acosh", "angle", "asin", "asinh", "atan", "atanh", "ceil", "clone", "cos",
    "cosh", "deg2rad", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "frac", "isfinite",
    "isinf", "isnan", "isneginf", "isposinf", "isreal", "lgamma", "log", "log10", "log1p", "log2",
    "logical_not", "logit", "nan_to_num", "neg", "positive", "rad2deg", "reciprocal", "relu",
    "round", "rsqrt", "sigmoid", "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh",
    "sign", "trunc",
]  # fmt: skip
BINARY = [
    "add", "atan2", "copysign", "div", "eq", "float_power", "floor_divide", "fmax", "fmin", "fmod",
    "ge", "gt", "heaviside", "hypot", "isclose", "ldexp", "le", "logaddexp", "logaddexp2", "logical_and",
    "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul", "ne", "pow", "remainder", "rsub", "sub",
    "xlogy",
]  # fmt: skip
ACTIVATIONS = [
    "celu", "elu", "gelu", "hardshrink", "hardtanh", "leaky_relu",
    "logsigmoid", "mish", "relu", "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink",
]  # fmt: skip
SPECIAL = [
    "entr", "erfcx", "expit", "ndtr", "ndtri", "xlog1py",
]  # fmt: skip

OF_ONE = [(mg, torch, n) for n in UNARY] + [(F, torch.nn.functional, n) for n in ACTIVATIONS]
OF_ONE += [(mg.special, torch.special, n) for n in SPECIAL if n != "xlog1py"]
OF_TWO = [(mg, torch, n) for n in BINARY] + [(mg.special, torch.special, "xlog1py")]
CASES = [(*case, [EDGES]) for case in OF_ONE] + [(*case, PAIRS) for case in OF_TWO]
WHOLE = [(*case, [np.arange(-3, 4)]) for case in OF_ONE]
WHOLE += [(*case, [np.array([[-3], [0], [2]]), np.array([1, 2, 5])]) for case in OF_TWO]


def named(cases):
    return [pytest.param(*case, id=case[2]) for case in cases]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("ours", "theirs", "name", "arrays"), named(CASES))
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 2e-6)])
def test_values_and_gradients_at_the_edges(ours, theirs, name, arrays, dtype, rtol):
    if (name, dtype) == ("gelu", "float32"):
        pytest.skip("PyTorch's has four digits at -3 and is NaN at infinity")
    ms = [mg.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
    ts = [torch.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
    m = getattr(ours, name)(*ms)
    t = getattr(theirs, name)(*ts)
    assert str(m.dtype) == str(t.dtype).removeprefix("torch.")
    np.testing.assert_allclose(m.array, t.detach().numpy(), rtol=rtol, atol=rtol)
    if not m.requires_grad:
        return
    m.sum().backward()
    t.sum().backward()
    for a, b in zip(ms, ts, strict=True):
        b = b.grad.numpy(force=True)
        known = ~(np.isnan(b) | better(name, *arrays))
        np.testing.assert_allclose(a.grad.array[known], b[known], rtol=10 * rtol, atol=10 * rtol)
        assert np.isnan(b[np.isnan(a.grad.array) & known]).all(), "no NaN where PyTorch has none"


def better(name, x, *others):
    """Where PyTorch's derivative of a NaN is a number, forgets the sign of an infinity, or squares."""
    if name == "logit":
        return (x == 0) & np.signbit(x)
    if name == "acosh":
        return x < 1
    if name == "fmod":
        return np.isinf(x) | (others[0] == 0)
    if name == "atan2":
        return np.hypot(x, *others) < 1e-20
    return np.zeros(x.shape, bool)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize(("ours", "theirs", "name", "arrays"), named(WHOLE))
def test_result_dtypes_of_integers_match_pytorch(ours, theirs, name, arrays, dtype):
    arrays = [(abs(a) if dtype == "uint8" else a).astype(dtype) for a in arrays]
    try:
        expected = getattr(theirs, name)(*map(torch.tensor, arrays))
    except (RuntimeError, NotImplementedError):
        pytest.skip("PyTorch has it for floats only")
    found = getattr(ours, name)(*map(mg.tensor, arrays))
    assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_allclose(found.array, expected.numpy(), rtol=2e-6, atol=1e-6)
