"""The kernels in NumPy and as compiled loops: the same values, and no memory that they need not."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels
from minigrad.core.kernels import defaults, sets
from minigrad.core.registry import ops
from minigrad.nn import functional as F
from minigrad.ops import masks
from minigrad.optim.optimizer import adam_update
from minitransformer.layers.attention import multi_head_attention
from tests.kernel_sets import BOTH, Kernels, needs_numba, registered

cpu, jit = Kernels("numpy"), Kernels("jit")


def draw(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


IDS = np.array([[1, 4, 1], [0, 1, 4]])
TARGET = np.array([3, 0, -100, 4, 1])
MASK = np.random.default_rng(3).random((2, 1, 5, 7)) > 0.3
SEEN = np.random.default_rng(4).random((2, 1, 1, 7)) > 0.3
SHORT = np.array([4, 1, 5])


def layer(gates, states, biases=True):
    """A recurrent layer of width 6 to 32: x (5, 3, 6), the state to begin with, weights and biases."""
    first = [draw(3, 32, seed=i) for i in range(states)]
    both = [draw(32 * gates, seed=i, scale=0.3) if biases else None for i in (4, 5)]
    weights = draw(32 * gates, 6, seed=2, scale=0.3), draw(32 * gates, 32, seed=3, scale=0.1)
    return draw(5, 3, 6), *first, *weights, *both


HEADS = {"num_heads": 3, "key": mg.random.Key(1, 2, 3, 4)}
PLAIN = {"is_causal": False, "dropout_p": 0.0, "key": None}
INTEGERS = np.random.default_rng(0).integers(-2, 3, (600, 33)).astype(np.int8)
CASES = {  # kernel -> (arrays, settings)
    "softmax": [((draw(4, 9, scale=5),), {"dim": -1}), ((draw(2, 3, 4),), {"dim": 1})],
    "log_softmax": [((draw(4, 9, scale=5),), {"dim": -1}), ((draw(3, 1),), {"dim": 1})],
    "relu": [((draw(1000, scale=4),), {}), ((draw(3, 4).T,), {}), ((np.array(draw()),), {})],
    "gelu": [((draw(1000, scale=4),), {"approximate": how}) for how in ("none", "tanh")],
    "layer_norm": [
        ((draw(6, 33), draw(33, seed=1), draw(33, seed=2)), {"normalized_shape": (33,), "eps": 1e-5}),
        ((draw(2, 3, 4, 5), None, None), {"normalized_shape": (4, 5), "eps": 1e-5}),
        ((draw(300, 8, scale=3), draw(8, seed=1), None), {"normalized_shape": (8,), "eps": 1e-5}),
    ],
    "rms_norm": [
        ((draw(6, 33), draw(33, seed=1)), {"normalized_shape": (33,), "eps": 1e-5}),
        ((draw(130, 4), None), {"normalized_shape": (4,), "eps": 1e-5}),
    ],
    "cross_entropy": [
        ((draw(5, 6, scale=3), TARGET), {"ignore_index": -100, "reduction": how, "label_smoothing": e})
        for how in ("mean", "sum", "none")
        for e in (0.0, 0.1)
    ],
    "embedding": [((draw(5, 3), IDS), {})],
    "quantized_linear": [
        ((draw(3, 33), INTEGERS, draw(600, seed=1, scale=0.1), bias), {}) for bias in (None, draw(600))
    ],
    **{
        name: [
            ((*layer(gates, states), None), {"reverse": False}),
            ((*layer(gates, states, biases=False), SHORT), {"reverse": True}),
        ]
        for name, gates, states in (("rnn", 1, 1), ("lstm", 4, 2), ("gru", 3, 1))
    },
    "scaled_dot_product_attention": [
        (
            (draw(2, 3, 5, 4), draw(2, 3, 7, 4, seed=1), draw(2, 3, 7, 6, seed=2), mask),
            {"is_causal": causal, "scale": 0.5, "dropout_p": p, "key": mg.random.Key(1, 2, 3, 4)},
        )
        for mask in (None, MASK, draw(5, 7, seed=4))
        for causal in (False, True)
        for p in (0.0, 0.3)
    ]
    + [
        ((draw(2, 3, 1, 4), draw(2, 3, 7, 4, seed=1), draw(2, 3, 7, 4, seed=2), seen), PLAIN | {"scale": 0.5})
        for seen in (None, SEEN, SEEN & np.array([True, False]).reshape(2, 1, 1, 1), draw(1, 7, seed=4))
    ],
    "multi_head_attention": [
        ((x, memory, mask), HEADS | {"is_causal": causal, "dropout_p": p})
        for x, memory in ((draw(2, 5, 36), None), (draw(2, 5, 12), draw(2, 7, 24, seed=1)))
        for mask in (None, MASK[..., :5] if memory is None else MASK, draw(5, 1, seed=4))
        for causal in (False, True)
        for p in (0.0, 0.3)
    ],
}


def run(which, name, arrays, settings):
    """A kernel's value, and its gradients for a random g."""
    value, gradient = getattr(which, name)(*arrays, **settings)
    if isinstance(value, tuple):
        value, g = np.concatenate(value, axis=None), [draw(*part.shape, seed=9) for part in value]
    else:
        g = draw(*np.shape(value), seed=9) if np.ndim(value) else np.float32(0.7) * np.ones((), np.float32)
    needs = [a is not None and a.dtype == np.float32 for a in arrays]
    if isinstance(gradient, tuple):
        return value, [f(g) for f in gradient]
    return value, [r for r, needed in zip(gradient(g, needs), needs, strict=True) if needed]


