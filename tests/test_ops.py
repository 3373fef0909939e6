"""Every op against finite differences, to second order, and against what the engine relies on.

The table gives each op a few small inputs. Array inputs stand in lists: floats that require a gradient are
float64 arrays, other arrays are constants.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops import METHODS
from minigrad.ops.record import ops
from minigrad.random import Key

rng = np.random.default_rng(0)


def reals(*shape):
    return rng.normal(size=shape)


def positive(*shape):
    return rng.uniform(0.5, 2.0, shape)


def distinct(*shape):
    """Numbers at least 0.2 apart and none near 0, so that no step of finite differences crosses a kink."""
    n = int(np.prod(shape))
    return (rng.permutation(n) * 0.4 - 0.2 * n + 0.1).reshape(shape)


A, B, ROW = reals(2, 3), reals(2, 3), reals(3)
MASK = np.array([[True, False, True], [False, False, True]])
KEY = Key(seed=0, stream=1, step=0, call=0)
IDS = np.array([[0, 2], [2, 2]])
TARGET = np.array([1, -100, 3])
SOME = np.array([[True, True, False, False], [False, False, False, False]])  # the second query sees nothing

UNARY = {
    **dict.fromkeys(["exp", "expm1", "erf", "sin", "cos", "tanh", "sigmoid", "square", "negative"], reals),
    **dict.fromkeys(["alias", "clone"], reals),
    **dict.fromkeys(["log", "log1p", "sqrt", "rsqrt"], positive),
    **dict.fromkeys(["absolute", "sign", "relu", "floor"], distinct),
}
BINARY = {
    **dict.fromkeys(["add", "subtract", "multiply"], reals),
    **dict.fromkeys(["true_divide", "power"], positive),
}
WITHOUT_GRADIENT = {
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
    "logical_not",
    "isnan", "isinf", "isfinite", "floor_divide", "all", "any", "argmax", "argmin",
}  # fmt: skip

OF_WHOLE_NUMBERS = {"bitwise_and", "bitwise_or", "bitwise_not"}  # tests/test_regressions.py

# op -> [(arrays, settings), ...]
SAMPLES = {
    **{name: [([draw(2, 3)], {}), ([draw()], {})] for name, draw in UNARY.items()},
    **{name: [([draw(2, 3), draw(3)], {}), ([draw(2, 1), draw(2, 3)], {})] for name, draw in BINARY.items()},
    "amax": [([distinct(2, 3)], {"dim": 1}), ([distinct(2, 3)], {"keepdim": True}), ([distinct()], {})],
    "amin": [([distinct(2, 3)], {"dim": 0}), ([distinct(2, 3)], {})],
    "astype": [([A], {"dtype": "float64"})],
    "broadcast_to": [([ROW], {"shape": (2, 3)}), ([reals(2, 1)], {"shape": (4, 2, 3)})],
    "concatenate": [([A, reals(1, 3), B], {"dim": 0}), ([A, reals(2, 1)], {"dim": -1}), ([ROW], {})],
    "cross_entropy": [
        ([reals(3, 4), TARGET], {"ignore_index": -100, "reduction": "mean", "label_smoothing": 0.0}),
        ([reals(3, 4), TARGET], {"ignore_index": -100, "reduction": "sum", "label_smoothing": 0.1}),
        ([reals(2, 4), np.array([3, 0])], {"ignore_index": 3, "reduction": "none", "label_smoothing": 0.1}),
        ([reals(1, 1), np.array([0])], {"ignore_index": -100, "reduction": "mean", "label_smoothing": 0.1}),
    ],
    "cumsum": [([A], {"dim": 1}), ([A], {"dim": -2})],
    "dropout": [([reals(4, 4)], {"p": 0.5, "key": KEY}), ([A], {"p": 1.0, "key": KEY})],
    "embedding": [([reals(3, 2), IDS], {}), ([reals(3, 2), np.zeros((0,), int)], {})],
    "flip": [([A], {"dim": 0}), ([A], {"dim": (0, 1)})],
    "gelu": [([reals(5)], {}), ([reals(5)], {"approximate": "tanh"})],
    "getitem": [
        ([A], {"index": (slice(None), 1)}),
        ([A], {"index": (Ellipsis, None, slice(None, None, -2))}),
        ([A], {"index": np.array([0, 1, 0])}),
        ([A], {"index": MASK}),
    ],
    "layer_norm": [
        ([A, positive(3), ROW], {"normalized_shape": (3,), "eps": 1e-5}),
        ([reals(2, 2, 3), positive(2, 3), None], {"normalized_shape": (2, 3), "eps": 1e-3}),
        ([A, None, None], {"normalized_shape": (3,), "eps": 1e-5}),
    ],
    "linear": [([reals(2, 2, 3), reals(4, 3), reals(4)], {}), ([ROW, reals(4, 3), None], {})],
    "log_softmax": [([A], {"dim": -1}), ([A], {"dim": 0}), ([reals(2, 1)], {"dim": 1})],
    "logsumexp": [([A], {"dim": 1}), ([A], {"dim": (0, 1), "keepdim": True})],
    "masked_fill": [([A, MASK], {"value": -2.0}), ([A, MASK[:, :1]], {"value": 0.0})],
    "matmul": [
        ([A, reals(3, 2)], {}),
        ([ROW, reals(3)], {}),
        ([ROW, reals(2, 3, 2)], {}),
        ([reals(2, 1, 2, 3), ROW], {}),
        ([reals(2, 1, 2, 3), reals(3, 3, 2)], {}),
    ],
    "maximum": [([distinct(2, 3), distinct(2, 1) + 0.2], {}), ([distinct(), ROW], {})],
    "minimum": [([distinct(2, 3), distinct(2, 1) + 0.2], {}), ([distinct(), ROW], {})],
    "mean": [([A], {"dim": 1}), ([A], {"keepdim": True})],
    "permute_axes": [([reals(2, 1, 3)], {"dims": (2, 0, 1)}), ([reals(2, 1, 3)], {"dims": (-1, 1, 0)})],
    "pieces": [([A], {"sizes": (1, 2), "dim": 1}), ([A], {"sizes": (1, 1), "dim": -2})],
    "put": [([reals(3)], {"shape": (4, 2), "index": (np.array([0, 3, 0]), np.array([1, 0, 1]))})],
    "remainder": [([np.array([5.3, -5.3, 4.1]), np.array([2.0, 2.0, -3.0])], {})],
    "scaled_dot_product_attention": [
        ([reals(2, 2, 3), reals(2, 4, 3), reals(2, 4, 2), None], {"is_causal": True}),
        ([reals(2, 3), reals(4, 3), reals(4, 2), SOME], {"is_causal": False}),
        ([reals(2, 1, 2, 3), reals(1, 4, 3), reals(4, 2), reals(2, 4)], {"is_causal": True}),
        ([reals(2, 3), reals(4, 3), reals(4, 2), SOME], {"is_causal": False, "dropout_p": 0.5, "key": KEY}),
    ],
    "softmax": [([A], {"dim": -1}), ([A], {"dim": 0}), ([reals(2, 1)], {"dim": 1})],
    "sum": [([A], {"dim": 1}), ([A], {"keepdim": True}), ([reals()], {}), ([reals(2, 0)], {"dim": 1})],
    "transpose": [([reals(2, 1, 3)], {"dim0": 0, "dim1": -1})],
    "tril": [([reals(3, 3)], {}), ([reals(2, 2, 3)], {"diagonal": 1})],
    "triu": [([reals(3, 3)], {}), ([reals(2, 2, 3)], {"diagonal": -1})],
    "variance": [
        ([A], {"dim": 1, "correction": 1, "keepdim": False}),
        ([A], {"dim": None, "correction": 0, "keepdim": True}),
    ],
    "view_as_shape": [([A], {"shape": (3, 2)}), ([A.T], {"shape": (-1,)})],
    "where": [([MASK, A, B], {}), ([MASK, ROW, reals(2, 1)], {})],
}  # fmt: skip
for _, settings in SAMPLES["scaled_dot_product_attention"]:
    settings.update({"scale": 0.7, "dropout_p": 0.0, "key": None} | settings)

CASES = [
    pytest.param(n, *sample, id=f"{n}-{i}")
    for n, some in sorted(SAMPLES.items())
    for i, sample in enumerate(some)
]
COMPOSITES = [case for case in CASES if ops[case.values[0]].definition]
FORMS = [pytest.param(*case.values, fused, id=f"{case.id}-{'fused' if fused else 'readable'}")
         for fused, cases in ((True, CASES), (False, COMPOSITES)) for case in cases]  # fmt: skip


def tensors(arrays, dtype="float64"):
    """The arrays as Tensors; floating ones as leaves that require a gradient."""
    made = [None if a is None else mg.tensor(a) for a in arrays]
    return [x.to(dtype).requires_grad_() if x is not None and x.is_floating_point() else x for x in made]


def results(name, inputs, settings):
    out = ops[name].call(*inputs, **settings)
    return list(out) if isinstance(out, tuple) else [out]


def weighted(outs):
    draw = np.random.default_rng(1)
    total = 0.0
    for out in outs:
        total = total + (out * mg.tensor(draw.uniform(0.5, 1.5, out.shape)).to(out.dtype)).sum()
    return total


def first_gradients(name, arrays, settings, dtype="float64", create_graph=False):
    inputs = tensors(arrays, dtype)
    outs = results(name, inputs, settings)
    leaves = [x for x in inputs if x is not None and x.requires_grad]
    gradients = mg.autograd.grad(weighted(outs), leaves, create_graph=create_graph, allow_unused=True)
    return [out.data for out in outs], [None if g is None else g.data for g in gradients]


def assert_same(ours, theirs, rtol, atol):
    for a, b in zip(ours, theirs, strict=True):
        if a is not None or b is not None:
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def test_the_table_misses_no_op():
    assert SAMPLES.keys() | WITHOUT_GRADIENT | OF_WHOLE_NUMBERS == ops.keys()


@pytest.mark.parametrize(("name", "arrays", "settings", "fused"), FORMS)
@pytest.mark.parametrize("order", [1, 2])
def test_the_gradient_agrees_with_finite_differences(name, arrays, settings, fused, order):
    inputs = tensors(arrays)

    def function(*given):
        return results(name, given, settings)

    with mg.fused(fused):
        report = mg.gradcheck(function, inputs, order=order, atol=1e-6, rtol=1e-5)
    assert report.elements == sum(x.numel() for x in inputs if x is not None and x.requires_grad)


@pytest.mark.parametrize("name", sorted(WITHOUT_GRADIENT))
def test_what_has_no_derivative_requires_no_gradient(name):
    x = mg.tensor([[1.0, 2.0]], requires_grad=True)
    op = ops[name]
    out = op.call(*[x] * op.arity)
    assert not out.requires_grad
    assert out.is_leaf


def memory_of(function):
    """The arrays in a gradient function's closure."""
    found = []
    for cell in function.__closure__ or ():
        content = cell.cell_contents
        if isinstance(content, np.ndarray):
            found.append(content)
        elif callable(content) and hasattr(content, "__closure__"):
            found.extend(memory_of(content))
        elif isinstance(content, tuple | list):
            found.extend(item for item in content if isinstance(item, np.ndarray))
    return found


