"""Reductions, scans, sorting and counting where they could go wrong: zeros, ties, NaN, nothing at all."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import DtypeError, RangeError, ShapeError
from minigrad.nn import functional as F

NAN, INF = math.nan, math.inf


def slopes(function, values, dtype="float64"):
    """The gradient of the sum of what `function` gives."""
    x = mg.tensor(values, dtype=dtype, requires_grad=True)
    function(x).sum().backward()
    return x.grad.array


def test_a_product_has_a_gradient_where_factors_are_zero():
    np.testing.assert_array_equal(slopes(mg.prod, [2.0, 0.0, 3.0]), [0, 6, 0])
    np.testing.assert_array_equal(slopes(mg.prod, [2.0, 0.0, 0.0]), [0, 0, 0])
    x = mg.tensor([2.0, 0.0, 0.0], dtype="float64", requires_grad=True)
    hessian = mg.func.hessian(mg.prod)(x).array
    np.testing.assert_array_equal(hessian, [[0, 0, 0], [0, 0, 2], [0, 2, 0]])


def test_cumprod_has_gradients_at_zeros():
    np.testing.assert_array_equal(slopes(lambda x: x.cumprod(0), [2.0, 0.0, 3.0]), [1, 8, 0])
    big = mg.tensor([0.0, 1e200, 1e200], dtype="float64")
    np.testing.assert_array_equal(big.cumprod(0).array, [0, 0, 0])


def test_logcumsumexp_does_not_overflow():
    values = [-INF, 1000.0, -1000.0, 1000.0]
    x = mg.tensor(values, dtype="float64")
    np.testing.assert_allclose(x.logcumsumexp(0).array, [-INF, 1000, 1000, 1000 + math.log(2)])
    np.testing.assert_allclose(slopes(lambda x: x.logcumsumexp(0)[1:], values), [0, 2.5, 0, 0.5])


def test_reductions_cast_to_dtype_first():
    x = mg.tensor([1.5, 2.5], requires_grad=True)
    for function in (mg.sum, mg.mean, mg.prod):
        assert function(x, dtype="float64").dtype == "float64"
        assert not function(x.detach(), dtype="float64").requires_grad
    assert mg.autograd.grad(x.sum(dtype="float64"), [x])[0].dtype == "float32"
    assert x.sum(dtype="int64").item() == 3
    assert not x.sum(dtype="int64").requires_grad
    with pytest.raises(DtypeError, match="floating"):
        x.mean(dtype="int64")


def test_variance_with_zero_degrees_of_freedom():
    assert mg.tensor([1.0, 2.0]).var(correction=2).item() == INF
    assert math.isnan(mg.tensor([1.0]).var().item())
    assert math.isnan(mg.zeros(0).var().item())
    assert slopes(mg.std, [2.0, 2.0]).tolist() == [0, 0]


def test_nan_is_larger_than_every_number():
    x = mg.tensor([1.0, NAN, 2.0, NAN])
    assert x.sort().indices.tolist() == [0, 2, 1, 3]
    assert x.sort(descending=True).indices.tolist() == [1, 3, 2, 0]
    assert x.topk(3).indices.tolist() == [1, 3, 2]
    assert x.topk(3, largest=False).indices.tolist() == [0, 2, 1]
    assert x.median(0).indices.item() == 1
    assert x.nanmedian().item() == x.nanquantile(0.3, interpolation="lower").item() == 1
    assert math.isnan(x.quantile(0.1).item())
    assert math.isnan(x.median().item())
    assert x.cummax(0).indices.tolist() == [0, 1, 1, 3]


def test_quantile_without_dim_respects_keepdim():
    x = mg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert x.quantile(0.5, keepdim=True).tolist() == [[3.5]]
    assert x.nanquantile(mg.tensor([0.0, 1.0]), keepdim=True).tolist() == [[[1]], [[6]]]
    assert x.quantile(1.0, dim=1, keepdim=True).tolist() == [[3], [6]]


def test_sorting_is_stable():
    x = mg.tensor([2, 1, 2, 1])
    assert x.sort().indices.tolist() == [1, 3, 0, 2]
    assert x.sort(descending=True).indices.tolist() == [0, 2, 1, 3]
    assert x.topk(3).indices.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "amax", "max", "median", "sort", "cumsum", "logsumexp"]
)
@pytest.mark.parametrize("dim", [0, -1])
def test_reductions_of_0d_tensors_accept_dim_0(name, dim):
    result = getattr(mg.tensor(3.0), name)(dim)
    values = result[0] if isinstance(result, tuple) else result
    assert values.shape == ()
    assert values.item() == 3
    with pytest.raises(RangeError):
        getattr(mg.tensor(3.0), name)(1)


@pytest.mark.parametrize(
    "name", ["amax", "amin", "max", "min", "argmax", "argmin", "median", "mode", "aminmax"]
)
def test_extremes_of_empty_tensors_raise(name):
    with pytest.raises(ShapeError, match="no elements, in shape"):
        getattr(mg.zeros((0, 3)), name)(dim=0)
    along = getattr(mg.zeros((0, 3)), name)(dim=1)
    assert (along[0] if isinstance(along, tuple) else along).shape == (0,)


def test_reductions_of_empty_tensors():
    empty = mg.zeros((0, 3))
    assert empty.sum().item() == 0
    assert empty.prod(0).tolist() == [1, 1, 1]
    assert math.isnan(empty.mean().item())
    assert empty.logsumexp(0).tolist() == [-INF] * 3
    assert math.isnan(empty.median().item())


def test_repeated_or_out_of_range_axes_are_rejected():
    x = mg.zeros((2, 3))
    for name in ("sum", "amax", "logsumexp"):
        with pytest.raises(ShapeError):
            getattr(x, name)((1, -1))
        with pytest.raises(RangeError):
            getattr(x, name)(2)
        assert getattr(x, name)([0, 1]).shape == ()
    with pytest.raises(RangeError, match="k = 4 for 3"):
        x.topk(4)


def test_bucketize_and_bincount():
    assert mg.bucketize(mg.tensor([3, 1, 1, 0]), mg.tensor([1, 2, 3]), right=True).tolist() == [3, 1, 1, 0]
    with pytest.raises(RangeError, match="non-negative integers, got -1"):
        mg.tensor([-1]).bincount()


# ---------------------------------------------------------------- sums of many numbers in float32

TENTH = float(np.float32(0.1))


def tenths(*shape):
    return mg.tensor(np.full(shape, 0.1, np.float32), requires_grad=True)


LONG = {
    "columns": lambda: tenths(500_000, 4).sum(0),
    "a column": lambda: tenths(500_000, 1).sum(0),
    "rows": lambda: tenths(4, 500_000).sum(1),
    "all": lambda: tenths(500_000, 4)[:, :1].sum(),
    "transposed": lambda: tenths(4, 500_000).T.sum(0),
    "transposed columns": lambda: tenths(500_000, 4).T.sum(1),
    "the middle": lambda: tenths(2, 500_000, 3).sum(1),
    "outer and inner": lambda: tenths(5_000, 3, 100).sum((0, 2)),
    "with gaps": lambda: tenths(500_000, 6)[:, ::2].sum(0),
    "reversed": lambda: tenths(500_000, 3).flip(1).sum(0, keepdim=True),
    "mean": lambda: tenths(500_000, 4).mean(0) * 500_000,
    "std": lambda: mg.cat([tenths(500_000, 4), 3 * tenths(500_000, 4)]).std(0) * 500_000,
    "length": lambda: tenths(500_000, 4).norm(p=1, dim=0),
    "root of squares": lambda: tenths(500_000, 4).norm(dim=0) * 500_000**0.5,
    "logsumexp": lambda: tenths(500_000, 4).log().logsumexp(0).exp(),
    "cumsum": lambda: tenths(500_000).cumsum(0)[-1],
    "logcumsumexp": lambda: tenths(500_000).log().logcumsumexp(0)[-1].exp(),
}


@pytest.mark.parametrize("name", LONG)
def test_long_float32_sums_are_accurate(name):
    np.testing.assert_allclose(LONG[name]().numpy(), 500_000 * TENTH, rtol=3e-6)


def test_running_sums_and_products_round_once():
    np.testing.assert_allclose(tenths(500_000).cumsum(0).numpy(), TENTH * np.arange(1, 500_001), rtol=2e-7)
    factor = np.float32(1 + 1e-5)
    product = mg.tensor(np.full(100_000, factor)).cumprod(0)
    np.testing.assert_allclose(product.numpy()[-1], float(factor) ** 100_000, rtol=2e-7)


BIASED = {
    "add": lambda x, b: x + b,
    "linear": lambda x, b: F.linear(x, mg.ones(4, 3), b),
    "layer_norm": lambda x, b: F.layer_norm(x, (3,), None, b),
}


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("fused", [True, False])
def test_the_gradient_of_a_bias_over_half_a_million_rows(name, fused):
    x = tenths(500_000, 3)
    b = mg.zeros(4 if name == "linear" else 3, requires_grad=True)
    with mg.fused(fused):
        y = BIASED[name](x.detach(), b)
        y.backward(mg.tensor(np.full(y.shape, 0.1, np.float32)))
    np.testing.assert_allclose(b.grad.numpy(), 500_000 * TENTH, rtol=3e-6)
