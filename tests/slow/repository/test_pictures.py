"""The pictures of the docs are those that their commands make."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_stored_pictures_match_their_commands(tmp_path):
    """The same texts; where they stand, and the last digits of numbers, depend on the machine."""
    root = pathlib.Path(__file__).parents[3]
    subprocess.run(
        [sys.executable, root / "demos" / "graph_transformer.py", "--paper", "-o", tmp_path / "x.svg"],
        check=True, capture_output=True, cwd=root, env=os.environ | {"PYTHONPATH": str(root)},
    )  # fmt: skip
    texts = lambda path: re.findall(r"<text[^>]*>([^<]*)", path.read_text(encoding="utf-8"))
    assert sorted(texts(tmp_path / "x.svg")) == sorted(texts(root / "docs" / "transformer.svg"))
