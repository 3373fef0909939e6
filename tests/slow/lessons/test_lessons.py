"""Each lesson, run as a script and as a notebook: what it claims holds, for any seed.

pytest tests/slow/lessons --seeds 1,2,3
"""

import importlib
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
from matplotlib.figure import Figure

from tests.repository.test_lessons import LESSONS, name_of


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", metafunc.config.getoption("--seeds").split(","))


@pytest.mark.parametrize("lesson", LESSONS, ids=name_of)
def test_what_a_lesson_claims_holds(lesson, seed, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(lesson.parent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [lesson.name, "--seed", seed, "--pictures", str(tmp_path)])
    runpy.run_path(str(lesson), run_name="__main__")
    shown = capsys.readouterr().out
    assert shown.count("✓") >= 4
    assert "✗" not in shown
    assert "Predict: " in shown
    assert list(tmp_path.glob("*.png")) + list(tmp_path.glob("*.svg"))


def test_a_notebook_shows_a_figure_as_a_picture(monkeypatch):
    display = pytest.importorskip("IPython.display")
    monkeypatch.syspath_prepend(LESSONS[0].parent)
    lesson = importlib.import_module("lesson")
    shown = []
    monkeypatch.setattr(lesson, "in_notebook", lambda: True)
    monkeypatch.setattr(display, "display", shown.append)
    lesson.show(Figure(), "name", lesson.Settings())
    assert shown[0].data.startswith(b"\x89PNG")


def test_a_lesson_runs_as_a_notebook(tmp_path):
    for package in ("jupytext", "nbconvert", "ipykernel", "ipywidgets"):
        if find_spec(package) is None:
            pytest.skip(f"notebooks need {package} (pip install -e '.[notebook]')")
    for file in ("lesson.py", LESSONS[0].name):
        shutil.copy(LESSONS[0].parent / file, tmp_path)
    made = tmp_path / "made.ipynb"
    to_notebook = ["jupytext", "--to", "ipynb", "--output", str(made), str(tmp_path / LESSONS[0].name)]
    execute = ["nbconvert", "--to", "html", "--execute", "--ExecutePreprocessor.timeout=300", str(made)]
    for command in (to_notebook, execute):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    page = made.with_suffix(".html").read_text(encoding="utf-8")
    assert "✓ the tape gives the numbers" in page
    assert "FloatSlider" in page or "widget" in page
