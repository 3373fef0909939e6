"""Check an answer: `python -m minitransformer.learn EXERCISE FILE SECONDS OUTCOME STACK`.

`minitransformer learn EXERCISE --check` runs this in a separate process. It writes the outcome to the file
OUTCOME. If the answer still runs SECONDS after the imports, as in an endless loop, it writes the stack to the
file STACK, and exits.
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