def pulled(gradients, needs, g):
    """What the gradient functions of a rule return for `g`."""
    if isinstance(gradients, tuple):
        return [f(g) if f and needed else None for f, needed in zip(gradients, needs, strict=True)]
    return list(gradients(g, needs))


@pytest.mark.parametrize(("name", "arrays", "settings"), CASES)
def test_a_gradient_function_gives_fresh_memory_or_its_argument(name, arrays, settings):
    arrays = [None if a is None else np.array(a) for a in arrays]
    value, gradients = ops[name].rule(*arrays, **settings)
    needs = [a is not None and a.dtype.kind == "f" for a in arrays]
    several = isinstance(value, tuple)
    shapes = [np.shape(v) for v in value] if several else [np.shape(value)]
    gs = [np.asarray(reals(*shape)) for shape in shapes]
    kept = memory_of(gradients) if not isinstance(gradients, tuple) else [
        a for f in gradients if f for a in memory_of(f)
    ]  # fmt: skip
    before = [a.copy() for a in (*gs, *kept)]

    found = pulled(gradients, needs, gs if several else gs[0])
    again = pulled(gradients, needs, gs if several else gs[0])

    for a, b in zip((*gs, *kept), before, strict=True):
        np.testing.assert_array_equal(a, b, err_msg="changed in place")
    assert_same(found, again, rtol=0, atol=0)
    own = [r for r in found if r is not None and not any(np.shares_memory(r, g) for g in gs)]
    theirs = [a for a in (*arrays, *kept) if a is not None and not any(a is g for g in gs)]
    for i, r in enumerate(own):
        assert not any(np.shares_memory(r, a) for a in theirs), "shares memory with what backward keeps"
        assert not any(np.shares_memory(r, other) for other in own[:i]), "two gradients share memory"


