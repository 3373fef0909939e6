"""Hypothesis strategies: the arrays, shapes, axes and indices that a tensor library meets, one set a family.

Ranks 0 to 4 with empty and broadcast axes; memory that is transposed, sliced, reversed or repeated; all
dtypes; ties, infinities and NaN; negative axes; index arrays with repeats.
"""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

FLOATS = ("float64", "float32")
INTEGERS = ("int64", "int32", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")


def shapes(min_dims=0, max_dims=4, max_side=3):
    """Shapes in which an axis may be empty."""
    return hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=0, max_side=max_side)


def numbers(dtype):
    """Few different numbers, so that there are ties; for floats also infinities and NaN."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        return st.integers(0 if kind == "u" else -4, 4)
    ordinary = st.sampled_from([-2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 1.0, 1.5, 3.0])
    return st.one_of(ordinary, ordinary, ordinary, st.sampled_from([np.inf, -np.inf, np.nan]))


@st.composite
def arrays(draw, shape, dtypes=DTYPES, finite=False):
    """An array of `shape` whose memory lies in one of the ways in which NumPy's views lie."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(shape) if isinstance(shape, st.SearchStrategy) else tuple(shape)
    values = numbers(dtype)
    if finite and dtype in FLOATS:
        values = values.filter(np.isfinite)
    array = np.asarray(draw(hnp.arrays(dtype, shape, elements=values)))
    return laid_out(array, draw(st.sampled_from(LAYOUTS)))


LAYOUTS = ("as it is", "as it is", "transposed", "reversed", "sliced", "repeated")


def laid_out(array, layout):
    """The same numbers in memory that is strided in another way (repeated: other numbers, stride 0)."""
    if not array.ndim or layout == "as it is":
        return array
    if layout == "transposed":
        return np.ascontiguousarray(array.T).T
    if layout == "reversed":
        back = (slice(None, None, -1),) * array.ndim
        return np.ascontiguousarray(array[back])[back]
    if layout == "sliced":
        wide = np.repeat(array, 2, axis=-1)
        return wide[..., ::2]
    return np.broadcast_to(array[:1], array.shape)


@st.composite
def broadcastable(draw, count=2, dtypes=DTYPES, max_dims=4):
    """Arrays whose shapes broadcast, of dtypes of their own; one may be a Python number."""
    drawn = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=max_dims, min_side=0, max_side=3)
    )
    operands = [draw(arrays(shape, dtypes)) for shape in drawn.input_shapes]
    if draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(1, count - 1))
        operands[place] = draw(st.sampled_from([2, -1, 0, 0.5, True]))
    return operands


@st.composite
def an_axis(draw, rank, wild=True):
    """An axis from either end; now and then one that is not there."""
    limit = max(rank, 1)
    reach = limit + 1 if wild and draw(st.integers(0, 9)) == 0 else limit
    return draw(st.integers(-reach, reach - 1))


@st.composite
def some_axes(draw, rank):
    """None, one axis, or several, now and then repeated or not there."""
    kind = draw(st.sampled_from(["none", "one", "several"]))
    if kind == "none":
        return None
    if kind == "one" or not rank:
        return draw(an_axis(rank))
    axes = draw(st.lists(an_axis(rank, wild=False), min_size=1, max_size=rank))
    distinct = {axis % rank for axis in axes}
    return tuple(axes) if len(distinct) == len(axes) or draw(st.integers(0, 4)) == 0 else tuple(distinct)


@st.composite
def places(draw, count, shape):
    """Whole numbers that index an axis of `count`, with repeats; now and then one too large."""
    wild = draw(st.integers(0, 9)) == 0
    high = max(count, 1) if wild else max(count - 1, 0)
    return np.asarray(draw(hnp.arrays("int64", shape, elements=st.integers(0, high))))


@st.composite
def an_index(draw, shape):
    """Basic, advanced, boolean, and mixed indices of an array of `shape`."""
    if draw(st.integers(0, 3)) == 0:
        return draw(hnp.basic_indices(shape, allow_newaxis=True))
    items = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["slice", "array", "number", "mask"]))
        if kind == "slice" or not n:
            start = draw(st.integers(-n - 1, n + 1))
            stop = draw(st.integers(-n - 1, n + 1))
            items.append(slice(start, stop, draw(st.sampled_from([1, 1, 2]))))
        elif kind == "array":
            items.append(
                draw(
                    hnp.arrays(
                        "int64",
                        draw(st.sampled_from([(2,), (1,), (2, 2), ()])),
                        elements=st.integers(-n, n - 1),
                    )
                )
            )
        elif kind == "number":
            items.append(draw(st.integers(-n, n - 1)))
        else:
            items.append(draw(hnp.arrays("bool", (n,))))
    return tuple(items)
