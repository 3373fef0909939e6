"""The README's pictures are those that its commands make."""

import os
import pathlib
import re
import subprocess
import sys


def test_the_pictures_of_the_readme_are_those_that_its_commands_make(tmp_path):
    """Numbers aside, which differ in their last digits between machines."""
    root = pathlib.Path(__file__).parents[3]
    subprocess.run(
        [sys.executable, root / "demos" / "graph_transformer.py", "--paper", "-o", tmp_path / "x.svg"],
        check=True, capture_output=True, cwd=root, env=os.environ | {"PYTHONPATH": str(root)},
    )  # fmt: skip
    bare = lambda text: re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", re.sub(r"<title>[\s\S]*?</title>", "", text))
    kept = (root / "docs" / "transformer.svg").read_text(encoding="utf-8")
    assert bare((tmp_path / "x.svg").read_text(encoding="utf-8")) == bare(kept)
