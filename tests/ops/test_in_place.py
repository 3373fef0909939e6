"""Changes in place within a graph: a tensor becomes the result, and what shares its memory follows."""

import gc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import autograd
from minigrad.core.errors import DtypeError, GraphError, ShapeError
from tests.core.gradients import assert_equal, leaf

# ---------------------------------------------------------------- lines of training code


def test_rows_are_written_into_a_buffer():
    x = leaf(1, 2, 3)
    out = mg.zeros(2, 3, dtype="float64")
    for i in range(2):
        out[i] = x * (i + 1)
    out[:, 0] += 5
    assert_equal(out, [[6, 2, 3], [7, 4, 6]])
    (out * out).sum().backward()
    assert_equal(x.grad, [2 * 6 + 2 * 7 * 2, 2 * 2 + 2 * 4 * 2, 2 * 3 + 2 * 6 * 2])


def test_augmented_assignment_works_in_place():
    for change in ("x **= 2", "x //= 2", "x %= 2", "x += 1", "x -= 1", "x *= 2", "x /= 2"):
        p = mg.tensor([3.0, 5.0], requires_grad=True)
        names = {"x": p}
        with mg.no_grad():
            exec(change, names)
        assert names["x"] is p
        assert p.tolist() != [3.0, 5.0]
    for change in ("x &= 1", "x |= 8", "x ^= 1", "x <<= 1", "x >>= 1"):
        names = {"x": (p := mg.tensor([3, 5]))}
        exec(change, names)
        assert names["x"] is p
        assert p.tolist() != [3, 5]


# ---------------------------------------------------------------- who shares the memory


def test_in_place_changes_reach_the_base_and_other_views():
    x = leaf(1, 2, 3, 4, shape=(2, 2))
    y = x * 1
    first = y[0]
    column = y[:, 1]
    transposed = y.T
    first *= 10
    assert_equal(y, [[10, 20], [3, 4]])
    assert_equal(column, [20, 4])
    assert_equal(transposed, [[10, 3], [20, 4]])
    (column * column).sum().backward(retain_graph=True)
    assert_equal(x.grad, [[0, 400], [0, 8]])
    x.grad = None
    transposed.sum().backward()
    assert_equal(x.grad, [[10, 10], [1, 1]])


def test_a_detached_alias_sees_the_change_and_gets_no_gradient():
    x = leaf(1, 2)
    y = x * 3
    seen = y.detach()
    data = y.data
    y += x
    y -= 1
    assert_equal(seen, [3, 7])
    assert_equal(data, [3, 7])
    assert data.version is not y.version
    assert not seen.requires_grad
    for alias in (seen, seen[:1]):
        with pytest.raises(GraphError, match=r"cannot modify a detached tensor[\s\S]*clone"):
            alias.mul_(x.sum())


CHAINS = {
    "h[0][1][0] = 5": lambda h: h[0][1].__setitem__(0, 5.0),
    "h.view(-1)[:2].mul_(2)": lambda h: h.view(-1)[:2].mul_(2),
    "h[0].diagonal().fill_(0)": lambda h: h[0].diagonal().fill_(0.0),
    "h.transpose(0, 1)[0].add_(1)": lambda h: h.transpose(0, 1)[0].add_(1),
    "h.T[0].view(-1)[1:].mul_(3)": lambda h: h.transpose(1, 2)[0, 1:].view(-1)[1:].mul_(3),
    "h.unbind()[1].split(1)[0][0][1].sin_()": lambda h: h.unbind(0)[1].split(1)[0][0][1].sin_(),
    "h.chunk(2)[1].squeeze().T[0].exp_()": lambda h: h.chunk(2)[1].squeeze(0).T[0].exp_(),
    "h[:, ::1][1][0].mul_(h[0][0])": lambda h: h[:, ::1][1][0].mul_(h[0][0]),
}


