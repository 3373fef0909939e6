"""Exercises with a tutor: a file with a blank, a check that names the mistake, hints, and our solution.

    minitransformer learn                # the exercises, and how far you are
    minitransformer learn 6              # writes exercises/06_softmax.py
    minitransformer learn 6 --check      # says what is wrong

Exercise `softmax` is two files: `exercises/softmax.py` is our solution, with the blank marked, and
`checks/softmax.py` checks an answer. `exercise` reads them, `checking` is what checks are written with,
`tutor` runs a check on a learner's file, and `progress` remembers what was solved.
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
