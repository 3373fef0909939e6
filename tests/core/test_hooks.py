"""Hooks: what they see, change and refuse."""

import pytest

import minigrad as mg
from tests.leaves import vector


def test_a_handle_removes_its_own_hook_only():
    x = vector(1.0)
    seen = []
    first = x.register_hook(lambda g: seen.append("first"))
    first.remove()
    x.register_hook(lambda g: seen.append("second"))
    first.remove()
    (x * 2).backward()
    assert seen == ["second"]


def test_a_hook_is_removed_at_the_end_of_a_with_statement():
    x = mg.ones(1, requires_grad=True)
    with x.register_hook(lambda g: 10 * g) as handle:
        (2 * x).sum().backward()
    (2 * x).sum().backward()
    assert x.grad.tolist() == [22]
    handle.remove()
    with pytest.raises(ZeroDivisionError), x.register_hook(lambda g: 10 * g):
        divmod(1, 0)
    (2 * x).sum().backward()
    assert x.grad.tolist() == [24]


def test_a_retained_gradient_counts_once_after_hooks():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]


def test_a_hook_does_not_change_a_gradients_dtype():
    x = mg.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: g.double())
    x.sum().backward()
    assert x.grad.dtype == mg.float32


def test_a_hook_that_would_never_be_called_is_refused():
    with pytest.raises(mg.GraphError, match="does not require one"):
        mg.ones(2).register_hook(print)
    with pytest.raises(mg.GraphError, match="does not require one"):
        mg.ones(2).retain_grad()
