"""Runs an exercise's check on a learner's file, and says what is wrong in the exercise's words."""

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
    """Whether an answer is right and, if not, what is wrong and what to do."""

    passed: bool
    verdict: str = ""
    advice: str = ""


def check(exercise: Exercise, file: Path) -> Outcome:
    """Check the answer in a file. The file's code runs in this process."""
    source = read_text(file)
    try:
        with np.errstate(all="ignore"):  # checks find numbers that are not finite themselves
            exercise.check(_run(exercise, source, file))
    except Wrong as wrong:
        return Outcome(False, wrong.verdict, wrong.advice)
    except Exception as error:
        return _outcome_of_error(error, file)
    return Outcome(True)


def _run(exercise: Exercise, source: str, file: Path) -> ModuleType:
    """The learner's file as a module, which is not written to a cache."""
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


def _outcome_of_error(error: Exception, file: Path) -> Outcome:
    """The outcome for an exception; one that comes from the learner's code is given with its line."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return Outcome(False, f"line {error.lineno} is not valid Python: {error.msg}", "Correct the line.")
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    if not lines:  # a bug of ours
        raise error
    if isinstance(error, NotImplementedError) and not error.args:
        return Outcome(
            False,
            f"not written yet: line {lines[-1]} is still the blank",
            "Replace `raise NotImplementedError` with your code.",
        )
    notes = "".join(f", in the call {note}" for note in getattr(error, "__notes__", []))
    text = f"line {lines[-1]} raised {type(error).__name__}: {str(error).partition(chr(10))[0]}{notes}"
    return Outcome(False, text, _advice_on(error))


def _advice_on(error: Exception) -> str:
    if isinstance(error, ZeroDivisionError):
        return "For which arguments is the divisor 0? What should the result be there?"
    if isinstance(error, NameError | AttributeError):
        return "Is the name spelled right, and defined above? What does this kind of object have?"
    if "truth value" in str(error):
        return (
            "Combine arrays of booleans with & and |, not with `and` and `or`; put comparisons in brackets."
        )
    return "Print the shapes of what the line computes with."
