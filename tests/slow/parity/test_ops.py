"""Every public function and method against PyTorch: values, dtypes, shapes, first and second gradients."""

import math
import operator

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minigrad.ops import METHODS
from minigrad.ops.methods_in_place import FROM_FUNCTIONS, OWN, RESHAPING

from . import test_op_db

torch = pytest.importorskip("torch")
TF = torch.nn.functional
pytestmark = pytest.mark.parity

rng = np.random.default_rng(0)


def reals(*shape):
    return rng.normal(size=shape)


def positive(*shape):
    return rng.uniform(0.5, 2.0, shape)


A, B, ROW, CUBE, SQUARE = reals(2, 3), reals(2, 3), reals(3), reals(2, 3, 4), reals(3, 3)
POSITIVE = positive(2, 3)
EDGES = np.array([-1.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.5])
TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
MASK = np.array([[True, False, True], [False, False, True]])
INDEX = np.array([[0, 2, 2], [1, 1, 0]])
INTS = np.array([[3, -1, 2], [0, 7, -5]])
SHIFTS = np.array([0, 1, 3])


def method(name, *args, **settings):
    return lambda x, *others: getattr(x, name)(*others, *args, **settings)


def name_of(function):
    return function if isinstance(function, str) else getattr(function, "__name__", "?")


def case(name, *arrays, args=(), id=None, **settings):
    """x.name(*others, *args, **settings) with the same spelling in both libraries."""
    return pytest.param(
        method(name, *args, **settings), arrays, id=id or f"{name}{[*args, *settings.values()] or ''}"
    )


SMOOTH = ["exp", "expm1", "erf", "sin", "cos", "tanh", "sigmoid", "square"]
KINKED = ["abs", "sign", "floor", "relu"]
PAIRED = ["add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"]
REDUCED = ["sum", "mean", "max", "min", "var", "std", "argmax", "argmin", "all", "any", "norm"]

