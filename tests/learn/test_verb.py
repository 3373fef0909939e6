"""`minitransformer learn`: begin, check, hints, solution, progress."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from minitransformer.cli import main
from minitransformer.learn import NAMES, exercises

ROOT = Path(__file__).parents[2]


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
    assert all(exercise.title in shown and exercise.name in shown for exercise in exercises())
    assert not Path("exercises").exists()


@pytest.mark.slow
def test_an_exercise_can_be_started_checked_and_solved(capsys):
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


def test_exercises_state_the_required_reasoning(capsys):
    assert "You need a derivation: do it on paper first." in learn(capsys, "softmax")[1]
    assert "You need to reason about shapes" in learn(capsys, "attention")[1]
    assert "You need" not in learn(capsys, "adam")[1]


def write_answer(old, new):
    """An answer to the first exercise: our solution, with a change."""
    Path("exercises").mkdir()
    assert old in exercises()[0].solution
    Path("exercises/01_multiply.py").write_text(exercises()[0].solution.replace(old, new, 1))


@pytest.mark.slow
def test_endless_loops_in_answers_are_stopped(capfd, monkeypatch):
    monkeypatch.setattr("minitransformer.cli.learn.TIME_LIMIT", 2.0)
    write_answer("z = x * y", "print('in the loop', flush=True)\n    while True: x = x * y")
    code, shown = learn(capfd, "1", "--check")
    assert code == 1
    assert shown.startswith("in the loop\n")
    assert "the answer was still running after 2 seconds, and was stopped\n  Which loop never ends?" in shown
    assert json.loads(Path("exercises/progress.json").read_text())["multiply"]["attempts"] == 1


@pytest.mark.slow
def test_an_answer_that_exits_python_is_explained(capsys):
    write_answer("z = x * y", "__import__('os')._exit(3)")
    code, shown = learn(capsys, "1", "--check")
    assert code == 1
    assert "the answer ended Python itself, with exit code 3" in shown


@pytest.mark.skipif(sys.platform == "win32", reason="has no signals")
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL"])
@pytest.mark.slow
def test_an_answer_that_is_killed_by_a_signal_is_explained(name, capsys):
    write_answer("z = x * y", f"import os, signal; os.kill(os.getpid(), signal.{name})")
    code, shown = learn(capsys, "1", "--check")
    assert code == 1
    assert f"Python was killed while it ran the answer: {signal.strsignal(signal.Signals[name])}" in shown
    assert "an array too large for the memory" in shown
    assert "os._exit" not in shown


@pytest.mark.skipif(sys.platform == "win32", reason="sends a SIGINT")
@pytest.mark.slow
def test_ctrl_c_stops_a_check():
    write_answer("z = x * y", "print('running', flush=True)\n    while True: x = x * y")
    with subprocess.Popen(
        [sys.executable, "-m", "minitransformer", "learn", "1", "--check"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=20)
    assert (process.returncode, out, error) == (1, "", "stopped\n")


def test_suggested_commands_keep_the_dir_option(capsys):
    folder = "my answers"
    own = f"--dir '{folder}'"
    in_folder = ["--dir", folder]
    assert f"minitransformer learn 1 {own}\n" in learn(capsys, *in_folder)[1]
    assert (
        f"Begin the exercise: minitransformer learn 1 {own}\n" in learn(capsys, "1", "--check", *in_folder)[1]
    )
    assert f"minitransformer learn 1 --check {own}\n" in learn(capsys, "1", *in_folder)[1]
    for _ in range(4):
        shown = learn(capsys, "1", "--hint", *in_folder)[1]
    assert shown.endswith(f"minitransformer learn 1 --solution {own}\n")
    assert "--dir" not in learn(capsys, "1")[1]


def test_learn_rejects_a_file_as_the_answer_folder(capsys):
    Path("notes").write_text("")
    for words in ([], ["1"]):
        code, shown = learn(capsys, *words, "--dir", "notes")
        assert (code, "notes is not a folder" in shown) == (2, True)


def test_existing_answers_are_not_overwritten(capsys):
    learn(capsys, "1")
    Path("exercises/01_multiply.py").write_text("mine")
    assert "exists; it was not changed" in learn(capsys, "1")[1]
    assert Path("exercises/01_multiply.py").read_text() == "mine"


def test_hints_are_shown_one_at_a_time_before_the_solution(capsys):
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
        (
            ["1", "--check"],
            "there is no file exercises/01_multiply.py.\nBegin the exercise: minitransformer learn 1",
        ),
        (["--check"], "no exercise is named"),
        (["1", "--check", "--hint"], "choose one of"),
        (["1", "--solutoin"], "there is no option '--solutoin'. Did you mean --solution?"),
    ],
)
def test_invalid_learn_commands_are_explained(words, message, capsys):
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
