"""`minitransformer learn`: begin, check, hints, solution, progress."""

import json
from pathlib import Path

import pytest

from minitransformer.cli import main
from minitransformer.learn import NAMES, exercises


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def learn(capsys, *words):
    code = main(["learn", *words])
    out = capsys.readouterr()
    return code, out.out + out.err


def test_the_exercises_are_listed_with_progress(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, shown = learn(capsys)
    assert code == 0
    assert all(exercise.title in shown for exercise in exercises())
    assert not Path("exercises").exists()


def test_an_exercise_is_begun_checked_and_solved(capsys):
    code, shown = learn(capsys, "1")
    file = Path("exercises/01_multiply.py")
    assert code == 0
    assert "minitransformer learn 1 --check" in shown
    assert "raise NotImplementedError" in file.read_text()
    code, shown = learn(capsys, "1", "--check")
    assert (code, shown.startswith("✗ 1 ")) == (1, True)
    file.write_text(exercises()[0].solution)
    assert learn(capsys, "multiply", "--check") == (0, f"✓ 1 {exercises()[0].title}: right\n")
    assert json.loads(Path("exercises/progress.json").read_text())["multiply"] == {
        "attempts": 2, "hints": 0, "solution_shown": False, "solved": True,
    }  # fmt: skip
    assert "solved" in learn(capsys)[1]


def test_what_a_learner_has_written_stays(capsys):
    learn(capsys, "1")
    Path("exercises/01_multiply.py").write_text("mine")
    assert "exists; it was not changed" in learn(capsys, "1")[1]
    assert Path("exercises/01_multiply.py").read_text() == "mine"


def test_hints_come_one_by_one_then_the_solution(capsys):
    for number, hint in enumerate(exercises()[0].hints, 1):
        assert learn(capsys, "1", "--hint")[1] == f"Hint {number} of 3: {hint}\n"
    assert "--solution" in learn(capsys, "1", "--hint")[1]
    assert learn(capsys, "1", "--solution")[1] == exercises()[0].solution
    assert "BLANK" not in exercises()[0].solution


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["99"], f"there is no exercise '99'.\nChoose a number from 1 to {len(NAMES)}"),
        (["softmx"], "Did you mean softmax?"),
        (["1", "--check"], "there is no file exercises/01_multiply.py.\nBegin the exercise with"),
        (["--check"], "no exercise is named"),
        (["1", "--check", "--hint"], "choose one of"),
        (["1", "--solutoin"], "there is no option '--solutoin'. Did you mean --solution?"),
    ],
)
def test_a_mistake_in_the_command_is_explained(words, message, capsys):
    code, shown = learn(capsys, *words)
    assert code == 2
    assert message in shown


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"multiply": {"hints": -5}}', '{"multiply": {"hints": "a"}}']
)
def test_a_damaged_progress_file_is_not_replaced(content, capsys):
    Path("exercises").mkdir()
    Path("exercises/progress.json").write_text(content)
    code, shown = learn(capsys, "1", "--hint")
    assert code == 2
    assert "Move it away" in shown
    assert Path("exercises/progress.json").read_text() == content
