"""PyTorch's draws are the same in every run, as minigrad's are."""

from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def _fresh_randomness_of_torch():
    if find_spec("torch"):  # without it these tests are skipped
        import torch

        torch.manual_seed(0)
