"""The command line: `minitransformer VERB ...`, one verb a file.

Exit code 0: done; 2: a mistake that the message explains; 1: anything else.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from importlib import import_module

from minigrad import MinigradError, allocator

from ..errors import UserError
from ..recipes import nearest
from ..training.ranks import join, joined

VERBS = {
    "train": "train a recipe from scratch: minitransformer train phrasebook",
    "translate": 'translate sentences with a run: minitransformer translate runs/phrasebook "I love you"',
    "generate": 'go on with a text: minitransformer generate runs/shakespeare-char-cpu --prompt "ROMEO:"',
    "evaluate": "score a run on its held-out data: minitransformer evaluate runs/phrasebook [--json]",
    "graph": "draw how a run computes a loss, and its gradients: minitransformer graph runs/phrasebook",
    "recipes": "list the recipes",
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb; gives the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [a for a in args if a != "--debug"]
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if args else 2
    for stream in (sys.stdout, sys.stderr):  # a terminal that cannot show a letter shows a question mark
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        check_verb(args[0])
        allocator.keep_freed_memory()
        import_module(f".{args[0]}", __name__).run(args[1:])
        sys.stdout.flush()
    except SystemExit as done:  # tyro's: 0 after --help, 2 for options that it refuses
        return int(done.code or 0)
    except BaseException as error:
        code = _explain(error, debug)
        if code is None:  # a fault of the program's: Python shows where, and ends with 1
            raise
        joined().abort(code)
        return code
    return 0


def check_verb(verb: str) -> None:
    """Refuse an unknown verb, and under mpiexec any but `train`, which joins the ranks itself."""
    ranks = joined() if verb == "train" else join()
    if verb not in VERBS:
        raise UserError(f"there is no verb {verb!r}.{nearest(verb, VERBS)}\n{usage()}")
    if ranks.size > 1:
        raise UserError(
            f"mpiexec started {ranks.size} processes, and `{verb}` is done by one.\n"
            f"Leave mpiexec out: only `train` divides its work among ranks."
        )


def _explain(error: BaseException, debug: bool) -> int | None:
    """Say what went wrong; gives the exit code."""
    ranks = joined()
    ranks.wait_turn()
    match error:
        case UserError() | MinigradError():
            message = str(error)
        case KeyboardInterrupt():
            print("stopped", file=sys.stderr)
            return 1
        case BrokenPipeError():  # who read the output, `head` say, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        case OSError():
            place = error.filename or "standard output"
            fix = "Check the path, the space left, and who may write there."
            message = f"{place}: {error.strerror}.\n{fix}"
        case _ if ranks.size == 1:
            return None
        case _:
            print(f"{ranks.name}{''.join(traceback.format_exception(error))}", file=sys.stderr, flush=True)
            return 1
    if debug:
        traceback.print_exc()
    print(f"{ranks.name}error: {message}", file=sys.stderr, flush=True)
    return 2


def usage() -> str:
    """The verbs, a line each."""
    lines = [f"  {verb:<10} {what}" for verb, what in VERBS.items()]
    return "\n".join(
        ["usage: minitransformer VERB ...  (VERB --help says more; --debug shows tracebacks)", *lines]
    )
