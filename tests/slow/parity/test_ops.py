"""What PyTorch's operator database has no samples of: edges, dtypes, creation, masks, methods in place."""

import itertools
import math
import operator

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minigrad.ops import METHODS
from minigrad.ops.methods_in_place import FROM_FUNCTIONS, OWN, RESHAPING

from . import test_op_db
from .comparing import Converter

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

rng = np.random.default_rng(0)
inf = math.inf
A = rng.normal(size=(2, 3))
MASK = np.array([[True, False, True], [False, False, True]])
EDGES = np.array([-1.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.5])
INDEX = np.array([[0, 2, 2], [1, 1, 0]])


def functions(lib):
    return F if lib is mg else torch.nn.functional


def attention(lib, *arrays, **settings):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # it has second gradients
        return functions(lib).scaled_dot_product_attention(*arrays, **settings)


def losses(lib, x, target, **settings):
    return functions(lib).cross_entropy(x, target, **settings)


LOGITS = rng.normal(size=(3, 5))
Q, K, V = rng.normal(size=(2, 2, 3, 5)), rng.normal(size=(2, 2, 4, 5)), rng.normal(size=(2, 2, 4, 2))
MASKS = {
    "of each text": rng.random((2, 1, 3, 4)) < 0.6,
    "of nothing": np.array([[True] * 4, [False] * 4, [True, False] * 2]),
    "of numbers": rng.normal(size=(3, 4)),
    "of -inf": np.where(rng.random((3, 4)) < 0.6, 0.0, -inf),
}
CASES = {
    "sigmoid far from 0": (lambda lib, x: x.sigmoid(), np.array([-700.0, -40.0, 0.0, 40.0])),
    "softmax of -inf": (lambda lib, x: x.softmax(1), np.array([[0.0, -inf, 1.0]])),
    "softmax of large numbers": (lambda lib, x: x.softmax(-1), A * 300),
    "log_softmax of one class": (lambda lib, x: x.log_softmax(1), A[0, :, None]),
    "logsumexp of nothing": (lambda lib, x: x.logsumexp(1), np.array([[-inf, -inf], [0.0, -inf]])),
    "norm of 0": (lambda lib, x: x.norm(), np.zeros((2, 2))),
    "std of equal numbers": (lambda lib, x: x.std(1), np.ones((2, 3))),
    "0**x": (lambda lib, x: 0**x, EDGES[2:]),
    "inverse": (lambda lib, x: x.inverse(), LOGITS[:, :3]),
    "bincount": (lambda lib, x: x.bincount(), INDEX[0]),
    "one_hot": (lambda lib, x: functions(lib).one_hot(x), INDEX),
    "one_hot of 5": (lambda lib, x: functions(lib).one_hot(x, 5), INDEX),
    "masked_fill with -inf": (lambda lib, x, m: x.masked_fill(m, -inf), A, MASK),
    "where of a number": (lambda lib, c, x: lib.where(c, x, 0.0), MASK, A),
    "a mask of rows": (lambda lib, x, m: x[m[:, 0]], A, MASK),
    "T of three axes": (lambda lib, x: x.mT, Q[0]),
    "linear of no rows": (lambda lib, *xs: functions(lib).linear(*xs), A[:0], LOGITS[:, :3], LOGITS[:, 0]),
    "impossible classes": (
        lambda lib, *xs: losses(lib, *xs, reduction="none"), np.where(MASK, -inf, A), np.array([1, -100]),
    ),
    **{
        f"cross_entropy, smoothing {smoothing}, {how}, {target}": (
            lambda lib, *xs, s=smoothing, h=how: losses(
                lib, *xs, label_smoothing=s, reduction=h, ignore_index=2
            ),
            LOGITS, np.array(target),
        )
        for smoothing in (0.0, 0.1, 1.0) for how in ("mean", "sum", "none")
        for target in ([2, 2, 2], [2, 0, 4])
    },
    **{
        f"attention, a mask {name}": (lambda lib, *xs: attention(lib, *xs, scale=0.3), Q, K, V, mask)
        for name, mask in MASKS.items()
    },
    "causal attention": (lambda lib, *xs: attention(lib, *xs, is_causal=True), Q, K, V),
    "attention of two axes": (lambda lib, *xs: attention(lib, *xs), Q[0, 0], K[0, 0], V[0, 0]),
    "attention broadcasts": (lambda lib, *xs: attention(lib, *xs), Q[:, :1], K[:1], V[0, 0],
                             MASKS["of each text"]),
    **{
        f"made {i}": (lambda lib, make=make: make(lib),)
        for i, make in enumerate([
            lambda lib: lib.zeros(2, 3), lambda lib: lib.ones((2,)), lambda lib: lib.eye(2, 3),
            lambda lib: lib.full((2,), 1.5), lambda lib: lib.full((2,), 7), lambda lib: lib.full((2,), True),
            lambda lib: lib.arange(5), lambda lib: lib.arange(1, 2, 0.25), lambda lib: lib.arange(7, 1, -2),
            lambda lib: lib.linspace(0, 1, 5),
        ])
    },
}  # fmt: skip


