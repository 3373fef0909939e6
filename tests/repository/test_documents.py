"""The map of the documents: its page is up to date, and each concept's five links lead to what they name."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from minitransformer.cli import VERBS
from minitransformer.recipes import names
from tools import documents

ROOT = Path(__file__).parents[2]
DATA = documents.read()
ROWS = DATA["row"]
COMMANDS = sorted({each["command"] for each in [*ROWS, *DATA["diagram"]]})
SCREENS = (ROOT / "minitransformer" / "explain" / "assets" / "screens.js").read_text(encoding="utf-8")
STAGES = set(re.findall(r'\[\s*"([\w-]+)",\s', SCREENS))

rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["number"]))


def headings(number):
    return re.findall(r"^# ## (.+)", documents.LESSONS[number].read_text(encoding="utf-8"), re.MULTILINE)


def definitions(path):
    """Functions and classes of a file, and methods as `Class.method`."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    found = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{member.name}" for member in node.body if isinstance(member, kinds)}
    return found


def check_picture(name, command):
    page, _, stage = name.partition("#")
    if page.startswith("runs/lessons/"):
        stem = Path(page).stem
        (lesson,) = [path for number, path in documents.LESSONS.items() if number == int(stem[:2])]
        assert re.search(rf'show\([^\n]*"{stem}"', lesson.read_text(encoding="utf-8")), name
    elif page == "by-hand.html":
        assert stage in STAGES, name
    elif page.startswith("docs/"):
        assert (ROOT / page).is_file(), name
    elif page.startswith("runs/diagrams/"):
        assert f'"{Path(page).stem}"' in (ROOT / "tools" / "documents.py").read_text(encoding="utf-8"), name
    elif command.startswith("python demos/"):
        assert f'Path("{page}")' in (ROOT / command.split()[1]).read_text(encoding="utf-8"), name
    else:
        assert name == f"{command.split('--run-dir ')[1].split()[0]}/curves.png", name


def check_command(command):
    words = shlex.split(command)
    if words[0] == "minitransformer":
        assert words[1] in VERBS, command
        assert words[1] != "train" or words[2] in names(), command
        assert words[1] != "lesson" or int(words[2]) in documents.LESSONS, command
        return
    assert words[0] == "python", command
    if words[1] == "-m":
        module = ROOT / words[2].replace(".", "/")
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file(), command
        return
    file = ROOT / words[1]
    assert file.is_file(), command
    text = file.read_text(encoding="utf-8")
    for option in (word for word in words if word.startswith("--")):
        assert re.search(rf"^    {option[2:].replace('-', '_')}: ", text, re.MULTILINE), command


# ---------------------------------------------------------------- the page


def test_the_page_is_what_the_tool_writes_now():
    assert documents.TARGET.read_text(encoding="utf-8") == documents.generate()


def test_every_concept_has_a_row_and_stands_in_a_section():
    assert sorted(row["number"] for row in ROWS) == list(range(1, 61))
    for document in DATA["document"]:
        assert len(documents.sections(document)) >= 15
    named = {
        n for document in DATA["document"] for _, _, found in documents.sections(document) for n in found
    }
    numbers = {row["number"] for row in ROWS}
    assert named <= numbers
    assert numbers - named == {47}  # the diagrams and walk-throughs, which have sections of the page


# ---------------------------------------------------------------- the five links


@rows
def test_a_concept_has_a_section_of_a_lesson(row):
    assert set(row["lessons"]) <= set(documents.LESSONS)
    assert row["section"] in headings(row["lessons"][0])


@rows
def test_a_concept_has_code_and_a_test_that_are_defined(row):
    for place in (row["code"], row["test"]):
        path, _, name = place.partition("::")
        assert name in definitions(path), place
    assert row["test"].startswith("tests/")
    assert "::test_" in row["test"]


@rows
def test_a_concept_has_a_picture_that_something_draws(row):
    check_picture(row["picture"], row["command"])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_what_exists(command):
    check_command(command)


# ---------------------------------------------------------------- diagrams, walk-throughs, slips


def test_there_are_fifteen_diagrams_and_something_draws_each():
    assert [each["number"] for each in DATA["diagram"]] == list(range(1, 16))
    for each in DATA["diagram"]:
        check_picture(each["picture"], each["command"])


@pytest.mark.slow
def test_the_three_diagrams_are_drawn(tmp_path, capsys):
    documents.main(["--diagrams", str(tmp_path)])
    drawn = [Path(line).name for line in capsys.readouterr().out.split()]
    assert drawn == ["1-encoder.png", "9-concatenate.png", "12-add-or-concatenate.png"]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in drawn)


def test_there_are_seven_walk_throughs_of_stages_that_exist():
    assert len(DATA["walkthrough"]) == 7
    for each in DATA["walkthrough"]:
        assert each["stages"]
        assert STAGES.issuperset(each["stages"])
        assert set(each["lessons"]) <= set(documents.LESSONS)


def test_each_slip_is_of_one_of_the_texts():
    assert {slip["title"] for slip in DATA["slip"]} == {document["title"] for document in DATA["document"]}


# ---------------------------------------------------------------- the texts, where they are at hand


def test_every_chapter_of_the_texts_is_in_the_map(shared):
    texts = sorted((shared / "seeds").glob("*.txt"))
    for document, path in zip(DATA["document"], texts, strict=True):
        if document["title"] in ("Explain step by step ... with test data", "The Transformer architecture"):
            continue  # their headings repeat, or are those of an answer
        mapped = [letters(heading) for heading, is_chapter, _ in documents.sections(document) if is_chapter]
        chapters = re.findall(r"^## (.+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        chapters = [each for each in chapters if not re.search("Table of Contents|Other References", each)]
        assert len(chapters) == len(mapped)
        assert all(letters(each).startswith(short) for each, short in zip(chapters, mapped, strict=True))


def letters(heading):
    return re.sub(r"\W", "", heading.lower())


def test_pytorch_code_of_a_text_runs(shared):
    path = sorted((shared / "seeds").glob("*.txt"))[2]
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    ran = [block for block in blocks if "import torch" in block]
    assert len(ran) == 3
    for block in ran:
        code = block.replace("import torch.nn", "import minigrad.nn").replace(
            "import torch\n", "import minigrad as torch\n"
        )
        exec(compile(code, str(path), "exec"), {"__name__": "block"})
