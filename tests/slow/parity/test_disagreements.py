"""Where PyTorch is wrong, minigrad is right (docs/pytorch.md)."""

import numpy as np
import pytest

pytest.importorskip("torch")
from . import disagreements

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("case", disagreements.cases(), ids=lambda case: case.name)
def test_results_are_correct_where_pytorch_is_wrong(case):
    np.testing.assert_allclose(case.ours, case.truth, rtol=1e-8, atol=1e-12)
    assert not np.allclose(case.theirs, case.truth, rtol=1e-2)