METHOD_CASES = [
    case("inverse", SQUARE),
    case("bincount", np.array([2, 0, 2, 5])),
    *[case(n, A) for n in [*SMOOTH, "abs", "absolute", "relu"]],
    *[case(n, POSITIVE) for n in ["log", "log1p", "sqrt", "rsqrt"]],
    *[case(n, EDGES, id=f"{n}-edges") for n in [*KINKED, "square", "sigmoid", "tanh", "exp"]],
    *[case(n, A, B) for n in PAIRED],
    *[case(n, TIES, TIES[:, ::-1].copy(), id=f"{n}-ties") for n in ["maximum", "minimum", "eq", "le", "gt"]],
    case("pow", POSITIVE, B), case("pow", A, args=(3,)), case("pow", A, args=(0,)),
    case("pow", POSITIVE, args=(0.5,)),
    case("neg", A), case("sigmoid", np.array([-700.0, -40.0, 0.0, 40.0]), id="sigmoid-far"),
    case("remainder", EDGES, args=(0.7,)),
    case("remainder", A, POSITIVE), case("clamp", EDGES, min=-1.0, max=0.5),
    case("clamp", EDGES, args=(0.0,)),
    case("clamp", EDGES, max=1.0), case("isnan", EDGES), case("isinf", EDGES), case("isfinite", EDGES),
    case("logical_not", EDGES), case("logical_and", A, EDGES[1:4]), case("logical_or", A, EDGES[1:4]),
    *[case(n, INTS, INTS[::-1].copy()) for n in ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"]],
    case("bitwise_not", INTS),
    case("bitwise_left_shift", INTS, SHIFTS), case("bitwise_right_shift", INTS, SHIFTS),
    # reductions
    *[case(n, CUBE, dim=1) for n in ["sum", "mean", "amax", "amin"]],
    *[case(n, CUBE, dim=(0, 2), keepdim=True) for n in ["sum", "mean", "amax", "amin"]],
    *[case(n, CUBE) for n in REDUCED],
    *[case(n, TIES, args=(1,), id=f"{n}-ties") for n in ["max", "min", "amax", "amin", "argmax", "argmin"]],
    *[case(n, TIES, id=f"{n}-all-ties") for n in ["max", "min"]],
    case("amax", TIES, dim=(0, 1), id="amax-two-axes"),
    case("max", CUBE, args=(1, True)), case("min", CUBE, dim=-1, keepdim=True),
    case("max", A, B, id="max-of-two"),
    case("argmax", CUBE, dim=1, keepdim=True), case("argmin", CUBE, args=(-1,)), case("all", INTS, dim=1),
    case("any", INTS, dim=0),
    case("var", CUBE, args=(1,)), case("var", CUBE, dim=(0, 2), correction=0, keepdim=True),
    case("var", CUBE, dim=-1, unbiased=False),
    case("std", CUBE, dim=1, keepdim=True), case("std", CUBE, args=(-1,), unbiased=False),
    case("std", np.ones((2, 3)), dim=1, id="std-0"),
    case("logsumexp", CUBE, args=(1,)), case("logsumexp", CUBE, dim=(0, 2), keepdim=True),
    case("cumsum", CUBE, args=(1,)),
    case("logsumexp", np.array([[-math.inf, -math.inf], [0.0, -math.inf]]), dim=1, id="logsumexp-nothing"),
    case("norm", A, dim=1), case("norm", A, p=1, dim=0, keepdim=True), case("norm", A, p=math.inf),
    case("norm", np.zeros((2, 2)), id="norm-0"),
    case("cumsum", INTS, dim=0, id="cumsum-ints"), case("sum", INTS, dim=0, id="sum-ints"),
    case("sum", MASK, id="sum-bools"),
    case("softmax", CUBE, args=(1,)), case("softmax", CUBE, dim=-1), case("log_softmax", CUBE, dim=0),
    case("softmax", np.array([[0.0, -math.inf, 1.0]]), dim=1, id="softmax-inf"),
    case("log_softmax", reals(3, 1), dim=1, id="one-class"),
    # shapes
    case("reshape", CUBE, args=(4, -1)), case("reshape", CUBE, args=((6, 4),)),
    case("view", CUBE, args=(24,)), case("permute", CUBE, args=(2, 0, 1)),
    case("permute", CUBE, args=((0, -1, 1),)), case("transpose", CUBE, args=(1, 2)),
    case("swapaxes", CUBE, args=(0, -1)),
    case("squeeze", reals(1, 2, 1)), case("squeeze", reals(1, 2, 1), args=(0,)),
    case("squeeze", reals(1, 2, 1), dim=1, id="squeeze-none"),
    case("unsqueeze", A, args=(1,)), case("unsqueeze", A, dim=-1), case("flatten", CUBE),
    case("flatten", CUBE, args=(1, -1)),
    case("flatten", reals(), id="flatten-0d"), case("unflatten", CUBE, args=(2, (2, -1))),
    case("expand", reals(2, 1, 3), args=(4, -1, 5, 3)[1:]),
    case("expand", ROW, args=(2, -1)), case("expand_as", ROW, A), case("broadcast_to", ROW, args=((2, 3),)),
    case("repeat", A, args=(2, 1, 3)),
    case("repeat_interleave", CUBE, args=(2,), dim=1), case("flip", CUBE, args=(1,)),
    case("flip", CUBE, dims=(0, -1)), case("contiguous", A),
    case("split", CUBE, args=(2,), dim=1), case("split", CUBE, args=([1, 3], -1)),
    case("chunk", CUBE, args=(3,), dim=-1), case("unbind", CUBE, dim=1),
    case("tril", SQUARE), case("triu", CUBE, diagonal=1), case("tril", CUBE, args=(-1,)), case("clone", A),
    # choosing
    case("gather", A, args=()), case("masked_fill", A),
    *[pytest.param(lambda x, i=i: x[i], (CUBE,), id=f"getitem-{n}") for n, i in enumerate([
        0, -1, slice(None), (slice(None), 1), (..., None), (slice(0, 2), slice(1, None, 2)), (0, ..., -1),
        None, [1, 0, 1],
        ([0, 1], slice(None), [2, 0]), (slice(None), [[0, 2], [1, 1]]),
    ])],
    # products
    case("matmul", A, SQUARE), case("mm", A, SQUARE), case("bmm", reals(2, 2, 3), reals(2, 3, 2)),
    case("matmul", ROW, ROW, id="dot"),
    case("dot", ROW, reals(3)), case("outer", ROW, reals(2)), case("matmul", ROW, CUBE, id="vector-batch"),
    case("matmul", reals(2, 2, 3), ROW, id="batch-vector"),
    case("matmul", reals(4, 1, 2, 3), reals(2, 3, 2), id="batches-broadcast"),
    case("matmul", A.T, B, id="transposed"),
]  # fmt: skip
METHOD_CASES = [c for c in METHOD_CASES if c.id not in ("gather", "masked_fill")]

OPERATOR_CASES = [
    pytest.param(f, arrays, id=f"{i}")
    for i, (f, arrays) in enumerate([
        (operator.add, (A, ROW)), (operator.sub, (A, ROW)), (operator.mul, (A, ROW)),
        (operator.truediv, (A, POSITIVE)),
        (operator.pow, (POSITIVE, ROW)), (operator.matmul, (A, SQUARE)), (operator.neg, (A,)),
        (operator.abs, (A,)),
        (operator.floordiv, (A, POSITIVE)), (operator.mod, (A, POSITIVE)), (operator.eq, (A, TIES)),
        (operator.lt, (A, B)),
        (operator.ge, (A, B)), (operator.and_, (MASK, MASK[::-1].copy())), (operator.or_, (MASK, MASK[:1])),
        (operator.invert, (MASK,)),
        (lambda x: 2 - x, (A,)), (lambda x: 2 / x, (POSITIVE,)), (lambda x: 2**x, (A,)),
        (lambda x: 0**x, (EDGES[2:],)), (lambda x: x**-1, (POSITIVE,)),
        (lambda x: 2 + x * 3 - 1, (A,)), (lambda x: x.T, (A,)), (lambda x: x.mT, (CUBE,)),
        (lambda x: x**0, (EDGES,)), (lambda x: x**2, (EDGES,)), (lambda x: x**1, (EDGES,)),
        (lambda x, y: x**y, (EDGES[2:], np.array([0.0, 0.0, 1.0, 2.0, 0.0]))),
    ])
]  # fmt: skip

both = lambda name, *args, **settings: lambda lib, *xs: getattr(lib, name)(*xs, *args, **settings)
FUNCTION_CASES = [
    pytest.param(f, arrays, id=id)
    for id, f, arrays in [
        ("where", lambda lib, c, x, y: lib.where(c, x, y), (MASK, A, ROW)),
        ("where-number", lambda lib, c, x: lib.where(c, x, 0.0), (MASK, A)),
        ("where-method", lambda lib, x, c, y: x.where(c, y), (A, MASK, B)),
        ("masked_fill", lambda lib, x, m: x.masked_fill(m, -math.inf), (A, MASK)),
        ("masked_fill-broadcast", lambda lib, x, m: x.masked_fill(m, 2), (A, MASK[:1])),
        ("gather", lambda lib, x, i: lib.gather(x, 1, i), (A, INDEX)),
        ("gather-short", lambda lib, x, i: x.gather(0, i), (A, INDEX[:1] % 2)),
        ("index_select", lambda lib, x, i: lib.index_select(x, 1, i), (A, INDEX[0])),
        ("index-tensor", lambda lib, x, i: x[:, i], (A, INDEX)),
        ("index-mask", lambda lib, x, m: x[m], (A, MASK)),
        ("index-row-mask", lambda lib, x, m: x[m[:, 0]], (A, MASK)),
        ("index-0d", lambda lib, x, i: x[i[0, 1]], (SQUARE, INDEX)),
        ("cat", lambda lib, x, y: lib.cat([x, y], dim=1), (A, reals(2, 2))),
        ("concat", lambda lib, x, y: lib.concat((x, y)), (A, B)),
        ("stack", lambda lib, x, y: lib.stack([x, y], dim=-1), (A, B)),
        ("one_hot", lambda lib, i: (TF if lib is torch else F).one_hot(i), (INDEX,)),
        ("one_hot-wide", lambda lib, i: (TF if lib is torch else F).one_hot(i, 5), (INDEX,)),
        *[(name, both(name), (A,)) for name in [*SMOOTH, "relu", "abs", "neg", "sum"]],
        *[(name, both(name), (A, B)) for name in ["add", "sub", "mul", "div", "maximum", "minimum"]],
        ("pow", both("pow", 2), (A,)), ("max", both("max", 1), (A,)),
        ("transpose", both("transpose", 0, 1), (A,)),
        ("logsumexp", both("logsumexp", 1), (A,)), ("var", both("var", dim=1), (A,)),
        ("std", both("std", dim=1), (A,)),
        ("dot", both("dot"), (ROW, reals(3))), ("matmul", both("matmul"), (A, SQUARE)),
        ("outer", both("outer"), (ROW, ROW)),
        ("split", both("split", 2, dim=-1), (A,)), ("chunk", both("chunk", 2), (A,)),
        ("flip", both("flip", (0,)), (A,)),
        ("zeros", lambda lib: lib.zeros(2, 3), ()), ("ones", lambda lib: lib.ones((2,)), ()),
        ("eye", lambda lib: lib.eye(2, 3), ()),
        ("full", lambda lib: lib.full((2,), 1.5), ()), ("full-int", lambda lib: lib.full((2,), 7), ()),
        ("arange", lambda lib: lib.arange(5), ()),
        ("arange-float", lambda lib: lib.arange(1, 2, 0.25), ()),
        ("arange-step", lambda lib: lib.arange(7, 1, -2), ()),
        ("full-bool", lambda lib: lib.full((2,), True), ()),
        ("linspace", lambda lib: lib.linspace(0, 1, 5), ()),
        ("like", lambda lib, x: lib.zeros_like(x) + lib.ones_like(x) + lib.full_like(x, 2), (A,)),
    ]
]  # fmt: skip


def _flat(out):
    return list(out) if isinstance(out, tuple) else [out]


def _ours(array):
    x = mg.tensor(array)
    return x.requires_grad_() if x.is_floating_point() else x


def _theirs(array):
    x = torch.tensor(np.ascontiguousarray(array).reshape(np.shape(array)))
    return x.requires_grad_() if x.is_floating_point() else x


def _score(outs, like):
    """A number that every floating output moves, each element by an amount of its own."""
    draw = np.random.default_rng(2)
    total = 0.0
    for out in outs:
        weights = draw.uniform(0.5, 1.5, tuple(out.shape))
        if out.requires_grad:
            total = total + (out * like(weights)).sum()
    return total


def _gradient_of_gradient(lib_grad, score, leaves, like):
    found = [
        g
        for g in lib_grad(score, leaves, create_graph=True, allow_unused=True)
        if g is not None and g.requires_grad
    ]
    if not found:
        return [None] * len(leaves)
    return lib_grad(_score(found, like), leaves, allow_unused=True)


def _agree(ours, theirs, rtol=1e-12, atol=1e-13, better_than_nan=False):
    ours = None if ours is None else ours.numpy()
    theirs = None if theirs is None else theirs.detach().numpy(force=True)
    if ours is None or theirs is None:  # PyTorch leaves None where some of our rules give 0
        assert not np.any(ours if theirs is None else theirs)
        return
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    if better_than_nan:
        ours = np.where(np.isnan(theirs), theirs, ours)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


def assert_agrees(ours, theirs, arrays, second=True, **tolerance):
    """Values, gradients and gradients of gradients of one computation in both libraries."""
    xs = [_ours(a) for a in arrays]
    ts = [_theirs(a) for a in arrays]
    with np.errstate(all="ignore"):
        outs, refs = _flat(ours(*xs)), _flat(theirs(*ts))
        assert len(outs) == len(refs)
        for out, ref in zip(outs, refs, strict=True):
            _agree(out, ref, **tolerance)
            assert out.requires_grad == ref.requires_grad or "NotImplemented" in repr(ref.grad_fn)
        if not any(out.requires_grad for out in outs):
            return
        leaves = [x for x in xs if x.requires_grad]
        references = [t for t in ts if t.requires_grad]
        ours_first = mg.autograd.grad(_score(outs, mg.tensor), leaves, retain_graph=True, allow_unused=True)
        theirs_first = torch.autograd.grad(
            _score(refs, torch.tensor), references, retain_graph=True, allow_unused=True
        )
        for a, b in zip(ours_first, theirs_first, strict=True):
            _agree(a, b, **tolerance)
        if second:
            ours_second = _gradient_of_gradient(mg.autograd.grad, _score(outs, mg.tensor), leaves, mg.tensor)
            theirs_second = _gradient_of_gradient(
                torch.autograd.grad, _score(refs, torch.tensor), references, torch.tensor
            )
            for a, b in zip(ours_second, theirs_second, strict=True):
                _agree(a, b, **{"rtol": 1e-10, "atol": 1e-11} | tolerance, better_than_nan=True)


@pytest.mark.parametrize(("function", "arrays"), METHOD_CASES + OPERATOR_CASES)
def test_methods_and_operators(function, arrays):
    assert_agrees(function, function, arrays)


@pytest.mark.parametrize(("function", "arrays"), FUNCTION_CASES)
def test_functions(function, arrays):
    assert_agrees(lambda *xs: function(mg, *xs), lambda *xs: function(torch, *xs), arrays)


def test_every_method_of_ours_is_compared_or_is_not_pytorchs():
    from minigrad.more import torch_aliases as aliases
    from minigrad.ops import sampling

    operators = {name for name in METHODS if name.startswith("__")}
    compared = {c.id.split("[")[0].split("-")[0] for c in METHOD_CASES + FUNCTION_CASES}
    conversions = {"to", "type", *CONVERSIONS, "bfloat16"}  # below
    named = {*aliases.METHODS, *sampling.__all__}  # tests/more/test_small_names.py
    made = {name for name in METHODS if name.startswith("new_")}  # tests of creation
    compared |= {name.split("/")[0].split(".")[-1] for name in test_op_db.COVERED}
    compared |= {f"{name}_" for name in (*FROM_FUNCTIONS, *RESHAPING, "add", "sub", "mul", "div")}
    compared |= {function.__name__ for function in OWN}  # tests/ops/test_in_place.py
    aliases = {name for name in METHODS if METHODS[name] in [METHODS.get(known) for known in compared]}
    of_autograd = {"backward", "register_hook", "retain_grad"}  # tests/core/test_backward.py
    assert METHODS.keys() - operators - aliases - conversions - named - made - of_autograd == {"astype"}


CONVERSIONS = ["float", "double", "half", "long", "int", "short", "char", "byte", "bool"]


def test_conversions():
    for name in CONVERSIONS:
        assert_agrees(
            lambda x, name=name: getattr(x, name)(),
            lambda t, name=name: getattr(t, name)(),
            (abs(EDGES),),
            second=False,
        )
    assert_agrees(lambda x: x.bfloat16().float(), lambda t: t.bfloat16().float(), (A,), second=False)
    assert_agrees(lambda x: x.to("float32"), lambda t: t.to(torch.float32), (A,), second=False)
    assert_agrees(lambda x, y: x.to(y), lambda t, u: t.to(u), (INTS, A), second=False)
    assert_agrees(lambda x: x.type("int64"), lambda t: t.type(torch.int64), (A,), second=False)


DTYPES = ["bool_", "uint8", "int8", "int32", "int64", "float16", "float32", "float64"]
OPERANDS = [lambda lib, d=d, s=s: lib.ones(s).to(getattr(lib, d, bool)) for d in DTYPES for s in ((2,), ())]
OPERANDS += [lambda lib, v=v: v for v in (True, 2, 2.5)]


@pytest.mark.parametrize("operation", [operator.mul, operator.truediv, operator.lt], ids=["mul", "div", "lt"])
def test_promotion_of_every_pair_of_dtypes(operation):
    for left in OPERANDS:
        for right in OPERANDS:
            if isinstance(left(mg), mg.Tensor) or isinstance(right(mg), mg.Tensor):
                ours = operation(left(mg), right(mg))
                theirs = operation(left(torch), right(torch))
                assert str(theirs.dtype) == f"torch.{ours.dtype}", (left(mg), right(mg))


@pytest.mark.parametrize(
    "name", ["exp", "sqrt", "sigmoid", "sum", "relu", "floor", "abs", "cumsum", "argmax", "isnan"]
)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32"])
def test_dtypes_of_results(name, dtype):
    args = (0,) if name == "cumsum" else ()
    ours = getattr(mg.ones(3, dtype=dtype), name)(*args)
    theirs = getattr(torch.ones(3, dtype=getattr(torch, dtype)), name)(*args)
    assert str(theirs.dtype) == f"torch.{ours.dtype}"


# ---------------------------------------------------------------- nn.functional


def pair(name, *args, **settings):
    return (
        lambda *xs: getattr(F, name)(*xs, *args, **settings),
        lambda *xs: getattr(TF, name)(*xs, *args, **settings),
    )


ACTIVATIONS = ["relu", "sigmoid", "tanh", "silu", "gelu"]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    assert_agrees(*pair(name), (np.array([-30.0, -3.0, -0.7, -1e-9, 0.0, 1e-9, 0.3, 2.0, 30.0]),))


def test_gelu_tanh():
    assert_agrees(*pair("gelu", approximate="tanh"), (CUBE,))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmaxes(name):
    for dim in (0, 1, -1):
        assert_agrees(*pair(name, dim=dim), (CUBE,))
    assert_agrees(*pair(name, dim=-1), (CUBE * 300,))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 3), (0, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape, bias):
    assert_agrees(
        *pair("linear"), (reals(*shape), reals(5, 3), *([reals(5)] if bias else [])), second=shape != (0, 3)
    )


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("affine", ["both", "weight", "none"])
def test_layer_norm(axes, affine):
    shape = CUBE.shape[-axes:]
    extra = {"both": (positive(*shape), reals(*shape)), "weight": (positive(*shape),), "none": ()}[affine]
    for settings in ({}, {"eps": 1e-3}):
        ours = lambda x, *p, settings=settings: F.layer_norm(x, shape, *p, **settings)
        theirs = lambda x, *p, settings=settings: TF.layer_norm(x, shape, *p, **settings)
        assert_agrees(ours, theirs, (CUBE, *extra))


