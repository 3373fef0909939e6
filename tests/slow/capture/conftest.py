"""A GPU, or the stand-in for one, with this package's kernels."""

import pytest

from tests.slow.capture.runs import our_kernels


@pytest.fixture
def device(gpu):
    with our_kernels(gpu) as device:
        yield device
