"""The tutor, which runs an exercise's check on a learner's file and explains what is wrong."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ..files import read_text
from .checking import Wrong
from .exercise import Exercise


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check: whether the answer is right and, if not, what is wrong and what to do.

    It is true if `passed`.
    """

    passed: bool
    verdict: str = ""
    advice: str = ""

    def __bool__(self) -> bool:
        return self.passed


def check(exercise: Exercise, file: Path) -> Outcome:
    """Check the answer in a file, whose code is run in this process."""
    source = read_text(file)
    try:
        with np.errstate(all="ignore"):  # checks look for numbers that are not finite
            exercise.check(_run(exercise, source, file))
    except Wrong as wrong:
        return Outcome(False, wrong.verdict, wrong.advice)
    except (Exception, SystemExit) as error:
        return _outcome_of_error(error, file)
    return Outcome(True)


def _run(exercise: Exercise, source: str, file: Path) -> ModuleType:
    """Run the learner's file as a module, without a bytecode cache. A missing name raises Wrong."""
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    exec(compile(source, str(file), "exec"), vars(module))

    def __getattr__(name: str) -> Any:
        raise Wrong(
            f"{file.name} does not define {name}",
            f"Keep the names of the exercise; `minitransformer learn {exercise.number} --dir NEW` writes the "
            f"file again, in another folder.",
        )

    vars(module)["__getattr__"] = __getattr__
    return module


def _outcome_of_error(error: BaseException, file: Path) -> Outcome:
    """Return the outcome for an exception, with the line of the learner's code that raised it, if any."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return Outcome(False, f"line {error.lineno} is not valid Python: {error.msg}", "Correct the line.")
    if isinstance(error, ValueError) and "null bytes" in str(error):
        return Outcome(False, "the file is not text: it has null bytes", "Save it as UTF-8.")
    cause, lines = _origin(error, file)
    if not lines:
        text = f"the check cannot use the answer: {type(error).__name__}: {_first_line(error)}"
        return Outcome(False, text, "Keep the names, arguments and results of the exercise's functions.")
    error = cause
    if isinstance(error, NotImplementedError) and not error.args:
        return Outcome(
            False,
            f"not written yet: line {lines[-1]} is still the blank",
            "Replace `raise NotImplementedError` with your code.",
        )
    notes = "".join(f", in the call {note}" for note in getattr(error, "__notes__", []))
    text = f"line {lines[-1]} raised {type(error).__name__}: {_first_line(error)}{notes}"
    return Outcome(False, text, _advice_on(error))


def _origin(error: BaseException, file: Path) -> tuple[BaseException, list[int | None]]:
    """Return the error, or its cause, that passed through the learner's file, and the lines there.

    minigrad raises another error for an error in a user's rule, so the cause may be the learner's.
    """
    cause: BaseException | None = error
    while cause is not None:
        frames = traceback.extract_tb(cause.__traceback__)
        if lines := [frame.lineno for frame in frames if frame.filename == str(file)]:
            return cause, lines
        cause = cause.__cause__ or cause.__context__
    return error, []


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _advice_on(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "Remove the exit: the check goes on after your functions return."
    if isinstance(error, RecursionError):
        return "Which call ends the recursion? Is it reached?"
    if isinstance(error, ZeroDivisionError):
        return "For which arguments is the divisor 0? What should the result be there?"
    if isinstance(error, NameError | AttributeError):
        return "Is the name spelled right, and defined above? What does this kind of object have?"
    if "truth value" in str(error):
        return (
            "Combine arrays of booleans with & and |, not with `and` and `or`; put comparisons in brackets."
        )
    return "Print the shapes of what the line computes with."