@pytest.mark.parametrize("line", CHAINS)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])  # the order of h's axes in memory
def test_writing_through_temporary_views_keeps_gradients(line, order):
    change = CHAINS[line]
    x = leaf(*np.linspace(0.2, 0.9, 8), shape=(2, 2, 2))

    def f(x):
        h = (x.permute(*order) * 1).permute(*np.argsort(order))
        change(h)
        return h * h

    with mg.no_grad():  # where memory itself is written
        expected = x * 1
        change(expected)
    assert_equal(f(x), expected * expected)
    mg.gradcheck(f, x, order=2)


def test_views_stay_in_sync_after_their_base_is_deleted():
    x = leaf(1, 2, 3, 4)
    y = x * 1
    a = y[:2]
    b = y.reshape(2, 2).T[0]
    c = y[3:]
    seen = y[:3].detach()
    del y
    a *= b  # b is 1, 3
    assert_equal(a, [1, 6])
    assert_equal(b, [1, 3])
    b += 2
    assert_equal(a, [3, 6])
    assert_equal(seen, [3, 6, 5])
    assert not seen.requires_grad
    a[1:].mul_(3)
    a.add_(1)
    assert_equal(seen, [4, 19, 5])
    (a * a).sum().backward(retain_graph=True)
    assert_equal(x.grad, [2 * 4 * 2, 2 * 19 * 3 * 3, 2 * 19 * 3 * 2, 0])
    x.grad = None
    (b.sum() + c.sum()).backward()
    assert_equal(x.grad, [2, 0, 1, 1])


def test_a_gradient_goes_through_the_view_that_was_changed():
    y = leaf(1, 2, 3, 4) * 1
    v = y.view(2, 2)[0]
    v *= 2
    (g,) = autograd.grad(v.sum(), y, retain_graph=True)  # v is a view of y, as in PyTorch
    assert_equal(g, [1, 1, 0, 0])


def test_views_can_be_changed_in_checkpoints():
    x = leaf(1, 2, 3, 4)
    buffer = mg.zeros(2, 2, 2, dtype="float64")

    def f(x):
        h = x * 1
        h.view(2, 2)[1][0] *= x[0]
        return h

    autograd.checkpoint(f, x)[2].backward()
    assert_equal(x.grad, [3, 0, 1, 0])
    buffer[0][1][0] = x[3]
    buffer.sum().backward()
    assert_equal(x.grad, [3, 0, 1, 1])


def test_views_are_tracked_after_many_dead_views():
    x = leaf(1, 2)
    y = mg.zeros(4, dtype="float64")
    for _ in range(100):
        v = y.reshape(2, 2).T[0]
    assert len(y.version.views) < 70
    v += x
    assert_equal(y, [1, 0, 2, 0])
    z = v
    for _ in range(1000):
        z = z.view(1, 2).view(2)
    assert len(z.version.views) < 140


@pytest.mark.parametrize("recorded", [True, False])
def test_copies_share_no_memory_with_the_original(recorded):
    y = leaf(1, 2, 3, 4, shape=(2, 2)) * 1
    y = y if recorded else y.detach()
    assert y.contiguous() is y
    assert y.T.contiguous().array.flags.c_contiguous
    copies = (
        y.T.reshape(-1), y[[0]], y.flip(0), y.repeat(1, 1), y.repeat(2, 1), y.tile((1, 1)), y.T.contiguous(),
    )  # fmt: skip
    before = [copy.tolist() for copy in copies]
    y += 1
    assert [copy.tolist() for copy in copies] == before
    for copy in copies:
        copy += 1
    assert_equal(y, [[2, 3], [4, 5]])


def test_in_place_changes_of_overlapping_views_raise():
    y = leaf(1, 2, 3) * 1
    for shared in (y.expand(3, 3), y.unfold(0, 2, 1)):
        with pytest.raises(ShapeError, match="share memory"):
            shared += 1


@pytest.mark.parametrize("holds_base", [True, False])
def test_parts_of_overlapping_views_can_be_changed(holds_base):
    x = leaf(1, 2, 3)
    y = x * 1
    repeated = y.expand(3, 3)
    windows = y.unfold(0, 2, 1)
    if not holds_base:
        del y
    repeated[1][1:] *= 5
    windows[0].mul_(2)
    assert_equal(repeated, [[2, 20, 15]] * 3)
    assert_equal(windows, [[2, 20], [20, 15]])
    if holds_base:
        assert_equal(y, [2, 20, 15])
    repeated.sum().backward()
    assert_equal(x.grad, [6, 30, 15])


