"""Values and gradients of every op made of pieces, where the pieces meet: as PyTorch's, or it is named."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from tests.slow.sweeps.kinks import KINKS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity
CALLS = [
    pytest.param(name, call, id=f"{name}-{i}")
    for name, calls in KINKS.items()
    for i, call in enumerate(calls)
]
LIBRARIES = [(mg, torch), (F, torch.nn.functional), (mg.special, torch.special), (mg.linalg, torch.linalg)]
NAMES = {"absolute": "abs", "power": "pow"}  # PyTorch's

# Where the gradient is not PyTorch's, as a mask of the inputs. `sweeps/test_kinks.py` says what it is.
OTHERWISE = {
    "copysign": lambda x, y: np.isinf(x) | np.isnan(x),  # it divides the value by x
    "fmod": lambda x, y: np.isinf(y) | (x == 0),  # the quotient of the value, not the rounded one
    "clamp": lambda x, *limits: np.isnan(x),
    "power": lambda x, *y: (x == 0) & np.signbit(x),  # the root of -0.0: IEEE's power is +infinity
    "hardtanh": lambda x: np.isnan(x),  # PyTorch's depends on the place in the array
    "relu6": lambda x: np.isnan(x),
    "hardshrink": lambda x: np.isnan(x),
    "softshrink": lambda x: np.isnan(x),
    "amax": lambda x: np.isnan(x).any(),
    "amin": lambda x: np.isnan(x).any(),
}


def called(function, tensor, call, dtype):
    """(values, gradients of the sum of all, or None where there are none) of a call."""
    args, settings = call
    convert = lambda a: tensor(a.astype(dtype), True) if a.dtype.kind == "f" else tensor(a, False)
    args = [convert(a) if isinstance(a, np.ndarray) else a for a in args]
    settings = {name: convert(a) if isinstance(a, np.ndarray) else a for name, a in settings.items()}
    inputs = [x for x in [*args, *settings.values()] if getattr(x, "requires_grad", False)]
    value = function(*args, **settings)
    values = [v for v in (value if isinstance(value, tuple) else (value,)) if not isinstance(v, bool)]
    try:
        sum(v.sum() for v in values if v.requires_grad).backward()
        grads = [np.zeros(x.shape) if x.grad is None else np.array(x.grad.tolist()) for x in inputs]
    except (AttributeError, RuntimeError):  # no value requires one, or PyTorch has no derivative
        grads = None
    return [np.array(v.tolist()) for v in values], grads


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call"), CALLS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_and_gradients_at_kinks_match_pytorch(name, call, dtype):
    theirs = NAMES.get(name, name)
    mine, other = next(pair for pair in LIBRARIES if hasattr(pair[0], name) and hasattr(pair[1], theirs))
    values, grads = called(
        getattr(mine, name), lambda a, g: mg.tensor(a.copy(), requires_grad=g), call, dtype
    )
    expected, slopes = called(
        getattr(other, theirs), lambda a, g: torch.tensor(a, requires_grad=g), call, dtype
    )
    rtol = {"float64": 1e-12, "float32": 3e-6}[dtype]
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol, rtol)
    if grads is None or slopes is None:
        assert not any(np.any(g) for g in grads or ()), "PyTorch has no derivative"
        return
    rtol = 3e-8 if (name, dtype) == ("hardsigmoid", "float64") else 10 * rtol  # PyTorch's 1/6 is float32
    inputs = [a for a in (*call[0], *call[1].values()) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    other = OTHERWISE[name](*inputs) if name in OTHERWISE else False
    for a, b in zip(grads, slopes, strict=True):
        np.testing.assert_allclose(np.where(other, 0, a), np.where(other, 0, b), rtol, rtol)
