"""How dtypes meet: as in PyTorch, a number or a 0-d tensor widens nothing, and an integer no float."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F

INF = math.inf

PROMOTIONS = [
    (lambda: mg.tensor([1, 2]) * 2.5, "float32"),
    (lambda: mg.tensor([1, 2]) * 2, "int64"),
    (lambda: mg.tensor([1, 2]) * True, "int64"),
    (lambda: mg.tensor([True, False]) * 2, "int64"),
    (lambda: mg.tensor([True, False]) + mg.tensor([True, True]), "bool"),
    (lambda: mg.tensor([True, False]) * 1.5, "float32"),
    (lambda: mg.ones(2) + mg.tensor(1.0, dtype="float64"), "float32"),
    (lambda: mg.ones(2) + mg.ones(2, dtype="float64"), "float64"),
    (lambda: mg.tensor([1, 2]) + mg.ones(2), "float32"),
    (lambda: mg.tensor([1, 2]) + mg.tensor(1.0, dtype="float64"), "float64"),
    (lambda: mg.ones(2, dtype="float16") + mg.tensor([1, 2]), "float16"),
    (lambda: mg.tensor([1, 2]) / mg.tensor([1, 2]), "float32"),
    (lambda: mg.tensor([1, 2]).exp(), "float32"),
    (lambda: mg.tensor([1, 2]).mean(), "float32"),
    (lambda: mg.tensor([True, True]).sum(), "int64"),
    (lambda: mg.where(mg.tensor([True, False]), mg.ones(2), 0.0), "float32"),
    (lambda: mg.ones(2).masked_fill(mg.tensor([True, False]), -INF), "float32"),
    (lambda: mg.ones(2) * np.ones(2), "float64"),
    (lambda: np.float64(2) * mg.ones(2), "float32"),
    (lambda: np.ones(2, np.float32) * mg.ones(2), "float32"),
    (lambda: mg.ones(2).clamp(min=np.float64(0.5)), "float32"),
    (lambda: mg.tensor([1, 2]).clamp(min=1.5), "float32"),
    (lambda: mg.tensor([1, 2]).clamp(min=1), "int64"),
    (lambda: mg.Tensor([1.0, 2.0]), "float32"),
    (lambda: mg.zeros(2, dtype=float), "float32"),
]


@pytest.mark.parametrize(("make", "dtype"), PROMOTIONS)
def test_dtypes_meet_as_in_pytorch(make, dtype):
    assert make().dtype == dtype


def test_the_gradient_comes_back_in_each_operands_dtype():
    x, y = mg.ones(2, requires_grad=True), mg.tensor(np.array([1.0, 2.0]), requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype == mg.float32
    assert y.grad.dtype == mg.float64


def test_a_dtype_is_one_object_so_that_no_op_thinks_two_differ():
    for made in (
        mg.zeros(2),
        mg.tensor([1.0]),
        mg.rand(2),
        mg.arange(2.0),
        mg.full((2,), 1.0),
        mg.ones(2) * 2,
    ):
        assert made.dtype is np.dtype("float32")
    assert mg.ones(2, dtype=">f4").dtype is np.dtype("float32")


def test_a_float64_mask_does_not_widen_attention():
    q = mg.ones(2, 3)
    assert F.scaled_dot_product_attention(q, q, q, np.zeros((2, 2))).dtype == mg.float32
