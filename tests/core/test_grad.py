"""`autograd.grad`, derivatives of higher order, and backward from several tensors or to chosen leaves."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import autograd
from minigrad.core.errors import DtypeError, GraphError, OptionError, ShapeError
from tests.core.gradients import assert_equal, leaf
from tests.leaves import message

# ---------------------------------------------------------------- grad()


def test_grad_with_respect_to_intermediates():
    x = leaf(1, 2)
    y = x * 2
    z = y * y
    dz, dy, dx = autograd.grad(z.sum(), [z, y, x])
    assert_equal(dz, [1, 1])
    assert_equal(dy, 2 * y.array)
    assert_equal(dx, 4 * y.array)
    assert x.grad is None


def test_grad_stops_at_the_requested_inputs():
    x = leaf(1, 2)
    y = x.exp()
    autograd.grad((y * y).sum(), y)
    y.sum().backward()  # exp was neither run nor freed
    assert_equal(x.grad, y.array)


def test_grad_skips_inputs_that_are_not_requested():
    calls = []
    x, w = leaf(1, 2), leaf(3, 4)
    w.register_hook(calls.append)
    autograd.grad((x * w).sum(), x)
    assert calls == []
    assert w.grad is None


def test_grad_of_a_repeated_input_is_returned_twice():
    x = leaf(1, 2)
    first, second = autograd.grad((x * x).sum(), [x, x])
    first.zero_()
    assert_equal(second, [2, 4])


def test_grad_of_an_unused_input_raises_or_is_none():
    x, y = leaf(1), leaf(2)
    with pytest.raises(GraphError, match=r"shapes \[\(1,\)\] were not used"):
        autograd.grad((x * 2).sum(), [x, y])
    assert autograd.grad((x * 2).sum(), [x, y], allow_unused=True)[1] is None


def test_materialize_grads_gives_zeros_for_unused_inputs():
    x, y = leaf(1), leaf(2, 3)
    dx, dy = autograd.grad((x * 2).sum(), [x, y], materialize_grads=True)
    assert_equal(dx, [2])
    assert_equal(dy, [0, 0])
    assert_equal(autograd.grad((x * 2).sum(), x, None, None, False, True, True)[0], [2])  # torch's order


def test_grad_outputs_weight_several_outputs():
    x = leaf(1, 2)
    y = x * 2
    z = x * x
    (g,) = autograd.grad([y, z], x, [np.array([1.0, 0.0]), mg.tensor([0.0, 1.0])])
    assert_equal(g, [2, 4])
    with pytest.raises(OptionError, match="grad_outputs"):
        autograd.grad([x * 2, x * x], x, [None])


# ---------------------------------------------------------------- higher order


def derivatives(function, x, order):
    y = function(x)
    for _ in range(order):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)
    return y


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    ("function", "closed_forms"),
    [
        (lambda x: x**4, [lambda x: 4 * x**3, lambda x: 12 * x**2, lambda x: 24 * x]),
        (lambda x: x.exp() * x, [lambda x, k=k: (x + k) * np.exp(x) for k in (1, 2, 3)]),
        (lambda x: x.sqrt(), [lambda x: 0.5 * x**-0.5, lambda x: -0.25 * x**-1.5, lambda x: 0.375 * x**-2.5]),
    ],
    ids=["power", "product", "sqrt"],
)
def test_derivatives_to_third_order(function, closed_forms, order):
    x = leaf(0.5, 1.0, 3.0)
    assert_equal(derivatives(function, x, order), closed_forms[order - 1](x.array))


def test_a_second_derivative_with_respect_to_a_live_intermediate():
    x = leaf(2)
    y = x * 3
    (g,) = autograd.grad((y**3).sum(), y, create_graph=True)
    (h,) = autograd.grad(g.sum(), y)
    assert_equal(h, 6 * y.array)


def test_freed_intermediates_are_recomputed():
    x = leaf(0.5, 1.0)
    z = (((x * 2).sin() + 1).exp()).sum()  # no name keeps any of them
    (g,) = autograd.grad(z, x, create_graph=True)
    inside = np.exp(np.sin(2 * x.array) + 1)
    assert_equal(g, 2 * np.cos(2 * x.array) * inside)
    (h,) = autograd.grad(g.sum(), x)
    assert_equal(h, 4 * inside * (np.cos(2 * x.array) ** 2 - np.sin(2 * x.array)))


def test_an_output_of_split_is_rebuilt_for_the_second_gradient():
    x = leaf(1, 2)
    y = (x.split(1)[1] ** 3).sum()
    (g,) = autograd.grad(y, x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x)
    assert_equal(h, [0, 12])


# ---------------------------------------------------------------- from several tensors, to chosen leaves


def test_backward_with_inputs_does_not_change_other_leaves():
    x, y = leaf(1, 2), leaf(3, 4)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [3, 4]
    assert y.grad is None
    (x * y).sum().backward(inputs=x)
    assert x.grad.tolist() == [6, 8]
    for wrong in ([], x * 2, [mg.ones(2)], 3):
        with pytest.raises(mg.OptionError, match="needs leaves that require a gradient"):
            (x * y).sum().backward(inputs=wrong)


def test_backward_accumulates_over_several_tensors():
    x, y = leaf(1, 2), leaf(3, 4)
    autograd.backward([(x * y).sum(), x * 2], [None, mg.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [5, 24]
    assert y.grad.tolist() == [1, 2]
    autograd.backward((x * x).sum(), inputs=[x])
    assert x.grad.tolist() == [7, 28]
    with pytest.raises(mg.OptionError, match="2 tensors need 2 grad_tensors"):
        autograd.backward([x * 2, y * 2], mg.ones(2))


def test_backward_rejects_a_grad_it_cannot_accumulate_into():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    x.grad = mg.ones(1).expand(2)
    with pytest.raises(mg.OptionError, match="its memory is read-only"):
        (x * 2).sum().backward()


def test_reading_grad_of_a_non_leaf_warns_with_advice():
    w = mg.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    w = w - 0.1 * w.grad
    (w * w).sum().backward()
    with pytest.warns(
        UserWarning, match=r"not a leaf: subtract .*\n.*retain_grad.*no_grad\(\): w -= lr"
    ) as said:
        assert w.grad is None
    assert said[0].filename == __file__


def test_reading_a_retained_or_missing_grad_does_not_warn():
    x = mg.tensor([1.0], requires_grad=True)
    y = x * 2
    first, second = (mg.ones(2) * x).split(1)
    for tensor in (y, first):
        tensor.retain_grad()
    assert x.grad is mg.ones(1).grad is y.grad is first.grad is None
    (y + first + second).sum().backward()
    assert y.grad.tolist() == first.grad.tolist() == [1.0]
    with pytest.warns(UserWarning, match="not a leaf"):
        second.grad  # noqa: B018
    second.grad = mg.ones(1)  # it may be assigned, as in PyTorch
    assert second.grad.tolist() == [1.0]


def test_backward_through_a_carried_state_suggests_detach():
    w = mg.ones(2, 2, requires_grad=True)
    h = mg.ones(2)

    def step(h):
        h = (h @ w).tanh()
        h.sum().backward()
        return h

    h = step(h)
    assert re.search(
        r"freed it\.\n.*\.detach\(\).*h = h\.detach\(\)", message(lambda: step(h), mg.errors.GraphError)
    )
    step(h.detach())


WRONG = {
    "another shape": (lambda: mg.ones(1), ShapeError, r"shape \(3,\) cannot have shape \(1,\)"),
    "one axis more": (lambda: mg.ones(1, 3), ShapeError, r"\(1, 3\)"),
    "float64": (lambda: mg.ones(3, dtype="float64"), DtypeError, "float32 tensor .* float64"),
    "an array": (lambda: np.ones(3, np.float32), DtypeError, "a tensor or None, got ndarray"),
}


@pytest.mark.parametrize(("make", "error", "message"), WRONG.values(), ids=list(WRONG))
def test_assigning_an_incompatible_grad_raises(make, error, message):
    p = mg.nn.Parameter(mg.zeros(3))
    p.grad = before = mg.ones(3)
    with pytest.raises(error, match=message):
        p.grad = make()
    assert p.grad is before
    p.grad = None
    assert p.grad is None
