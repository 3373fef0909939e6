"""In and out of the library: NumPy, DLPack, pickling, copying, and whatever a tensor is made from."""

import copy
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import DtypeError, GraphError
from minigrad.nn import functional as F

X = np.array([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]])


# ---------------------------------------------------------------- NumPy


def test_asarray_shares_memory():
    w = mg.tensor(X, requires_grad=True)
    with mg.no_grad():
        assert np.asarray(w) is w.numpy()
    x = w.detach()
    assert np.asarray(x) is x.array
    assert np.asarray(x, dtype="float32").dtype == np.float32
    assert np.array(x) is not x.array


@pytest.mark.parametrize(
    "formula",
    [
        lambda a, t: a @ t.T,
        lambda a, t: np.exp(t) + np.tanh(a * t),
        lambda a, t: np.float64(2.0) * t - np.float32(1.0),
        lambda a, t: (a > t) * t,
        lambda a, t: np.where(a > 0, t, t * t) + np.dot(t, a.T)[:, :1],
    ],
)
def test_numpy_formulas_of_tensors_give_tensors_with_gradients(formula):
    t = mg.tensor(X, requires_grad=True)
    given = X[::-1] + 0.25
    result = formula(given, t)
    assert isinstance(result, mg.Tensor)
    np.testing.assert_allclose(result.array, formula(given, X), rtol=1e-12)
    assert mg.gradcheck(lambda x: formula(given, x), t).passed


# ---------------------------------------------------------------- what tensors are made from


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, "int64", ()),
        (3.0, "float32", ()),
        (True, "bool", ()),
        ([1, 2.5], "float32", (2,)),
        ([[True], [False]], "bool", (2, 1)),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        (np.float64(2), "float64", ()),
        (np.float16([1, 2]), "float16", (2,)),
        (np.arange(3, dtype=">i4"), "int32", (3,)),
        (np.arange(3, dtype=">f8"), "float64", (3,)),
        (X.T, "float64", (3, 2)),
        (X[::-1, ::-2], "float64", (2, 2)),
        (np.broadcast_to(X[0], (4, 3)), "float64", (4, 3)),
        ([mg.tensor(1.0), mg.tensor(2.0)], "float32", (2,)),
        ([np.array([1, 2]), [3, 4]], "int64", (2, 2)),
        (range(3), "int64", (3,)),
    ],
    ids=str,
)
def test_tensors_are_made_from_python_and_numpy_data(data, dtype, shape):
    for made in (mg.tensor(data), mg.as_tensor(data), mg.Tensor(data)):
        assert made.dtype == dtype
        assert made.dtype.isnative
        assert made.shape == shape
        np.testing.assert_array_equal(made.array, np.asarray(data))


class Foreign:
    """A tensor of another library, with dtypes and devices of its own."""

    def __init__(self, array):
        self.own = np.asarray(array)
        self.shape, self.ndim, self.size = self.own.shape, self.own.ndim, self.own.size
        self.dtype, self.device = f"foreign.{self.own.dtype}", "foreign:0"

    def __len__(self):
        return len(self.own)


class ByArray(Foreign):
    def __array__(self, dtype=None, copy=None):
        return np.array(self.own, dtype=dtype, copy=copy)


class ByDLPack(Foreign):
    def __dlpack__(self, **settings):
        return self.own.__dlpack__(**settings)

    def __dlpack_device__(self):
        return self.own.__dlpack_device__()


def changed(change):
    x = mg.ones(2, 3)
    change(x)
    return x


def gradient_for(g):
    x = mg.ones(2, 3, requires_grad=True)
    (2 * x).backward(g)
    return x.grad