def assert_same_run(name, arrays, settings, others=None, rtol=2e-6):
    """The loop gives what NumPy's kernel does, of the same arrays or of `others`."""
    value, gradients = run(jit, name, arrays, settings)
    expected, theirs = run(cpu, name, others or arrays, settings)
    np.testing.assert_allclose(value, expected, rtol=rtol, atol=rtol, err_msg=str(settings))
    for ours, other in zip(gradients, theirs, strict=True):
        assert ours.dtype == other.dtype == np.float32
        assert ours.shape == other.shape
        np.testing.assert_allclose(ours, other, rtol=3 * rtol, atol=3 * rtol, err_msg=str(settings))


def assert_definition(which, function, inputs):
    """A kernel has the values and gradients of its readable definition."""
    found = []
    for fused in (True, False):
        mg.manual_seed(0)
        with kernels.use(which), mg.fused(fused):
            y = function()
            found.append([y, *mg.autograd.grad((y * y).sum(), inputs)])
    for ours, readable in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), readable.numpy(), rtol=2e-4, atol=2e-5)


@needs_numba
@pytest.mark.parametrize("name", CASES)
def test_numba_kernels_agree_with_numpy_kernels(name):
    for arrays, settings in CASES[name]:
        assert_same_run(name, arrays, settings)


@needs_numba
def test_every_numba_kernel_is_compared_with_numpy():
    kernels.kernels(draw())  # loads them
    assert registered("numba") - {"adam"} == set(CASES) - {"multi_head_attention"} == set(SMALL)


