"""Every operation of float16 and bfloat16 gives the float32 result rounded once, in value and gradient.

So PyTorch computes them too ("opmath"). What is compared is each record of the registry on its samples and on
the extreme numbers of the dtype, and every sum, mean, loss and normalization of more elements than float16
counts (65,504).
"""

import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels
from minigrad.core.op import Derived, Op
from minigrad.core.registry import registry
from minigrad.core.trees import leaves, map_leaves
from minigrad.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow is intended

HALVES = ["float16", "bfloat16"]
OURS = {
    name: record
    for name, record in registry.items()
    if record.samples and record.source.__module__.startswith("minigrad.")
}
COMPOSED = [
    name
    for name, record in OURS.items()
    if (isinstance(record, Op) and record.definition)
    or (isinstance(record, Derived) and not record.exact_in_half)
]
IS_FLOATS = lambda v: isinstance(v, np.ndarray) and v.dtype.kind in "fV"


# ---------------------------------------------------------------- in which unit


def ordered(array):
    """16-bit floats as integers that count them: neighbours differ by 1, and 0.0 is -0.0."""
    bits = np.asarray(array).view(np.int16).astype(np.int32)
    return np.where(bits < 0, -32768 - bits, bits)


def distance(x, y):
    """By how many numbers of the dtype two arrays differ at most; NaN is NaN."""
    x_nan, y_nan = (np.isnan(a.astype(np.float32)) for a in (x, y))
    apart = np.abs(ordered(x) - ordered(y))
    return int(np.where(x_nan & y_nan, 0, np.where(x_nan | y_nan, 2**16, apart)).max(initial=0))


def results(call, args, kwargs, dtype, half, create_graph=False):
    """The values of a call and the gradients of its floating inputs, of results times the same numbers."""
    inputs = []

    def made(v):
        if not IS_FLOATS(v):
            return mg.tensor(v) if isinstance(v, np.ndarray) else v
        inputs.append(mg.tensor(v.astype(np.float32)).to(half).to(dtype).requires_grad_())
        return inputs[-1]

    outs = [
        y
        for y in leaves(call(*map_leaves(made, args), **map_leaves(made, kwargs)))
        if isinstance(y, mg.Tensor)
    ]
    tracked = [y for y in outs if y.requires_grad]
    rng = np.random.default_rng(1)
    gs = [mg.tensor(rng.normal(size=y.shape)).to(half).to(y.dtype) for y in tracked]
    if not inputs or not tracked:
        return outs, []
    return outs, mg.autograd.grad(tracked, inputs, gs, create_graph=create_graph, allow_unused=True)


def assert_rounded_once(call, args, kwargs, half, create_graph=False, may_be_refused=False):
    half = getattr(mg, half)
    try:
        expected = results(call, args, kwargs, mg.float32, half, create_graph)
    except mg.errors.MinigradError:
        if may_be_refused:
            return
        raise
    found = results(call, args, kwargs, half, half, create_graph)
    for what, wides, narrows in zip(("value", "gradient"), expected, found, strict=True):
        for wide, narrow in zip(wides, narrows, strict=True):
            if wide is None or wide.dtype != mg.float32:
                assert (wide is None) == (narrow is None)
                assert wide is None or (wide.dtype == narrow.dtype and wide.shape == narrow.shape)
                continue
            assert narrow.dtype == half
            apart = distance(narrow.numpy(), wide.to(half).numpy())
            assert apart <= 1, f"{what} {narrow.numpy()} is {apart} numbers of {half} from {wide.numpy()}"


# ---------------------------------------------------------------- every op


def extremes(half, rng, shape):
    """Numbers at the ends of the dtype, where functions have kinks, and where squares and powers overflow."""
    limits = mg.finfo(getattr(mg, half))
    largest, normal, least = (
        float(x) for x in (limits.max, limits.smallest_normal, limits.smallest_subnormal)
    )
    ends = [largest, largest / 3, normal, least, 3 * least, 0.0, 30000.0, 300.0, 100.0]
    kinks = [0.5, 1.0, 2.0, 3.0, 6.0, 8.0, 0.1, 0.999, 1e-3]
    return rng.choice([sign * x for x in ends + kinks for sign in (1, -1)], shape)


