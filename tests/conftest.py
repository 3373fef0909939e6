"""Shapes in signatures are checked while the tests run; real data is found beside the project, or skipped."""

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

import minigrad as mg

# not the phrasebook, which has no shapes and a million calls
CHECKED = "attention data.batching embeddings generation layers masks models tokenizers"
install_import_hook([f"minitransformer.{part}" for part in CHECKED.split()], "beartype.beartype")

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _fresh_randomness():
    mg.manual_seed(0)


@pytest.fixture
def shared():
    """The folder with the documents' examples and real data (MINITRANSFORMER_DATA names its data folder)."""
    named = os.environ.get("MINITRANSFORMER_DATA")
    place = Path(named).parent if named else ROOT.parent / "shared"
    if not place.is_dir():
        pytest.skip(f"no shared data at {place}")
    return place
