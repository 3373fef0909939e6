"""The progress of a training run: a bar on a terminal, one line in a notebook, few lines in a file."""

import io
import re
import sys
from types import ModuleType

import pytest
from rich.console import Console

from minitransformer.training.notebook import NotebookLine
from tests.training.test_trainer import language


def train(folder, console):
    language(folder, console=console, steps=5, validate_every=3, checkpoint_every=5, log_every=20).train()


class Notebook:
    """What a notebook shows: each output that `display` made, as it was last updated."""

    def __init__(self):
        self.outputs = []
        self.updates = 0

    def display(self, data, raw=False, display_id=None, **others):
        self.outputs.append(data["text/plain"] if raw else data.text)
        place = len(self.outputs) - 1
        notebook = self

        class Handle:
            def update(self, data, raw=False):
                notebook.outputs[place] = data["text/plain"]
                notebook.updates += 1

        return Handle() if display_id else None


@pytest.fixture
def notebook(monkeypatch):
    package = ModuleType("IPython")
    module = ModuleType("IPython.display")
    notebook = Notebook()
    module.display = notebook.display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return notebook


def test_terminal_bar_has_no_loss_before_the_first_step(tmp_path):
    train(tmp_path / "warm-up", Console(quiet=True))  # numba compiles, and keeps the stream that it finds
    stream = io.StringIO()
    train(tmp_path / "run", Console(file=stream, force_terminal=True, width=120))
    text = re.sub(r"\x1b\[[\d;?]*\w", "", stream.getvalue())
    assert "0/5" in text
    assert "5/5 loss " in text
    assert "nan" not in text


def test_a_notebook_shows_the_progress_in_one_line(tmp_path, notebook, monkeypatch):
    monkeypatch.setattr(NotebookLine.__init__, "__defaults__", (0.0,))
    train(tmp_path / "run", Console(file=io.StringIO(), force_jupyter=True, width=120))
    line, *others = notebook.outputs
    assert line.startswith("training ")
    assert "5/5 loss " in line
    assert "\x1b" not in line
    assert notebook.updates == 4
    assert [text.split()[:2] for text in others] == [["step", "3"], ["step", "5"]]


def test_notebook_progress_updates_are_rate_limited(notebook, monkeypatch):
    seconds = iter([0.0, 0.0, 0.1, 0.3, 0.3, 0.35, 0.35])
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    line = NotebookLine()
    shown = []
    for i in range(4):
        line.update(f"step {i}", last=i == 3)
        shown += notebook.outputs
    assert shown == ["step 0", "step 0", "step 2", "step 3"]


def test_a_quiet_console_shows_nothing_in_a_notebook(tmp_path, notebook):
    train(tmp_path / "run", Console(file=io.StringIO(), force_jupyter=True, quiet=True))
    assert notebook.outputs == []


def test_file_output_has_validations_and_occasional_steps(tmp_path, monkeypatch):
    stream = io.StringIO()
    train(tmp_path / "run", Console(file=stream))
    assert [line.split()[:2] for line in stream.getvalue().splitlines()] == [["step", "3"], ["step", "5"]]
    monkeypatch.setattr("minitransformer.training.progress.INTERVAL", 0.0)
    train(tmp_path / "other", Console(file=(stream := io.StringIO()), width=120))
    first, *_ = lines = stream.getvalue().splitlines()
    assert re.fullmatch(r"step +1 of 5  loss \d\.\d{4} [\d,]+ tokens/s .*B", first)
    assert len(lines) == 5 + 2