def check(name, half):
    record = OURS[name]
    rng = np.random.default_rng(0)
    for sample in record.samples(rng):
        for create_graph in (False, True):
            assert_rounded_once(record.call, sample.args, sample.kwargs, half, create_graph)
        for _ in range(2):
            extreme = lambda v: extremes(half, rng, v.shape) if IS_FLOATS(v) and v.size else v
            args = map_leaves(extreme, sample.args)
            kwargs = map_leaves(extreme, sample.kwargs)
            assert_rounded_once(record.call, args, kwargs, half, may_be_refused=True)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", OURS)
def test_an_op_rounds_once(name, half):
    check(name, half)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", COMPOSED)
def test_a_readable_definition_rounds_once(name, half):
    with mg.fused(False):
        check(name, half)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", [name for name in COMPOSED if isinstance(OURS[name], Op)])
def test_numpy_kernels_round_once(name, half):
    with kernels.use("numpy"):
        check(name, half)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", [name for name in OURS if hasattr(mg.Tensor, f"{name}_")])
def test_in_place_methods_match_functions_in_half_precision(name, half):
    record = OURS[name]
    method = getattr(mg.Tensor, f"{name}_")
    function = getattr(mg.Tensor, name, None) or getattr(mg, name)
    cast = lambda v: (
        mg.tensor(v).to(half) if IS_FLOATS(v) else mg.tensor(v) if isinstance(v, np.ndarray) else v
    )
    for sample in record.samples(np.random.default_rng(0)):
        args = map_leaves(cast, sample.args)
        kwargs = map_leaves(cast, sample.kwargs)
        expected = function(*args, **kwargs)
        if (
            isinstance(expected, mg.Tensor)
            and expected.shape == args[0].shape
            and expected.dtype == args[0].dtype
        ):
            changed = method(args[0].clone(), *args[1:], **kwargs)
            np.testing.assert_array_equal(changed.float().numpy(), expected.float().numpy())


def test_a_view_of_16_bits_is_a_view():
    """What shares memory in float32 does in 16 bits: it is not computed in float32 and rounded."""
    for name, record in OURS.items():
        for sample in record.samples(np.random.default_rng(0)):
            shares = []
            for dtype in ("float32", *HALVES):
                cast = lambda v, d=dtype: (
                    mg.tensor(v).to(d) if IS_FLOATS(v) else mg.tensor(v) if isinstance(v, np.ndarray) else v
                )
                args = map_leaves(cast, sample.args)
                kwargs = map_leaves(cast, sample.kwargs)
                outs = [y for y in leaves(record.call(*args, **kwargs)) if isinstance(y, mg.Tensor)]
                inputs = [x for x in leaves(args) if isinstance(x, mg.Tensor)]
                shares.append([any(np.shares_memory(x.array, y.array) for x in inputs) for y in outs])
            if (name, sample.args[1:]) != ("matrix_power", (1,)):  # x itself in float32
                assert shares[0] == shares[1] == shares[2], name


@pytest.mark.parametrize("half", HALVES)
def test_numbers_are_rounded_to_half_before_comparison(half):
    """As PyTorch has it: what was made of 0.1 equals 0.1."""
    x = mg.tensor([0.1, 0.3]).to(half)
    assert (x == 0.1).tolist() == (x <= 0.1).tolist() == (~(x != 0.1)).tolist() == [True, False]
    assert (x > 0.1).tolist() == [False, True]
    assert (x < 0.1).tolist() == [False, False]
    assert (x < 1e9).all()


# ---------------------------------------------------------------- more elements than float16 counts