def test_layer_norm_far_from_zero():
    assert_agrees(*pair("layer_norm", (4,)), (CUBE + 1e4,), second=False, rtol=1e-9, atol=1e-9)


def test_embedding():
    assert_agrees(lambda w, i: F.embedding(i, w), lambda w, i: TF.embedding(i, w), (reals(4, 2), INDEX))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(
    ("shape", "target"),
    [((3, 5), [1, -100, 4]), ((5,), 2), ((2, 4, 3), [[0, 3, -100], [1, 1, 2]]),
     ((2, 3, 1, 2), [[[0, 1]], [[2, -100]]]), ((2, 1), [0, 0])],
    ids=["rows", "one", "sequences", "images", "one-class"],
)  # fmt: skip
def test_cross_entropy(shape, target, reduction, smoothing):
    logits = reals(*shape)
    target = np.array(target)
    assert_agrees(*pair("cross_entropy", reduction=reduction, label_smoothing=smoothing), (logits, target))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_what_is_all_ignored(reduction, smoothing):
    settings = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": 2}
    assert_agrees(*pair("cross_entropy", **settings), (reals(3, 5), np.array([2, 2, 2])), second=False)
    assert_agrees(*pair("cross_entropy", **settings), (reals(3, 5), np.array([2, 0, 2])))


