"""Gradients that tests/ops/test_every_op.py leaves out: second ones, and those of breadth's ops."""

import pytest

from tests.ops.test_every_op import FORMS, check_gradients, in_each_order


@pytest.mark.parametrize(("record", "fused", "order"), in_each_order(FORMS, quick=False))
def test_the_gradient_agrees_with_finite_differences(record, fused, order):
    check_gradients(record, fused, order)
