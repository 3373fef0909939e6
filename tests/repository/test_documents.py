"""The table of concepts of docs/documents.md: each has a command, and names what exists; a text's code runs.

Links, anchors and the page's code are held by test_docs.py, its numbers by test_worked_examples.py.
"""

import re
import shlex
from pathlib import Path

import pytest

from minitransformer.claims import CLAIMS
from minitransformer.cli import VERBS, main
from minitransformer.recipes import names

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
ROWS = [re.split(r" \| ", line.strip("| ")) for line in re.findall(r"^\| \d+ \|.*", PAGE, re.MULTILINE)]
ROWS = [row for row in ROWS if len(row) == 5]
COMMANDS = sorted({row[2].strip("`") for row in ROWS if row[2].startswith("`")})
FAST = "minitransformer explain --preset documents -o by-hand.html"
SCREENS = (ROOT / "minitransformer" / "explain" / "assets" / "screens.js").read_text(encoding="utf-8")
STAGES = set(re.findall(r'\[\s*"([\w-]+)",\s', SCREENS))


def test_each_concept_has_a_complete_row():
    assert [int(row[0]) for row in ROWS] == list(range(1, 76))
    for _, concept, command, seen, code in ROWS:
        assert concept.startswith("[")
        assert command.startswith(("`", "["))
        assert seen
        code, test = re.findall(r"\[`[\w.]+`\]\(\.\./([\w/.]+)\)", code)
        assert code.startswith(("minigrad/", "minitransformer/", "demos/", "tests/"))
        assert test.startswith("tests/")


@pytest.mark.parametrize("command", COMMANDS)
def test_document_commands_name_existing_verbs_and_files(command):
    program, verb, *rest = shlex.split(command)
    if program == "python":
        module = Path(rest[0].replace(".", "/")).with_suffix(".py") if verb == "-m" else Path(verb)
        assert (ROOT / module).is_file()
        return
    assert program == "minitransformer"
    assert verb in VERBS
    if verb == "train":
        assert rest[0] in names()
    elif verb == "lesson":
        assert list((ROOT / "demos" / "lessons").glob(f"{int(rest[0]):02}_*.py"))
    elif verb == "claims":
        assert not rest or rest[0] in CLAIMS


def test_the_by_hand_page_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert FAST in COMMANDS
    assert main(shlex.split(FAST)[1:]) == 0
    assert Path("by-hand.html").is_file()


def test_stages_named_on_the_page_exist():
    named = re.findall(r"\w\.html#([\w-]+)", PAGE)
    assert len(named) > 20
    assert STAGES.issuperset(named)


def test_lesson_pictures_named_on_the_page_exist():
    for name in re.findall(r"`(\d\d-\w+)\.png`", PAGE):
        (lesson,) = (ROOT / "demos" / "lessons").glob(f"{name[:2]}_*.py")
        assert re.search(rf'show\([^\n]*"{name}"', lesson.read_text(encoding="utf-8"))


BEFORE = {  # what two fragments lack
    "position_embedding": "import torch.nn as nn\nmax_seq_len, d_model = 512, 512\n",
    "PE = compute_positional_encoding(": """
import numpy as np
def compute_positional_encoding(max_seq_len, d_model):
    return np.zeros((max_seq_len, d_model))
""",
}


def test_document_code_runs_with_minigrad_imports(shared):
    path = sorted((shared / "seeds").glob("*.txt"))[2]
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 8
    for block in blocks:
        code = "".join(lacking for words, lacking in BEFORE.items() if words in block) + block
        code = code.replace("import torch.nn", "import minigrad.nn").replace(
            "import torch\n", "import minigrad as torch\n"
        )
        exec(compile(code, str(path), "exec"), {"__name__": "block"})