ENTROPY = {"ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0}
SMOOTHED = ENTROPY | {"reduction": "none", "label_smoothing": 0.1}
ATTENTION = PLAIN | {"scale": 0.5}
ROWS = lambda *shape: {"normalized_shape": shape, "eps": 1e-5}
NO_IDS = np.zeros((0, 2), np.int64)


def heads(batch, count, queries, keys, width, value_width, **settings):
    shapes = (queries, width), (keys, width), (keys, value_width)
    arrays = [draw(batch, count, *shape, seed=i) for i, shape in enumerate(shapes)]
    return (*arrays, None), ATTENTION | settings


MATRICES = (3, 5), (3, 1), (0, 3), (3, 0)
TABLES = ((6, 3), IDS), ((6, 0), IDS), ((6, 1), IDS), ((6, 3), NO_IDS), ((0, 3), NO_IDS), ((6, 3), 2)
SMALL = {  # kernel -> (arrays, settings): of nothing, of one class or number, and a few of each
    "softmax": [((draw(*shape),), {"dim": -1}) for shape in (*MATRICES, (5,), (2, 0, 3))],
    "log_softmax": [((draw(*shape),), {"dim": -1}) for shape in (*MATRICES, (5,))],
    "relu": [((np.array(draw(*shape)),), {}) for shape in (*MATRICES, ())],
    "gelu": [
        ((np.array(draw(*shape)),), {"approximate": how})
        for shape in (*MATRICES, ())
        for how in ("none", "tanh")
    ],
    "layer_norm": [((draw(n, d), draw(d, seed=1), draw(d, seed=2)), ROWS(d)) for n, d in MATRICES]
    + [((np.ones((2, 3), np.float32), None, None), ROWS(3))],
    "rms_norm": [((draw(n, d), draw(d, seed=1)), ROWS(d)) for n, d in MATRICES]
    + [((np.zeros((2, 3), np.float32), None), ROWS(3))],
    "cross_entropy": [
        ((draw(len(target), classes), np.array(target, np.int64)), settings)
        for target, classes in (([0, 2], 3), ([0, 0, -100], 1), ([], 4), ([-100, -100], 3))
        for settings in (ENTROPY, SMOOTHED)
    ],
    "embedding": [((draw(*shape), np.array(ids, np.int64)), {}) for shape, ids in TABLES],
    "quantized_linear": [
        ((draw(n, d), np.ones((m, d), np.int8), draw(m, seed=1), None), {})
        for n, m, d in ((3, 4, 5), (0, 4, 5), (3, 0, 5), (3, 4, 0), (1, 1, 1))
    ],
    "scaled_dot_product_attention": [
        heads(*shape)
        for shape in ((2, 3, 5, 7, 4, 6), (1, 1, 1, 1, 1, 1), (1, 1, 1, 5, 4, 4), (1, 2, 2, 0, 3, 3),
                      (0, 1, 2, 2, 2, 2), (1, 1, 0, 3, 2, 2), (1, 1, 2, 2, 0, 2), (1, 1, 2, 2, 2, 0))
    ],
    **{
        name: [
            ((draw(t, b, i), *[draw(b, h, seed=n) for n in range(states)], draw(gates * h, i, seed=2),
              draw(gates * h, h, seed=3), None, None, None), {"reverse": False})
            for t, b, i, h in ((3, 2, 2, 5), (1, 1, 1, 1), (2, 0, 2, 3), (2, 2, 0, 3), (2, 2, 2, 0))
        ]
        for name, gates, states in (("rnn", 1, 1), ("lstm", 4, 2), ("gru", 3, 1))
    },
}  # fmt: skip


def spoiled(a):
    """An array in other layouts, and copies with NaN or an infinity in one place, a row, everywhere."""
    yield from (np.asfortranarray(a), np.repeat(a, 2, -1)[..., ::2], a[..., ::-1].copy()[..., ::-1])
    yield np.repeat(a, 2, 0)[::2]
    yield np.broadcast_to(a[:1], a.shape)
    for number in (np.nan, np.inf, -np.inf):
        for place in ((0,) * a.ndim, (-1,) * a.ndim, 0, ...):
            b = a.copy()
            b[place] = number
            yield b


def values_and_gradients(which, name, arrays, settings, g):
    tensors = [a if a is None else mg.Tensor(a) for a in arrays]
    inputs = [x.requires_grad_() for x in tensors if x is not None and x.is_floating_point()]
    with kernels.use(which):
        outs = ops[name].call(*tensors, **settings)
        outs = list(outs) if isinstance(outs, tuple) else [outs]
        grads = mg.autograd.grad(outs, inputs, [mg.Tensor(g(out.shape)) for out in outs])
    return [x.array for x in (*outs, *grads)]


def assert_alike(name, arrays, settings, g=lambda shape: draw(*shape, seed=9)):
    found, expected = (values_and_gradients(which, name, arrays, settings, g) for which in ("jit", "numpy"))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@needs_numba
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.slow
def test_numba_kernels_handle_nan_empty_and_strided_arrays(name):
    """Each float array in turn, and the gradient that comes back."""
    for arrays, settings in SMALL[name]:
        assert_alike(name, arrays, settings)
        for i, a in enumerate(arrays):
            if a is not None and a.dtype == np.float32 and a.size and a.ndim:
                for other in spoiled(a):
                    assert_alike(name, (*arrays[:i], other, *arrays[i + 1 :]), settings)
        for number in (np.nan, np.inf):
            assert_alike(name, arrays, settings, lambda shape, n=number: np.full(shape, n, np.float32))
        assert_alike(name, arrays, settings, lambda shape: np.broadcast_to(np.float32(0.5), shape))
        assert_alike(name, arrays, settings, lambda shape: np.array(draw(*shape, seed=9), order="F"))


@needs_numba
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 0.0])
def test_numba_adam_handles_nan_and_inf_like_numpy(number):
    for place in range(4):
        found = []
        for which in ("jit", "numpy"):
            p, g, m, v = draw(5), draw(5, seed=1), draw(5, seed=2), abs(draw(5, seed=3))
            (p, g, m, v)[place][1] = number
            with kernels.use(which):
                adam_update(p, g, m, v, (0.1, 0.1, 0.9, 0.1, 1.0, 1e-8, 0.99, 0.1))
            found.append((p, m, v))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@needs_numba
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("order", [*itertools.permutations(range(4))], ids=str)
def test_attention_accepts_every_memory_order_of_axes(order, is_causal):
    rng = np.random.default_rng(0)
    shape = np.array([3, 2, 5, 4])[list(order)]
    q, k, v = (rng.normal(size=shape).astype(np.float32).transpose(np.argsort(order)) for _ in range(3))
    for mask in (None, rng.random((3, 1, 5, 5)) < 0.8):
        settings = PLAIN | {"is_causal": is_causal, "scale": 0.5}
        assert_same_run("scaled_dot_product_attention", (q, k, v, mask), settings, rtol=3e-6)


