"""gradcheck names each mistake of the table in planted.py."""

import numpy as np
import pytest
from planted import MISTAKES


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of mistakes that divide by 0
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_a_planted_mistake_is_named(mistake):
    with np.errstate(all="ignore"):
        report = mistake.check()
    assert not report.passed
    assert mistake.words in report.verdict
    assert report.advice
