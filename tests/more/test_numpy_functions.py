"""Every public function of numpy and numpy.linalg on Tensors: NumPy's value, and a gradient or a refusal."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import DtypeError, GraphError, ShapeError
from minigrad.core.trees import leaves
from minigrad.more.numpy_functions import WITHOUT_GRADIENT
from tests.leaves import for_each

_rng = np.random.default_rng(0)
_root = _rng.normal(size=(3, 3))
ARRAYS = {
    "x": _rng.uniform(0.1, 0.9, (3, 4)), "y": _rng.uniform(0.1, 0.9, 4), "z": _rng.normal(size=(2, 3, 4)),
    "a": _root @ _root.T + np.eye(3), "v": _rng.uniform(0.1, 0.9, (4, 3)), "n": np.arange(1, 5),
    "w": np.array([[0.5, np.nan, 2.0, 0.3], [0.7, 0.1, np.inf, 0.2], [0.4, 0.6, 0.8, -0.9]]),
}  # fmt: skip

# calls with a gradient
GRADIENT = """
np.sum(x)  np.sum(x, axis=1)  np.sum(x, axis=(0, 1), keepdims=True)  np.sum(x, 0, np.float64)  np.mean(x, 0)
np.mean(z, axis=(0, -1))  np.prod(x, axis=1)  np.max(x)  np.max(x, axis=0)  np.amax(x, 1, keepdims=True)
np.min(x, axis=1)  np.amin(x)  np.ptp(x)  np.ptp(x, axis=1)  np.std(x)  np.std(x, axis=0, ddof=1)
np.var(x, correction=1)  np.var(x, axis=(0, 1))  np.cumsum(x)  np.cumsum(x, axis=1)  np.cumprod(x, axis=0)
np.cumprod(x)  np.cumulative_sum(y)  np.cumulative_prod(x, axis=1)  np.nansum(w)  np.nansum(x, axis=1)
np.nanmean(x)  np.median(x)  np.median(x, axis=1)  np.median(z, axis=0, keepdims=True)
np.nanmedian(x, axis=0)  np.quantile(x, 0.3)  np.quantile(x, [0.1, 0.8], axis=1)
np.quantile(x, 0.3, method="lower")  np.percentile(x, 40, axis=0)  np.nanquantile(x, 0.7)
np.nanpercentile(x, 70, axis=1)  np.average(x)  np.average(x, axis=1)  np.average(x, weights=x * x)
np.cov(x)  np.cov(x, rowvar=False)  np.cov(x, bias=True)  np.cov(x, ddof=0)  np.corrcoef(x)
np.where(x > 0.5, x, y)  np.where(x > 0.5, x, 0.0)  np.clip(x, 0.2, 0.8)  np.clip(x, min=0.3)
np.clip(x, 0.2, None)  np.copy(x)  np.astype(x, np.float64)  np.around(x, 1)  np.round(x)
np.round(x, decimals=2)  np.fix(x)  np.sinc(x)  np.real(x)  np.angle(x)  np.angle(x, deg=True)
np.nan_to_num(w)  np.nan_to_num(w, nan=1.0, posinf=3.0)  np.reshape(x, (4, 3))  np.reshape(x, -1)
np.ravel(x)  np.transpose(x)  np.transpose(z, (2, 0, 1))  np.permute_dims(z, (1, 0, 2))
np.matrix_transpose(z)  np.linalg.matrix_transpose(z)  np.swapaxes(z, 0, 2)  np.moveaxis(z, 0, -1)
np.expand_dims(x, 1)  np.expand_dims(x, (0, 3))  np.squeeze(x[None])  np.squeeze(x[:, None], axis=1)
np.squeeze(x[None, None], (0, 1))  np.broadcast_to(y, (3, 4))  np.broadcast_to(y[0], 4)
np.broadcast_arrays(x, y)  np.atleast_1d(y[0])  np.atleast_2d(y)  np.atleast_3d(x)  np.atleast_1d(x, y)
np.stack([x, x * x])  np.stack((x, x), axis=-1)  np.concatenate([x, v.T])  np.concatenate((x, x), axis=1)
np.concatenate([x, y], axis=None)  np.concat([x, x], axis=-1)  np.append(x, y)  np.append(x, v.T, axis=0)
np.hstack([x, x])  np.hstack([y, y])  np.vstack([x, y])  np.dstack([x, x])  np.column_stack([y, v])
np.split(x, 2, axis=1)  np.split(x, [1, 3], axis=-1)  np.split(x, 3)  np.array_split(x, 3, axis=1)
np.array_split(x, 2)  np.hsplit(x, 2)  np.vsplit(x, 3)  np.dsplit(z, [1])  np.unstack(x)
np.unstack(x, axis=1)  np.flip(x)  np.flip(x, 0)  np.flip(z, axis=(0, 2))  np.fliplr(x)  np.flipud(x)
np.rot90(x)  np.rot90(z, 3, (1, 2))  np.roll(x, 2)  np.roll(x, 1, axis=1)  np.roll(x, (1, 2), axis=(0, 1))
np.tile(x, 2)  np.tile(y, (2, 3))  np.tile(z, (2, 1))  np.repeat(x, 2)  np.repeat(x, 3, axis=1)
np.repeat(x, [1, 0, 2], axis=0)  np.pad(x, 1)  np.pad(x, (1, 2))
np.pad(x, ((1, 0), (2, 3)), constant_values=2.0)  np.pad(y, 2, mode="reflect")
np.pad(x, ((1, 1), (0, 2)), "edge")  np.pad(x, 1, mode="wrap")  np.take(x, [0, 5, 5])
np.take(x, [2, 0, -1], axis=0)  np.take(x, 1, axis=1)  np.take(z, [[0, 1], [2, 2]], axis=1)
np.take_along_axis(x, np.argsort(x, axis=1), 1)  np.take_along_axis(x, np.array([[0, 1, 2, 1]]), axis=0)
np.extract(x > 0.5, x)  np.sort(x)  np.sort(x, axis=0)  np.sort(x, axis=None)  np.sort(x, kind="stable")
np.meshgrid(y, y[:2])  np.meshgrid(y, y, indexing="ij")  np.diag(y)  np.diag(a, 1)  np.diag(y, k=-1)
np.diagflat(x)  np.tril(x)  np.triu(z, 1)  np.diagonal(x)  np.diagonal(z, 1, 1, 2)  np.linalg.diagonal(z)
np.trace(a)  np.trace(z)  np.trace(z, offset=1, axis1=1, axis2=2)  np.linalg.trace(z)
np.linalg.trace(z, offset=1)  np.einsum("ij,jk->ik", x, v)  np.einsum("ij,j->i", x, y, optimize=True)
np.einsum("ii", a)  np.einsum(x, [0, 1], y, [1])  np.einsum(x, [4, 2], [2, 4])
np.kron(x, y)  np.kron(a, x)  np.tensordot(x, v, 1)
np.tensordot(z, x, ([1, 2], [0, 1]))  np.tensordot(x, v, axes=(1, 0))  np.tensordot(x, v, axes=0)
np.linalg.tensordot(x, v, axes=1)  np.dot(x, v)  np.dot(x, y)  np.dot(y, y)  np.dot(z, v)  np.dot(z, y)
np.dot(x, np.swapaxes(z, 1, 2))  np.dot(z, np.swapaxes(z, 1, 2))  np.dot(y, np.swapaxes(z, 1, 2))
np.dot(x, 2.0)  np.inner(x, x)  np.inner(z, y)  np.inner(y, y)  np.inner(2.0, y)  np.vdot(x, v)
np.vdot(y, y)  np.outer(x, y)  np.outer(y, y)  np.linalg.outer(y, y)  np.cross(a, a * 2 + v[:3])
np.cross(v, v[0] * v[1])  np.linalg.cross(a, v[0])  np.linalg.matmul(z, v)  np.linalg.vecdot(x, y)
np.diff(x)  np.diff(x, n=2, axis=1)  np.diff(x, axis=0)  np.ediff1d(x)  np.trapezoid(x)
np.trapezoid(x, dx=0.5, axis=0)  np.trapezoid(x, np.arange(4.0) ** 2)  np.gradient(x)  np.gradient(y)
np.gradient(x, axis=1)  np.gradient(x, 0.5, axis=0, edge_order=2)  np.vander(y)  np.vander(y, 3)
np.vander(y, 3, increasing=True)  np.linalg.norm(x)  np.linalg.norm(y, 3)  np.linalg.norm(x, axis=1)
np.linalg.norm(x, np.inf, axis=0)  np.linalg.norm(x, "fro")  np.linalg.norm(x, 1)
np.linalg.norm(x, ord="nuc")  np.linalg.norm(x, 2)  np.linalg.norm(z, axis=(1, 2), keepdims=True)
np.linalg.norm(z)  np.linalg.matrix_norm(z)  np.linalg.matrix_norm(z, ord=1, keepdims=True)
np.linalg.vector_norm(x)  np.linalg.vector_norm(x, axis=0, ord=1)  np.linalg.cond(a)  np.linalg.det(a)
np.linalg.slogdet(a)  np.linalg.inv(a)  np.linalg.pinv(x)  np.linalg.pinv(a + a.T, hermitian=True)
np.linalg.pinv(x, rcond=1e-12)  np.linalg.solve(a, v[0])  np.linalg.solve(a, x)
np.linalg.solve(np.stack([a, a]), x)  np.linalg.solve(np.stack([a, a, a]), a)
np.linalg.solve(np.stack([a, a]), v[0])  np.linalg.matrix_power(a, 3)  np.linalg.matrix_power(a, -1)
np.linalg.multi_dot([x, v, a])  np.linalg.tensorinv(np.reshape(a, (3, 3, 1)), 1)
np.linalg.tensorsolve(a, v[0])  np.linalg.cholesky(a + a.T)  np.linalg.cholesky(a + a.T, upper=True)
np.linalg.qr(v)  np.linalg.svdvals(x)  np.linalg.svd(x, compute_uv=False)  np.linalg.eigvalsh(a + a.T)
np.linalg.svd(x, full_matrices=False)[1]  np.linalg.eigh(a + a.T)[0]  x + y  y * x  2.0 - x  x / y  x ** 2
x @ v  x @ y  np.exp(x)  np.log(x)  np.log1p(x)  np.expm1(x)  np.log2(x)  np.log10(x)  np.exp2(x)  np.sin(x)
np.cos(x)  np.tan(x)  np.arcsin(x)  np.arccos(x)  np.arctan(x)  np.sinh(x)  np.cosh(x)  np.tanh(x)
np.arcsinh(x)  np.arccosh(x + 1)  np.arctanh(x)  np.asin(x)  np.acos(x)  np.atan(x)  np.asinh(x)
np.acosh(x + 1)  np.atanh(x)  np.atan2(x, y)  np.arctan2(x, y)  np.hypot(x, y)  np.sqrt(x)  np.square(x)
np.reciprocal(x)  np.absolute(z)  np.abs(z)  np.fabs(z)  np.negative(x)  np.positive(x)  np.add(x, y)
np.subtract(x, y)  np.multiply(x, y)  np.divide(x, y)  np.true_divide(x, y)  np.power(x, y)  np.pow(x, y)
np.float_power(x, 2.0)  np.matmul(z, v)  np.maximum(x, y)  np.minimum(x, y)  np.fmax(x, y)  np.fmin(x, y)
np.remainder(x, 0.3)  np.mod(x, y)  np.fmod(x, y)  np.divmod(x, 0.3)  np.modf(z)  np.floor(x)  np.ceil(x)
np.trunc(x)  np.rint(x)  np.sign(z)  np.copysign(x, z)  np.degrees(x)  np.radians(x)  np.rad2deg(x)
np.deg2rad(x)  np.logaddexp(x, y)  np.logaddexp2(x, y)  np.ldexp(x, 3)  np.conjugate(x)  np.conj(x)
np.vecdot(x, y)  np.matvec(z, y)  np.vecmat(v[:, 0], v)  np.add.reduce(x)  np.add.reduce(x, axis=1)
np.add.reduce(x, axis=None)  np.add.reduce(x, keepdims=True)  np.multiply.reduce(x)
np.maximum.reduce(x, axis=1)  np.minimum.reduce(x)  np.logaddexp.reduce(x)  np.add.accumulate(x)
np.multiply.accumulate(x, axis=1)  np.add.outer(y, y)  np.multiply.outer(x, y)  np.subtract.outer(y, x)
np.maximum.outer(y, y * y)
"""

# calls without a counterpart
REFUSED = """
np.nanmax(x)  np.nanmin(x)  np.nanstd(x)  np.nanvar(x)  np.nanprod(x)  np.nancumsum(x)  np.nancumprod(x)
np.interp(x, y, y)  np.unwrap(x)  np.i0(x)  np.convolve(y, y)  np.correlate(y, y)  np.polyfit(n, y, 2)
np.polyval(y, x)  np.polyadd(y, y)  np.polysub(y, y)  np.polymul(y, y)  np.polydiv(y, y[:2])  np.polyder(y)
np.polyint(y)  np.poly(y)  np.roots(y)  np.unique(x)  np.unique_all(y)  np.unique_counts(y)
np.unique_inverse(y)  np.unique_values(y)  np.intersect1d(y, y)  np.union1d(y, x)  np.setdiff1d(y, x)
np.setxor1d(y, y * 2)  np.partition(x, 1)  np.select([x > 0.5], [x])  np.choose(n % 2, [y, y])
np.piecewise(x, [x > 0.5], [1.0, 2.0])  np.compress([True, False, True], x, axis=0)
np.insert(x, 1, 5.0, axis=1)  np.delete(x, 1, axis=1)  np.resize(x, (2, 2))  np.block([[x, x]])
np.rollaxis(z, 2)  np.trim_zeros(y)  np.apply_along_axis(np.sum, 1, x)  np.apply_over_axes(np.sum, z, [0])
np.linspace(y, y + 1, 3)  np.logspace(y, y + 1, 3)  np.geomspace(y, y + 1, 3)  np.imag(x)
np.real_if_close(x)  np.sort_complex(y)  np.bincount(n, y)  np.full_like(x, y)  np.linalg.lstsq(v, y)
np.linalg.eig(a)  np.linalg.eigvals(a)  np.fft.fft(x)  np.fft.rfft(y)  np.fft.fftshift(y)
np.copyto(np.zeros(4), y)  np.put(np.zeros(4), [1], y[:1])  np.place(np.zeros(4), n > 1, y)
np.putmask(np.zeros(4), n > 1, y)  np.put_along_axis(np.zeros(4), np.array([1]), y[:1], 0)  np.cbrt(x)
np.nextafter(x, 2.0)  np.spacing(x)  np.frexp(x)  np.add(x, 1.0, out=np.zeros((3, 4)))
np.exp(x, where=n > 1, out=np.zeros((3, 4)))  np.add(x, y, dtype="float64")  np.sum(x, where=n > 1)
np.sum(x, initial=3.0)  np.max(x, initial=3.0)  np.mean(x, out=np.zeros(()))  np.sum(x, axis=())
np.median(z, axis=(0, 1))  np.std(x, mean=0.5)  np.clip(x, 0.2, 0.8, out=np.zeros((3, 4)))
np.concatenate([x, x], dtype="float32")  np.reshape(x, (4, 3), order="F")  np.ravel(x, order="F")
np.pad(x, 1, mode="symmetric")  np.pad(x, 1, mode="linear_ramp")  np.quantile(x, 0.3, method="weibull")
np.average(x, axis=1, weights=y)  np.cov(y, y)  np.gradient(y, n)  np.diff(x, prepend=0.0)
np.take(x, [0, 9], axis=1, mode="clip")  np.linalg.svd(a, hermitian=True)  np.linalg.qr(v, mode="r")
np.cross(x[:, :2], v[:3, :2])  np.add.reduceat(y, [0, 2])  np.subtract.reduce(x)
np.add.reduce(x, initial=2.0)  np.maximum.accumulate(x)  np.add.at(np.zeros(4), [0, 1], y[:2])
"""

# calls whose result has no derivative
PLAIN = """
np.argmax(x)  np.argmax(x, axis=1)  np.argmin(x, 0, keepdims=True)  np.argmax(x, keepdims=True)
np.all(x > 0.5)  np.any(x > 0.5, axis=0)  np.all(x, axis=1)  np.nonzero(x > 0.5)  np.where(x > 0.5)
np.argsort(x)  np.argsort(x, axis=0)  np.argpartition(y, 2)  np.argwhere(x > 0.5)  np.flatnonzero(x > 0.5)
np.count_nonzero(x > 0.5)  np.searchsorted(np.sort(y), 0.5)  np.digitize(y, [0.3, 0.6])
np.histogram(x, bins=3)  np.histogram2d(y, y, bins=2)  np.histogramdd(v, bins=2)  np.histogram_bin_edges(x)
np.allclose(x, x)  np.isclose(x, y)  np.array_equal(x, x)  np.array_equiv(x, x)  np.ndim(x)  np.shape(x)
np.size(x)  np.zeros_like(x)  np.ones_like(x)  np.empty_like(x).shape  np.iscomplex(x)  np.iscomplexobj(x)
np.isreal(x)  np.isrealobj(x)  np.isneginf(w)  np.isposinf(w)  np.isin(x, y)  np.lexsort((y, n))
np.result_type(x, y)  np.can_cast(x.dtype, "float32")  np.common_type(x)  np.min_scalar_type(x)
np.may_share_memory(x, y)  np.shares_memory(x, y)  np.array_repr(y)  np.array_str(y)  np.array2string(y)
np.linalg.matrix_rank(a)  np.nanargmax(x)  np.nanargmin(x, axis=1)  np.einsum_path("ij,j", x, y)
np.tril_indices_from(a)  np.triu_indices_from(a)  np.diag_indices_from(a)  np.ix_(n, n)
np.unravel_index(n, (2, 4))  np.ravel_multi_index((n, n), (5, 5))  np.packbits(n > 2)
np.unpackbits(n.astype("uint8"))  np.save(file, x)  np.savetxt(file, x)  np.savez(file, x)
np.savez_compressed(file, x)  np.heaviside(z, 0.5)  np.isnan(w)  np.isinf(w)  np.isfinite(w)  np.signbit(z)
np.equal(x, y)  np.not_equal(x, y)  np.less(x, y)  np.less_equal(x, y)  np.greater(x, y)
np.greater_equal(x, y)  np.logical_and(x > 0.5, y > 0.5)  np.logical_or(x > 0.5, y > 0.5)
np.logical_xor(x > 0.5, y > 0.5)  np.logical_not(x > 0.5)  np.bitwise_and(n, 3)  np.bitwise_or(n, 3)
np.bitwise_xor(n, 3)  np.bitwise_not(n)  np.bitwise_invert(n)  np.invert(n)  np.left_shift(n, 1)
np.right_shift(n, 1)  np.bitwise_left_shift(n, 2)  np.bitwise_right_shift(n, 1)  np.bitwise_count(n)
np.gcd(n, 6)  np.lcm(n, 6)  np.floor_divide(x, y)
np.isnat(n.astype("M8[s]") if type(n) is np.ndarray else n.numpy().astype("M8[s]"))
np.logical_and.reduce(x > 0.5)  np.logical_or.reduce(x > 0.5, axis=1)  np.greater.outer(y, y)  np.sum(n)
np.mean(n)  np.median(n)  np.linalg.norm(n)  np.sort(n)  np.cumsum(n)  np.floor_divide(n, 2)  np.cov(n)
np.gradient(n)  np.bincount(n)
"""


def calls(table):
    return [call for line in table.splitlines() for call in re.split(r"  +", line) if call]


class Null:
    """A file that keeps nothing."""

    write = flush = close = staticmethod(lambda *text: 0)
    read = staticmethod(lambda *n: b"")
    tell = staticmethod(lambda: 0)
    seek = staticmethod(lambda *place: 0)


def evaluate(call, values):
    return eval(call, {"np": np, "file": Null(), **values})


def tensors(**more):
    return {name: mg.tensor(x, requires_grad=x.dtype.kind == "f", **more) for name, x in ARRAYS.items()}


@mg.no_grad()
def assert_same(result, expected):
    ours, theirs = leaves(result), leaves(expected)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        assert np.shape(x) == np.shape(y)
        if np.asarray(y).dtype.kind in "iufb":
            np.testing.assert_allclose(
                np.asarray(x), y, rtol=1e-5 if "float32" in str(np.asarray(x).dtype) else 1e-9, atol=1e-12
            )
        else:
            assert np.array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.filterwarnings("ignore")
@for_each(calls(GRADIENT))
def test_numpy_functions_match_numpy_and_have_gradients(call):
    names = [name for name in ARRAYS if name != "n" and re.search(rf"\b{name}\b", call)]
    given = tensors()
    result = evaluate(call, given)
    assert_same(result, evaluate(call, ARRAYS))
    with mg.no_grad():
        assert_same(evaluate(call, given), evaluate(call, ARRAYS))
    found = [y for y in leaves(result) if isinstance(y, mg.Tensor) and y.requires_grad]
    assert found
    if "w" in names:
        return  # NaN has no differences

    def of(*xs):
        values = {**given, **dict(zip(names, xs, strict=True))}
        return [y for y in leaves(evaluate(call, values)) if y.requires_grad or not mg.is_grad_enabled()][
            : len(found)
        ]

    assert mg.gradcheck(lambda *xs: tuple(of(*xs)), [given[name] for name in names]).passed


@pytest.mark.filterwarnings("ignore")
@for_each(calls(REFUSED))
def test_numpy_functions_raise_instead_of_losing_gradients(call):
    given = tensors()
    with pytest.raises(
        GraphError,
        match=r"(?s)np\..* (has no counterpart|writes into an array).*a gradient would be lost.\n.*detach",
    ):
        evaluate(call, given)
    for outside in ({name: x.detach() for name, x in given.items()}, given):
        with mg.set_grad_enabled(outside is not given):
            result = evaluate(call, outside)
        assert not any(isinstance(x, mg.Tensor) for x in leaves(result))
        assert_same(result, evaluate(call, ARRAYS))


@pytest.mark.filterwarnings("ignore")
@for_each(calls(PLAIN))
def test_non_differentiable_numpy_functions_match_numpy(call):
    result = evaluate(call, tensors())
    assert not any(getattr(x, "requires_grad", False) for x in leaves(result))
    assert_same(result, evaluate(call, ARRAYS))


# of dates, texts and files, or of nothing that an array holds
ELSEWHERE = {"busday_count", "busday_offset", "is_busday", "datetime_as_string", "fill_diagonal"}


def test_every_numpy_function_is_in_a_table():
    called = set(re.findall(r"np\.((?:linalg\.)?\w+)\(", GRADIENT + REFUSED + PLAIN))
    functions = {name for name in np.__all__ if hasattr(getattr(np, name), "_implementation")}
    functions |= {name for name in np.__all__ if isinstance(getattr(np, name), np.ufunc)}
    functions |= {
        f"linalg.{name}" for name in np.linalg.__all__ if hasattr(getattr(np.linalg, name), "_implementation")
    }
    assert functions - called == ELSEWHERE
    assert {name for name in WITHOUT_GRADIENT if name not in called} == set()


# ---------------------------------------------------------------- what the tables do not say


def test_in_place_array_ops_keep_gradients_or_raise():
    array = np.ones(3)
    array += mg.tensor([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(array, [2.0, 3.0, 4.0])
    assert type(array) is np.ndarray
    x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(GraphError, match=r"np\.add writes into an array, and a gradient would be lost"):
        array += x
    np.testing.assert_array_equal(array, [2.0, 3.0, 4.0])
    with mg.no_grad():
        array += x
    np.testing.assert_array_equal(array, [3.0, 5.0, 7.0])


@pytest.mark.parametrize(
    "write",
    [
        lambda x: np.add(x.array, 1.0, out=x), lambda x: np.add.at(x, [0], 1.0), lambda x: np.copyto(x, 3.0),
        lambda x: np.put(x, [0], 3.0), lambda x: np.fill_diagonal(x, 0.0), lambda x: np.sum(x, 0, out=x),
    ],
)  # fmt: skip
def test_numpy_does_not_write_into_a_tensor(write):
    x = mg.ones(2, 2)
    with pytest.raises(DtypeError, match="cannot write into a Tensor"):
        write(x)
    assert x.tolist() == [[1, 1], [1, 1]]


def test_invalid_numpy_calls_are_rejected():
    x = mg.ones(2, 3, requires_grad=True)
    with pytest.raises(ShapeError, match="axis 1 of length 3 into 2 equal pieces"):
        np.split(x, 2, axis=1)
    with pytest.raises(ShapeError, match="axis 0 of shape"):
        np.squeeze(x, axis=0)
