"""A list of tensors in place of any array of any function."""

import numpy as np
import pytest

from tests.ops.test_lists_of_tensors import OWN, check, sweep

SEVERAL = {"atleast_1d", "atleast_2d", "atleast_3d"}  # a list given to these is several tensors


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", [key for key in OWN if key not in SEVERAL])
def test_list_arguments_keep_gradients_or_raise(key):
    record = OWN[key]
    if record.samples is None:
        pytest.skip("has no samples")
    check(sweep(record.call, record.samples(np.random.default_rng(0))))
