"""Products that can be captured: cuBLAS is asked for the right ones, on the stand-in."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels
from minigrad.kernels.cuda import cublas as ours
from minigrad.kernels.cuda import cublaslt
from tests.slow import standin
from tests.slow.standin import cublas

# ---------------------------------------------------------------- products


@pytest.fixture
def blas():
    with standin.installed() as cupy, cublas.installed() as bindings, kernels.use("cupy"):
        mg.tensor(0.0, device="cuda")
        yield cupy, bindings


def numbers(*shape):
    return np.random.default_rng(math.prod(shape)).normal(size=shape)


OPERANDS = {
    "matrices": lambda: (numbers(3, 4), numbers(4, 5)),
    "transposed": lambda: (numbers(4, 3).T, numbers(5, 4).T),
    "cut out": lambda: (numbers(6, 9)[1:4, 2:6], numbers(9, 8)[3:7, 1:6]),
    "cut out and transposed": lambda: (numbers(9, 6)[2:6, 1:4].T, numbers(8, 9)[1:6, 3:7].T),
    "every other": lambda: (numbers(3, 8)[:, ::2], numbers(4, 5)[::-1]),
    "a row and a column": lambda: (numbers(1, 4), numbers(4, 1)),
    "a column and a row": lambda: (numbers(3, 9)[:, 2:3], numbers(1, 5)),
    "one number": lambda: (numbers(1, 1), numbers(1, 1)),
    "expanded": lambda: (np.broadcast_to(numbers(4), (3, 4)), np.broadcast_to(numbers(5), (4, 5))),
    "a batch": lambda: (numbers(2, 3, 4), numbers(2, 4, 5)),
    "a batch and a matrix": lambda: (numbers(2, 3, 4), numbers(4, 5)),
    "a transposed batch and a matrix": lambda: (numbers(2, 4, 3).swapaxes(1, 2), numbers(4, 5)),
    "a matrix and a batch": lambda: (numbers(3, 4), numbers(2, 4, 5)),
    "batches of batches": lambda: (numbers(2, 3, 3, 4), numbers(2, 3, 5, 4).swapaxes(-1, -2)),
    "expanded batches": lambda: (numbers(2, 1, 3, 4), numbers(6, 4, 5)),
    "heads side by side": lambda: (
        numbers(2, 7, 3, 4).transpose(0, 2, 1, 3),
        numbers(2, 6, 3, 4).transpose(0, 2, 3, 1),
    ),
    "one head of many": lambda: (numbers(2, 7, 3, 4)[:, :, 1], numbers(2, 4, 5)),
}


def rounded(x, dtype):
    """The array in a dtype, lying in memory as it did."""
    memory = x if x.base is None else x.base if x.base.base is None else x.base.base
    other = memory.astype(dtype, order="C")
    first = (x.ctypes.data - memory.ctypes.data) // x.itemsize
    strides = [step // x.itemsize * other.itemsize for step in x.strides]
    return np.lib.stride_tricks.as_strided(other.reshape(-1)[first:], x.shape, strides)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", OPERANDS)
def test_matrix_products_use_cublas(name, dtype, blas):
    _, bindings = blas
    a, b = (rounded(x, mg.tensor(0.0, dtype=dtype).dtype) for x in OPERANDS[name]())
    found = ours.product(standin.clad(a), standin.clad(b)).get()
    assert bindings.calls
    assert found.dtype == a.dtype
    wide = np.float64 if dtype == "float64" else np.float32
    expected = a.astype(wide) @ b.astype(wide)
    np.testing.assert_allclose(
        found.astype(wide), expected.astype(a.dtype).astype(wide),
        rtol={"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype], atol=1e-5,
    )  # fmt: skip


def set_support(library, lt):
    """Let cuBLASLt support all epilogues ("knows"), or none, and say so in one of three ways."""
    library.knows = lt == "knows"
    library.refuses = lt if lt in ("error", "state") else ""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("lt", ["knows", "knows none", "error", "state"])
def test_a_bias_is_added_before_rounding(dtype, lt, blas):
    cupy, bindings = blas
    set_support(bindings.lt, lt)
    dtype = mg.tensor(0.0, dtype=dtype).dtype
    x, w, b = (numbers(*shape).astype(dtype) for shape in ((2, 3, 4), (5, 4), (5,)))
    wide = np.float64 if dtype == np.float64 else np.float32
    for number in (1, 2):
        found = ours.affine(*map(cupy.array, (x, w, b))).get()
        assert found.dtype == dtype
        x, w, b = (a.astype(wide) for a in (x, w, b))
        expected = (x @ w.T + b).astype(dtype).astype(wide)
        np.testing.assert_allclose(found.astype(wide), expected, rtol=1e-5)
        by_lt = lt == "knows" and wide == np.float32
        assert (len(bindings.lt.calls), len(bindings.calls)) == ((number, 0) if by_lt else (0, number))
        x, w, b = (a.astype(dtype) for a in (x, w, b))
        b = -b  # the second time with another bias, on the same plan


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("lt", ["knows", "knows none", "error", "state"])
def test_gradients_of_16_bit_biases_come_with_the_weights(dtype, lt, blas):
    """In one call of cuBLASLt; otherwise, and in 32 bits, by a product and a sum."""
    cupy, bindings = blas
    set_support(bindings.lt, lt)
    dtype = mg.tensor(0.0, dtype=dtype).dtype
    x, w, b, g = (numbers(*shape).astype(dtype) for shape in ((3, 8, 8), (16, 8), (16,), (3, 8, 16)))
    _, gradient = ours.linear_with(ours.sum_of_rows, *map(cupy.array, (x, w, b)))
    bindings.lt.calls.clear()
    found = [d.get() for d in gradient(cupy.array(g), (True, True, True))]
    assert {d.dtype for d in found} == {dtype}
    by_lt = lt == "knows" and dtype != np.float32
    assert bindings.lt.calls == ([(8, 16, 68, "BGRADB")] if by_lt else [])
    x, w, g = (a.astype(np.float32) for a in (x, w, g))
    expected = g @ w, np.einsum("bto,bti->oi", g, x), g.sum((0, 1))
    for a, exact in zip(found, expected, strict=True):
        rounded = exact.astype(dtype).astype(np.float32)
        np.testing.assert_allclose(a.astype(np.float32), rounded, rtol=1e-2, atol=1e-5)
    alone = gradient(cupy.array(g.astype(dtype)), (False, False, True))  # the weight is frozen
    np.testing.assert_allclose(alone[2].get().astype(np.float32), found[2].astype(np.float32), rtol=1e-2)


@pytest.mark.parametrize("name", ["cut out", "cut out and transposed", "transposed"])
def test_a_bias_is_added_to_products_of_views(name, blas):
    _, bindings = blas
    x, w = (rounded(a, np.dtype(np.float32)) for a in OPERANDS[name]())
    bias = numbers(w.shape[1]).astype(np.float32)
    found = ours.affine(standin.clad(x), standin.clad(w.T), standin.clad(bias)).get()
    np.testing.assert_allclose(found, x @ w + bias, rtol=1e-5, atol=1e-6)
    aligned = not any(a.ctypes.data % 16 for a in (x, w, bias))
    assert len(bindings.lt.calls) == aligned


def test_unaligned_biases_are_added_without_an_epilogue(blas):
    cupy, bindings = blas
    x, w, b = (cupy.array(numbers(*shape).astype(np.float32)) for shape in ((3, 4), (5, 4), (6,)))
    found = ours.affine(x, w, b[1:]).get()
    assert not bindings.lt.calls
    np.testing.assert_allclose(found, x.get() @ w.get().T + b.get()[1:], rtol=1e-5)


def test_cublaslt_descriptors_are_freed_with_their_plan(blas, monkeypatch):
    """Where cuBLASLt knows no way, when a plan makes room for another, and when all are forgotten."""
    cupy, bindings = blas
    cublaslt._plan.cache_clear()
    things = bindings.lt.things
    x, w, b = (cupy.array(numbers(*shape).astype(np.float32)) for shape in ((600, 4), (5, 4), (5,)))
    bindings.lt.refuses = "state"
    ours.affine(x[:600], w, b)
    assert [list(thing) for thing in things.values()] == [["handle"]]
    bindings.lt.refuses = ""
    for length in range(1, cublaslt.MAX_PLANS + 20):
        ours.affine(x[:length], w, b)
    assert len(things) == 1 + 4 * cublaslt.MAX_PLANS  # of each a description, and three layouts
    cublaslt._plan.cache_clear()
    assert len(things) == 1


def test_streams_have_separate_workspaces(blas):
    """What one stream writes there while it multiplies, no other writes over."""
    cupy, bindings = blas
    x, w, b = (cupy.array(numbers(*shape).astype(np.float32)) for shape in ((3, 4), (5, 4), (5,)))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for stream in streams * 2:
        with stream:
            ours.product(x, w.T), ours.affine(x, w, b)
    for workspaces in (bindings.workspaces, bindings.lt.workspaces):
        one, other = (workspaces[stream.ptr] for stream in streams)
        assert len(one) == len(other) == 1
        assert one.isdisjoint(other)
    assert len(bindings.handles) == len(streams)
    assert sum("handle" in thing for thing in bindings.lt.things.values()) == 1


def test_threads_multiply_on_streams_of_their_own(blas):
    """One may begin while another has asked for cuBLAS and not used it yet."""
    cupy, bindings = blas
    x = cupy.array(numbers(3, 3))
    one, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with one:
        asked = ours.handle_in_use(cupy)
    with other:
        ours.product(x, x)
    assert bindings.handles[asked.handle]["stream"] == asked.stream == one.ptr


def test_the_precision_of_float32_products_is_chosen(blas):
    cupy, bindings = blas
    x = cupy.array(numbers(8, 8).astype(np.float32))
    exact = ours.product(x, x).get()
    mg.set_float32_matmul_precision("high")
    try:
        rounded = ours.product(x, x).get()
    finally:
        mg.set_float32_matmul_precision("highest")
    assert [call[-1] for call in bindings.calls] == [68, 77]
    assert 0 < abs(exact - rounded).max() < 0.05


def test_views_are_not_copied(blas, monkeypatch):
    cupy, bindings = blas
    monkeypatch.setattr(cupy, "array", lambda *a, **k: pytest.fail("a copy"))
    for name in ("transposed", "cut out", "cut out and transposed", "batches of batches", "one head of many"):
        a, b = OPERANDS[name]()
        ours.product(standin.clad(a), standin.clad(b))
    assert len(bindings.calls) == 5


def test_shapes_that_do_not_fit_are_refused(blas):
    with pytest.raises(mg.ShapeError, match="matmul of shapes"):
        mg.ones(2, 3, device="cuda") @ mg.ones(2, 3, device="cuda")
