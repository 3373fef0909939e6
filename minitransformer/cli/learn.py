"""`minitransformer learn [EXERCISE]`: exercises with a tutor."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from minigrad.io import write_atomically

from ..errors import UserError
from ..files import printable, read_json, read_text
from ..learn import Exercise, Outcome, Progress, exercises, find
from ..learn.exercise import REASONING
from ..learn.progress import Record
from .parsing import parse
from .subprocesses import run_python

FOLDER = Path("exercises")
TIME_LIMIT = 30.0  # seconds for a check, after Python's start and imports; right answers take less than two


def run(argv: list[str]) -> None:
    def learn(
        exercise: str | None = None,
        *,
        check: bool = False,
        hint: bool = False,
        solution: bool = False,
        dir: Path = FOLDER,
    ) -> None:
        """List the exercises, or begin or check one, or show a hint or the solution.

        The exercises go with the lessons in demos/lessons. A number or a name writes a file with a blank to
        fill in; an existing file is not changed. The exit code of a wrong answer is 1.

        Args:
            exercise: A number or a name, such as 6 or softmax.
            check: Check the answer in your file.
            hint: Show the next of three hints.
            solution: Show our solution.
            dir: The folder of your files and your progress.
        """
        if dir.exists() and not dir.is_dir():
            raise UserError(f"{dir} is not a folder.\nPass another with --dir DIR.")
        progress = Progress(dir)
        if sum((check, hint, solution)) > 1:
            raise UserError("choose one of --check, --hint and --solution.\nUse them one after the other.")
        if exercise is None:
            if check or hint or solution:
                raise UserError(f"no exercise is named.\nPass its number: {command(6, dir, '--check')}")
            Console(highlight=False).print(table(progress))
            print(printable(f"Begin one: {command(1, dir)}"))
            return
        chosen = find(exercise)
        record = progress.of(chosen.name)
        if check:
            check_file(chosen, dir, record, progress)
        elif hint:
            print(printable(next_hint(chosen, record, dir)))
        elif solution:
            record.solution_shown = True
            print(chosen.solution, end="")
        else:
            begin(chosen, dir)
        progress.save()

    parse(learn, argv, "minitransformer learn")


def command(number: int, folder: Path, *options: str) -> str:
    """The shell command for an exercise in a folder."""
    of_folder = [] if folder == FOLDER else ["--dir", str(folder)]
    return shlex.join(["minitransformer", "learn", str(number), *options, *of_folder])


def table(progress: Progress) -> Table:
    """A table of the exercises, with their lessons and the learner's progress."""
    shown = Table("", "name", "exercise", "lesson", "", box=None, padding=(0, 2, 0, 0))
    for each in exercises():
        state = state_of(progress.of(each.name))
        shown.add_row(str(each.number), each.name, each.title, str(each.lesson), state)
    return shown


def state_of(record: Record) -> str:
    if record.solved:
        return "solved" + (", solution seen" if record.solution_shown else "")
    tries = f"{record.attempts} {'try' if record.attempts == 1 else 'tries'}"
    return tries if record.attempts else ""


def begin(exercise: Exercise, folder: Path) -> None:
    """Write the learner's file, unless it exists, and print what to do next."""
    file = folder / exercise.file_name
    if file.is_dir():
        raise UserError(f"{file} is a folder.\nMove it away, or choose another with --dir DIR.")
    if file.exists():
        print(printable(f"{file} exists; it was not changed."))
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, exercise.blank.encode())
        print(printable(f"{file}: {exercise.title}"))
    if exercise.reasoning:
        print(REASONING[exercise.reasoning])
    print(printable(f"Open it, write the blank, then: {command(exercise.number, folder, '--check')}"))


def next_hint(exercise: Exercise, record: Record, folder: Path) -> str:
    """Return the next hint or, after the last one, the command that shows the solution."""
    if record.hints >= len(exercise.hints):
        return f"There are no more hints. Our solution: {command(exercise.number, folder, '--solution')}"
    record.hints += 1
    return f"Hint {record.hints} of {len(exercise.hints)}: {exercise.hints[record.hints - 1]}"


def check_within(seconds: float, exercise: Exercise, file: Path) -> Outcome:
    """Check an answer in a separate process, which is stopped after `seconds`."""
    read_text(file)  # raises a UserError if it is not text
    with TemporaryDirectory() as folder:
        result, stack = Path(folder) / "outcome.json", Path(folder) / "stack.txt"
        words = [exercise.name, str(file.absolute()), str(seconds), str(result), str(stack)]
        code = run_python(["-m", "minitransformer.learn", *words])
        if result.exists():
            return Outcome(**read_json(result))
        if stack.exists() and stack.stat().st_size:
            return Outcome(
                False,
                f"the answer was still running after {seconds:g} seconds, and was stopped",
                "Which loop never ends? Print what its condition depends on, in each round.",
            )
    if code < 0:
        return Outcome(
            False,
            f"Python was killed while it ran the answer: {signal.strsignal(-code)}",
            "Look for an array too large for the memory, a very deep recursion, or calls of C code (ctypes).",
        )
    return Outcome(
        False,
        f"the answer ended Python itself, with exit code {code}",
        "Leave out calls such as os._exit: the check goes on after your functions return.",
    )


def check_file(exercise: Exercise, folder: Path, record: Record, progress: Progress) -> None:
    """Check an answer and print the verdict. Exit with 1 if the answer is wrong."""
    file = folder / exercise.file_name
    if not file.is_file():
        raise UserError(f"there is no file {file}.\nBegin the exercise: {command(exercise.number, folder)}")
    outcome = check_within(TIME_LIMIT, exercise, file)
    record.attempts += 1
    record.solved = record.solved or outcome.passed
    if outcome.passed:
        print(f"✓ {exercise.number} {exercise.title}: right")
        return
    progress.save()
    print(printable(f"✗ {exercise.number} {exercise.title}: {outcome.verdict}"))
    if outcome.advice:
        print(printable(f"  {outcome.advice}"))
    raise SystemExit(1)
