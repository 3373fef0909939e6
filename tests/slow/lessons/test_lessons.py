"""Each lesson, read in a terminal and run as a notebook: what it says holds, for any seed.

pytest tests/slow/lessons --seeds 1,2,3
"""

import importlib
import subprocess
import sys
from importlib.util import find_spec

import pytest
from matplotlib.figure import Figure

from minitransformer.cli import lesson as verb
from tests.repository.test_lessons import LESSONS, all_lessons, number_of


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", metafunc.config.getoption("--seeds").split(","))


@all_lessons
def test_lesson_assertions_hold(lesson, seed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.chdir(tmp_path)
    verb.run([str(number_of(lesson)), "--seed", seed])  # its assertions are what it says
    shown = capsys.readouterr().out
    assert "Predict: " in shown
    (picture,) = (tmp_path / "runs" / "lessons").iterdir()
    assert picture.name.startswith(lesson.stem[:2])


def test_a_notebook_shows_a_figure_as_a_picture(monkeypatch):
    display = pytest.importorskip("IPython.display")
    monkeypatch.syspath_prepend(LESSONS[0].parent)
    lesson = importlib.import_module("lesson")
    shown = []
    monkeypatch.setattr(lesson, "in_notebook", lambda: True)
    monkeypatch.setattr(display, "display", shown.append)
    lesson.show(Figure(), "name")
    assert shown[0].data.startswith(b"\x89PNG")


@pytest.mark.parametrize("lesson", LESSONS[:3], ids=lambda lesson: lesson.stem)
def test_a_lesson_runs_as_a_notebook(lesson, tmp_path, monkeypatch):
    for package in ("nbconvert", "ipykernel"):
        if find_spec(package) is None:
            pytest.skip(f"notebooks need {package} (pip install -e '.[notebook]')")
    monkeypatch.chdir(tmp_path)
    verb.run([str(number_of(lesson)), "--notebook"])
    made = tmp_path / f"{lesson.stem}.ipynb"
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "<img" in made.with_suffix(".html").read_text(encoding="utf-8")
