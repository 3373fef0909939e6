"""Masks: rows that see nothing, and rows that are ignored."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from tests.leaves import INF, assert_equal, leaf


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mask", [np.zeros((2, 3), bool), np.full((2, 3), -INF)], ids=["boolean", "float"])
def test_a_query_without_keys_gives_zeros(fused, mask):
    q, k, v = (leaf(np.random.default_rng(i).normal(size=(n, 4))) for i, n in enumerate((2, 3, 3)))
    mask[1, 2] = True if mask.dtype == bool else 0.0
    with mg.fused(fused):
        out = F.scaled_dot_product_attention(q, k, v, mask)
    out.sum().backward()
    assert_equal(out[0], np.zeros(4))
    assert_equal(out[1], v.array[2])
    assert_equal(q.grad, np.zeros((2, 4)))
    assert_equal(v.grad, [[0] * 4, [0] * 4, [1] * 4])


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_an_ignored_row_counts_nothing_whatever_it_holds(fused, reduction, smoothing):
    logits = leaf([[1.0, 2.0, 0.5], [-INF, 1.0, 0.0]])
    alone = leaf([[1.0, 2.0, 0.5]])
    with mg.fused(fused), np.errstate(invalid="ignore"):
        loss = F.cross_entropy(logits, [2, -100], reduction=reduction, label_smoothing=smoothing)
        expected = F.cross_entropy(alone, [2], reduction=reduction, label_smoothing=smoothing)
        loss.sum().backward()
        expected.sum().backward()
    assert_equal(loss.sum(), expected.sum().item())
    assert_equal(logits.grad, np.concatenate([alone.grad.array, np.zeros((1, 3))]))


@pytest.mark.parametrize("fused", [True, False])
def test_one_class_is_certain(fused):
    x = leaf([[3.0], [-2.0]])
    with mg.fused(fused):
        assert_equal(x.softmax(-1), [[1], [1]])
        assert_equal(x.log_softmax(-1), [[0], [0]])
        F.cross_entropy(x, [0, 0]).backward()
    assert_equal(x.grad, [[0], [0]])