# ---------------------------------------------------------------- the graph


def test_backward_uses_the_value_before_an_in_place_change():
    x = leaf(2, 3)
    y = x * x
    z = y * y  # needs the old y
    y *= 0
    z.sum().backward()
    assert_equal(x.grad, 4 * np.array([2, 3]) ** 3)


@pytest.mark.slow
def test_an_in_place_update_of_a_constant_leaves_no_cycle():
    x = leaf(1, 2)
    y = mg.ones(2, dtype="float64")
    z = x * y  # refers to the constant
    y += z
    node = weakref.ref(y.node)
    gc.collect()
    gc.disable()
    try:
        del y, z
        assert node() is None
    finally:
        gc.enable()


def test_changing_a_saved_constant_makes_create_graph_raise():
    x = leaf(2, 3)
    y = mg.ones(2, dtype="float64")
    z = x * y
    y += x
    (g,) = autograd.grad(z.sum(), x, retain_graph=True)
    assert_equal(g, [1, 1])
    with pytest.raises(GraphError, match="changed since by add_"):
        autograd.grad(z.sum(), x, create_graph=True)


def test_a_checkpoint_keeps_the_value_that_it_was_given():
    x = leaf(1, 2)
    h = x * 1
    h += autograd.checkpoint(lambda h: h * h, h)
    (h * h).sum().backward()
    assert_equal(x.grad, [2 * 2 * 3, 2 * 6 * 5])  # the gradient of (x + x^2)^2

    def changes(h):
        h *= 2
        return h * h

    with pytest.raises(GraphError, match=r"changed an argument[\s\S]*clone"):
        autograd.checkpoint(changes, x * 1)


def test_retain_grad_follows_an_in_place_change():
    x = leaf(1, 2)
    y = x * 1
    y.retain_grad()
    y *= 3
    (y * 2).sum().backward()
    assert_equal(y.grad, [2, 2])
    assert_equal(x.grad, [6, 6])


def test_a_failed_in_place_op_leaves_the_tensor_unchanged():
    x = leaf(1, 2)
    y = x * 2
    view = y[:1]
    for change in (lambda: y.add_(mg.ones(3)), lambda: y.__setitem__(5, 1.0), lambda: y.add_(mg.ones(4, 2))):
        with pytest.raises(mg.MinigradError):
            change()
    assert_equal(y, [2, 4])
    assert_equal(view, [2])
    y.sum().backward()
    assert_equal(x.grad, [2, 2])


def test_in_place_ops_cannot_change_shape_or_dtype():
    y = leaf(1, 2) * 1
    with pytest.raises(ShapeError, match=r"shape \(2,\) would give shape \(3, 2\)"):
        y += mg.ones(3, 2)
    half = mg.ones(2, dtype="float32", requires_grad=True) * 1
    half += mg.ones(2, dtype="float64")
    assert half.dtype == mg.float32
    with pytest.raises(DtypeError, match="int64 would give float32"):
        mg.ones(2, dtype="int64").mul_(leaf(1, 2).float())
    with pytest.raises(DtypeError, match="require a gradient to dtype int64"):
        mg.ones(2, dtype="int64")[0] = leaf(1)[0]


def test_integers_are_converted_as_in_pytorch():
    x = mg.tensor([250, 7], dtype="uint8")
    x += mg.tensor([10, -3], dtype="int16")  # wraps around
    assert (x.tolist(), x.dtype) == ([4, 4], mg.uint8)
    x %= mg.tensor([3, 3], dtype="int64")
    assert x.tolist() == [1, 1]
    for change in (lambda: x.add_(0.5), lambda: x.div_(2), lambda: x.mul_(mg.ones(2))):
        with pytest.raises(DtypeError, match="uint8 would give float32"):
            change()
    assert x.tolist() == [1, 1]