N = 70_000
ZEROS = np.zeros(N, np.int64)
ROWS = (N, 2)
LABELS = np.arange(N) % 2
SIGNS = np.where(LABELS, 1, -1)
ONE = np.ones(1)
SHARES = ("shares", "shares")  # from 0 to 1
line = lambda name, *rest, **settings: (name, ((N,), *rest), settings)
pair = lambda name, *rest, **settings: (name, ((N,), (N,), *rest), settings)
rows = lambda name, *rest, **settings: (name, (ROWS, *rest), settings)
AT_ONE = [np.zeros(1), 0, ZEROS, (N,)]  # 70,000 numbers that come to one place
OF_ALL = [
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "median", "nanmedian", "nansum",
    "nanmean", "var", "std", "var_mean", "std_mean", "aminmax", "count_nonzero", "norm", "vector_norm",
    "linalg_norm", "all", "any", "trapezoid", "cov", "corrcoef", "mode", "msort", "unique", "histc",
    "middle", "cumulative_trapezoid", "unique_consecutive",
]  # fmt: skip
ALONG = [
    "softmax", "log_softmax", "softmin", "logsumexp", "cumsum", "cumprod", "logcumsumexp", "cummax",
    "cummin", "sort", "argsort", "median", "prod",
]  # fmt: skip
OF_PAIRS = [
    "binary_cross_entropy_with_logits", "kl_div", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    "poisson_nll_loss", "dot", "vecdot", "dist", "pairwise_distance",
]  # fmt: skip
HOW = ("sum", "mean", "amax", "amin")
COUNTS = [
    *map(line, OF_ALL), *(line(name, 0) for name in ALONG), *map(pair, OF_PAIRS),
    *(line("p_norm", p) for p in (0, 1, 2, 3, np.inf, -np.inf)),
    line("quantile", 0.3), line("nanquantile", 0.3), line("variance", None, 1, False),
    line("deviation", None, 1, False),
    line("kthvalue", 40_000), line("topk", 3), line("extreme_places", 3, 0, True), line("sum_to_size", 1),
    line("histogram", 4), line("bucketize", np.arange(3)), line("normalize", 2.0, 0),
    line("layer_norm", None, None, (N,), 1e-5), line("rms_norm", None, (N,), 1e-5),
    ("searchsorted", (np.arange(3), (N,)), {}), ("isin", ((N,), np.arange(3)), {}),
    ("matrix_norm", (ROWS,), {}), ("matrix_norm", (ROWS, 1), {}),
    ("batch_norm", (ROWS, None, None, (2,), (2,), True), {}), ("batch_norm", (ROWS, (2,), (2,), (2,)), {}),
    ("group_norm", ((1, 2, N), 1), {}), ("instance_norm", ((1, 2, N),), {}),
    ("local_response_norm", ((1, N, 1), 3), {}), ("renorm", (ROWS, 2, 1, 1.0), {}),
    *(("scatter_reduce", (*AT_ONE, how), {"include_self": own}) for how in HOW for own in (True, False)),
    *(("index_reduce", (*AT_ONE, how), {"include_self": False}) for how in HOW[1:]),
    ("scatter_add", AT_ONE, {}), ("index_add", AT_ONE, {"alpha": 0.3}),
    ("index_put", (np.zeros(1), [ZEROS], (N,), True), {}), ("gather", (ONE, 0, ZEROS), {}),
    ("embedding", ((1, 1), ZEROS), {}), ("expand", (ONE, N), {}), ("add", (ROWS, (2,)), {}),
    ("multiply", (ROWS, (2,)), {}), ("linear", (ROWS, (3, 2), (3,)), {}), ("matmul", ((2, N), (N, 2)), {}),
    ("einsum", ("i,i->", (N,), (N,)), {}), ("cdist", ((1, N), (1, N)), {}), pair("cosine_similarity", 0),
    ("conv1d", ((1, 1, N), (1, 1, 2), (1,)), {}), ("avg_pool1d", ((1, 1, N), N), {}),
    ("adaptive_avg_pool1d", ((1, 1, N), 1), {}), ("max_pool1d", ((1, 1, N), N), {}),
    ("interpolate", ((1, 1, N), 1), {"mode": "area"}),
    ("scaled_dot_product_attention", ((1, 2), (N, 2), (N, 2), None, False, 1.0, 0.0, None), {}),
    *(rows("cross_entropy", LABELS, -100, how, e) for how in ("mean", "sum") for e in (0.0, 0.1)),
    rows("weighted_cross_entropy", LABELS, (2,)), rows("weighted_cross_entropy", LABELS, (2,), -100, "sum"),
    rows("soft_cross_entropy", ROWS), rows("soft_cross_entropy", ROWS, (2,)),
    rows("nll_loss", LABELS), rows("nll_loss", LABELS, (2,)), rows("multi_margin_loss", LABELS),
    rows("multilabel_margin_loss", np.tile([0, -1], (N, 1))), rows("multilabel_soft_margin_loss", ROWS),
    rows("cosine_embedding_loss", ROWS, SIGNS), rows("triplet_margin_loss", ROWS, ROWS),
    rows("triplet_margin_with_distance_loss", ROWS, ROWS), ("bernoulli_loss", SHARES, {}),
    ("binary_cross_entropy", SHARES, {}), ("binary_cross_entropy", (*SHARES, (N,)), {}),
    pair("mse_loss", weight=np.ones(N)), pair("kl_div", "batchmean"), pair("gaussian_nll_loss", (N,)),
    pair("margin_ranking_loss", SIGNS), line("hinge_embedding_loss", SIGNS), line("soft_margin_loss", SIGNS),
]  # fmt: skip
NOT_OF_MANY = {
    "diff": "of neighbours",
    "gradient": "of neighbours",
    "cond": "of a square matrix",
    "bincount": "of integers; its weights add up in float64, as PyTorch's do",
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(("name", "args", "kwargs"), COUNTS)
@pytest.mark.parametrize("numbers", ["ones", "any"])
def test_half_precision_reductions_of_70_000_elements(name, args, kwargs, half, numbers):
    """All ones, so that every count and every sum is above 65,504, and any numbers from 0.5 to 2."""
    rng = np.random.default_rng(0)
    shape_of = lambda x: isinstance(x, tuple) and x and x[0] != (N,) and all(isinstance(n, int) for n in x)

    def made(x):
        if isinstance(x, str) and x == "shares":
            return rng.uniform(0.2, 0.8, N) if numbers == "any" else np.full(N, 0.5)
        return rng.uniform(0.5, 2, x) if numbers == "any" else np.ones(x)

    is_setting = name in ("layer_norm", "rms_norm")
    args = tuple(
        made(x) if (shape_of(x) and not (is_setting and i)) or (isinstance(x, str) and x == "shares") else x
        for i, x in enumerate(args)
    )
    assert_rounded_once(registry[name].call, args, kwargs, half)


def test_every_reduction_is_tested_with_70_000_elements():
    counted = {name for name, _, _ in COUNTS}
    families = ("reduction", "loss", "normalization")
    of_many = {name for name, record in OURS.items() if record.family in families}
    assert of_many <= counted | NOT_OF_MANY.keys()


@pytest.mark.parametrize("half", HALVES)
def test_running_statistics_are_rounded_once(half):
    x = mg.rand(200, 3).to(half)
    found = [mg.zeros(3, dtype=half), mg.ones(3, dtype=half)]
    F.batch_norm(x, *found, training=True)
    wide = [mg.zeros(3), mg.ones(3)]
    F.batch_norm(x.float(), *wide, training=True)
    for narrow, exact in zip(found, wide, strict=True):
        assert distance(narrow.numpy(), exact.to(half).numpy()) <= 1
        assert (narrow != 0).all()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    "drop",
    [
        lambda x: F.dropout(x, 0.1),
        lambda x: F.alpha_dropout(x, 0.3, True),
        lambda x: F.dropout1d(x, 0.1),
        lambda x: F.embedding([0, 1, 2, 3], x[0].clone(), max_norm=0.7),
    ],
)
def test_half_precision_dropout_rounds_once(drop, half):
    x = mg.randn(1, 4, 50).to(half)
    found = []
    for dtype in (half, "float32"):
        mg.manual_seed(0)
        found.append(drop(x.to(dtype)).to(half).numpy())
    assert distance(*found) <= 1


@pytest.mark.parametrize("half", HALVES)
def test_half_precision_composites_match_float32(half):
    """sinc(1) was 3e-4 off, sinc(30,000) NaN, and sigmoid(8) exactly 1."""
    x = mg.tensor([1.0, 30000.0, 8.0]).to(half)
    assert mg.sinc(x)[:2].float().abs().tolist() == pytest.approx([0, 0], abs=1e-5)
    assert x.sigmoid()[2].item() == mg.tensor(8.0).sigmoid().to(half).item()
    assert mg.tensor(8.0, dtype="float16").sigmoid() < 1


def test_pickled_half_precision_is_computed_in_float32():
    x = pickle.loads(pickle.dumps(mg.tensor([[300.0, -200.0, 100.0, 50.0]]).half()))
    with mg.fused(False):
        of_pickled = F.layer_norm(x, (4,))
        expected = F.layer_norm(x.float().half(), (4,))
    np.testing.assert_array_equal(of_pickled.numpy(), expected.numpy())
    assert abs(of_pickled.numpy()).max() > 1
