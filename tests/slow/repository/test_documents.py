"""The commands of the map of the documents make the pictures that it names; lessons are run elsewhere."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.test_documents import COMMANDS, DATA, ROOT
from tools.without import PARTS

pytestmark = pytest.mark.needs(*PARTS)


def is_quick(command):
    return "demos/lessons/" not in command and "-m pytest" not in command


@pytest.mark.parametrize("command", filter(is_quick, COMMANDS))
def test_a_command_of_the_map_makes_its_picture(command, tmp_path):
    program, *words = shlex.split(command)
    if program == "minitransformer":
        words = ["-m", "minitransformer", *words]
    elif words[0].startswith("demos/"):
        words[0] = str(ROOT / words[0])
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for each in [*DATA["row"], *DATA["diagram"]]:
        picture = each["picture"].partition("#")[0]
        if each["command"] == command and not picture.startswith("docs/"):
            made = (tmp_path / picture).is_file() or each["picture"].startswith("by-hand.html")
            assert made, picture
    assert "explain" not in command or Path(tmp_path / "by-hand.html").is_file()
