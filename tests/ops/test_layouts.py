"""How an array lies in memory changes nothing, and neither does having no elements."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.registry import ops
from minigrad.nn import functional as F
from tests.leaves import assert_equal, leaf

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
def test_memory_layout_does_not_change_results(function, odd):
    array = odd(np.random.default_rng(0).normal(size=(3, 4)))
    plain = leaf(array.copy(order="C"))
    strange = mg.Tensor(array, requires_grad=True)
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
def test_elementwise_ops_of_0d_and_empty_tensors(name, shape):
    x = leaf(np.full(shape, 0.5))
    y = ops[name].call(x)
    assert y.shape == shape
    if y.requires_grad:
        y.sum().backward()
        assert x.grad.shape == shape


def test_empty_batches_go_through_a_network():
    x = mg.zeros(0, 5, 4, requires_grad=True)
    w = mg.ones(4, 4, requires_grad=True)
    y = F.gelu(F.layer_norm(F.linear(x, w), 4)).softmax(-1)
    y = F.scaled_dot_product_attention(y, y, y, is_causal=True)
    (y.sum() + F.embedding(mg.zeros(0, dtype="int64"), w).sum() + y.amax(-1).sum()).backward()
    assert x.grad.shape == (0, 5, 4)
    assert_equal(w.grad, np.zeros((4, 4)))
