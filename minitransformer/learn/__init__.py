"""Exercises with a tutor: a file with a blank, a check that names the mistake, hints, and our solution.

    minitransformer learn                # lists the exercises and your progress
    minitransformer learn 6              # writes exercises/06_softmax.py
    minitransformer learn 6 --check      # says what is wrong

The exercise `softmax` has two files: `exercises/softmax.py` is our solution, with a marked blank, and
`checks/softmax.py` checks an answer. `exercise` reads both, `checking` has functions for checks, `tutor` runs
a check on a learner's file, and `progress` stores what was solved.
"""

from .checking import Wrong, check_gradient, compare
from .exercise import NAMES, Exercise, exercises, find
from .progress import Progress
from .tutor import Outcome, check

__all__ = [
    "NAMES",
    "Exercise",
    "Outcome",
    "Progress",
    "Wrong",
    "check",
    "check_gradient",
    "compare",
    "exercises",
    "find",
]
