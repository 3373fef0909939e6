"""Shapes in signatures are checked while the tests run; real data is found beside the project, or skipped."""

import os
from pathlib import Path

import minigrad as mg
import pytest
from jaxtyping import install_import_hook

install_import_hook("minitransformer", "beartype.beartype")

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _fresh_randomness():
    mg.manual_seed(0)


@pytest.fixture
def shared():
    """The folder with the documents' examples and real data (MINITRANSFORMER_DATA names its data folder)."""
    place = Path(os.environ["MINITRANSFORMER_DATA"]).parent if "MINITRANSFORMER_DATA" in os.environ else ROOT.parent / "shared"
    if not place.is_dir():
        pytest.skip(f"no shared data at {place}")
    return place
