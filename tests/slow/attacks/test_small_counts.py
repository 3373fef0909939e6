"""Attacks on run folders, data and the command line, with small counts; see tests/slow/attacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform != "linux", reason="the attacks use fork, memfd_create and /proc")
@pytest.mark.parametrize("attack", ["kills", "together", "stops"])
def test_concurrency_and_kill_attacks_find_no_failures(attack, tmp_path):
    settings = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "ATTACK_SECONDS": "90"}
    environment = {**os.environ, **settings}
    command = [sys.executable, "-m", f"tests.slow.attacks.{attack}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
