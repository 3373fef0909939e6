"""Aliased gradients, deep and wide graphs, and what is freed when."""

import functools
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import GraphError
from minigrad.core.registry import ops
from minigrad.ops import differentiable
from tests.leaves import assert_equal, gradient_of, leaf, vector


def test_accumulating_into_an_aliased_gradient():
    x, y = leaf([1, 2]), leaf([3, 4])
    ((x + y).mean() + x.mean()).backward()
    assert_equal(x.grad, [1, 1])
    assert_equal(y.grad, [0.5, 0.5])
    z = leaf([1, 2, 3, 4])
    (x.reshape(2, 1) + z.reshape(2, 2)).mean().backward()
    assert_equal(z.grad, [0.25] * 4)


def test_gradients_of_0d_tensors_accumulate():
    x = mg.tensor(3.0, requires_grad=True)
    for _ in range(2):
        (x * x).backward()
    assert x.grad.item() == 12
    assert x.grad.shape == ()


def test_views_of_the_same_gradient_accumulate():
    x = leaf([[1, 2], [3, 4]])
    y = x.T + x + x.reshape(2, 2)
    y.backward(np.array([[1.0, 10.0], [100.0, 1000.0]]))
    assert_equal(x.grad, [[3, 120], [210, 3000]])


def test_a_chain_of_20000_ops_is_walked_and_freed():
    x = leaf([1.0])
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward(retain_graph=True)
    assert_equal(x.grad, [1])
    node = weakref.ref(y.node)
    del y
    assert node() is None


def test_backward_visits_each_node_once():
    x = leaf([1.0])
    y = x
    for _ in range(60):
        y = y + y  # 2**60 paths
    y.backward()
    assert_equal(x.grad, [2.0**60])


def test_the_same_operand_twice_is_two_edges():
    for function, expected in (
        (lambda x: x * x, [2, 4]), (lambda x: x + x, [2, 2]), (lambda x: x - x, [0, 0]),
        (lambda x: x / x, [0, 0]),
        (lambda x: mg.cat([x, x]), [2, 2]), (lambda x: mg.maximum(x, x), [1, 1]), (lambda x: x @ x, [2, 4]),
    ):  # fmt: skip
        assert_equal(gradient_of(function, [1, 2]), expected, atol=1e-15)


def test_gradients_with_graphs_share_no_memory():
    x, y = vector(1.0, 2.0), vector(3.0, 4.0)
    (x + y).sum().backward(create_graph=True)
    assert x.grad is not y.grad
    mg.optim.clip_grad_norm_([x, y], 1.0)
    np.testing.assert_allclose(x.grad.numpy(), [0.5, 0.5], rtol=1e-5)


@pytest.mark.parametrize("how", ["default", "partial"])
def test_changes_to_arrays_saved_in_partials_are_detected(how):
    @differentiable
    def scaled(x, y, /):
        keep = (lambda g, y=y: g * y) if how == "default" else functools.partial(lambda y, g: g * y, y)
        return x * y, (keep, None)

    x, y = vector(1.0), mg.tensor([2.0])
    z = scaled(x, y)
    y += 5.0
    with pytest.raises(GraphError, match="changed since"):
        z.backward()
    del ops[scaled.op.key]
