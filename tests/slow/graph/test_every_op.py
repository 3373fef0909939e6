"""Traces of the ops that tests/graph/test_gradients.py leaves out: those of `more`."""

import pytest

from minigrad.core.registry import registry
from tests.graph.test_gradients import check_trace
from tests.ops.test_every_op import is_of_more


@pytest.mark.parametrize(
    "key", [key for key, record in registry.items() if record.samples and is_of_more(record)]
)
def test_ops_of_the_more_package_can_be_traced(key):
    check_trace(key)
