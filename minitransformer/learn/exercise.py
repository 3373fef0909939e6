"""The class Exercise: our solution with a marked blank, from which the learner's file is made."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import ModuleType

from ..errors import UserError, did_you_mean

NAMES = (  # in the order of the lessons
    "multiply", "walk_back", "unbroadcast", "linear", "finite_differences", "softmax", "cross_entropy",
    "embedding", "analogy", "bpe_merge", "positional_encoding", "shift_matrix", "attention", "masks",
    "attention_gradient", "split_heads", "layer_norm", "residual_norm", "shift_right", "label_smoothing",
    "warm_up", "adam", "clip_norm", "top_p", "beam_step", "lstm_cell", "masked_tokens", "patches",
)  # fmt: skip
REASONING = {  # what an exercise may require, in addition to a formula
    "derivation": "You need a derivation: do it on paper first.",
    "shapes": "You need to reason about shapes: write the shape beside each line first.",
}

# a blank is `# BLANK: what to write`, our lines, and `# END`
BLANK = re.compile(r"^( *)# BLANK: (.+)\n((?:.*\n)*?)\1# END\n", re.MULTILINE)


@dataclass(frozen=True)
class Exercise:
    """One exercise: its text, our solution, three hints, and the check of an answer."""

    number: int
    name: str
    source: str  # our solution, with marked blanks
    lesson: int
    reasoning: str  # a key of REASONING, or ""
    hints: tuple[str, str, str]
    check: Callable[[ModuleType], None]  # raises Wrong if the answer in the module is wrong

    @property
    def title(self) -> str:
        """The first line of the task, without a period."""
        return self.task.partition("\n")[0].rstrip(".")

    @property
    def task(self) -> str:
        return ast.get_docstring(ast.parse(self.source)) or ""

    @property
    def file_name(self) -> str:
        return f"{self.number:02}_{self.name}.py"

    @property
    def blank(self) -> str:
        """The learner's file, in which each blank is an instruction and a NotImplementedError."""
        return BLANK.sub(r"\1# YOUR CODE: \2\n\1raise NotImplementedError\n", self.source)

    @property
    def solution(self) -> str:
        """The solution, without the comments that mark its blanks."""
        return BLANK.sub(r"\3", self.source)

    @property
    def answers(self) -> list[str]:
        """Our solution of each blank, as lines of code."""
        return [found[2] for found in BLANK.findall(self.source)]


@cache
def exercises() -> tuple[Exercise, ...]:
    """Return all exercises, in the order of the lessons."""
    return tuple(_load(number, name) for number, name in enumerate(NAMES, 1))


def _load(number: int, name: str) -> Exercise:
    source = (files(__package__) / "exercises" / f"{name}.py").read_text(encoding="utf-8")
    checks = import_module(f".checks.{name}", __package__)
    return Exercise(number, name, source, checks.LESSON, checks.REASONING, checks.HINTS, checks.check)


def find(which: str) -> Exercise:
    """Return the exercise with this number or name. Raise a UserError if there is none."""
    for exercise in exercises():
        if which in (exercise.name, str(exercise.number), f"{exercise.number:02}"):
            return exercise
    raise UserError(
        f"there is no exercise {which!r}.{did_you_mean(which, NAMES)}\n"
        f"Choose a number from 1 to {len(NAMES)}, or a name; `minitransformer learn` lists them."
    )
