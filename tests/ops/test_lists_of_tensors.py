"""A list of tensors that require gradients, in place of an array, keeps its gradient or is refused.

Methods in place are swept by the samples of their functions; tests/slow/sweeps does so with all functions.
"""

import re
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import GraphError, MinigradError, ShapeError
from minigrad.core.registry import registry
from minigrad.ops.methods import METHODS

OWN = {key: record for key, record in registry.items() if record.source.__module__.startswith("minigrad.")}
F = mg.nn.functional

# ---------------------------------------------------------------- what is passed in place of an array


def leaf(values):
    return mg.tensor(np.array(values), requires_grad=True)


def numbers(values):
    """Nested lists of tensors without axes, and the tensors, in the order of the elements."""
    tensors = [leaf(x) for x in values.ravel()]
    fill = iter(tensors)
    nest = lambda shape: [nest(shape[1:]) for _ in range(shape[0])] if shape else next(fill)
    return nest(values.shape), tensors


def rows(values):
    """A tuple of tensors, each a slice along the first axis."""
    tensors = [leaf(x) for x in values]
    return tuple(tensors), tensors


def mixed(values):
    """Nested lists with one tensor, the others numbers."""
    first = leaf(values.ravel()[0])
    nested = values.tolist()
    inner = nested
    for _ in range(values.ndim - 1):
        inner = inner[0]
    inner[0] = first
    return nested, [first]


FORMS = {"numbers": numbers, "rows": rows, "mixed": mixed}


# ---------------------------------------------------------------- one call, with a tensor and with a list


