"""PyTorch's draws are the same in every run, as minigrad's are."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _fresh_randomness_of_torch():
    torch.manual_seed(0)
