"""Each family of ops on whatever hypothesis draws: value, shape and dtype as PyTorch, errors only our own.

Where PyTorch refuses, we may refuse or go further; where it computes, so do we. The strategies are in
tests/slow/parity/strategies.py.
"""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.core.errors import MinigradError
from minigrad.nn import functional as F
from tests.slow.parity.strategies import (
    DTYPES,
    FLOATS,
    an_axis,
    an_index,
    arrays,
    broadcastable,
    places,
    shapes,
    some_axes,
)

torch = pytest.importorskip("torch")
TF = torch.nn.functional
pytestmark = [pytest.mark.parity]

settings.register_profile(
    "families", max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
often = settings(settings.get_profile("families"))


def as_ours(thing):
    if isinstance(thing, np.ndarray):
        return mg.as_tensor(thing)
    return type(thing)(map(as_ours, thing)) if isinstance(thing, list | tuple) else thing


def as_theirs(thing):
    if isinstance(thing, np.ndarray):
        return torch.tensor(np.array(thing, order="C"))
    return type(thing)(map(as_theirs, thing)) if isinstance(thing, list | tuple) else thing


def attempt(function, arguments, options):
    """(result, None) or (None, error)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments, **options), None
        except Exception as error:
            return None, error


# what PyTorch computes, and we refuse
REFUSED = (
    "integers to the power of",  # a negative one, where it rounds to 0
    "median needs at least one element",  # of integers, where PyTorch gives the smallest one
    "index 0 is out of range for axis 0 with 0 elements",  # where nothing would be added
    "Axes that are summed together must have equal lengths",  # tensordot of axes of lengths 1 and n
)


def assert_as_pytorch(ours, theirs, *arguments, rtol=None, **options):
    expected, refused = attempt(theirs, as_theirs(arguments), options)
    with np.errstate(all="ignore"):
        result, error = attempt(ours, as_ours(arguments), options)
    if error is not None:
        assert isinstance(error, MinigradError), f"a foreign error: {error!r}"
        assert refused is not None or any(text in str(error) for text in REFUSED), (
            f"PyTorch computes what is refused here: {error}"
        )
        assert len(str(error).splitlines()) >= 2, "the second line says what to do"
    elif refused is None:
        assert_same(result, expected, rtol)


def assert_same(ours, theirs, rtol=None):
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, rtol)
    elif isinstance(theirs, torch.Tensor):
        assert isinstance(ours, mg.Tensor)
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
        tolerance = rtol or (1e-12 if ours.dtype == np.float64 else 3e-6)
        np.testing.assert_allclose(ours.array, theirs.numpy(), rtol=tolerance, atol=tolerance)
    else:
        assert ours == theirs


def in_pytorch(name):
    return getattr(torch, name, None) or getattr(TF, name, None) or getattr(torch.Tensor, name)


def here(name):
    return getattr(mg, name, None) or getattr(F, name, None) or getattr(mg.Tensor, name)


# ---------------------------------------------------------------- elementwise

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "deg2rad", "erf",
    "erfc", "exp", "exp2", "expm1", "floor", "frac", "isfinite", "isinf", "isnan", "log", "log10",
    "log1p", "log2", "logical_not", "neg", "positive", "rad2deg", "reciprocal", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "nan_to_num", "relu",
    "relu6", "silu", "gelu", "selu", "elu", "celu", "mish", "softplus", "softsign", "hardtanh",
    "hardsigmoid", "hardswish", "leaky_relu", "logsigmoid", "tanhshrink", "softshrink", "hardshrink",
    "signbit", "isposinf", "isneginf",
]  # fmt: skip
BINARY = [
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le",
    "gt", "ge", "logical_and", "logical_or", "logical_xor", "atan2", "hypot", "remainder", "fmod",
    "floor_divide", "xlogy", "logaddexp", "logaddexp2", "copysign", "heaviside",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@often
@given(x=arrays(shapes()))
def test_elementwise_functions_of_one(name, x):
    if name == "gelu" and np.isinf(x).any():
        return  # where PyTorch gives NaN, in float32 alone
    if name == "hardswish" and np.isneginf(x).any():
        return  # where PyTorch gives -inf * 0, NaN, and we the limit, 0
    assert_as_pytorch(here(name), in_pytorch(name), x)


@pytest.mark.parametrize("name", BINARY)
@often
@given(operands=broadcastable())
def test_elementwise_functions_of_two(name, operands):
    assert_as_pytorch(here(name), in_pytorch(name), *operands)


@often
@given(operands=broadcastable(3), condition=arrays(shapes(max_dims=2), ("bool",)))
def test_choices(operands, condition):
    x, low, high = operands
    assert_as_pytorch(mg.where, torch.where, condition, x, low)
    assert_as_pytorch(mg.clamp, torch.clamp, x, low, high)
    assert_as_pytorch(mg.lerp, torch.lerp, x, low, high)


@often
@given(operands=broadcastable())
def test_operators(operands):
    x, y = operands
    for apply in (
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: a / b,
        lambda a, b: a**b,
        lambda a, b: a % b,
        lambda a, b: a // b,
        lambda a, b: a == b,
        lambda a, b: a >= b,
        lambda a, b: a & b,
        lambda a, b: a | b,
    ):
        assert_as_pytorch(apply, apply, x, y)


# ---------------------------------------------------------------- reductions, scans, sorting

OVER_AXES = ["sum", "mean", "amax", "amin", "logsumexp", "var", "std"]
OVER_ONE = ["prod", "max", "min", "argmax", "argmin", "all", "any", "median"]
SCANS = ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"]


@pytest.mark.parametrize("name", OVER_AXES)
@often
@given(x=arrays(shapes()), data=st.data(), keepdim=st.booleans())
def test_reductions_over_axes(name, x, data, keepdim):
    axes = data.draw(some_axes(x.ndim))
    if axes is None and name == "logsumexp":
        axes = tuple(range(x.ndim))
    assert_as_pytorch(here(name), in_pytorch(name), x, dim=axes, keepdim=keepdim)


@pytest.mark.parametrize("name", OVER_ONE)
@often
@given(x=arrays(shapes()), data=st.data(), keepdim=st.booleans())
def test_reductions_over_one_axis_or_all(name, x, data, keepdim):
    if data.draw(st.booleans()):
        assert_as_pytorch(here(name), in_pytorch(name), x)
    else:
        values = lambda f: (
            lambda *a, **k: r[0] if isinstance(r := f(*a, **k), tuple) else r
        )  # ties: any index
        assert_as_pytorch(
            values(here(name)), values(in_pytorch(name)), x, dim=data.draw(an_axis(x.ndim)), keepdim=keepdim
        )


@pytest.mark.parametrize("name", SCANS)
@often
@given(x=arrays(shapes()), data=st.data())
def test_scans(name, x, data):
    # PyTorch looks at the axis of an empty tensor in some scans only
    assert_as_pytorch(here(name), in_pytorch(name), x, dim=data.draw(an_axis(x.ndim, wild=x.size > 0)))


@often
@given(x=arrays(shapes()), data=st.data(), descending=st.booleans(), k=st.integers(0, 4))
def test_sorting(x, data, descending, k):
    dim = data.draw(an_axis(x.ndim))
    assert_as_pytorch(mg.sort, torch.sort, x, dim=dim, descending=descending, stable=True)
    ours = lambda x, **options: mg.topk(x, k, **options).values
    theirs = lambda x, **options: torch.topk(x, k, **options).values
    assert_as_pytorch(ours, theirs, x, dim=dim, largest=descending)


# ---------------------------------------------------------------- shaping


@often
@given(x=arrays(shapes()), data=st.data())
def test_shaping(x, data):
    axis, other = data.draw(an_axis(x.ndim)), data.draw(an_axis(x.ndim))
    n = data.draw(st.integers(-3, 4))
    for name, arguments in [
        ("transpose", (axis, other)), ("movedim", (axis, other)), ("squeeze", (axis,)), ("squeeze", ()),
        ("unsqueeze", (axis,)), ("flatten", (axis, other)), ("flip", ([axis],)), ("roll", (n, axis)),
        ("roll", (n,)), ("tril", (n,)), ("triu", (n,)), ("diagonal", (n, axis, other)), ("chunk", (n, axis)),
        ("split", (n, axis)), ("unbind", (axis,)), ("narrow", (axis, 0, n)), ("reshape", (-1,)),
        ("ravel", ()), ("trace", ()), ("t", ()), ("diag", (n,)), ("select", (axis, n)),
        ("tensor_split", (n, axis)),
    ]:  # fmt: skip
        assert_as_pytorch(getattr(mg.Tensor, name), getattr(torch.Tensor, name), x, *arguments)


@often
@given(x=arrays(shapes()), data=st.data())
def test_permuting_repeating_and_padding(x, data):
    order = data.draw(st.permutations(range(-x.ndim, 0)))
    assert_as_pytorch(mg.permute, torch.permute, x, order)
    counts = data.draw(st.lists(st.integers(0, 2), min_size=x.ndim, max_size=x.ndim + 1))
    assert_as_pytorch(mg.Tensor.repeat, torch.Tensor.repeat, x, counts)
    assert_as_pytorch(mg.tile, torch.tile, x, counts)
    assert_as_pytorch(
        mg.Tensor.expand,
        torch.Tensor.expand,
        x,
        [max(c, 1) * n for c, n in zip(counts, x.shape, strict=False)],
    )
    if x.ndim:
        pads = data.draw(
            st.lists(st.integers(-1, 2), min_size=2, max_size=2 * x.ndim).filter(lambda p: len(p) % 2 == 0)
        )
        assert_as_pytorch(F.pad, TF.pad, x, pads)


@often
@given(first=arrays(shapes(min_dims=1)), data=st.data())
def test_joining(first, data):
    axis = data.draw(an_axis(first.ndim))
    place = axis % first.ndim
    others = [
        data.draw(
            arrays(
                tuple(data.draw(st.integers(0, 3)) if i == place else n for i, n in enumerate(first.shape))
            )
        )
        for _ in range(data.draw(st.integers(0, 2)))
    ]
    assert_as_pytorch(mg.cat, torch.cat, [first, *others], dim=axis)
    alike = [data.draw(arrays(first.shape)) for _ in range(2)]
    assert_as_pytorch(mg.stack, torch.stack, alike, dim=axis)
    for name in ("hstack", "vstack", "dstack"):
        assert_as_pytorch(here(name), in_pytorch(name), [first, *others])


# ---------------------------------------------------------------- indexing


@often
@given(x=arrays(shapes()), data=st.data())
def test_indexing(x, data):
    index = data.draw(an_index(x.shape))
    negative = any(
        isinstance(i, slice) and (i.step or 1) < 0 for i in (index if isinstance(index, tuple) else (index,))
    )
    if negative:
        with pytest.raises(mg.OptionError, match="step must be positive"):
            mg.as_tensor(x)[index]
    else:
        assert_as_pytorch(
            lambda x, *i: x[i], lambda x, *i: x[i], x, *(index if isinstance(index, tuple) else (index,))
        )


@often
@given(x=arrays(shapes(min_dims=1)), data=st.data())
def test_indexing_along_an_axis(x, data):
    axis = data.draw(an_axis(x.ndim))
    count = x.shape[axis % x.ndim]
    line = data.draw(places(count, (data.draw(st.integers(0, 4)),)))
    grid_shape = tuple(
        data.draw(st.integers(0, n)) if i != axis % x.ndim else data.draw(st.integers(0, 4))
        for i, n in enumerate(x.shape)
    )
    grid = data.draw(places(count, grid_shape))
    assert_as_pytorch(mg.index_select, torch.index_select, x, axis, line)
    assert_as_pytorch(mg.gather, torch.gather, x, axis, grid)
    source = data.draw(arrays(grid_shape, (str(x.dtype),)))
    assert_as_pytorch(mg.scatter_add, torch.scatter_add, x, axis, grid, source)
    rows = data.draw(
        arrays(tuple(len(line) if i == axis % x.ndim else n for i, n in enumerate(x.shape)), (str(x.dtype),))
    )
    assert_as_pytorch(mg.index_add, torch.index_add, x, axis, line, rows)
    keep = data.draw(arrays(x.shape, ("bool",)))
    assert_as_pytorch(mg.masked_select, torch.masked_select, x, keep)
    assert_as_pytorch(mg.masked_fill, torch.masked_fill, x, keep, 1)


# ---------------------------------------------------------------- linear algebra


@st.composite
def matrices(draw, dtypes=FLOATS):
    """Two operands of matmul: vectors, matrices, batches that broadcast; now and then of clashing shapes."""
    n, m, p = (draw(st.integers(0, 3)) for _ in range(3))
    left = draw(st.sampled_from([(m,), (n, m), (2, n, m), (1, n, m), (2, 1, n, m)]))
    inner = m + 1 if draw(st.integers(0, 9)) == 0 else m
    right = draw(st.sampled_from([(inner,), (inner, p), (2, inner, p), (3, inner, p), (1, 2, inner, p)]))
    dtype = draw(st.sampled_from(dtypes))
    return draw(arrays(left, (dtype,), finite=True)), draw(arrays(right, (dtype,), finite=True))


@often
@given(operands=matrices((*FLOATS, "int64")))
def test_products(operands):
    x, y = operands
    for name in ("matmul", "mm", "bmm", "mv", "dot", "inner", "outer", "tensordot", "kron"):
        options = {"dims": 1} if name == "tensordot" else {}
        assert_as_pytorch(here(name), in_pytorch(name), x, y, **options)


EQUATIONS = [
    "ij,jk->ik", "...ij,...jk->...ik", "ij,ij", "bij,bjk->bik", "ij,jk->", "ii,i->i", "...i,...i->...",
    "ij,kj->ik", "i,j", "ij,j", "ij;jk", "ij,jk->iz",
]  # fmt: skip


@often
@given(operands=matrices(), equation=st.sampled_from(EQUATIONS))
def test_einsum(operands, equation):
    assert_as_pytorch(
        lambda *xs: mg.einsum(equation, *xs), lambda *xs: torch.einsum(equation, *xs), *operands
    )


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@often
@given(x=arrays(shapes(), FLOATS), data=st.data())
def test_softmaxes(name, x, data):
    assert_as_pytorch(getattr(F, name), getattr(TF, name), x, dim=data.draw(an_axis(x.ndim)))


@often
@given(x=arrays(shapes(min_dims=1), FLOATS, finite=True), data=st.data())
def test_normalization(x, data):
    assert_as_pytorch(F.layer_norm, TF.layer_norm, x, x.shape[-1:], rtol=1e-5)
    assert_as_pytorch(F.rms_norm, TF.rms_norm, x, x.shape[-1:], rtol=1e-5)
    assert_as_pytorch(F.normalize, TF.normalize, x, dim=data.draw(an_axis(x.ndim)))


LOSSES = [
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "soft_margin_loss",
    "kl_div",
    "binary_cross_entropy_with_logits",
]


@pytest.mark.parametrize("name", LOSSES)
@often
@given(
    x=arrays(shapes(max_dims=3), FLOATS), reduction=st.sampled_from(["none", "mean", "sum"]), data=st.data()
)
def test_losses(name, x, reduction, data):
    if name in ("binary_cross_entropy_with_logits", "kl_div") and np.isinf(x).any():
        return  # where PyTorch gives inf - inf or 0 * inf, NaN, and we the limit, such as 0
    target = data.draw(arrays(x.shape, (str(x.dtype),), finite=True))
    assert_as_pytorch(getattr(F, name), getattr(TF, name), x, target, reduction=reduction)


@often
@given(
    data=st.data(), reduction=st.sampled_from(["none", "mean", "sum"]), smoothing=st.sampled_from([0.0, 0.1])
)
def test_cross_entropy(data, reduction, smoothing):
    n = data.draw(st.integers(0, 3))
    classes = data.draw(st.integers(1, 3))
    x = data.draw(arrays((n, classes), FLOATS, finite=True))
    target = data.draw(places(classes, (n,)))
    options = {
        "reduction": reduction,
        "label_smoothing": smoothing,
        "ignore_index": data.draw(st.sampled_from([-100, 0])),
    }
    assert_as_pytorch(F.cross_entropy, TF.cross_entropy, x, target, **options)


def test_the_strategies_draw_what_they_promise():
    seen = set()

    @settings(settings.get_profile("families"), max_examples=400)
    @given(x=arrays(shapes()))
    def look(x):
        seen.add(str(x.dtype))
        seen.add(f"rank {x.ndim}")
        seen.update(["empty"] * (not x.size), ["negative stride"] * any(s < 0 for s in x.strides if x.size))
        seen.update(["zero stride"] * (0 in x.strides and x.size > 1))
        if x.dtype.kind == "f":
            seen.update(["nan"] * bool(np.isnan(x).any()), ["inf"] * bool(np.isinf(x).any()))

    look()
    assert seen >= {
        *DTYPES,
        *(f"rank {n}" for n in range(5)),
        "empty",
        "negative stride",
        "zero stride",
        "nan",
        "inf",
    }
