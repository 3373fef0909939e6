"""What tests/ops/test_every_op.py leaves out: second derivatives, and the ops of `more`."""

import pytest

from tests.ops import test_every_op
from tests.ops.test_every_op import (
    COMPOSITES,
    DIFFERENTIABLE,
    FORMS,
    RULES,
    check_gradients,
    differentiable_samples,
    in_each_order,
    is_of_more,
    rounded,
)


@pytest.mark.parametrize(("record", "fused", "order"), in_each_order(FORMS, quick=False))
def test_the_gradient_agrees_with_finite_differences(record, fused, order):
    check_gradients(record, fused, order)


@pytest.mark.parametrize(("record", "fused"), [form for form in FORMS if is_of_more(form.values[0])])
@pytest.mark.parametrize("what", ["value", "gradient"])
def test_float32_agrees_with_float64_up_to_rounding(record, fused, what):
    for sample in differentiable_samples(record):
        test_every_op.check_roundings(record, rounded(sample), fused, what)


def checks(name, record):
    """The checks of an op, of those in tests/ops/test_every_op.py."""
    yield from (test_every_op.check_needed_gradients, test_every_op.check_float32, test_every_op.check_replay)
    if name in RULES:
        yield from (test_every_op.check_gradient_memory, test_every_op.check_half_precision)
    if name in COMPOSITES:
        yield test_every_op.check_kernel


@pytest.mark.parametrize(
    ("check", "record"),
    [
        pytest.param(check, record, id=f"{check.__name__}-{name}")
        for name, record in DIFFERENTIABLE.items()
        if is_of_more(record)
        for check in checks(name, record)
    ],
)
def test_ops_of_the_more_package_pass_every_check(check, record):
    for sample in differentiable_samples(record):
        check(record, sample)
