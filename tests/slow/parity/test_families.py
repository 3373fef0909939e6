"""Ops on whatever hypothesis draws: value, shape and dtype as PyTorch, errors only our own.

Ranks 0 to 4 with empty and broadcast axes; memory that is transposed, sliced, reversed or repeated; ties,
infinities and NaN; negative axes; index arrays with repeats. Where PyTorch refuses, we may refuse or go
further; where it computes, so do we.
"""

import operator
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import minigrad as mg
from minigrad.core.errors import MinigradError
from minigrad.nn import functional as F

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
often = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

# what PyTorch computes, and we refuse
REFUSED = (
    "integers to the power of",  # a negative one, where it rounds to 0
    "median needs at least one element",  # of integers, where PyTorch gives the smallest one
    "with 0 elements.\n",  # where nothing would be added
    "Axes that are summed together must have equal lengths",  # tensordot of axes of lengths 1 and n
)


def converted(thing, make):
    if isinstance(thing, np.ndarray):
        return make(np.array(thing, order="C") if make is torch.tensor else thing)
    return type(thing)(converted(x, make) for x in thing) if isinstance(thing, list | tuple) else thing


def attempt(function, make, arguments, options):
    """(result, None) or (None, error)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*converted(arguments, make), **options), None
        except Exception as error:
            return None, error


def assert_as_pytorch(ours, theirs, *arguments, **options):
    expected, refused = attempt(theirs, torch.tensor, arguments, options)
    result, error = attempt(ours, mg.as_tensor, arguments, options)
    if error is not None:
        assert isinstance(error, MinigradError), f"a foreign error: {error!r}"
        assert refused is not None or any(text in str(error) for text in REFUSED), error
        assert len(str(error).splitlines()) >= 2, "the second line says what to do"
    elif refused is None:
        assert_same(result, expected)


def assert_same(ours, theirs):
    if isinstance(theirs, list | tuple):
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    elif isinstance(theirs, torch.Tensor):
        assert (ours.shape, f"torch.{ours.dtype}") == (theirs.shape, str(theirs.dtype))
        tolerance = 1e-12 if ours.dtype == np.float64 else 3e-6
        np.testing.assert_allclose(ours.array, theirs.numpy(), rtol=tolerance, atol=tolerance)
    else:
        assert ours == theirs


# ---------------------------------------------------------------- what is drawn

FLOATS = ("float64", "float32")
DTYPES = (*FLOATS, "int64", "int32", "uint8", "bool")
LAYOUTS = ("as it is", "as it is", "transposed", "reversed", "sliced", "repeated")


def shapes(min_dims=0, max_dims=4):
    """Shapes in which an axis may be empty."""
    return hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=0, max_side=3)


def numbers(dtype, finite):
    """Few different numbers, so that there are ties; for floats also infinities and NaN."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        return st.integers(0 if kind == "u" else -4, 4)
    ordinary = st.sampled_from([-2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 1.0, 1.5, 3.0])
    extreme = st.sampled_from([np.inf, -np.inf, np.nan])
    return ordinary if finite else st.one_of(ordinary, ordinary, ordinary, extreme)