READERS = {  # each reads float32 numbers (2, 3), positions (2,), a mask (2, 3), and one number
    "tensor": lambda a, i, m, n: mg.tensor(a),
    "as_tensor": lambda a, i, m, n: mg.as_tensor(a),
    "Tensor": lambda a, i, m, n: mg.Tensor(a),
    "a list": lambda a, i, m, n: mg.tensor([a, a]),
    "a list with tensors": lambda a, i, m, n: mg.tensor([a, mg.ones(2, 3, requires_grad=True)]),
    "sum": lambda a, i, m, n: mg.ones(2, 3) + a,
    "product in place": lambda a, i, m, n: mg.ones(2, 3).mul_(a),
    "copy_": lambda a, i, m, n: mg.ones(2, 3).copy_(a),
    "item assignment": lambda a, i, m, n: changed(lambda x: x.__setitem__(i, a)),
    "data": lambda a, i, m, n: changed(lambda x: setattr(x, "data", a)),
    "index": lambda a, i, m, n: mg.tensor(X)[i],
    "mask": lambda a, i, m, n: mg.tensor(X)[m],
    "where": lambda a, i, m, n: mg.where(m, a, 0.0),
    "stack": lambda a, i, m, n: mg.stack([a, mg.ones(2, 3)]),
    "gather": lambda a, i, m, n: mg.tensor(X)[:, 0].gather(0, i),
    "one number": lambda a, i, m, n: mg.full((2,), n),
    "a setting": lambda a, i, m, n: mg.add(a, a, alpha=n),
    "zeros_like": lambda a, i, m, n: mg.zeros_like(a),
    "mse_loss": lambda a, i, m, n: F.mse_loss(mg.ones(2, 3), a),
    "cross_entropy": lambda a, i, m, n: F.cross_entropy(a, i),
    "attention": lambda a, i, m, n: F.scaled_dot_product_attention(a, a, a, mg.eye(2).bool()),
    "attention mask": lambda a, i, m, n: F.scaled_dot_product_attention(
        mg.ones(2, 1), mg.ones(3, 1), mg.ones(3, 1), m
    ),
    "layer_norm": lambda a, i, m, n: F.layer_norm(a, (3,)),
    "embedding": lambda a, i, m, n: F.embedding(i, a),
    "Linear": lambda a, i, m, n: mg.nn.Linear(3, 2)(a),
    "LSTM": lambda a, i, m, n: mg.nn.LSTM(3, 2)(a)[0],
    "default_collate": lambda a, i, m, n: mg.utils.data.default_collate([a, a]),
    "backward": lambda a, i, m, n: gradient_for(a),
    "func.hessian": lambda a, i, m, n: mg.func.hessian(lambda x: (x**3).sum())(a),
}


@pytest.mark.parametrize("kind", [ByArray, ByDLPack])
@pytest.mark.parametrize("name", READERS)
def test_tensors_of_other_libraries_are_read_as_arrays(name, kind):
    found = []
    for convert in (np.asarray, kind):
        mg.manual_seed(0)
        arguments = X.astype(np.float32), np.array([1, 0]), X > 0, np.float32(0.5)
        found.append(READERS[name](*map(convert, arguments)))
    assert found[0].dtype == found[1].dtype
    np.testing.assert_array_equal(found[0].array, found[1].array)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (X * 1j, "complex128"),
        ("a", r"text \['a'\]"),
        ([1, None], "NoneType"),
        (np.ones(2, np.uint32), "uint32"),
        (np.ones(2, np.longdouble), "float128|longdouble|float64"),
        (np.array(["2020-01-01"], "datetime64[D]"), "M8"),
    ],
    ids=str,
)
def test_data_that_cannot_become_a_tensor_is_rejected(data, what):
    for make in (mg.tensor, mg.as_tensor, mg.Tensor):
        with pytest.raises(DtypeError, match=f"(unknown dtype|this is not a tensor of numbers).*({what}|O)"):
            make(data)


def test_tensor_copies_and_as_tensor_shares():
    a = X.copy()
    assert not np.shares_memory(mg.tensor(a).array, a)
    assert mg.as_tensor(a).array is a
    assert mg.from_numpy(a).array is a
    with pytest.raises(DtypeError, match="from_numpy takes an array, got list"):
        mg.from_numpy([1.0])


# ---------------------------------------------------------------- DLPack


def test_dlpack_shares_memory_with_numpy():
    x = mg.tensor(X)
    there = np.from_dlpack(x)
    assert np.shares_memory(there, x.array)
    back = mg.from_dlpack(there)
    assert np.shares_memory(back.array, x.array)
    with pytest.raises(DtypeError, match="from_dlpack takes an object with __dlpack__, got int"):
        mg.from_dlpack(3)


# ---------------------------------------------------------------- copies


COPIES = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}  # fmt: skip


@pytest.mark.parametrize("make", [mg.Tensor, mg.nn.Parameter])
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_a_leaf_without_the_gradient(make, way):
    """As in PyTorch, where only a deep copy of a tensor that is not a Parameter has the gradient."""
    x = make(X.copy(), requires_grad=True)
    (x * x).sum().backward()
    twin = COPIES[way](x)
    assert type(twin) is make
    assert twin.requires_grad
    np.testing.assert_array_equal(twin.array, X)
    assert np.shares_memory(twin.array, x.array) == (way == "copy")
    if make is mg.Tensor and way == "deepcopy":
        np.testing.assert_array_equal(twin.grad.array, 2 * X)
        assert not np.shares_memory(twin.grad.array, x.grad.array)
    else:
        assert twin.grad is None


