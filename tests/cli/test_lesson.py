"""`minitransformer lesson`: lists the lessons, reads one, and writes one as a notebook."""

import json
import sys

import pytest

from minitransformer.cli import lesson, main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    return tmp_path


def test_lesson_without_a_number_lists_all_lessons(capsys):
    assert main(["lesson"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(lesson.lessons()) + 2
    assert "A word looks at the others" in lines[1]


def test_lesson_prints_its_text_followed_by_code_output(capsys, elsewhere):
    assert main(["lesson", "1"]) == 0
    shown = capsys.readouterr().out
    places = [
        shown.index(text) for text in ("Every word offers a key", "animal alive 3", "asks with a query")
    ]
    assert places == sorted(places)
    assert "import numpy" not in shown
    assert (elsewhere / "runs" / "lessons" / "01-shares.png").is_file()


def test_code_flag_shows_the_lesson_code(capsys):
    main(["lesson", "1", "--code"])
    assert "import numpy as np" in capsys.readouterr().out


def test_lesson_traceback_points_to_the_script_line(tmp_path, monkeypatch):
    (tmp_path / "lesson.py").write_text("SEED = 0\n")
    file = tmp_path / "01_wrong.py"
    file.write_text("# %% [markdown]\n# # 1. Wrong\n\n# %%\n1 / 0\n")
    monkeypatch.delitem(sys.modules, "lesson", raising=False)
    with pytest.raises(ZeroDivisionError) as raised:
        lesson.read_and_run(file, False, 0)
    monkeypatch.delitem(sys.modules, "lesson")
    assert (raised.traceback[-1].path, raised.traceback[-1].lineno + 1) == (file, 5)


def test_lesson_notebook_has_all_cells_and_is_not_overwritten(capsys, elsewhere):
    main(["lesson", "1", "--notebook"])
    notebook = elsewhere / "01_a_word_looks.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert "".join(cells[0]["source"]).startswith("# 1. A word looks at the others")
    assert [cell["cell_type"] for cell in cells[:4]] == ["markdown", "code", "code", "markdown"]
    assert "SEED" not in "".join(cells[1]["source"])
    notebook.write_text("mine")
    main(["lesson", "1", "--notebook"])
    assert notebook.read_text() == "mine"
    assert "01_a_word_looks.ipynb exists; it was not changed." in capsys.readouterr().out


def test_lesson_notebook_uses_the_given_seed(elsewhere):
    main(["lesson", "3", "--notebook", "--seed", "7"])
    cells = json.loads((elsewhere / "03_an_engine.ipynb").read_text(encoding="utf-8"))["cells"]
    assert "lesson.SEED = 7" in "".join(cells[1]["source"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["99"], "there is no lesson 99.\nChoose one of 1 to "),
        (["one"], "expected an integer, got 'one'"),
        (["1", "--seed", "-1"], "--seed -1 is negative.\nChoose 0 or more."),
    ],
)
def test_a_mistake_is_explained(words, message, capsys):
    assert main(["lesson", *words]) == 2
    assert message in capsys.readouterr().err
