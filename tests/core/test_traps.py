"""Mistakes that others made, a regression test each, by the numbers of the design's list of known traps."""

import gc
import math
import weakref

import numpy as np
import pytest

import minigrad as mg
import minitransformer.layers.attention  # noqa: F401 (has a composite op of its own)
from minigrad import autograd
from minigrad.core.backward import GradientSums
from minigrad.core.node import Node
from minigrad.core.registry import ops
from minigrad.nn import functional as F

INF = math.inf


def leaf(array, dtype="float64"):
    return mg.tensor(np.array(array, dtype=dtype), requires_grad=True)


def assert_equal(x, expected, rtol=1e-12, atol=0.0):
    np.testing.assert_allclose(np.asarray(x), expected, rtol=rtol, atol=atol)


def gradient_of(function, x):
    x = leaf(x)
    with np.errstate(divide="ignore"):
        function(x).sum().backward()
    return x.grad.array


# ---------------------------------------------------------------- 1: aliased gradients


def test_01_adding_into_an_aliased_gradient():
    x, y = leaf([1, 2]), leaf([3, 4])
    ((x + y).mean() + x.mean()).backward()
    assert_equal(x.grad, [1, 1])
    assert_equal(y.grad, [0.5, 0.5])
    z = leaf([1, 2, 3, 4])
    (x.reshape(2, 1) + z.reshape(2, 2)).mean().backward()
    assert_equal(z.grad, [0.25] * 4)


def test_01_a_sum_with_itself():
    x = leaf([1, 2])
    (x + x).sum().backward()
    assert_equal(x.grad, [2, 2])


def test_01_views_of_one_gradient():
    x = leaf([[1, 2], [3, 4]])
    y = x.T + x + x.reshape(2, 2)
    y.backward(np.array([[1.0, 10.0], [100.0, 1000.0]]))
    assert_equal(x.grad, [[3, 120], [210, 3000]])


# ---------------------------------------------------------------- 2: dtypes


@pytest.mark.needs("torch_names")
@pytest.mark.parametrize("number", [2, 2.0, True, np.float64(2), np.float32(2), np.int64(2)], ids=repr)
def test_02_a_number_does_not_change_a_float_tensors_dtype(number):
    x = mg.ones(2, requires_grad=True)
    for y in (x * number, number * x, x + number, x / number, number - x, x**number):
        assert y.dtype == mg.float32
    (x * number).sum().backward()
    assert x.grad.dtype == mg.float32


# (and the rest of promotion: test_dtypes.py)


# ---------------------------------------------------------------- 3: ties


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_03_ties_over_all_elements_share(name):
    assert_equal(gradient_of(lambda x: getattr(x, name)(), [2, 2, 2, 2]), [0.25] * 4)


@pytest.mark.parametrize(("name", "row"), [("max", [1, 3, 3]), ("min", [3, 1, 1])])
def test_03_ties_along_an_axis_go_to_the_first(name, row):
    assert_equal(gradient_of(lambda x: getattr(x, name)(dim=1).values, [row]), [[0, 1, 0]])
    assert_equal(gradient_of(lambda x: getattr(x, "a" + name)(dim=1), [row]), [[0, 0.5, 0.5]])


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_03_a_tied_pair_shares(name):
    x = leaf([1, 2])
    getattr(x, name)(leaf([1, 2])).sum().backward()
    assert_equal(x.grad, [0.5, 0.5])


def test_03_clamp_passes_gradients_at_its_limits_and_relu_none_at_zero():
    assert_equal(gradient_of(lambda x: x.clamp(-1, 1), [-2, -1, 0, 1, 2]), [0, 1, 1, 1, 0])
    assert_equal(gradient_of(lambda x: x.relu(), [-1, 0, 1]), [0, 0, 1])
    assert_equal(gradient_of(lambda x: x.abs(), [-1, 0, 1]), [-1, 0, 1])


# ---------------------------------------------------------------- 4: matrix products