def is_array(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.ndim > 0 and x.size > 0


def arrays_of(args, kwargs):
    """(path, array) for each floating array of a call, also within a list."""
    for key, x in [*enumerate(args), *kwargs.items()]:
        if is_array(x):
            yield (key,), x
        elif isinstance(x, list | tuple):
            yield from (((key, i), y) for i, y in enumerate(x) if is_array(y))


def with_argument(args, kwargs, path, value):
    """The arguments as tensors, but for `value` at `path`."""

    def put(key, x):
        if (key,) == path:
            return value
        if isinstance(x, list | tuple) and any(isinstance(y, np.ndarray) for y in x):
            return type(x)(value if (key, i) == path else as_tensors(y) for i, y in enumerate(x))
        return as_tensors(x)

    return [put(i, x) for i, x in enumerate(args)], {name: put(name, x) for name, x in kwargs.items()}


def as_tensors(x):
    return mg.tensor(x) if isinstance(x, np.ndarray) else x


def gradients(function, args, kwargs, tensors):
    """Those of the tensors through a weighted sum of the results; None if no result has a gradient."""
    mg.manual_seed(0)
    found = function(*args, **kwargs)
    results = [y for y in leaves(found) if isinstance(y, mg.Tensor) and y.requires_grad]
    if not results:
        return None
    weights = [mg.tensor(np.cos(np.arange(y.numel()) + 1.0).reshape(y.shape), dtype=y.dtype) for y in results]
    total = sum((y * w).sum() for y, w in zip(results, weights, strict=True))
    return mg.autograd.grad(total, tensors, allow_unused=True)


def leaves(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [y for x in tree for y in leaves(x)] if isinstance(tree, list | tuple) else [tree]


def verdict(function, args, kwargs, path, values, form):
    """What becomes of a list's gradient: "kept", "refused: ...", "none" (it has none), or what is wrong."""
    x = leaf(values)
    given, settings = with_argument(args, kwargs, path, x)
    try:
        expected = gradients(function, given, settings, [x])
    except (MinigradError, ValueError):
        expected = REFUSED
    passed, tensors = FORMS[form](values)
    given, settings = with_argument(args, kwargs, path, passed)
    try:
        found = gradients(function, given, settings, tensors)
    except MinigradError as error:
        return "none" if expected is REFUSED else f"refused: {error}"
    if expected is REFUSED or expected is None:
        return "none" if expected is found is None else "lost" if found is None else "kept"
    if found is None:
        return "lost"
    expected = np.zeros(values.shape) if expected[0] is None else np.asarray(expected[0])
    found = [np.zeros(t.shape) if g is None else np.asarray(g) for t, g in zip(tensors, found, strict=True)]
    expected = expected.ravel()[:1] if form == "mixed" else expected.ravel()
    same = np.allclose(np.concatenate([g.ravel() for g in found]), expected, rtol=1e-9, atol=1e-12)
    return "kept" if same else f"differs: {found}, expected {expected}"


REFUSED = "refused"


def sweep(function, samples, first=0):
    """Of every sample, argument from number `first`, and form of list the verdict; "none" is left out."""
    for sample in samples:
        for path, values in arrays_of(sample.args, sample.kwargs):
            if not isinstance(path[0], int) or path[0] >= first:
                for form in FORMS:
                    found = verdict(function, sample.args, sample.kwargs, path, values, form)
                    if found != "none":
                        yield path, form, found


def check(verdicts):
    """Check that none is lost and a refusal says what to use."""
    for path, form, found in verdicts:
        kind, _, message = found.partition(":")
        assert kind in ("kept", "refused"), f"argument {path}, {form}: {found}"
        if kind == "refused":
            assert re.search(r"mg\.stack|mg\.tensor|\.item\(\)|\.detach\(\)|Give |Pass ", message), message


# ---------------------------------------------------------------- the sweeps


IN_PLACE = sorted(
    name for name in METHODS if name.endswith("_") and name[:-1] in OWN and not name.startswith("_")
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", IN_PLACE)
def test_list_arguments_in_place_keep_gradients_or_raise(name):
    method = METHODS[name]
    samples = OWN[name[:-1]].samples(np.random.default_rng(0))

    def change(x, *args, **settings):
        x = x * 1
        method(x, *args, **settings)
        return x

    check(sweep(change, [s for s in samples if isinstance(s.args[0], np.ndarray)], first=1))


# ---------------------------------------------------------------- lists as students write them


def pair():
    return leaf(2.0), leaf(3.0)


def test_tensor_stacks_lists_of_tensors():
    x, y = pair()
    for make in (mg.tensor, mg.as_tensor, mg.DoubleTensor, mg.zeros(1, dtype="float64").new_tensor, mg.stack):
        z = make([x * y, y])
        assert z.tolist() == [6, 3]
        assert [g.item() for g in mg.autograd.grad((z * z).sum(), (x, y))] == [36, 24 + 6]
    z = mg.tensor([[x, 1.0], (y, True), [np.float64(3), x * 2]])
    assert (z.tolist(), z.dtype) == ([[2, 1], [3, 1], [3, 4]], mg.float64)
    assert mg.autograd.grad(z.sum(), x)[0].item() == 3
    assert mg.tensor([x.float(), 1.0]).dtype == mg.float32
    assert mg.tensor([x, y], dtype="float32").dtype == mg.float32
    rows = mg.tensor([mg.ones(2, requires_grad=True), [1, 2]])
    assert rows.shape == (2, 2)
    assert rows.requires_grad


def test_lists_under_no_grad_and_of_integers_have_no_gradient():
    x, y = pair()
    with mg.no_grad():
        assert not mg.tensor([x, y]).requires_grad
        assert not mg.tensor(x).requires_grad
        assert np.sum([x, y]) == 5
        assert np.array([x, y]).tolist() == [2, 3]
    integers = mg.tensor([x, y], dtype="int64")
    assert (integers.tolist(), integers.requires_grad) == ([2, 3], False)
    leaf_of_data = mg.tensor([x.detach(), 1.0], requires_grad=True)
    assert leaf_of_data.is_leaf
    assert leaf_of_data.requires_grad


def test_ragged_and_recursive_lists_are_rejected():
    x, y = pair()
    for ragged in ([x, [y]], [[x, y], [x]], [x, mg.ones(2)], [[x], y]):
        with pytest.raises(ShapeError, match=r"differ in length or depth[\s\S]*one shape"):
            mg.tensor(ragged)
    endless = [x]
    endless.append(endless)
    for use in (mg.tensor, lambda z: mg.ones(2) + z, lambda z: mg.zeros(2).__setitem__(slice(None), z)):
        with pytest.raises(MinigradError, match="contains itself"):
            use(endless)


def test_copying_a_tensor_out_of_the_graph_warns():
    x, _ = pair()
    for make in (mg.tensor, mg.Tensor, mg.zeros(1).new_tensor):
        with pytest.warns(UserWarning, match=r"detached from the graph[\s\S]*x.detach\(\).clone\(\)"):
            copy = make(x * 2)
        assert not copy.requires_grad
    mg.tensor(x.detach())  # no warning


def test_as_tensor_keeps_the_gradient_in_another_dtype():
    x, _ = pair()
    z = mg.as_tensor(x * 3, dtype="float32")
    assert z.dtype == mg.float32
    assert mg.autograd.grad(z, x)[0].item() == 3


def test_assigning_lists_of_tensors_keeps_gradients():
    x, y = pair()
    h = mg.zeros(2, 2, dtype="float64")
    h[0] = [x, y * 2]
    h[:, 1] = [x * x, 7.0]
    assert h.tolist() == [[2, 4], [0, 7]]
    assert mg.autograd.grad(h.sum(), x)[0].item() == 1 + 4
    with pytest.raises(MinigradError, match=r"require a gradient to dtype int64"):
        mg.zeros(2, dtype="int64")[:] = [x, y]
    data = mg.utils.data.TensorDataset([x, y], [[1.0], [2.0]])
    assert data[1][0].requires_grad
    assert mg.utils.data.default_collate([1.0, x]).requires_grad
    assert mg.utils.data.default_collate([[x, 1], [y, 2]])[0].requires_grad
    loss = F.cross_entropy([[x, y]], mg.tensor([0]))
    assert mg.autograd.grad(loss, y)[0].item() == pytest.approx(1 / (1 + np.exp(-1)))


def test_factories_reject_numbers_that_require_grad():
    x, _ = pair()
    for make in (
        lambda: mg.full((2,), x), lambda: mg.full_like(mg.ones(2), x), lambda: mg.arange(x),
        lambda: mg.arange(0, 5, x), lambda: mg.linspace(0, x, 3), lambda: mg.logspace(x, 3, 3),
        lambda: mg.scalar_tensor(x), lambda: mg.ones(2).new_full((2,), x),
    ):  # fmt: skip
        with pytest.raises(GraphError, match=r"would lose the gradient[\s\S]*t.item\(\)"):
            make()
        with mg.no_grad():
            make()
    for make in (mg.Tensor, mg.nn.Parameter, lambda z: setattr(mg.ones(2), "data", z)):
        with pytest.raises(GraphError, match=r"gradient would be lost[\s\S]*mg.stack"):
            make([x, x])


# ---------------------------------------------------------------- NumPy


def test_tensors_that_require_grad_convert_to_numbers():
    x = mg.tensor(2.0, requires_grad=True)
    v = mg.tensor([1.0, 2.0], requires_grad=True)
    assert (float(x), int(x), f"{x:.1f}", x.numpy().item()) == (2, 2, "2.0", 2)
    assert np.array([v.numpy(), v.numpy()]).shape == (2, 2)
    numbers = np.zeros(2)
    numbers[0] = x
    numbers[:] = v.numpy()
    with mg.no_grad():
        np.testing.assert_allclose([x, x], [2, 2])


def test_arrays_that_would_lose_a_gradient_are_refused():
    x = mg.tensor(2.0, requires_grad=True)
    v = mg.tensor([1.0, 2.0], requires_grad=True)
    a = np.ones(2)
    for compute in (
        lambda: np.sum([x, x]), lambda: np.sum([v, v]), lambda: np.dot([v, v], a), lambda: np.exp([v, v]),
        lambda: a - [v, v], lambda: a * [x, x], lambda: np.add.reduce([v]), lambda: np.array([x, x * 2]),
        lambda: np.where([True], [v], [v]), lambda: np.full(2, x), lambda: np.stack([[x], [x]]),
        lambda: np.asarray(v), lambda: np.array(v), lambda: np.ascontiguousarray(v),
    ):  # fmt: skip
        with pytest.raises(GraphError, match=r"would lose the gradient[\s\S]*x.numpy\(\)[\s\S]*mg.stack"):
            compute()


def test_large_lists_of_numbers_are_not_searched_for_tensors(monkeypatch):
    looked = []
    monkeypatch.setattr(sys.modules["minigrad.core.tensor"], "on_cpu", looked.append)
    mg.tensor([0.5] * 1000)
    mg.as_tensor([1] * 1000)
    mg.tensor([[0.5, 1.0]] * 1000)
    assert not looked