def test_requires_grad_can_only_be_cleared_on_a_leaf():
    x = leaf(1, 2)
    y = x * 2
    with pytest.raises(GraphError, match=r"only a leaf[\s\S]*detach"):
        y.requires_grad = False
    y.requires_grad = True
    x.requires_grad = False
    assert not x.requires_grad
    with pytest.raises(DtypeError, match="only floating"):
        mg.ones(2, dtype="int64").requires_grad = True


# ---------------------------------------------------------------- other shapes, and draws


def test_views_of_a_reshaped_tensor_follow_it():
    x = leaf(1, 2, 3)
    y = x * 1
    view = y[1:]
    y.unsqueeze_(0)
    view *= 2
    assert_equal(y, [[1, 4, 6]])
    y += 1
    assert_equal(view, [5, 7])
    (view * view).sum().backward()
    assert_equal(x.grad, [0, 2 * 5 * 2, 2 * 7 * 2])


def test_detach_in_place_makes_a_leaf():
    x = leaf(1, 2)
    y = (x * 2).detach_()
    assert y.is_leaf
    assert not y.requires_grad
    with pytest.raises(GraphError, match="view"):
        (x * 2)[:1].detach_()


DRAWS = {
    "normal_": (lambda x: x.normal_(3, 2), 3, 2),
    "uniform_": (lambda x: x.uniform_(1, 5), 3, 4 / 12**0.5),
    "exponential_": (lambda x: x.exponential_(0.5), 2, 2),
    "log_normal_": (lambda x: x.log_normal_(0, 0.5), np.exp(0.125), (np.exp(0.5) - np.exp(0.25)) ** 0.5),
    "geometric_": (lambda x: x.geometric_(0.25), 4, 12**0.5),
    "bernoulli_": (lambda x: x.bernoulli_(0.3), 0.3, 0.21**0.5),
    "bernoulli_ of a tensor": (lambda x: x.bernoulli_(mg.full((20000,), 0.3)), 0.3, 0.21**0.5),
    "random_": (lambda x: x.random_(2, 7), 4, 2**0.5),
    "random_ below": (lambda x: x.random_(5), 2, 2**0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_their_mean_and_deviation(name):
    draw, mean, deviation = DRAWS[name]
    mg.manual_seed(1)
    x = draw(mg.zeros(20000))
    assert abs(x.mean().item() - mean) < 5 * deviation / 20000**0.5
    assert abs(x.std(correction=0).item() - deviation) < 0.05 * deviation
    mg.manual_seed(1)
    assert (draw(mg.zeros(20000)) == x).all()


def test_cauchy_numbers_have_their_quartiles():
    mg.manual_seed(1)
    x = mg.zeros(20000).cauchy_(1.0, 2.0)
    np.testing.assert_allclose(np.quantile(x, [0.25, 0.5, 0.75]), [-1, 1, 3], atol=0.15)


def test_diagonals_are_filled():
    assert mg.zeros(2, 3).fill_diagonal_(1.0).tolist() == [[1, 0, 0], [0, 1, 0]]
    for wrap in (False, True):
        expected = np.zeros((7, 3))
        np.fill_diagonal(expected, 5.0, wrap)
        assert_equal(mg.zeros(7, 3).fill_diagonal_(5.0, wrap), expected)
    assert mg.zeros(2, 2, 2).fill_diagonal_(1).sum().item() == 2
    with pytest.raises(ShapeError, match="all of equal length"):
        mg.zeros(2, 2, 3).fill_diagonal_(1)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda q, p: q.data.copy_(p), [1.0, 2.0]),
        (lambda q, p: q.data.add_(p), [6.0, 8.0]),
        (lambda q, p: q.data.mul_(2).add_(p, alpha=10), [20.0, 32.0]),
        (lambda q, p: q.data.__setitem__(0, p[1]), [2.0, 6.0]),
        (lambda q, p: q.data[:1].copy_(p[:1]), [1.0, 6.0]),
    ],
)
def test_changes_through_data_change_the_tensor(change, expected):
    p = mg.tensor([1.0, 2.0], requires_grad=True)
    q = mg.tensor([5.0, 6.0], requires_grad=True)
    change(q, p)
    assert q.tolist() == expected
    assert q.is_leaf