SHAPES = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((3,), (5, 3, 2)), ((5, 2, 3), (3,)), ((2, 3), (5, 3, 2)),
    ((5, 1, 2, 3), (4, 3, 2)), ((1, 2, 3), (5, 3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_04_products_of_all_ranks_and_batches(left, right):
    rng = np.random.default_rng(0)
    x, y = leaf(rng.normal(size=left)), leaf(rng.normal(size=right))
    out = x @ y
    assert_equal(out, x.array @ y.array)
    mg.gradcheck(lambda x, y: x @ y, [x, y])


def test_04_products_of_views():
    rng = np.random.default_rng(0)
    x, y = leaf(rng.normal(size=(3, 2))), leaf(rng.normal(size=(2, 4, 3)))
    mg.gradcheck(lambda x, y: x.T @ y.transpose(1, 2) @ y.flip(1), [x, y])


# ---------------------------------------------------------------- 5: depth


def test_05_a_chain_of_20000_ops_is_walked_once_without_recursion(monkeypatch):
    n, calls = 20_000, []
    x = leaf([1.0])
    y = x
    for _ in range(n):
        y = y + 1
    add = GradientSums.add

    def counted(self, *args, **kwargs):
        calls.append(1)
        add(self, *args, **kwargs)

    monkeypatch.setattr(GradientSums, "add", counted)
    y.backward()
    assert_equal(x.grad, [1])
    assert len(calls) <= n + 1


def test_05_a_chain_that_is_dropped_unwalked():
    x = leaf([1.0])
    y = x
    for _ in range(20_000):
        y = y + 1
    node = weakref.ref(y.node)
    del y
    assert node() is None


def test_05_a_second_derivative_of_a_chain():
    x = leaf([1.0])
    y = x
    for _ in range(1_000):
        y = y * 1.001
    (g,) = autograd.grad((y * y).sum(), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x)
    assert_equal(h, [2 * 1.001**2000], rtol=1e-9)


def test_05_paths_that_double_at_each_step_are_walked_once():
    x = leaf([1.0])
    y = x
    for _ in range(60):
        y = y + y  # 2**60 paths
    y.backward()
    assert_equal(x.grad, [2.0**60])


# ---------------------------------------------------------------- 6: the same operand twice


def test_06_the_same_operand_twice_is_two_edges():
    for function, expected in (
        (lambda x: x * x, [2, 4]), (lambda x: x + x, [2, 2]), (lambda x: x - x, [0, 0]),
        (lambda x: x / x, [0, 0]),
        (lambda x: mg.cat([x, x]), [2, 2]), (lambda x: mg.maximum(x, x), [1, 1]), (lambda x: x @ x, [2, 4]),
    ):  # fmt: skip
        assert_equal(gradient_of(function, [1, 2]), expected, atol=1e-15)


# ---------------------------------------------------------------- 7: freeing


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def step(x):
    """A forward and a backward pass through ops of every kind; gives weak references to what they made."""
    made = [x.exp()]
    made.append(made[-1].reshape(2, 2).softmax(-1))
    made += list(made[-1].split(1, dim=1))
    made.append(mg.cat(made[-2:], dim=1))
    made[-1].register_hook(lambda g: g * 1)
    made[1].retain_grad()
    made[-1].sum().backward()
    return [weakref.ref(t) for t in made] + [weakref.ref(t.array) for t in made]


@pytest.mark.usefixtures("no_collector")
def test_07_reference_counting_alone_frees_a_graph():
    x = leaf([1, 2, 3, 4])
    assert not any(ref() is not None for ref in step(x))
    (g,) = autograd.grad((x.exp() * x).softmax(-1)[0], x, create_graph=True)
    refs = [weakref.ref(g), weakref.ref(g.node), weakref.ref(g.array)]
    del g
    assert not any(ref() is not None for ref in refs)


def nodes():
    return sum(type(thing) is Node for thing in gc.get_objects())


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("where", ["forward", "backward", "hook", "create_graph"])
def test_07_nothing_is_left_after_an_exception(where):
    x = leaf([1, 2, 3, 4])
    before = nodes()

    def broken(g):
        raise RuntimeError("on purpose")

    def run():
        y = (x.exp() * x).softmax(-1)
        if where == "hook":
            y.register_hook(broken)  # noqa: F821
        z = y.reshape(2, 2) @ (y[:3] if where == "forward" else y.reshape(2, 2))
        if where == "backward":
            z.sum().backward()
        autograd.grad(z.sum(), x, create_graph=where == "create_graph")
        if where == "create_graph":
            raise RuntimeError("on purpose")

    with pytest.raises(Exception):  # noqa: B017, PT011
        run()
    del broken
    assert nodes() == before


# ---------------------------------------------------------------- 8: second derivatives

# (that every composite's are its definition's: test_ops.py, for each sample of the table)


def test_08_every_composite_has_a_definition_and_a_kernel():
    composites = {name for name, op in ops.items() if op.definition}
    assert composites == {
        "softmax", "log_softmax", "logsumexp", "gelu", "dropout", "layer_norm", "linear", "embedding",
        "cross_entropy",
        "scaled_dot_product_attention", "multi_head_attention", "rms_norm", "rotary", "rnn", "lstm", "gru",
    }  # fmt: skip


def test_08_a_gradient_penalty_through_a_block():
    rng = np.random.default_rng(0)
    x, w = leaf(rng.normal(size=(2, 3, 4))), leaf(rng.normal(size=(4, 4)))

    def penalty(x, w):
        y = F.gelu(F.layer_norm(F.scaled_dot_product_attention(x, F.linear(x, w), x, is_causal=True), 4))
        loss = F.cross_entropy(y[:, -1], mg.tensor([1, 3]), label_smoothing=0.1)
        (g,) = autograd.grad(loss, x, create_graph=True)
        return (g * g).sum()

    fast = autograd.grad(penalty(x, w), [x, w])
    with mg.fused(False):
        slow = autograd.grad(penalty(x, w), [x, w])
    for a, b in zip(fast, slow, strict=True):
        assert_equal(a, b.array, rtol=1e-9, atol=1e-12)
    mg.gradcheck(penalty, [x, w])


# ---------------------------------------------------------------- 9: poles and corners


def test_09_values_and_gradients_at_zero_are_pytorchs():
    with np.errstate(divide="ignore", invalid="ignore"):
        assert_equal(mg.zeros(1).log(), [-INF])
        assert_equal(gradient_of(lambda x: x.log(), [0]), [INF])
        assert_equal(gradient_of(lambda x: x.sqrt(), [0]), [INF])
        assert_equal(gradient_of(lambda x: x**0.5, [0]), [INF])
    assert_equal(gradient_of(lambda x: x.norm(), [0, 0]), [0, 0])
    assert_equal(gradient_of(lambda x: x.std(), [3, 3]), [0, 0])
    assert_equal(gradient_of(lambda x: x**0, [0, 2]), [0, 0])
    assert_equal(gradient_of(lambda x: x**1, [0, 2]), [1, 1])
    assert_equal(gradient_of(lambda x: x**2, [0, 2]), [0, 4])
    assert_equal(mg.zeros(1) ** 0, [1])
    assert_equal(mg.zeros(1) ** mg.zeros(1), [1])


def test_09_powers_of_tensors_at_zero():
    x, y = leaf([0, 0, 2]), leaf([0, 2, 3])
    (x**y).sum().backward()
    assert_equal(x.grad, [0, 0, 12])
    assert_equal(y.grad, [0, 0, 8 * math.log(2)])


def test_09_an_infinite_gradient_does_not_pass_a_closed_gate():
    closed = np.array([True, False])
    gates = [
        lambda x: x.masked_fill(mg.tensor(closed), 0.0),
        lambda x: mg.where(~closed, x, 0.0),
        lambda x: mg.where(closed, 0.0, x),
        lambda x: (x * np.where(closed, -1.0, 1.0)).relu(),
        lambda x: (x * np.where(closed, -1.0, 1.0)).clamp(min=0.0),
        lambda x: mg.maximum(x * np.where(closed, -1.0, 1.0), 0.0),
    ]
    for gate in gates:
        assert_equal(gradient_of(lambda x, gate=gate: gate(x).sqrt(), [4, 4]), [0, 0.25])


def test_09_sigmoid_and_friends_keep_their_small_tails():
    x = mg.tensor([-80.0, -30.0])
    assert_equal(x.sigmoid(), np.exp([-80.0, -30.0]), rtol=1e-6)
    assert_equal(mg.tensor([-1000.0, 1000.0]).sigmoid(), [0, 1])
    assert_equal(F.log_softmax(mg.tensor([[0.0, 1000.0]])), [[-1000, 0]])
    assert_equal(mg.tensor([1000.0, 1000.0]).logsumexp(0), 1000 + math.log(2), rtol=1e-6)


# ---------------------------------------------------------------- 10: mutation: test_versions.py


def test_10_a_mutated_input_is_found():
    x, c = leaf([1, 2]), mg.ones(2, dtype="float64")
    loss = (x * c).sum()
    c += 1
    with pytest.raises(mg.GraphError, match="changed since by add_"):
        loss.backward()


# ---------------------------------------------------------------- 11: odd memory

ODD = {
    "transposed": lambda a: np.asfortranarray(a),
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
    "negative strides": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
}
FUNCTIONS = {
    "softmax": lambda x: x.softmax(0), "log_softmax": lambda x: x.log_softmax(-1),
    "gelu": lambda x: F.gelu(x),
    "layer_norm": lambda x: F.layer_norm(x, 4), "linear": lambda x: F.linear(x, x),
    "matmul": lambda x: x @ x.T,
    "cross_entropy": lambda x: F.cross_entropy(x, np.array([0, 3, 1])), "logsumexp": lambda x: x.logsumexp(1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x), "reshape": lambda x: x.reshape(2, 6) * 2,
    "embedding": lambda x: F.embedding([2, 0, 2], x), "flip": lambda x: x.flip(0, 1)[:, ::2],
    "amax": lambda x: x.amax(0),
    "dropout": lambda x: ops["dropout"].call(x, 0.5, mg.random.Key(0, 0, 0, 0)),
    "cat": lambda x: mg.cat([x, x.T.mT]),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_11_how_an_array_lies_in_memory_changes_nothing(function, odd):
    array = odd(np.random.default_rng(0).normal(size=(3, 4)))
    plain, strange = leaf(array.copy(order="C")), mg.Tensor(array, requires_grad=True)
    outs = [function(x) for x in (plain, strange)]
    assert_equal(outs[0], outs[1].array, rtol=1e-13)
    weights = np.random.default_rng(1).normal(size=(*outs[0].shape, 2))[..., 0]  # odd memory itself
    for out in outs:
        out.backward(weights)
    assert_equal(plain.grad, strange.grad.array, rtol=1e-12, atol=1e-15)


ELEMENTWISE = [
    name
    for name, op in ops.items()
    if op.arity == 1
    and not op.settings
    and op.family in ("elementwise", "activation")
    and name not in ("acosh", "log", "rsqrt", "bitwise_not")
]


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_11_numbers_and_empty_tensors(name, shape):
    x = leaf(np.full(shape, 0.5))
    y = ops[name].call(x)
    assert y.shape == shape
    if y.requires_grad:
        y.sum().backward()
        assert x.grad.shape == shape


def test_11_empty_batches_go_through_a_network():
    x = mg.zeros(0, 5, 4, requires_grad=True)
    w = mg.ones(4, 4, requires_grad=True)
    y = F.gelu(F.layer_norm(F.linear(x, w), 4)).softmax(-1)
    y = F.scaled_dot_product_attention(y, y, y, is_causal=True)
    (y.sum() + F.embedding(mg.zeros(0, dtype="int64"), w).sum() + y.amax(-1).sum()).backward()
    assert x.grad.shape == (0, 5, 4)
    assert_equal(w.grad, np.zeros((4, 4)))


def test_11_reductions_of_numbers_take_an_axis():
    x = leaf(3.0)
    for name in ("sum", "mean", "amax", "amin"):
        assert_equal(getattr(x, name)(dim=0), 3)
    assert_equal(x.argmax(dim=-1), 0)


# ---------------------------------------------------------------- 12: masks


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mask", [np.zeros((2, 3), bool), np.full((2, 3), -INF)], ids=["boolean", "float"])
def test_12_a_query_that_may_see_nothing_gives_zeros_and_zero_gradients(fused, mask):
    q, k, v = (leaf(np.random.default_rng(i).normal(size=(n, 4))) for i, n in enumerate((2, 3, 3)))
    mask[1, 2] = True if mask.dtype == bool else 0.0
    with mg.fused(fused):
        out = F.scaled_dot_product_attention(q, k, v, mask)
    out.sum().backward()
    assert_equal(out[0], np.zeros(4))
    assert_equal(out[1], v.array[2])
    assert_equal(q.grad, np.zeros((2, 4)))
    assert_equal(v.grad, [[0] * 4, [0] * 4, [1] * 4])


def test_12_no_keys_at_all():
    q = leaf(np.ones((2, 4)))
    assert_equal(F.scaled_dot_product_attention(q, mg.zeros(0, 4), mg.zeros(0, 3)), np.zeros((2, 3)))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_12_an_ignored_row_counts_nothing_whatever_it_holds(fused, reduction, smoothing):
    logits = leaf([[1.0, 2.0, 0.5], [-INF, 1.0, 0.0]])
    alone = leaf([[1.0, 2.0, 0.5]])
    with mg.fused(fused), np.errstate(invalid="ignore"):
        loss = F.cross_entropy(logits, [2, -100], reduction=reduction, label_smoothing=smoothing)
        expected = F.cross_entropy(alone, [2], reduction=reduction, label_smoothing=smoothing)
        loss.sum().backward()
        expected.sum().backward()
    assert_equal(loss.sum(), expected.sum().item())
    assert_equal(logits.grad, np.concatenate([alone.grad.array, np.zeros((1, 3))]))


@pytest.mark.parametrize("fused", [True, False])
def test_12_one_class_is_certain(fused):
    x = leaf([[3.0], [-2.0]])
    with mg.fused(fused):
        assert_equal(x.softmax(-1), [[1], [1]])
        assert_equal(x.log_softmax(-1), [[0], [0]])
        F.cross_entropy(x, [0, 0]).backward()
    assert_equal(x.grad, [[0], [0]])


# ---------------------------------------------------------------- 15: gradient accumulation


def test_15_uneven_micro_batches_weighted_by_their_count_give_the_big_batch():
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=(5, 3)), np.array([0, 2, -100, 1, -100])
    w = leaf(rng.normal(size=(3, 3)))
    F.cross_entropy(mg.tensor(x) @ w, target).backward()
    whole, w.grad = w.grad, None
    for rows in (slice(0, 3), slice(3, 4), slice(4, 5)):
        (F.cross_entropy(mg.tensor(x[rows]) @ w, target[rows], reduction="sum") / 3).backward()
    assert_equal(w.grad, whole.array, rtol=1e-12, atol=1e-15)
