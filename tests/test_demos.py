"""The demo that looks into a trained translator."""

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[1] / "demos" / "alignment.py"


def test_what_a_translator_looks_at_is_drawn(here):
    command = [sys.executable, str(DEMO), "mine", "i see a cat", "-o", "drawn.png"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("drawn.png").read_bytes().startswith(b"\x89PNG")