@needs_numba
def test_numba_kernels_fall_back_to_numpy_for_float64():
    for name, cases in CASES.items():
        arrays, settings = cases[0]
        doubles = [a.astype(np.float64) if a is not None and a.dtype == np.float32 else a for a in arrays]
        ours, theirs = (getattr(m, name)(*doubles, **settings)[0] for m in (jit, cpu))
        for own, other in zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]:
            assert own.dtype == np.float64
            np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("wrong", [-1, 5])
def test_embedding_rejects_out_of_range_ids(which, wrong):
    weight = draw(5, 3)
    ids = np.array([[0, wrong], [4, 1]])
    with (
        kernels.use(which),
        pytest.raises(IndexError, match=f"id {wrong} is out of range for an embedding with 5 rows"),
    ):
        Kernels(which).embedding(weight, ids)


@needs_numba
def test_embedding_accepts_any_integer_dtype_and_empty_ids():
    for ids in (IDS.astype(np.uint8), IDS.astype(np.int32)[:, ::-1], IDS[:0]):
        for weight in (draw(5, 3), np.asfortranarray(draw(5, 3))):
            assert_same_run("embedding", (weight, ids), {})


WEIGHT = draw(5, 64, seed=5)


ROW_BY_ROW = {
    "layer_norm": lambda x: F.layer_norm(x, (64,)),
    "rms_norm": lambda x: F.rms_norm(x, (64,)),
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "logsumexp": lambda x: mg.logsumexp(x, -1, True),
    "cross_entropy": lambda x: F.cross_entropy(x, mg.tensor([3] * len(x)), reduction="none")[:, None],
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "sigmoid": mg.sigmoid,
    "linear": lambda x: F.linear(x, mg.tensor(WEIGHT), mg.ones(5)),
}


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("function", ROW_BY_ROW.values(), ids=ROW_BY_ROW)
def test_rows_do_not_depend_on_extreme_values_in_other_rows(function, which):
    rows = draw(6, 64, seed=2) * np.float32([[1], [1], [1e-5], [1e20], [1e-30], [30]])
    rows += np.float32([[0], [1e5], [0.02], [0], [0], [-60]])
    extremes = np.float32([[np.nan], [np.inf], [-np.inf], [0], [1e38]]) * np.ones(64, np.float32)

    def value_and_slope(x):
        x = mg.tensor(x, requires_grad=True)
        y = function(x)
        y.backward(mg.tensor(np.resize(draw(y.shape[1], seed=3), y.shape)))
        return y.numpy()[: len(rows)], x.grad.numpy()[: len(rows)]

    with kernels.use(which), np.errstate(all="ignore"):
        together = value_and_slope(np.concatenate([rows, extremes]))
        alone = [value_and_slope(row[None]) for row in rows]
    for ours, expected in zip(together, zip(*alone, strict=True), strict=True):
        expected = np.concatenate(expected)
        near = 1e-5 * np.abs(expected).max(1, keepdims=True)
        assert (np.abs(ours - expected) <= near).all()


