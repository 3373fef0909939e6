"""In-place changes: which are refused, and which are noticed when backward needs what they changed."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import autograd, nn, optim
from minigrad.core.errors import GraphError
from tests.core.gradients import assert_equal, leaf

CHANGES = {
    "itself": lambda x: x.zero_(),
    "a view": lambda x: x[:1].zero_(),
    "a detached alias": lambda x: x.detach().zero_(),
    "a view of an alias": lambda x: x.detach().reshape(1, -1).T.add_(1),
    "an item": lambda x: x.__setitem__(0, 7.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_changing_an_input_that_backward_needs_raises(change):
    x = leaf(1, 2)
    c = mg.tensor([3.0, 4.0], dtype="float64")
    y = (x * c).sum()
    with mg.no_grad():
        change(c)
    here = r"at .*test_versions\.py:\d+"
    said = rf"multiply \(recorded {here}\) needs its input[\s\S]*changed since by .* {here}[\s\S]*clone"
    with pytest.raises(GraphError, match=said):
        y.backward()


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_changing_an_input_backward_does_not_need_is_allowed(change):
    x = leaf(1, 2)
    c = mg.tensor([3.0, 4.0], dtype="float64")
    y = (x + c).sum()
    z = (x.tanh() * 2).sum()
    with mg.no_grad():
        change(c)
        change(x)
    y.backward()
    z.backward()
    assert_equal(x.grad, 1 + 2 * (1 - np.tanh([1, 2]) ** 2))


def test_changing_an_input_breaks_only_gradients_that_need_it():
    x, w = leaf(1, 2), leaf(3, 4)
    y = (x * w).sum()
    with mg.no_grad():
        x.zero_()
    assert_equal(autograd.grad(y, x, retain_graph=True)[0], [3, 4])
    with pytest.raises(GraphError, match="needs its input"):
        autograd.grad(y, w)


def test_an_output_that_backward_needs_must_not_change():
    x = leaf(1, 2)
    y = x.exp()
    z = y.sum()
    with mg.no_grad():
        y.zero_()
    with pytest.raises(GraphError, match=r"exp .* needs its output"):
        z.backward()


@pytest.mark.parametrize("index", [0, 1])
def test_changing_one_of_several_saved_outputs_raises(index):
    outputs = mg.linalg.eigh(leaf(2, 1, 1, 5, shape=(2, 2)))
    with mg.no_grad():
        outputs[index].add_(1)
    with pytest.raises(GraphError, match=r"eigen_factors .* needs its output"):
        outputs[1 - index].sum().backward()


def test_a_copy_sharing_a_version_does_not_hide_a_change():
    x = leaf(1, 2, 3, 4, shape=(2, 2))
    c = mg.ones(2, 2, dtype="float64")
    y = (x * c).sum()
    copy = c.T.reshape(-1)  # shares c's version, but not its memory
    c.zero_()
    copy.zero_()
    with pytest.raises(GraphError, match="needs its input"):
        y.backward()


def test_a_replay_refuses_a_changed_input():
    x = leaf(1, 2)
    y = x.tanh()  # its gradient needs only its output
    with mg.no_grad():
        x.zero_()
    autograd.grad(y.sum(), x, retain_graph=True)
    with pytest.raises(GraphError, match=r"tanh .* needs its input"):
        autograd.grad(y.sum(), x, create_graph=True)


def test_recomputing_a_changed_result_raises():
    x = leaf(1, 2)
    y = x * 2
    with mg.no_grad():
        y.zero_()
    z = y.exp().sum()
    del y
    with pytest.raises(GraphError, match="recomputed"):
        autograd.grad(z, x, create_graph=True)


IN_PLACE = {
    "add_": lambda x: x.add_(1),
    "+=": lambda x: x.__iadd__(1),
    "copy_": lambda x: x.copy_(np.zeros(2)),
    "[]=": lambda x: x.__setitem__(0, 1.0),
    "zero_": lambda x: x.zero_(),
}


@pytest.mark.parametrize("change", IN_PLACE.values(), ids=list(IN_PLACE))
def test_a_leaf_that_requires_a_gradient_is_not_changed_in_place(change):
    x = leaf(1, 2)
    for tensor in (x, x[:], x.view(2, 1).T[0]):
        with pytest.raises(GraphError, match=r"of a leaf[\s\S]*requires a gradient[\s\S]*no_grad|a leaf of"):
            change(tensor)
        assert_equal(tensor, [1, 2])


def test_an_optimizer_step_before_backward_raises():
    layer = nn.Linear(2, 1)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    x = mg.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    loss = layer(x).sum()
    optimizer.step()
    with pytest.raises(
        GraphError, match=r"linear .* needs its input .* changed since by SGD.step at .*test_versions"
    ):
        loss.backward()


def test_changing_an_index_array_does_not_change_the_gradient():
    x = leaf(1, 2, 3)
    places = np.array([0, 0])
    y = x[places].sum() + x.gather(0, places).sum() + x.index_put((places,), mg.zeros(2).double()).sum()
    places[:] = 2
    y.backward()
    assert_equal(x.grad, [4, 1, 1])


def test_clipping_a_gradient_saved_in_a_graph_raises():
    p, w = leaf(3, 4), leaf(1, 1)
    (p * p).sum().backward()
    loss = (w * p.grad).sum()
    optim.clip_grad_norm_(p, 1.0)
    with pytest.raises(GraphError, match="changed since by clip_grad_norm_"):
        loss.backward()