@pytest.mark.parametrize(("name", "arrays", "settings"), CASES)
def test_only_the_gradients_that_are_needed_are_given(name, arrays, settings):
    full = first_gradients(name, arrays, settings)[1]
    floats = [i for i, a in enumerate(arrays) if a is not None and a.dtype.kind == "f"]
    for place, i in enumerate(floats):
        inputs = tensors(arrays)
        for j in floats:
            inputs[j].requires_grad_(j == i)
        weighted(results(name, inputs, settings)).backward()
        np.testing.assert_allclose(inputs[i].grad.data, full[place], rtol=1e-13, atol=1e-15)
        assert all(inputs[j].grad is None for j in floats if j != i)


@pytest.mark.parametrize(("name", "arrays", "settings"), CASES)
def test_a_gradient_has_its_tensors_dtype(name, arrays, settings):
    if settings.get("dtype") is None:
        outs, gradients = first_gradients(name, arrays, settings, dtype="float32")
        assert {a.dtype for a in (*outs, *(g for g in gradients if g is not None))} == {np.dtype("float32")}


@pytest.mark.parametrize(("name", "arrays", "settings"), COMPOSITES)
@pytest.mark.parametrize(("dtype", "rtol", "atol"), [("float64", 1e-12, 1e-13), ("float32", 1e-5, 2e-6)])
def test_a_kernel_computes_its_definition(name, arrays, settings, dtype, rtol, atol):
    fast = first_gradients(name, arrays, settings, dtype)
    with mg.fused(False):
        slow = first_gradients(name, arrays, settings, dtype)
    for ours, theirs in zip(fast, slow, strict=True):
        assert_same(ours, theirs, rtol, atol)


@pytest.mark.parametrize(("name", "arrays", "settings"), CASES)
def test_the_gradient_is_the_same_when_it_will_be_differentiated_again(name, arrays, settings):
    raw = first_gradients(name, arrays, settings)[1]
    replayed = first_gradients(name, arrays, settings, create_graph=True)[1]
    assert_same(raw, replayed, rtol=1e-12, atol=1e-14)


def test_every_op_can_be_reached_by_a_public_name():
    reachable = {getattr(f, "op", None) for f in (*METHODS.values(), *vars(mg).values())}
    reachable |= {getattr(f, "op", None) for f in vars(mg.nn.functional).values()}
    inner = {  # what a public function of another name or signature calls
        "concatenate", "cross_entropy", "dropout", "embedding", "gelu", "getitem", "layer_norm", "linear",
        "limit", "permute_axes", "pieces", "quotient",
        "put", "scaled_dot_product_attention", "variance", "view_as_shape",
    }  # fmt: skip
    assert {op.name for op in reachable if op} | inner == ops.keys()
