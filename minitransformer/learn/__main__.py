"""Checks an answer: `python -m minitransformer.learn EXERCISE FILE SECONDS OUTCOME STACK`.

`minitransformer learn EXERCISE --check` runs this in a process of its own. It writes the outcome to OUTCOME.
If the answer still runs after SECONDS, as in a loop that never ends, it writes the stack to STACK and exits.
The imports do not count.
"""

import faulthandler
import sys
from dataclasses import asdict
from pathlib import Path

from ..files import write_json
from .exercise import find
from .tutor import check

if __name__ == "__main__":
    name, file, seconds, outcome, stack = sys.argv[1:]
    exercise = find(name)
    with open(stack, "w") as output:
        faulthandler.dump_traceback_later(float(seconds), file=output, exit=True)
        write_json(outcome, asdict(check(exercise, Path(file))))
        faulthandler.cancel_dump_traceback_later()
