"""Long graphs, memory after backward, and exceptions on the way."""

import gc
import sys
import tracemalloc
import weakref

import pytest

import minigrad as mg
from minigrad import autograd
from minigrad.core.errors import ShapeError
from minigrad.core.registry import ops, registry
from minigrad.ops import differentiable
from tests.core.gradients import assert_equal, leaf


def chain(x, n, step=lambda y: y + 1):
    for _ in range(n):
        x = step(x)
    return x


@pytest.fixture
def shallow():
    """A recursion limit that any recursion over a graph would meet."""
    before = sys.getrecursionlimit()
    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth = depth + 1
        frame = frame.f_back
    sys.setrecursionlimit(depth + 120)
    yield
    sys.setrecursionlimit(before)


DEEP = {
    "backward": lambda x, y: y.sum().backward(),
    "grad": lambda x, y: autograd.grad(y.sum(), x),
    "create_graph": lambda x, y: autograd.grad(
        autograd.grad((y * y).sum(), x, create_graph=True)[0].sum(), x
    ),
    "dropped": lambda x, y: None,
    "func.grad": lambda x, y: mg.func.grad(lambda x: chain(x, 3_000, lambda y: y * 1.0001).sum())(x),
    "checkpoint": lambda x, y: autograd.checkpoint(chain, y, 3_000).sum().backward(),
    "anomaly": lambda x, y: autograd.detect_anomaly()(y.sum().backward)(),
}


@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize("use", DEEP.values(), ids=list(DEEP))
@pytest.mark.slow
def test_long_chains_do_not_hit_the_recursion_limit(use):
    x = leaf(1.0)
    y = chain(x, 20_000 if use in (DEEP["backward"], DEEP["dropped"]) else 3_000, lambda y: y * 1.0001)
    use(x, y)
    alive = weakref.ref(y.node)
    del y
    assert alive() is None, "the chain is freed with its end"


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def a_step(x, w):
    h = (x @ w).tanh()
    h = mg.cat([h.softmax(-1), (h * h).exp()], dim=1)
    h.split(2, dim=1)[0].sum().backward()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.slow
def test_backward_does_not_leak_memory():
    x = mg.randn(64, 64, requires_grad=True)
    w = mg.randn(64, 64, requires_grad=True)
    a_step(x, w)
    gc.collect()  # compiling a kernel for the first time leaves garbage
    tracemalloc.start()
    try:
        for _ in range(20):  # Python keeps some of the tuples and dicts that are let go, up to a limit
            a_step(x, w)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            a_step(x, w)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 64 * 64 * 4  # less than one of its arrays
    assert gc.collect() == 0


def step(x):
    """A forward and a backward pass through ops of every kind; gives weak references to what they made."""
    made = [x.exp()]
    made.append(made[-1].reshape(2, 2).softmax(-1))
    made += list(made[-1].split(1, dim=1))
    made.append(mg.cat(made[-2:], dim=1))
    made[-1].register_hook(lambda g: g * 1)
    made[1].retain_grad()
    made[-1].sum().backward()
    return [weakref.ref(t) for t in made] + [weakref.ref(t.array) for t in made]


@pytest.mark.usefixtures("no_collector")
def test_reference_counting_alone_frees_a_graph():
    x = leaf(1, 2, 3, 4)
    assert not any(ref() is not None for ref in step(x))
    (g,) = autograd.grad((x.exp() * x).softmax(-1)[0], x, create_graph=True)
    refs = [weakref.ref(g), weakref.ref(g.node), weakref.ref(g.array)]
    del g
    assert not any(ref() is not None for ref in refs)


def broken(*_):
    raise RuntimeError("on purpose")


@differentiable
def raising(x, /, when):
    """x, or an exception, in the forward pass or in the backward pass."""
    if when == "forward":
        broken()
    return x * 1, (broken,)


del ops["raising"], registry["raising"]

FAILURES = {
    "a rule": lambda h: raising(h, when="forward").sum().backward(),
    "a gradient": lambda h: raising(h, when="backward").sum().backward(),
    "a hook": lambda h: h.register_hook(broken) and (h * h).sum().backward(),
    "a replay": lambda h: autograd.grad(raising(h, when="backward").sum(), h, create_graph=True),
    "a checkpoint": lambda h: autograd.checkpoint(lambda h: raising(h, when="backward"), h).sum().backward(),
    "a function's grad": lambda h: mg.func.grad(lambda h: raising(h * h, when="backward").sum())(h),
    "a shape": lambda h: (h @ h.reshape(-1)[:3]).sum().backward(),
}


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("fail", FAILURES.values(), ids=list(FAILURES))
@pytest.mark.slow
def test_exceptions_do_not_keep_the_graph_alive(fail):
    def run():
        h = (leaf(1, 2, 3, 4, shape=(2, 2)) * 2).exp()
        refs.append(weakref.ref(h))
        refs.append(weakref.ref(h.node))
        fail(h)

    refs = []
    for _ in range(2):  # the first time, patterns of messages are compiled
        gc.collect()
        with pytest.raises(Exception, match=r"on purpose|matmul"):
            run()
    assert [ref() for ref in refs] == [None] * 4
    assert gc.collect() == 0


def test_gradients_saved_by_a_hook_are_not_overwritten():
    x = leaf(1.0)
    kept = []
    x.register_hook(kept.append)
    for _ in range(2):
        (x * 3).sum().backward()
    assert_equal(x.grad, [6])
    assert [float(g) for g in kept] == [3, 3]


def test_a_gradient_of_the_wrong_shape_on_a_leaf_is_an_error():
    x = leaf(1, 2)
    x.grad = mg.ones(2, dtype="float64")
    x.data = mg.ones(3, dtype="float64")
    with pytest.raises(ShapeError, match=r"`\.grad` has shape \(2,\)[\s\S]*\(3,\)"):
        (x * 2).sum().backward()