@pytest.mark.parametrize("way", COPIES)
def test_custom_attributes_of_a_parameter_are_copied(way):
    p = mg.nn.Parameter(X.copy())
    p.no_weight_decay = True
    p.tags = ["a"]
    twin = COPIES[way](p)
    assert (twin.no_weight_decay, twin.tags) == (True, ["a"])
    assert (twin.tags is p.tags) == (way == "copy")
    with pytest.raises(AttributeError):
        mg.ones(2).tags = 1


def test_a_shallow_copy_shares_memory_and_versions():
    x = mg.tensor(X, requires_grad=True)
    twin = copy.copy(x)
    assert twin.array is x.array
    y = x.exp() * x
    with mg.no_grad():
        twin.zero_()
    with pytest.raises(GraphError, match="changed since by zero_"):
        y.sum().backward()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_only_a_leaf_can_be_copied(duplicate):
    x = mg.tensor(X, requires_grad=True)
    with pytest.raises(
        GraphError, match=r"only a leaf can be (deep-)?(copied|pickled), but this tensor was computed by exp"
    ):
        duplicate(x.exp())


def test_converting_nan_or_inf_to_integers_raises():
    for make in (lambda x: x.to("int64"), lambda x: x.long(), lambda x: mg.tensor(x.array, dtype="int64")):
        with pytest.raises(DtypeError, match=r"nan at index \[1\] cannot be converted to int64"):
            make(mg.tensor([1.0, float("nan")]))
        with pytest.raises(DtypeError, match=r"inf at index \[1, 0\] cannot be converted to int64"):
            make(mg.tensor([[1.0], [float("inf")]]))
    with pytest.raises(DtypeError, match=r"3000000000.* at index \[\] cannot be converted to int32"):
        mg.tensor(3e9).int()
    assert mg.tensor([-1.7, 2.9]).long().tolist() == [-1, 2]


# ---------------------------------------------------------------- how a tensor prints


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([0.5, -12.25], "tensor([  0.5000, -12.2500])"),
        ([1.0, 20000.5], "tensor([1.0000e+00, 2.0000e+04])"),
        ([[1, -2], [30, 4]], "tensor([[ 1, -2],\n        [30,  4]])"),
        (np.zeros((0, 3)), "tensor([], size=(0, 3), dtype=float64)"),
        ([1.0, float("nan"), float("-inf")], "tensor([  1.,  nan, -inf])"),
        (np.arange(2000), "tensor([   0,    1,    2, ..., 1997, 1998, 1999])"),
    ],
)
def test_tensor_repr_matches_pytorch(data, text):
    assert repr(mg.tensor(data)) == text


def test_a_tensor_prints_where_it_came_from():
    x = mg.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x.exp()) == "tensor([2.7183], grad_fn=<exp>)"
    long = repr(mg.tensor(np.full(6, 1234567.5), requires_grad=True))
    assert (
        long.endswith("]," + "\n       dtype=float64, requires_grad=True)")
        or max(map(len, long.splitlines())) <= 80
    )


def test_comparing_a_tensor_with_a_non_number_is_false():
    x = mg.tensor([1.0, 2.0])
    for thing in (None, "cpu", object(), {}):
        assert (x == thing) is False
        assert (thing == x) is False
        assert (x != thing) is True
    assert x in ["cpu", None, x]
    assert (x == [1.0, 3.0]).tolist() == [True, False]


def test_contains_searches_all_axes():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert 3 in x
    assert 5 not in x


def test_numpy_where_argument_accepts_tensors():
    out = np.zeros(2)
    np.add(1.0, 2.0, out=out, where=mg.tensor([True, False]))
    np.testing.assert_array_equal(out, [3.0, 0.0])


def test_a_reversed_view_is_not_shared_with_other_libraries():
    x = mg.from_numpy(np.array([1.0, 2.0])[::-1])
    with pytest.raises(mg.ShapeError, match="negative strides"):
        x.__dlpack__()
    np.testing.assert_array_equal(np.from_dlpack(x.clone()), [2.0, 1.0])