def test_cross_entropy_of_impossible_classes():
    logits = np.where(MASK, -math.inf, A)
    assert_agrees(*pair("cross_entropy", reduction="none"), (logits, np.array([1, -100])), second=False)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_mse_loss(reduction):
    assert_agrees(*pair("mse_loss", reduction=reduction), (A, B))


MASKS = {
    "none": None,
    "boolean": rng.random((3, 4)) < 0.6,
    "boolean-batch": rng.random((2, 1, 3, 4)) < 0.6,
    "nothing-allowed": np.array([[True] * 4, [False] * 4, [True, False] * 2]),
    "float": reals(3, 4),
    "float-inf": np.where(rng.random((3, 4)) < 0.6, 0.0, -math.inf),
    "causal": "causal",
}


@pytest.mark.parametrize("mask", MASKS, ids=list(MASKS))
@pytest.mark.parametrize("batch", [(), (2,), (2, 2)], ids=["2d", "3d", "4d"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention(mask, batch, scale):
    given = MASKS[mask]
    if mask == "boolean-batch" and len(batch) < 2:
        batch = (2, 2)
    settings = {"scale": scale, "is_causal": mask == "causal"}
    q = reals(*batch, 3, 5)
    k = reals(*batch, 4, 5)
    v = reals(*batch, 4, 2)
    extra = () if given is None or mask == "causal" else (given,)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert_agrees(
            *pair("scaled_dot_product_attention", **settings),
            (q, k, v, *extra),
            second=mask != "nothing-allowed",
        )


def test_attention_broadcasts_its_batch():
    arrays = (reals(2, 1, 3, 5), reals(1, 2, 4, 5), reals(4, 2), rng.random((2, 1, 1, 4)) < 0.7)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert_agrees(*pair("scaled_dot_product_attention"), arrays)


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm", "cross_entropy", "sigmoid", "linear"])
def test_float32_to_a_few_units_in_the_last_place(name):
    x = reals(4, 6).astype(np.float32)
    settings = {"softmax": {"dim": -1}, "layer_norm": {"normalized_shape": (6,)}}.get(name, {})
    others = {"cross_entropy": (np.array([0, 5, 2, 1]),), "linear": (reals(3, 6).astype(np.float32),)}.get(
        name, ()
    )
    draw = (lambda w: mg.tensor(w).float(), lambda w: torch.tensor(w).float())
    ours, theirs = pair(name, **settings)
    xs = [_ours(a) for a in (x, *others)]
    ts = [_theirs(a) for a in (x, *others)]
    out = ours(*xs)
    ref = theirs(*ts)
    _score([out], draw[0]).backward()
    _score([ref], draw[1]).backward()
    _agree(out, ref, rtol=2e-6, atol=1e-6)
    _agree(xs[0].grad, ts[0].grad, rtol=5e-6, atol=2e-6)


INTEGERS = {  # methods of integer tensors
    "bitwise_and": (INTS,), "bitwise_left_shift": (1,), "bitwise_not": (), "bitwise_or": (INTS,),
    "bitwise_right_shift": (1,), "bitwise_xor": (5,), "gcd": (np.array([2, 3, 4]),),
    "lcm": (np.array([2, 3, 4]),),
}  # fmt: skip
ARGUMENTS = {
    "addbmm": (CUBE, reals(2, 4, 3)), "addcdiv": (A, POSITIVE), "addcmul": (A, B),
    "addmm": (reals(2, 4), reals(4, 3)), "addmv": (reals(3, 2), reals(2)), "addr": (reals(2), ROW),
    "arctan2": (A,), "atan2": (A,), "baddbmm": (CUBE, reals(2, 4, 3)), "clamp": (-0.5, 0.5),
    "clamp_max": (0.2,), "clamp_min": (0.2,), "clip": (0.6, 1.0), "copysign": (A,), "cumprod": (1,),
    "cumsum": (0,), "divide": (A,), "eq": (POSITIVE,), "float_power": (2.5,), "floor_divide": (0.3,),
    "fmod": (0.3,), "ge": (0.9,), "greater": (0.9,), "greater_equal": (0.9,), "gt": (0.9,),
    "heaviside": (A,), "hypot": (A,), "index_add": (1, np.array([0, 2]), A[:, :2]),
    "index_copy": (1, np.array([0, 2]), A[:, :2]), "index_fill": (1, np.array([0, 2]), 7.0),
    "index_put": ((np.array([0, 1]), np.array([2, 2])), A[0, :2]),
    "index_reduce": (1, np.array([0, 2]), A[:, :2], "amax"), "ldexp": (np.array(2),), "le": (0.9,),
    "lerp": (A, 0.3), "less": (0.9,), "less_equal": (0.9,), "logical_and": (A,), "logical_or": (A,),
    "logical_xor": (A,), "lt": (0.9,), "masked_fill": (MASK, 2.0), "masked_scatter": (MASK, B),
    "multiply": (A,), "mvlgamma": (1,), "ne": (0.9,), "not_equal": (0.9,), "pow": (2.5,),
    "put": (np.array([0, 3]), A[0, :2]), "remainder": (0.3,), "renorm": (2, 0, 0.7),
    "scatter": (1, INDEX, B), "scatter_add": (1, INDEX, B), "scatter_reduce": (1, INDEX, B, "sum"),
    "subtract": (A,), "swapaxes": (0, 1), "swapdims": (0, 1), "transpose": (0, 1), "true_divide": (A,),
    "unsqueeze": (1,), "xlogy": (POSITIVE,),
}  # fmt: skip
SMALL = {"acos", "arccos", "arcsin", "arctanh", "asin", "atanh", "erfinv", "logit"}  # of numbers below 1


def _apply(name, make, x, method):
    """What `x.method(...)` returns, with the arguments of `name` as tensors that `make` makes of arrays."""

    def convert(a):
        return tuple(map(convert, a)) if isinstance(a, tuple) else make(a) if isinstance(a, np.ndarray) else a

    return getattr(x, method)(*map(convert, INTEGERS.get(name) or ARGUMENTS.get(name, ())))


def _receiver(name):
    others = {"addbmm": SQUARE, "addmv": ROW, "baddbmm": reals(2, 3, 3)}
    if name in others:
        return others[name]
    if name in INTEGERS:
        return INTS + 10
    return POSITIVE / 3 if name in SMALL else POSITIVE + (name in {"acosh", "arccosh", "mvlgamma"})


@pytest.mark.parametrize("name", FROM_FUNCTIONS)
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_methods_that_write_into_the_tensor(name):
    data = _receiver(name)
    ours = mg.tensor(data)
    theirs = torch.tensor(data)
    memory = ours.array
    assert _apply(name, mg.tensor, ours, f"{name}_") is ours
    _apply(name, torch.tensor, theirs, f"{name}_")
    assert ours.array is memory
    np.testing.assert_allclose(memory, theirs.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in FROM_FUNCTIONS if name not in INTEGERS])
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_methods_in_place_within_a_graph(name):
    """As PyTorch's functions out of place: it has no derivative of asinh_ and some others."""
    data = _receiver(name)
    x = mg.tensor(data, requires_grad=True)
    t = torch.tensor(data, requires_grad=True)
    with pytest.raises(mg.GraphError, match=f"{name}_ would change a leaf"):
        _apply(name, mg.tensor, x, f"{name}_")
    y = x * 1
    u = _apply(name, torch.tensor, t * 1, name)
    assert _apply(name, mg.tensor, y, f"{name}_") is y
    np.testing.assert_allclose(y.numpy(), u.detach().numpy(), rtol=1e-12)
    if y.requires_grad:
        (y * y).sum().backward()
        (u * u).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(force=True), rtol=1e-9, atol=1e-13)
    else:
        assert u.dtype == torch.bool or name in {"floor_divide", "heaviside"}


@pytest.mark.parametrize("name", RESHAPING)
def test_methods_that_give_the_tensor_another_shape(name):
    x = mg.tensor(A, requires_grad=True)
    t = torch.tensor(A, requires_grad=True)
    y = _apply(name, mg.tensor, x * 1, f"{name}_")
    u = _apply(name, torch.tensor, t * 1, f"{name}_")
    np.testing.assert_array_equal(y.numpy(), u.detach().numpy())
    (y * y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * A, rtol=1e-14)


def test_random_numbers_written_into_the_tensor():
    x = mg.zeros(20000)
    assert x.normal_(1.0, 2.0) is x
    assert abs(x.mean().item() - 1) < 0.1
    assert abs(x.std().item() - 2) < 0.1
    x.uniform_(-1, 3)
    assert -1 <= x.min().item() < -0.9
    assert 2.9 < x.max().item() <= 3


def test_how_a_tensor_lies_in_memory():
    ours = mg.tensor(CUBE).transpose(0, 2)
    theirs = torch.tensor(CUBE).transpose(0, 2)
    for name in ("stride", "is_contiguous", "element_size"):
        assert getattr(ours, name)() == getattr(theirs, name)()
    assert ours.nbytes == theirs.nbytes
