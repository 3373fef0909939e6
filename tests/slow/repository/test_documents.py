"""The commands of the map of the documents make the pictures that it names; lessons are run elsewhere."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from minitransformer.explain import explain_documents
from tests.repository.test_documents import COMMANDS, DATA, ROOT


def is_quick(command):
    return not command.startswith("minitransformer lesson ")


@pytest.mark.parametrize("command", [each for each in COMMANDS if is_quick(each)])
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


def test_each_stage_that_the_map_names_is_on_the_page(open_page):
    named = [each["picture"] for each in [*DATA["row"], *DATA["diagram"]]]
    stages = {name.partition("#")[2] for name in named if name.startswith("by-hand.html")}
    stages.update(stage for each in DATA["walkthrough"] for stage in each["stages"])
    page = open_page(explain_documents().page)
    for stage in sorted(stages):
        page.page.evaluate(f"() => {{ location.hash = '#{stage}'; }}")
        page.page.locator(f"h2#{stage}").wait_for()
    assert len(stages) > 15
