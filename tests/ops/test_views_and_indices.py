"""Views share memory and versions; of what is written to one place, the gradient knows what stayed."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import DtypeError, GraphError, OptionError, RangeError, ShapeError
from minigrad.nn import functional as F


def leaf(*shape):
    return mg.tensor(np.arange(1.0, 1 + np.prod(shape)).reshape(shape), requires_grad=True)


VIEWS = {
    "reshape": lambda x: x.reshape(-1), "permute": lambda x: x.permute(1, 0), "t": lambda x: x.t(),
    "movedim": lambda x: x.movedim(0, 1), "squeeze": lambda x: x.unsqueeze(1).squeeze((0, 1)),
    "flatten": lambda x: x.flatten(), "unflatten": lambda x: x.unflatten(1, (1, -1)),
    "diagonal": lambda x: x.diagonal(), "narrow": lambda x: x.narrow(0, 1, 2),
    "select": lambda x: x.select(1, -1), "split": lambda x: x.split(2)[0],
    "unbind": lambda x: x.unbind()[0], "tensor_split": lambda x: x.tensor_split(2)[1],
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_a_change_through_a_view_is_noticed_by_its_base(name):
    x = leaf(3, 3)
    base = x * 1.0
    y = (base * base).sum()
    with mg.no_grad():
        VIEWS[name](base).fill_(1)
    with pytest.raises(GraphError, match="changed since by fill_"):
        y.backward()


def test_viewing_memory_as_another_dtype():
    x = mg.ones(2, 3)
    assert x.view("int32").tolist() == [[0x3F800000] * 3] * 2
    assert x.view(mg.float32).tolist() == x.tolist()
    with pytest.raises(ShapeError):
        x.view("float64")  # of 12 bytes


def test_repeated_indices_give_the_last_value_the_gradient():
    for write in (
        lambda x, v: x.scatter(0, [1, 1, 0], v), lambda x, v: x.index_copy(0, [1, 1, 0], v),
        lambda x, v: x.index_put(([1, 1, 0],), v), lambda x, v: x.put([1, 1, 0], v),
    ):  # fmt: skip
        x, values = leaf(3), leaf(3)
        y = write(x, values)
        assert y.tolist() == [3, 2, 3]
        y.sum().backward()
        assert values.grad.tolist() == [0, 1, 1]
        assert x.grad.tolist() == [0, 0, 1]


def test_adding_at_repeated_indices_accumulates():
    for write in (
        lambda x, v: x.scatter_add(0, [1, 1, 0], v), lambda x, v: x.index_add(0, [1, 1, 0], v),
        lambda x, v: x.index_put(([1, 1, 0],), v, accumulate=True),
        lambda x, v: x.scatter_reduce(0, [1, 1, 0], v, "sum"),
    ):  # fmt: skip
        x, values = leaf(3), leaf(3)
        y = write(x, values)
        assert y.tolist() == [4, 5, 3]
        (y * mg.tensor([1.0, 2.0, 3.0], dtype="float64")).sum().backward()
        assert values.grad.tolist() == [2, 2, 1]
        assert x.grad.tolist() == [1, 2, 3]


@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_shares_the_gradient_among_ties(include_self):
    x = mg.ones(2, requires_grad=True)
    src = mg.ones(3, requires_grad=True)
    x.scatter_reduce(0, [0, 0, 1], src, "amax", include_self=include_self).sum().backward()
    assert x.grad.sum().item() + src.grad.sum().item() == pytest.approx(2)
    assert (x.grad.sum().item() > 0) == include_self


def test_scatter_reduce_prod_gradients_with_zeros():
    src = mg.tensor([0.0, 3.0, 0.0, 0.0], requires_grad=True)
    mg.tensor([2.0, 5.0]).scatter_reduce(0, [0, 0, 1, 1], src, "prod").sum().backward()
    assert src.grad.tolist() == [6, 0, 0, 0]


def test_iterating_over_a_tensor_records_one_node():
    x = leaf(4, 2)
    rows = list(x * 1.0)
    assert len({id(row.node.node) for row in rows}) == 1
    sum(row.sum() for row in rows).backward()
    assert x.grad.tolist() == [[1, 1]] * 4


X = mg.ones(2, 3)


@pytest.mark.parametrize(
    ("mistake", "kind", "what", "remedy"),
    [
        (lambda: X.select(1, 3), RangeError, "index 3 .* axis 1 with 3", "0 to 2"),
        (lambda: X.narrow(1, 2, 2), RangeError, "start 2 and length 2 for axis 1 of length 3", "within"),
        (lambda: X.index_fill(1, [-4], 0), RangeError, "index -4 .* axis 1 with 3", "-3 to 2"),
        (lambda: X.scatter_add(1, [[0, 1]], mg.ones(1, 1)), ShapeError, r"\(1, 2\).*\(1, 1\)", "larger"),
        (lambda: X.index_copy(0, [0], X), ShapeError, r"\(1, 3\), got \(2, 3\)", "Pass that shape"),
        (lambda: X.index_put(([0],), mg.arange(3)), DtypeError, "float32, got int64", "Convert"),
        (lambda: X.unflatten(1, (2, -1)), ShapeError, r"axis 1 has 3 .* \(2, -1\)", "multiply to 3"),
        (lambda: X.permute(0, 0), ShapeError, r"\(0, 0\) is not a permutation of the 2 axes", "once"),
        (lambda: mg.stack([X, X[0]]), ShapeError, r"\(2, 3\) and \(3,\)", "Reshape"),
        (lambda: F.pad(X, (3, 0), "reflect"), ShapeError, "at most 2 elements to axis 1", "Pad less"),
        (lambda: F.pad(X, (1, 0), "mirror"), OptionError, "'mirror'", "Choose"),
        (lambda: F.pad(X, (1, 0, 1)), ShapeError, r"\(1, 0, 1\) does not fit .* 2 axes", "before, after"),
        (lambda: X.masked_scatter(X > 0, mg.ones(2)), ShapeError, "at least 6 elements, got 2", "more"),
        (lambda: X.flip(), DtypeError, "flip needs the axes to reverse", "range"),
        (lambda: X.hsplit(2), ShapeError, "axis 1 of length 3 into 2 equal pieces", "divides"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained(mistake, kind, what, remedy):
    with pytest.raises(kind, match=rf"(?s){what}.*\n.*{remedy}"):
        mistake()


def test_one_hot_infers_the_number_of_classes():
    assert mg.one_hot(mg.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
