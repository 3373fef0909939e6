"""Every op made of pieces, where the pieces meet: all ways of computing it agree.

`tests/slow/parity/test_kinks.py` compares the same calls with PyTorch; what differs stands here.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from tests.slow.sweeps.kinks import BY_OTHERS, KINKS, WITHOUT, inf, nan, pieces

CALLS = [
    pytest.param(name, call, id=f"{name}-{i}")
    for name, calls in KINKS.items()
    for i, call in enumerate(calls)
]


def test_every_piecewise_op_has_kink_cases():
    """Add a row to KINKS of `tests/slow/sweeps/kinks.py`, by which it is compared, or a reason to WITHOUT."""
    assert pieces() - KINKS.keys() - BY_OTHERS.keys() - WITHOUT.keys() == set()
    assert set(BY_OTHERS.values()) <= KINKS.keys()


def values_and_gradients(function, call, create_graph=False):
    args, settings = call
    leaf = lambda a: mg.tensor(a, requires_grad=a.dtype.kind == "f")
    args = [leaf(a) if isinstance(a, np.ndarray) else a for a in args]
    settings = {name: leaf(a) if isinstance(a, np.ndarray) else a for name, a in settings.items()}
    inputs = [x for x in [*args, *settings.values()] if getattr(x, "requires_grad", False)]
    value = function(*args, **settings)
    values = [v for v in (value if isinstance(value, tuple) else (value,)) if not isinstance(v, bool)]
    outputs = [v.sum() for v in values if v.requires_grad]
    if not outputs:
        return [v.array for v in values]
    grads = mg.autograd.grad(outputs, inputs, create_graph=create_graph, allow_unused=True)
    return [v.array for v in values] + [
        np.zeros(x.shape) if g is None else g.array for g, x in zip(grads, inputs, strict=True)
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_kernels_and_definitions_agree_at_kinks(name, call):
    """By kernels and by definitions, on arrays and on tensors whose derivative can be taken again."""
    library = next(library for library in (mg, F, mg.special, mg.linalg) if hasattr(library, name))
    function = getattr(library, name)
    expected = values_and_gradients(function, call)
    others = [values_and_gradients(function, call, create_graph=True)]
    with mg.fused(False):
        others.append(values_and_gradients(function, call))
    with mg.kernels.use("numpy"):
        others.append(values_and_gradients(function, call))
    for other in others:
        for a, b in zip(other, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-12)


# ---------------------------------------------------------------- what PyTorch has otherwise


def slopes(function, *arrays):
    """The derivatives of the sum of the result, by float64 arrays."""
    xs = [mg.tensor(np.array(a, np.float64), requires_grad=True) for a in arrays]
    function(*xs).sum().backward()
    return [x.grad.tolist() for x in xs]


@pytest.mark.parametrize("name", ["remainder", "fmod"])
@pytest.mark.parametrize("divisor", [0.1, 0.001, 1e-4, 3.0, 0.3])
def test_remainder_gradients_are_consistent_with_the_value(name, divisor):
    """x - q y is the value, also where x / y is rounded up to the next integer."""
    x = np.array([7.0, -7.0, 1.0, -1.0, 0.001, 6.0, 0.9, -0.3])
    y = np.full(8, divisor)
    value = getattr(mg, name)(mg.tensor(x), mg.tensor(y)).array
    dx, dy = slopes(getattr(mg, name), x, y)
    assert dx == [1.0] * 8
    assert dy == [-round(q) for q in (x - value) / y]
    np.testing.assert_allclose(x + np.array(dy) * y, value, atol=1e-12)


@pytest.mark.parametrize("limits", [(1, 1), (1.0, 1.0), (0.0, -0.0)])
def test_clamp_with_equal_limits_has_zero_gradient(limits):
    points = [-1.0, 0.0, 1.0, 2.0]
    for function in (mg.clamp, mg.clip, mg.Tensor.clamp, lambda x, low, high: x.clone().clamp_(low, high)):
        assert slopes(lambda x, function=function: function(x, *limits), points) == [[0.0] * 4]
    mg.gradcheck(lambda x: mg.clamp(x, *limits), mg.tensor(points, dtype="float64", requires_grad=True))


def test_clamp_with_equal_tensor_limits_favors_the_upper_one():
    dx, low, high = slopes(mg.clamp, [0.0, 1.0, 2.0], [1.0] * 3, [1.0] * 3)
    assert (dx, low, high) == ([0, 0, 0], [0, 0, 0], [1, 1, 1])


def test_softshrink_with_lambda_0_is_the_identity():
    assert slopes(lambda x: F.softshrink(x, 0.0), [-1.0, 0.0, 1.0]) == [[1.0, 1.0, 1.0]]


def test_copysign_gradient_at_infinity():
    assert slopes(mg.copysign, [inf, -inf, 2.0, -0.0], [-1.0, -1.0, -0.0, 1.0]) == [
        [-1, 1, -1, 0],
        [0, 0, 0, 0],
    ]


def test_amax_and_amin_share_gradients_among_nans():
    assert slopes(mg.amax, [1.0, nan, nan]) == slopes(mg.amin, [1.0, nan, nan]) == [[0, 0.5, 0.5]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sinc_derivatives_near_0(dtype):
    """-pi**2 x / 3 and -pi**2 / 3, of which the quotient keeps no digit."""
    x = mg.tensor([0.0, 1e-30, -1e-8, 1e-4, 1e-3], dtype=dtype, requires_grad=True)
    (g,) = mg.autograd.grad(mg.sinc(x).sum(), x, create_graph=True)
    (h,) = mg.autograd.grad(g.sum(), x)
    square = (np.pi * x.array) ** 2
    np.testing.assert_allclose(
        g.array, -(np.pi**2) * x.array / 3 * (1 - square / 10), rtol=1e-6 if dtype == "float32" else 1e-10
    )
    np.testing.assert_allclose(
        h.array, -(np.pi**2) / 3 * (1 - square * 0.3), rtol=1e-6 if dtype == "float32" else 1e-10
    )


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((5.5,), [0, 1, 2, 3, 4]), ((0.5, 3.7), [0, 1, 2]), ((-2.9, 4.1), [-2, -1, 0, 1, 2, 3]),
     ((0, 3.7, 1.5), [0, 1, 2]), ((2.9, -1.0, -1.5), [2, 1, 0]), ((0.9,), []), ((3, -4, -3), [3, 0, -3]),
     ((5, 5), [])],
)  # fmt: skip
def test_integer_arange_truncates_its_bounds(bounds, expected):
    found = mg.arange(*bounds, dtype="int64")
    assert found.tolist() == expected
    assert found.dtype == mg.int64
    assert mg.arange(*map(int, bounds)).tolist() == expected


def test_integer_linspace_and_logspace_truncate_their_bounds():
    assert mg.linspace(0.9, 5.1, 3, dtype="int64").tolist() == [0, 2, 5]
    assert mg.logspace(0.5, 3.7, 4, dtype="int64").tolist() == [1, 10, 100, 1000]
    assert mg.linspace(1, 0, 1).tolist() == [1]
    assert mg.linspace(0, 1, 0).tolist() == []
    for bounds in ((0, 1, 0.5), (0, -1, -0.5)):
        for dtype in ("int64", "int32", "uint8"):
            with pytest.raises(mg.OptionError, match="step"):
                mg.arange(*bounds, dtype=dtype)
    for function in (mg.linspace, mg.logspace):
        for start in (nan, inf, 1e30):
            with pytest.raises(mg.OptionError, match="64 bits"):
                function(start, 1, 3, dtype="int64")
