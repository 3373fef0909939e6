"""The commands of docs/documents.md run, but for lessons and trainings, which are run elsewhere."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from minitransformer.explain import explain_documents
from tests.repository.test_documents import COMMANDS, PAGE, ROOT

TRAINED = r"(lesson|train|show) |--checkpoint"


@pytest.mark.parametrize("command", [each for each in COMMANDS if not re.search(TRAINED, each)])
def test_document_page_commands_run(command, here):
    program, *words = shlex.split(command.replace("runs/phrasebook", "mine"))
    if program == "minitransformer":
        words = ["-m", "minitransformer", *words]
    elif words[0].startswith("demos/"):
        words[0] = str(ROOT / words[0])
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for page in re.findall(r"-o (\S+)", command):
        assert (here / page).is_file()


def test_each_stage_named_on_the_page_can_be_opened(open_page):
    stages = set(re.findall(r"by-hand\.html#([\w-]+)", PAGE))
    page = open_page(explain_documents().page)
    for stage in sorted(stages):
        page.page.evaluate(f"() => {{ location.hash = '#{stage}'; }}")
        page.page.locator(f"h2#{stage}").wait_for()
    assert len(stages) >= 10
