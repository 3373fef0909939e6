"""`minitransformer learn [EXERCISE]`: exercises with a tutor."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from minigrad.io import write_atomically

from ..errors import UserError
from ..files import printable, read_json, read_text
from ..learn import Exercise, Outcome, Progress, exercises, find
from ..learn.exercise import REASONING
from ..learn.progress import Record
from .arguments import Flag
from .parsing import run_command
from .subprocesses import run_python

FOLDER = Path("exercises")
TIME_LIMIT = 30.0  # seconds for a check; all take less than two


def run(argv: list[str]) -> None:
    def learn(
        exercise: Annotated[str | None, Positional, arg(metavar="EXERCISE", help_behavior_hint="")] = None,
        check: Flag = False,
        hint: Flag = False,
        solution: Flag = False,
        dir: Annotated[Path, arg(metavar="DIR")] = FOLDER,
    ) -> None:
        """List the exercises, or begin, check or help with one.

        The exercises go with the lessons in demos/lessons. With a number or a name, this writes a file with a
        blank; an existing file stays as it is. The exit code of a wrong answer is 1.

        Args:
            exercise: A number or a name, such as 6 or softmax.
            check: Check the answer in your file.
            hint: Show the next of three hints.
            solution: Show our solution.
            dir: The folder of your files and your progress.
        """
        progress = Progress(dir)
        if sum((check, hint, solution)) > 1:
            raise UserError("choose one of --check, --hint and --solution.\nUse them one after the other.")
        if exercise is None:
            if check or hint or solution:
                raise UserError("no exercise is named.\nPass its number: minitransformer learn 6 --check")
            Console(highlight=False).print(table(progress))
            print("Begin one: minitransformer learn 1")
            return
        chosen = find(exercise)
        record = progress.of(chosen.name)
        if check:
            check_file(chosen, dir / chosen.file_name, record, progress)
        elif hint:
            print(next_hint(chosen, record))
        elif solution:
            record.solution_shown = True
            print(chosen.solution, end="")
        else:
            begin(chosen, dir / chosen.file_name)
        progress.save()

    run_command(learn, argv, "minitransformer learn")


def table(progress: Progress) -> Table:
    """The exercises with their lessons and what was done."""
    shown = Table("", "exercise", "lesson", "", box=None, padding=(0, 2, 0, 0))
    for each in exercises():
        shown.add_row(str(each.number), each.title, str(each.lesson), state_of(progress.of(each.name)))
    return shown


def state_of(record: Record) -> str:
    if record.solved:
        return "solved" + (", solution seen" if record.solution_shown else "")
    tries = f"{record.attempts} {'try' if record.attempts == 1 else 'tries'}"
    return tries if record.attempts else ""


def begin(exercise: Exercise, file: Path) -> None:
    """Write the learner's file, unless it exists."""
    if file.is_dir():
        raise UserError(f"{file} is a folder.\nMove it away, or choose another with --dir DIR.")
    if file.exists():
        print(printable(f"{file} exists; it was not changed."))
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, exercise.blank.encode())
        print(printable(f"{file}: {exercise.title}"))
    if exercise.reasoning:
        print(f"It takes {REASONING[exercise.reasoning]}")
    print(f"Open it, write the blank, then: minitransformer learn {exercise.number} --check")


def next_hint(exercise: Exercise, record: Record) -> str:
    """The next hint; after the last one, that there is a solution."""
    if record.hints >= len(exercise.hints):
        return f"There are no more hints. Our solution: minitransformer learn {exercise.number} --solution"
    record.hints += 1
    return f"Hint {record.hints} of {len(exercise.hints)}: {exercise.hints[record.hints - 1]}"


def check_within(seconds: float, exercise: Exercise, file: Path) -> Outcome:
    """The outcome of a check in a process of its own, which is killed after `seconds`."""
    read_text(file)  # raises a UserError if it is not text
    with TemporaryDirectory() as folder:
        result = Path(folder) / "outcome.json"
        words = ["-m", "minitransformer.learn", exercise.name, str(file.absolute()), str(result)]
        try:
            code = run_python(words, timeout=seconds)
        except TimeoutError:
            return Outcome(
                False,
                f"the answer was still running after {seconds:g} seconds, and was stopped",
                "Which loop never ends? Print what its condition depends on, in each round.",
            )
        if not result.exists():
            return Outcome(
                False,
                f"the answer ended Python itself, with exit code {code}",
                "Leave out calls such as os._exit: the check goes on after your functions return.",
            )
        return Outcome(**read_json(result))


def check_file(exercise: Exercise, file: Path, record: Record, progress: Progress) -> None:
    """Check an answer and print the verdict; exits with 1 if it is wrong."""
    if not file.is_file():
        raise UserError(
            f"there is no file {file}.\nBegin the exercise with `minitransformer learn {exercise.number}`."
        )
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