@pytest.mark.parametrize("which", BOTH)
def test_adam_kernels_match_the_definition(which):
    arrays = [draw(50, seed=1), draw(50, seed=2), draw(50, seed=3), draw(50, seed=4) ** 2]
    found = [x.copy() for x in arrays]
    numbers = (0.01, 0.1, 0.999, 0.001, 1.2, 1e-8, 0.99, 0.1)
    adam_update.definition(*arrays, numbers)
    with kernels.use(which):
        adam_update(*found, numbers)
    for ours, expected in zip(found, arrays, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("which", BOTH)
def test_adam_updates_small_and_large_parameters_the_same(which):
    """A parameter by itself, among many small ones, or as a large one: the same numbers."""
    results = []
    for sizes in ([5], [5, 7, 3], [5, 20_000, 3]):
        params = [mg.nn.Parameter(draw(n, seed=n)) for n in sizes]
        with kernels.use(which):
            optimizer = mg.optim.AdamW(params, lr=0.01, weight_decay=0.1)
            for step in range(4):
                for p in params:
                    p.grad = mg.tensor(draw(p.shape[0], seed=100 * step + p.shape[0]))
                optimizer.step()
        results.append(params[0].array)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("which", BOTH)
def test_tiled_attention_matches_the_definition(which):
    q, k, v = (mg.tensor(draw(2, 3, 700, 4, seed=i), requires_grad=True) for i in range(3))
    mask = mg.tensor(np.random.default_rng(5).random((2, 1, 1, 700)) > 0.2)
    for settings in ({"is_causal": True}, {"attn_mask": mask}, {"dropout_p": 0.3}):
        assert_definition(which, lambda s=settings: F.scaled_dot_product_attention(q, k, v, **s), [q, k, v])


@needs_numba
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_attention_over_short_sequences_of_all_sizes(seed, is_causal):
    """Lengths and widths around multiples of a vector; masks of keys, of both, and added ones; dropout."""
    rng = np.random.default_rng(seed)
    queries, keys = rng.choice([2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 70], 2)
    width, width_out = rng.choice([1, 3, 8, 15, 16, 17, 32, 40], 2)
    heads = lambda length, width: rng.normal(size=(2, length, 3, width)).astype(np.float32).swapaxes(1, 2)
    arrays = heads(queries, width), heads(keys, width), heads(keys, width_out)
    of_keys, of_both = rng.random((2, 1, 1, keys)) < 0.7, rng.random((queries, keys)) < 0.7
    masks = None, of_keys, of_both, draw(2, 3, queries, 1)
    for mask, p in itertools.product(masks, (0.0, 0.3)):
        settings = {"is_causal": is_causal, "scale": 0.3, "dropout_p": p, "key": mg.random.Key(1, 2, 3, 4)}
        assert_same_run("scaled_dot_product_attention", (*arrays, mask), settings, rtol=5e-6)


@needs_numba
@pytest.mark.parametrize("number", [np.inf, np.nan])
@pytest.mark.parametrize("column", [9, 20])
def test_causal_attention_ignores_mask_values_of_later_keys(number, column):
    q, k, v = (draw(1, 1, 32, 8, seed=seed) for seed in range(3))
    mask = np.zeros((32, 32), np.float32)
    settings = PLAIN | {"is_causal": True, "scale": 0.3}
    expected, _ = jit.scaled_dot_product_attention(q, k, v, mask, **settings)
    mask[2, column] = number
    found, _ = jit.scaled_dot_product_attention(q, k, v, mask, **settings)
    np.testing.assert_array_equal(found, expected)


@needs_numba
def test_short_sequences_write_gradients_in_place():
    """Rows beside the heads that are written keep their numbers, and so does what is not theirs."""
    packed = np.full((2, 21, 5, 3, 20), 7, np.float32)  # each token has three heads' q, k, v, and two more
    q, k, v, g = (draw(2, 3, 19, 20, seed=seed) for seed in range(4))
    into = [packed[:, 1:20, i].swapaxes(1, 2) for i in range(1, 4)]
    _, gradient = jit.scaled_dot_product_attention(q, k, v, None, **PLAIN | {"is_causal": True, "scale": 0.2})
    expected = gradient(g, (True, True, True, False))[:3]
    gradient(g, (True, True, True, False), into)
    for ours, theirs in zip(into, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    packed[:, 1:20, 1:4] = 7
    assert (packed == 7).all()


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize(("length", "offset"), [(5, -1e9), (700, -1e9), (5, 1e30), (700, 1e30), (700, 1e5)])
def test_attention_gradients_with_very_large_scores(which, length, offset):
    """A float32 of -1e9 has no digits left for the logarithm of a sum."""
    q, k, v = (mg.tensor(draw(2, length, 4, seed=i), requires_grad=True) for i in range(3))
    mask = mg.full((length, length), offset)
    assert_definition(which, lambda: F.scaled_dot_product_attention(q, k, v, mask), [q, k, v])


@pytest.mark.parametrize("which", BOTH)
def test_attention_gradients_with_one_dominant_score(which):
    """dS = W (dW - sum(dW W)) nearly cancels there, if the weights of a row sum to 1."""
    arrays = [5 * draw(4, 12, 8, seed=i) for i in range(4)]
    results = []
    for dtype in ("float32", "float64"):
        q, k, v, g = (mg.tensor(a, dtype=dtype, requires_grad=True) for a in arrays)
        with kernels.use(which):
            y = F.scaled_dot_product_attention(q, k, v)
            results.append(mg.autograd.grad((y * g).sum(), [q, k, v]))
    for ours, exact in zip(*results, strict=True):
        np.testing.assert_allclose(ours.numpy(), exact.numpy(), atol=2e-6 * abs(exact.numpy()).max())


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("offset", [-1e9, 1e30])
def test_cross_entropy_gradients_with_very_large_scores(which, offset):
    logits = mg.full((2, 50), offset, requires_grad=True)
    with kernels.use(which):
        F.cross_entropy(logits, np.array([0, 3]), reduction="sum").backward()
    expected = np.full((2, 50), 0.02)
    expected[[0, 1], [0, 3]] -= 1
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("fused", [True, False])
def test_attention_masks_of_another_dtype(which, fused):
    q = mg.tensor(draw(2, 3, 4))
    mask = mg.tensor(draw(3, 3, seed=1), dtype="float64", requires_grad=True)
    attend = lambda mask: ops["scaled_dot_product_attention"].call(q, q, q, mask, False, 0.5, 0.0, None)
    with kernels.use(which), mg.fused(fused):
        y = attend(mask)
        assert y.dtype == "float32"
        np.testing.assert_allclose(y.numpy(), attend(mask.to("float32")).numpy(), rtol=1e-6)
        assert mg.autograd.grad(y.sum(), [mask])[0].dtype == "float64"
        with pytest.raises(mg.DtypeError, match="boolean mask, got int64"):
            attend(mg.ones(3, 3, dtype="int64"))


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("keys", [None, 500])
def test_tiled_multi_head_attention_matches_the_definition(which, keys):
    """Read from the projections and written to them, where heads lie apart: of their own, or of a memory."""
    x = mg.tensor(draw(2, 700, 24 if keys is None else 8), requires_grad=True)
    memory = keys and mg.tensor(draw(2, keys, 16, seed=1), requires_grad=True)
    attend = lambda: multi_head_attention(x, memory, None, 2, keys is None)
    assert_definition(which, attend, [x] if keys is None else [x, memory])


@needs_numba
def test_single_query_attention_reads_strided_heads():
    q = draw(2, 3, 1, 4)
    apart = [draw(2, 9, 3, 4, seed=seed)[:, :7].swapaxes(1, 2) for seed in (1, 2)]  # as views of a cache are
    together = (q, *map(np.copy, apart), SEEN)
    settings = PLAIN | {"scale": 0.5}
    assert_same_run("scaled_dot_product_attention", (q, *apart, SEEN), settings, together)


NUMBERS = draw(2)


def test_use_selects_kernels_within_its_block():
    before = kernels.kernels(NUMBERS)
    with kernels.use("numpy"):
        assert kernels.kernels(NUMBERS) is sets["numpy"]
    assert kernels.kernels(NUMBERS) is before
    known = ", ".join(repr(each.public_name) for each in sets.values())
    with pytest.raises(mg.OptionError, match=f"kernels must be one of {known}, got 'fortran'"):
        kernels.use("fortran")


def test_numpy_kernels_are_used_without_numba(monkeypatch):
    """As at the start of a program, in which the set for numba is not the default where there is no numba."""
    monkeypatch.setattr(kernels.numba, "find_spec", lambda name: None)
    monkeypatch.setitem(defaults, "cpu", sets["numpy"])
    monkeypatch.setattr(kernels.active, "cpu", None)
    assert kernels.kernels(NUMBERS) is sets["numpy"]
    with pytest.raises(mg.errors.DependencyError, match=r"need numba[\s\S]*pip install"):
        kernels.use("jit")


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("sign", [1, -1])
def test_attention_propagates_nan_from_the_only_visible_key(which, sign):
    """Also one whose sign bit is set, which is what 0 * inf gives on many processors."""
    q = mg.zeros(1, 1, 1, 2)
    v = mg.ones(1, 1, 2, 2)
    k = mg.tensor(np.copysign(np.array([[[[np.nan, np.nan], [0, 0]]]], np.float32), sign))
    seen = mg.tensor(np.array([[True, False]]))
    with kernels.use(which):
        assert np.isnan(F.scaled_dot_product_attention(q, k, v, seen).numpy()).all()


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_multi_head_attention_of_empty_inputs(which, batch, queries, keys):
    with kernels.use(which):
        x = mg.randn(batch, queries, 4, requires_grad=True)
        memory = mg.randn(batch, keys, 8, requires_grad=True)
        y = multi_head_attention(x, memory, None, 2)
        assert y.shape == x.shape
        assert not y.numpy().any()
        y.sum().backward()
        assert (x.grad.shape, memory.grad.shape) == (x.shape, memory.shape)
        assert not memory.grad.numpy().any()
        packed = mg.randn(batch, queries, 12, requires_grad=True)
        assert multi_head_attention(packed, None, None, 2, is_causal=True).shape == x.shape


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_branchless_where_matches_numpy(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(128, 128)).astype(dtype) for _ in range(2))
    x[0], y[1] = np.inf, np.nan
    mask = rng.random((128, 128)) < 0.5
    assert masks.where(mask, x, y).dtype == dtype
    np.testing.assert_array_equal(masks.where(mask, x, y), np.where(mask, x, y))
    np.testing.assert_array_equal(masks.where(mask.T, x.T, y), np.where(mask.T, x.T, y))
    np.testing.assert_array_equal(masks.where(mask, x, 0.0), np.where(mask, x, 0.0))
    relued, (gradient,) = cpu.relu(np.where(mask, 1, -1).astype(dtype))
    np.testing.assert_array_equal(relued, mask)
    np.testing.assert_array_equal(gradient(x), np.where(mask, x, 0.0))


def test_layer_norm_of_one_element_has_zero_gradient():
    x = mg.tensor([[5.0], [6.0], [7.0]], requires_grad=True)
    w = mg.tensor([1.3])
    F.layer_norm(x, (1,), w, w).backward(mg.tensor([[1.0], [2.0], [3.0]]))
    assert x.grad.tolist() == [[0.0]] * 3


def test_every_composite_has_a_definition_and_a_kernel():
    composites = {name for name, op in ops.items() if op.definition and not op.is_user_defined}
    assert composites == {
        "softmax", "log_softmax", "logsumexp", "gelu", "dropout", "layer_norm", "linear", "embedding",
        "cross_entropy",
        "scaled_dot_product_attention", "multi_head_attention", "rms_norm", "rotary", "rnn", "lstm", "gru",
        "quantized_linear",
    }  # fmt: skip
