"""Checks an answer and writes the outcome: `python -m minitransformer.learn EXERCISE FILE OUTCOME`.

`minitransformer learn EXERCISE --check` runs this in a process of its own: a loop that never ends can be
stopped there.
"""

import sys
from dataclasses import asdict
from pathlib import Path

from ..files import write_json
from .exercise import find
from .tutor import check

if __name__ == "__main__":
    exercise, file, outcome = sys.argv[1:]
    write_json(outcome, asdict(check(find(exercise), Path(file))))