@st.composite
def arrays(draw, shape, dtypes=DTYPES, finite=False):
    """An array of `shape` whose memory lies in one of the ways in which NumPy's views lie."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(shape) if isinstance(shape, st.SearchStrategy) else tuple(shape)
    array = np.asarray(draw(hnp.arrays(dtype, shape, elements=numbers(dtype, finite))))
    layout = draw(st.sampled_from(LAYOUTS))
    back = (slice(None, None, -1),) * array.ndim
    if not array.ndim or layout == "as it is":
        return array
    if layout == "transposed":
        return np.ascontiguousarray(array.T).T
    if layout == "reversed":
        return np.ascontiguousarray(array[back])[back]
    if layout == "sliced":
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return np.broadcast_to(array[:1], array.shape)


@st.composite
def axis_of(draw, x, wild=True):
    """An axis from either end; now and then one that is not there."""
    limit = max(x.ndim, 1)
    reach = limit + 1 if wild and draw(st.integers(0, 9)) == 0 else limit
    return draw(st.integers(-reach, reach - 1))


@st.composite
def axes_of(draw, x):
    """None, one axis, or several, now and then repeated or not there."""
    kind = draw(st.sampled_from(["none", "one", "several"]))
    if kind == "none":
        return None
    if kind == "one" or not x.ndim:
        return draw(axis_of(x))
    axes = draw(st.lists(axis_of(x, wild=False), min_size=1, max_size=x.ndim))
    distinct = {axis % x.ndim for axis in axes}
    return tuple(axes) if len(distinct) == len(axes) or draw(st.integers(0, 4)) == 0 else tuple(distinct)


@st.composite
def places(draw, count, shape):
    """Whole numbers that index an axis of `count`, with repeats; now and then one too large."""
    high = max(count, 1) if draw(st.integers(0, 9)) == 0 else max(count - 1, 0)
    return np.asarray(draw(hnp.arrays("int64", shape, elements=st.integers(0, high))))


# ---------------------------------------------------------------- one tensor, and an axis or more

# the rest of the arguments of each function of x; `draw` draws
number = st.integers(-3, 4)
over_axes = lambda draw, x: {"dim": draw(axes_of(x)), "keepdim": draw(st.booleans())}
over_one = lambda draw, x: draw(
    st.sampled_from([{}, {"dim": draw(axis_of(x)), "keepdim": draw(st.booleans())}])
)
# PyTorch looks at the axis of an empty tensor in some functions only
along = lambda draw, x: {"dim": draw(axis_of(x, wild=x.size > 0))}
of_axis = lambda draw, x: (draw(axis_of(x)),)
of_axes = lambda draw, x: (draw(axis_of(x)), draw(axis_of(x)))
of_number = lambda draw, x: (draw(number),)
of_both = lambda draw, x: (draw(number), draw(axis_of(x, wild=x.size > 0)))
nothing = lambda draw, x: ()
counts = lambda draw, x: (draw(st.lists(st.integers(0, 2), min_size=x.ndim, max_size=x.ndim + 1)),)

CALLS = {
    **dict.fromkeys(["sum", "mean", "amax", "amin", "var", "std"], over_axes),
    "logsumexp": lambda draw, x: {
        "dim": draw(axes_of(x).map(lambda d: tuple(range(x.ndim)) if d is None else d))
    },
    **dict.fromkeys(["prod", "max", "min", "argmax", "argmin", "all", "any", "median"], over_one),
    **dict.fromkeys(["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"], along),
    "sort": lambda draw, x: {"dim": draw(axis_of(x)), "descending": draw(st.booleans()), "stable": True},
    "topk": lambda draw, x: (draw(st.integers(0, 4)), draw(axis_of(x)), draw(st.booleans())),
    **dict.fromkeys(["transpose", "movedim", "flatten"], of_axes),
    **dict.fromkeys(["squeeze", "unsqueeze", "unbind"], of_axis),
    **dict.fromkeys(["tril", "triu", "diag"], of_number),
    **dict.fromkeys(["chunk", "split", "tensor_split"], of_both),
    **dict.fromkeys(["trace", "t", "ravel"], nothing),
    **dict.fromkeys(["repeat", "tile"], counts),
    "flip": lambda draw, x: ([draw(axis_of(x))],),
    "roll": lambda draw, x: draw(st.sampled_from([of_number, of_both]))(draw, x),
    "diagonal": lambda draw, x: (draw(number), *of_axes(draw, x)),
    "narrow": lambda draw, x: (draw(axis_of(x)), 0, draw(number)),
    "select": lambda draw, x: (draw(axis_of(x)), draw(number)),
    "permute": lambda draw, x: (draw(st.permutations(range(-x.ndim, 0))),),
    "expand": lambda draw, x: ([max(c, 1) * n for c, n in zip(*counts(draw, x), x.shape, strict=False)],),
    **dict.fromkeys(["softmax", "log_softmax"], along),
}
VALUES = {"max", "min", "median", "topk"}  # of ties any index


@pytest.mark.parametrize("name", CALLS)
@often
@given(data=st.data())
def test_ops_of_one_tensor(name, data):
    x = data.draw(arrays(shapes(), FLOATS if "softmax" in name else DTYPES))
    rest = CALLS[name](data.draw, x)
    args, options = (rest, {}) if isinstance(rest, tuple) else ((), rest)
    first = lambda result: result[0] if name in VALUES and isinstance(result, tuple) else result
    of = lambda library: lambda *xs, **settings: first(getattr(library.Tensor, name)(*xs, **settings))
    assert_as_pytorch(of(mg), of(torch), x, *args, **options)


@often
@given(x=arrays(shapes(min_dims=1)), data=st.data())
def test_padding(x, data):
    pads = data.draw(st.lists(st.integers(-1, 2), min_size=2, max_size=2 * x.ndim))
    assert_as_pytorch(F.pad, torch.nn.functional.pad, x, pads[: len(pads) // 2 * 2])


# ---------------------------------------------------------------- several tensors


@often
@given(
    shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3), data=st.data()
)
def test_operators(shapes, data):
    x, y = (data.draw(arrays(shape)) for shape in shapes.input_shapes)
    y = data.draw(st.sampled_from([y, y, y, 2, -1, 0, 0.5, True]))
    for apply in (
        operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod,
        operator.floordiv, operator.eq, operator.ge, operator.and_, operator.or_,
    ):  # fmt: skip
        assert_as_pytorch(apply, apply, x, y)


@often
@given(first=arrays(shapes(min_dims=1)), data=st.data())
def test_joining(first, data):
    axis = data.draw(axis_of(first, wild=first.size > 0))  # where PyTorch passes over empty vectors
    others = []
    for _ in range(data.draw(st.integers(0, 2))):
        shape = list(first.shape)
        shape[axis % first.ndim] = data.draw(st.integers(0, 3))
        others.append(data.draw(arrays(shape)))
    assert_as_pytorch(mg.cat, torch.cat, [first, *others], dim=axis)
    assert_as_pytorch(mg.stack, torch.stack, [data.draw(arrays(first.shape)) for _ in range(2)], dim=axis)
    for name in ("hstack", "vstack", "dstack"):
        assert_as_pytorch(getattr(mg, name), getattr(torch, name), [first, *others])


@often
@given(x=arrays(shapes(min_dims=1)), data=st.data())
def test_indexing_along_an_axis(x, data):
    axis = data.draw(axis_of(x))
    place = axis % x.ndim
    count = x.shape[place]
    line = data.draw(places(count, (data.draw(st.integers(0, 4)),)))
    grid_shape = tuple(data.draw(st.integers(0, 4 if i == place else n)) for i, n in enumerate(x.shape))
    grid = data.draw(places(count, grid_shape))
    source = data.draw(arrays(grid_shape, (str(x.dtype),)))
    rows = data.draw(arrays((*x.shape[:place], len(line), *x.shape[place + 1 :]), (str(x.dtype),)))
    keep = data.draw(arrays(x.shape, ("bool",)))
    for name, *rest in [
        ("index_select", axis, line), ("gather", axis, grid), ("scatter_add", axis, grid, source),
        ("index_add", axis, line, rows), ("masked_select", keep), ("masked_fill", keep, 1),
    ]:  # fmt: skip
        assert_as_pytorch(getattr(mg, name), getattr(torch, name), x, *rest)


@st.composite
def matrices(draw, dtypes):
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
    for name in ("matmul", "mm", "bmm", "mv", "dot", "inner", "outer", "tensordot", "kron"):
        options = {"dims": 1} if name == "tensordot" else {}
        assert_as_pytorch(getattr(mg, name), getattr(torch, name), *operands, **options)


EQUATIONS = [
    "ij,jk->ik", "...ij,...jk->...ik", "ij,ij", "bij,bjk->bik", "ij,jk->", "ii,i->i", "...i,...i->...",
    "ij,kj->ik", "i,j", "ij,j", "ij;jk", "ij,jk->iz",
]  # fmt: skip


@often
@given(operands=matrices(FLOATS), equation=st.sampled_from(EQUATIONS))
def test_einsum(operands, equation):
    ours, theirs = (lambda *xs, library=library: library.einsum(equation, *xs) for library in (mg, torch))
    assert_as_pytorch(ours, theirs, *operands)