def value_and_gradients(lib, function, arrays):
    """The value, and the first and second gradients of a weighted sum of it; None where there are none."""
    leaves = [lib.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    out = function(lib, *leaves)
    found = [out]
    leaves = [x for x in leaves if x.requires_grad]
    weighted = lambda outs: sum(
        (y * lib.cos(lib.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)).sum() for y in outs
    )
    for again in (True, False):
        outs = [y for y in found[-len(leaves) :] if y is not None and y.requires_grad] if leaves else []
        if not outs:
            break
        outs = [out] if again else outs
        found += lib.autograd.grad(weighted(outs), leaves, create_graph=again, allow_unused=True)
    return [None if x is None else x.detach().numpy() for x in found]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_edges_masks_and_creation(name):
    function, *arrays = CASES[name]
    with np.errstate(all="ignore"):
        found = value_and_gradients(mg, function, arrays)
    expected = value_and_gradients(torch, function, arrays)
    for i, (a, b) in enumerate(itertools.zip_longest(found, expected)):
        if a is None or b is None:  # where one has no gradient, the other's is 0
            assert not np.any(np.nan_to_num(b if a is None else a))
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if i > len(arrays):
            a = np.where(np.isnan(b), b, a)  # PyTorch's second derivatives may be NaN
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)


def test_every_tensor_method_shared_with_pytorch_is_compared():
    from minigrad.more import torch_aliases as aliases
    from minigrad.ops import sampling

    operators = {name for name in METHODS if name.startswith("__")}
    conversions = {"to", "type", *CONVERSIONS, "bfloat16"}  # below
    named = {*aliases.METHODS, *sampling.__all__}  # tests/more/test_small_names.py
    made = {name for name in METHODS if name.startswith("new_")}  # tests of creation
    compared = {name.split("/")[0].split(".")[-1] for name in test_op_db.COVERED} | {"bincount", "inverse"}
    compared |= {"bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "gcd", "lcm",
                 "bitwise_left_shift", "bitwise_right_shift"}  # in place  # fmt: skip
    compared |= {f"{name}_" for name in (*FROM_FUNCTIONS, *RESHAPING, "add", "sub", "mul", "div")}
    compared |= {function.__name__ for function in OWN}  # tests/ops/test_in_place.py
    aliases = {name for name in METHODS if METHODS[name] in [METHODS.get(known) for known in compared]}
    of_autograd = {"backward", "register_hook", "retain_grad"}  # tests/core/test_backward.py
    assert METHODS.keys() - operators - aliases - conversions - named - made - of_autograd == {"astype"}


CONVERSIONS = ["float", "double", "half", "long", "int", "short", "char", "byte", "bool"]


@pytest.mark.parametrize(
    "convert",
    [
        *[lambda lib, x, name=name: getattr(x, name)() for name in CONVERSIONS],
        lambda lib, x: x.bfloat16().float(),
        lambda lib, x: x.to(lib.float32),
        lambda lib, x: lib.tensor([3, -1, 2]).to(x),
        lambda lib, x: x.type(lib.int64),
    ],
)
def test_conversions(convert):
    ours = convert(mg, mg.tensor(abs(EDGES)))
    theirs = convert(torch, torch.tensor(abs(EDGES)))
    assert str(theirs.dtype) == f"torch.{ours.dtype}"
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


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


# ---------------------------------------------------------------- methods in place

DATABASE = {}
for op in test_op_db.op_db:
    for name in (op.name, *(alias.name for alias in op.aliases)):
        DATABASE.setdefault(name.split(".")[-1], op)


@pytest.mark.parametrize("name", [*FROM_FUNCTIONS, *RESHAPING])
@pytest.mark.filterwarnings("ignore")
def test_in_place_methods_match_out_of_place_pytorch(name):
    """As PyTorch's functions out of place: it has no derivative of asinh_ and some others."""
    op = DATABASE[name]
    dtype = torch.float64 if torch.float64 in op.dtypes else torch.int64
    method = getattr(mg.Tensor, f"{name}_")
    compared = 0
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 20):
        data = sample.input.detach().clone().requires_grad_(dtype == torch.float64)
        convert = Converter()
        args, settings = convert(sample.args), convert(sample.kwargs)
        u = op(data * 1, *sample.args, **sample.kwargs)
        if name not in RESHAPING and u.shape != data.shape:
            continue
        u = u.to(dtype)  # a comparison writes 0 and 1
        compared += 1
        x = mg.tensor(data.detach().numpy(), requires_grad=data.requires_grad)
        y = x * 1
        assert method(y, *args, **settings) is y
        np.testing.assert_allclose(y.numpy(), u.detach().numpy(), rtol=1e-12)
        constant = x.detach().clone()
        memory = constant.array
        assert method(constant, *args, **settings) is constant
        np.testing.assert_array_equal(constant.numpy(), y.numpy())
        assert constant.array is memory or name in RESHAPING
        if data.requires_grad:
            with pytest.raises(mg.GraphError, match=f"{name}_ would change (the shape of )?a leaf"):
                method(x, *args, **settings)
        try:
            (u * u).sum().backward()
        except RuntimeError:  # PyTorch has no derivative of it
            continue
        if y.requires_grad:
            (y * y).sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), data.grad.numpy(force=True), rtol=1e-9, atol=1e-13)
        else:
            assert not np.nan_to_num(data.grad.numpy()).any()
    assert compared


def test_strides_and_contiguity_match_pytorch():
    cube = rng.normal(size=(2, 3, 4))
    ours = mg.tensor(cube).transpose(0, 2)
    theirs = torch.tensor(cube).transpose(0, 2)
    for name in ("stride", "is_contiguous", "element_size"):
        assert getattr(ours, name)() == getattr(theirs, name)()
    assert ours.nbytes == theirs.nbytes
