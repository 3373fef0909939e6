"""func against torch.func, on one network of many ops."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func

torch = pytest.importorskip("torch")
tf = torch.func

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings(
        "ignore:.torch.jit.script. is deprecated:DeprecationWarning"
    ),  # of its own jvp
]

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
TX, TY = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))


def network(x, y):
    """Nested results, of ops that both libraries have as methods."""
    h = (x @ y).tanh()
    p = (h * 2).softmax(-1)
    return {"p": p.log(), "norm": ((x * x).sum() + 1).sqrt()}


def number(x, y):
    out = network(x, y)
    return (out["p"] * out["p"]).sum() * out["norm"]


def theirs(*arrays):
    return [torch.tensor(a) for a in arrays]


def assert_same(ours, other):
    if isinstance(other, dict):
        assert ours.keys() == other.keys()
        for key in other:
            assert_same(ours[key], other[key])
    elif isinstance(other, tuple | list):
        assert len(ours) == len(other)
        for a, b in zip(ours, other, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_allclose(
            np.asarray(ours.detach() if isinstance(ours, mg.Tensor) else ours),
            other.detach().numpy(),
            rtol=1e-9,
            atol=1e-11,
        )


def test_grad_and_value():
    g, value = tf.grad_and_value(number, (0, 1))(*theirs(X, Y))
    assert_same(func.value_and_grad(number, (0, 1))(X, Y), (value, g))


def test_vjp():
    out, pull = tf.vjp(network, *theirs(X, Y))
    v = {"p": rng.normal(size=(3, 2)), "norm": np.array(0.3)}
    expected = pull({key: torch.tensor(a) for key, a in v.items()})
    ours, mine = func.vjp(network, X, Y)
    assert_same((ours, mine(v)), (out, expected))


def test_jvp():
    expected = tf.jvp(network, tuple(theirs(X, Y)), tuple(theirs(TX, TY)))
    assert_same(func.jvp(network, (X, Y), (TX, TY)), expected)


@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_jacobian(argnums):
    assert_same(func.jacobian(network, argnums)(X, Y), tf.jacrev(network, argnums)(*theirs(X, Y)))


@pytest.mark.parametrize("argnums", [0, (0, 1)])
def test_hessian(argnums):
    assert_same(func.hessian(number, argnums)(X, Y), tf.hessian(number, argnums)(*theirs(X, Y)))


def test_hvp():
    both = (0, 1)
    expected = tf.jvp(tf.grad(number, both), tuple(theirs(X, Y)), tuple(theirs(TX, TY)))[1]
    assert_same(func.hvp(number, (X, Y), (TX, TY)), expected)


def test_third_order():
    third = lambda lib: lib.grad(
        lambda x: lib.grad(lambda x: lib.grad(lambda x: number(x, y).sin())(x).sum())(x).sum()
    )
    y = torch.tensor(Y)
    expected = third(tf)(torch.tensor(X))
    y = mg.tensor(Y)
    assert_same(third(func)(X), expected)
