"""How dtypes meet: as in PyTorch, a number or a 0-d tensor widens nothing, and an integer no float."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import OptionError
from minigrad.nn import functional as F

INF = math.inf

PROMOTIONS = [
    (lambda: mg.tensor([1, 2]) * 2.5, "float32"),
    (lambda: mg.tensor([1, 2]) * 2, "int64"),
    (lambda: mg.tensor([1, 2]) * True, "int64"),
    (lambda: mg.tensor([True, False]) * 2, "int64"),
    (lambda: mg.tensor([True, False]) + mg.tensor([True, True]), "bool"),
    (lambda: mg.tensor([True, False]) * 1.5, "float32"),
    (lambda: mg.ones(2) + mg.tensor(1.0, dtype="float64"), "float32"),
    (lambda: mg.ones(2) + mg.ones(2, dtype="float64"), "float64"),
    (lambda: mg.tensor([1, 2]) + mg.ones(2), "float32"),
    (lambda: mg.tensor([1, 2]) + mg.tensor(1.0, dtype="float64"), "float64"),
    (lambda: mg.ones(2, dtype="float16") + mg.tensor([1, 2]), "float16"),
    (lambda: mg.ones(2, dtype="float16") * mg.tensor(1.0), "float16"),
    (lambda: mg.tensor(1.0, dtype="float16") * mg.tensor(True), "float16"),
    (lambda: mg.tensor(1.0, dtype="float16") * mg.tensor(1.0), "float32"),
    (lambda: mg.tensor([1, 2]) * mg.tensor(1.0, dtype="float16"), "float16"),
    (lambda: mg.tensor([1, 2]) / mg.tensor([1, 2]), "float32"),
    (lambda: mg.tensor([1, 2]).exp(), "float32"),
    (lambda: mg.tensor([1, 2]).mean(), "float32"),
    (lambda: mg.tensor([True, True]).sum(), "int64"),
    (lambda: mg.where(mg.tensor([True, False]), mg.ones(2), 0.0), "float32"),
    (lambda: mg.ones(2).masked_fill(mg.tensor([True, False]), -INF), "float32"),
    (lambda: mg.ones(2) * np.ones(2), "float64"),
    (lambda: np.float64(2) * mg.ones(2), "float32"),
    (lambda: np.ones(2, np.float32) * mg.ones(2), "float32"),
    (lambda: mg.ones(2).clamp(min=np.float64(0.5)), "float32"),
    (lambda: mg.tensor([1, 2]).clamp(min=1.5), "float32"),
    (lambda: mg.tensor([1, 2]).clamp(min=1), "int64"),
    (lambda: mg.Tensor([1.0, 2.0]), "float32"),
    (lambda: mg.zeros(2, dtype=float), "float32"),
    (lambda: mg.ldexp(mg.ones(1, dtype="float16"), mg.tensor([2.0])), "float32"),
    (lambda: mg.ldexp(mg.ones(1, dtype="float16"), mg.tensor([2])), "float16"),
]


@pytest.mark.parametrize(("make", "dtype"), PROMOTIONS)
def test_dtype_promotion_matches_pytorch(make, dtype):
    assert make().dtype == dtype


def test_the_gradient_comes_back_in_each_operands_dtype():
    x = mg.ones(2, requires_grad=True)
    y = mg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype == mg.float32
    assert y.grad.dtype == mg.float64


def test_dtypes_are_singletons():
    for made in (
        mg.zeros(2),
        mg.tensor([1.0]),
        mg.rand(2),
        mg.arange(2.0),
        mg.full((2,), 1.0),
        mg.ones(2) * 2,
    ):
        assert made.dtype is np.dtype("float32")
    assert mg.ones(2, dtype=">f4").dtype is np.dtype("float32")


# ---------------------------------------------------------------- functions of integers, booleans and halves

U, V = np.array([3, 250, 7], np.uint8), np.array([5, 4, 9], np.uint8)
IMAGE = np.arange(16, dtype=np.int64).reshape(1, 1, 4, 4)
SQUARE = np.array([[2.0, 9.0, -4.0], [1.0, 5.0, 6.0], [0.5, -1.0, 3.0]])  # each triangle another matrix

OF_WHOLE = {
    "l1_loss": (lambda: F.l1_loss(mg.tensor(U), mg.tensor(V)), 250 / 3),
    "mse_loss": (lambda: F.mse_loss(mg.tensor(U[:1]), mg.tensor(V[:1])), 4),
    "smooth_l1_loss": (lambda: F.smooth_l1_loss(mg.tensor(U[:1]), mg.tensor(V[:1])), 1.5),
    "huber_loss": (lambda: F.huber_loss(mg.tensor(U[:1]), mg.tensor(V[:1])), 1.5),
    "dist": (lambda: mg.dist(mg.tensor(U), mg.tensor(V), 1), 250),
    "cdist": (lambda: mg.cdist(mg.tensor(U[None, :1]), mg.tensor(V[None, :1])), [[2]]),
    "pairwise_distance": (lambda: F.pairwise_distance(mg.tensor(U[:1]), mg.tensor(V[:1]), eps=0.0), 2),
    "lerp": (lambda: mg.lerp(mg.tensor(U), mg.tensor(V), 0.5), [4, 127, 8]),
    "vecdot": (lambda: mg.linalg.vecdot(mg.tensor(U), mg.tensor(V)), 15 + 1000 + 63),
    "gradient": (lambda: mg.gradient(mg.tensor(U))[0], [247, 2, -243]),
    "trapezoid": (lambda: mg.trapezoid(mg.tensor(U), mg.tensor(U[::-1].copy())), 126.5 * 243 - 128.5 * 247),
    "logsigmoid": (lambda: F.logsigmoid(mg.tensor(U[1:2])), [0.0]),
    "softmin": (lambda: F.softmin(mg.tensor(np.array([0, 250], np.uint8)), 0), [1, 0]),
    "hardswish": (lambda: F.hardswish(mg.tensor(np.array([-128], np.int8))), [0]),
    "prelu": (lambda: F.prelu(mg.tensor(np.array([-128], np.int8)), mg.tensor([0.5])), [-64]),
    "avg_pool of booleans": (lambda: F.avg_pool2d(mg.tensor(IMAGE % 2 == 0), 2), [[[[0.5, 0.5]] * 2]]),
    "adaptive_avg_pool": (lambda: F.adaptive_avg_pool2d(mg.tensor(IMAGE), 1), [[[[7.5]]]]),
    "interpolate": (lambda: F.interpolate(mg.tensor(IMAGE[0]), 2, mode="linear"),
        [[[0.5, 2.5], [4.5, 6.5], [8.5, 10.5], [12.5, 14.5]]]),
    "area": (lambda: F.interpolate(mg.tensor(IMAGE), 1, mode="area"), [[[[7.5]]]]),
    "an image": (lambda: F.interpolate(mg.tensor(IMAGE.astype(np.uint8)), 1, mode="bilinear"), [[[[8]]]]),
    "conv of booleans": (lambda: F.conv1d(mg.ones(1, 1, 4, dtype=bool), mg.ones(1, 1, 3, dtype=bool)),
        [[[3, 3]]]),
    "conv": (lambda: F.conv1d(mg.full((1, 1, 2), 100, dtype="uint8"), mg.full((1, 1, 2), 3, dtype="uint8")),
        [[[600]]]),
    "int power": (lambda: mg.tensor([2, -1, 1, 0]) ** mg.tensor([-1, -3, -2, -1]), [0, -1, 1, 0]),
    "sum in uint8": (lambda: mg.tensor(U).sum(dtype="uint8"), 4),
    "cumsum in uint8": (lambda: mg.tensor(U).cumsum(0, dtype="uint8"), [3, 253, 4]),
    "cumsum of bfloat16 in float64": (lambda: mg.ones(300, dtype="bfloat16").cumsum(0, dtype="float64")[-1],
        300),
    "mean of float16": (lambda: F.avg_pool1d(mg.full((1, 1, 4), 60000.0, dtype="float16"), 4), [[[60000]]]),
    "histogram": (lambda: mg.histogram(mg.tensor(V), 2, density=True)[0], [4 / 15, 2 / 15]),
    "histc of bfloat16": (  # 4.1875 / 10 * 100 is 41.875, and 42 in bfloat16
        lambda: mg.tensor([4.1875], dtype="bfloat16").histc(min=0, max=10)[41:43],
        [1, 0],
    ),
    "cov of too few": (lambda: mg.cov(mg.tensor([[0, 1]]), correction=3), np.inf),
    "addmm": (lambda: mg.addmm(mg.tensor(0), *[mg.full((1, 1), 20, dtype="int8")] * 2, alpha=0.5), [[200]]),
    "addcmul": (lambda: mg.addcmul(mg.tensor(V), mg.tensor(U), mg.tensor(U), value=0.5), [9.5, 31254, 33.5]),
    "bilinear": (lambda: F.bilinear(*[mg.full((1, 1), 20, dtype="uint8")] * 2, mg.ones(1, 1, 1)), [[400]]),
    "ldexp": (lambda: mg.ldexp(mg.tensor([1.0], dtype="float64"), mg.tensor([200])), [2.0**200]),
    "ldexp of float16": (  # 2**20 alone is not a float16
        lambda: mg.ldexp(mg.tensor([2.0**-10], dtype="float16"), mg.tensor([20])),
        [1024],
    ),
    "var of nothing": (lambda: mg.zeros(0).var(correction=-1), np.nan),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:divide by zero")  # as of any quotient
@pytest.mark.parametrize("name", OF_WHOLE)
def test_float_ops_accept_integers_booleans_and_halves(name):
    call, expected = OF_WHOLE[name]
    np.testing.assert_allclose(call().numpy().astype(float), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
@pytest.mark.parametrize(
    "name",
    ["celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "leaky_relu", "logsigmoid",
     "mish", "selu", "sigmoid", "silu", "softplus", "softsign", "tanh", "tanhshrink"],
)  # fmt: skip
def test_an_activation_of_integers_is_float32(name, dtype):
    assert getattr(F, name)(mg.ones(4, dtype=dtype)).dtype == mg.float32


def test_scatter_and_index_ops_keep_the_dtype_of_the_input():
    x = mg.zeros(3, 3, dtype="int16")
    row = mg.ones(1, 3, dtype="int16")
    for y in (
        x.select_scatter(mg.ones(3), 0, 1),
        x.slice_scatter(mg.ones(1, 3), 0, 1, 2),
        x.diagonal_scatter(mg.ones(3)),
        x.index_add(0, mg.tensor([1]), row, alpha=2),
    ):
        assert y.dtype == mg.int16
        assert y.sum().item() in (3, 6)
    truth = mg.zeros(3, dtype=bool).scatter_reduce(0, mg.tensor([1]), mg.tensor([True]), "amax")
    assert truth.tolist() == [False, True, False]


BINARY = [
    "add", "sub", "mul", "div", "pow", "atan2", "hypot", "copysign", "fmod", "remainder", "floor_divide",
    "maximum", "minimum", "fmax", "fmin", "logaddexp", "xlogy", "lerp", "where", "addcmul", "addcdiv",
    "clamp",
]  # fmt: skip
SCALARS = {
    "large": mg.tensor(65536.0), "small": mg.tensor(1e-8), "of many digits": mg.tensor(3.14159265),
    "float64": mg.tensor(0.1, dtype="float64"), "other half": mg.tensor(1e5, dtype="bfloat16"),
    "integer": mg.tensor(70_001), "array": np.array(65536.0, np.float32),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid", "ignore:divide")
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS)
def test_scalars_are_not_rounded_to_half_precision_first(name, scalar):
    """The result is that of float32, rounded once: in place, in either order, and for the gradients."""
    function = {
        "where": lambda x, y: mg.where(mg.tensor([True, False, True]), x, y),
        "addcmul": lambda x, y: mg.addcmul(x, x, y),
        "addcdiv": lambda x, y: mg.addcdiv(x, x, y),
        "lerp": lambda x, y: mg.lerp(x, y, 0.75),
        "clamp": lambda x, y: mg.clamp(x, min=y),
    }.get(name, getattr(mg, name, None))
    half = mg.tensor([0.01, -0.5, 2.0], dtype="float16", requires_grad=True)
    wide = half.detach().float().requires_grad_()
    found, expected = function(half, scalar), function(wide, scalar)
    assert found.dtype == mg.float16
    np.testing.assert_array_equal(found.numpy(), expected.half().numpy())
    if found.requires_grad:
        found.backward(mg.ones(3, dtype="float16"))
        expected.backward(mg.ones(3))
        np.testing.assert_array_equal(half.grad.numpy(), wide.grad.half().numpy())
    if isinstance(scalar, mg.Tensor) and name not in ("where", "addcmul", "addcdiv", "clamp"):
        reversed_ = function(scalar, half.detach())
        np.testing.assert_array_equal(reversed_.numpy(), function(scalar, wide.detach()).half().numpy())
        method = getattr(half.detach().clone(), f"{name}_", None)
        if method and name != "lerp":
            np.testing.assert_array_equal(method(scalar).numpy(), found.numpy())


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_gradients_of_float32_scalars_stay_float32(half):
    scale = mg.tensor(3.0, requires_grad=True)
    x = mg.full((3,), 0.01, dtype=half, requires_grad=True)
    for create_graph in (False, True):
        (g,) = mg.autograd.grad((x * scale).sum(), scale, create_graph=create_graph)
        assert g.dtype == mg.float32
        assert g.item() == 3 * x[0].item()


def test_eigh_reads_only_the_chosen_triangle():
    lower = np.tril(SQUARE) + np.tril(SQUARE, -1).T
    upper = np.triu(SQUARE) + np.triu(SQUARE, 1).T
    x = mg.tensor(SQUARE, requires_grad=True)
    np.testing.assert_allclose(mg.linalg.eigvalsh(x).numpy(), np.linalg.eigvalsh(lower))
    np.testing.assert_allclose(mg.linalg.eigvalsh(x, UPLO="U").numpy(), np.linalg.eigvalsh(upper))
    values, vectors = mg.linalg.eigh(x, "U")
    np.testing.assert_allclose((vectors * values @ vectors.mT).numpy(), upper, atol=1e-12)
    np.testing.assert_allclose(mg.linalg.pinv(x, hermitian=True).numpy(), np.linalg.inv(lower))
    assert mg.linalg.matrix_rank(mg.tensor(np.triu(np.ones((3, 3)), 1)), hermitian=True).item() == 0
    whole = np.tril(np.ones((2, 2))) + np.eye(2)  # its upper triangle counts nothing
    np.testing.assert_allclose(mg.linalg.cholesky(mg.tensor(whole)).numpy(), np.linalg.cholesky(whole))
    np.testing.assert_allclose(
        mg.linalg.cholesky(mg.tensor(whole.T), upper=True).numpy(), np.linalg.cholesky(whole).T
    )
    values[0].backward()
    np.testing.assert_allclose(
        x.grad.numpy(), np.outer(vectors.numpy()[:, 0], vectors.numpy()[:, 0]), atol=1e-12
    )
    with pytest.raises(OptionError, match="UPLO"):
        mg.linalg.eigh(x, UPLO="X")


@pytest.mark.parametrize("number", [2, 2.0, True, np.float64(2), np.float32(2), np.int64(2)], ids=repr)
def test_a_number_does_not_change_a_float_tensors_dtype(number):
    x = mg.ones(2, requires_grad=True)
    for y in (x * number, number * x, x + number, x / number, number - x, x**number):
        assert y.dtype == mg.float32
    (x * number).sum().backward()
    assert x.grad.dtype == mg.float32
