"""The command line: `minitransformer VERB ...`, one file per verb.

Exit codes: 0 for success, 2 for a user error (with a message), 1 for anything else.
"""

from __future__ import annotations

import contextlib
import io
import keyword
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from minigrad import MinigradError, __version__, allocator

from ..errors import UserError, did_you_mean
from ..files import COMMAND, printable
from ..training.ranks import current_ranks, join

FIRST_VERBS = {  # verb -> what it does, with an example
    "recipes": "list the recipes",
    "train": "train a model from scratch: train phrasebook",
    "translate": 'translate sentences: translate runs/phrasebook "I love you"',
    "chat": "talk to a run trained on dialogues: chat runs/dialogue",
    "generate": 'continue a text: generate runs/shakespeare-char-cpu --prompt "ROMEO:"',
    "predict": 'label, answer or fill in: predict runs/bert-classify "I love you"',
    "evaluate": "score a run on held-out data: evaluate runs/phrasebook",
    "show": "show a run's settings, curves and predictions: show runs/phrasebook",
    "compare": "compare runs, with a significance test: compare runs/a runs/b",
    "explain": 'walk a sentence through a model: explain runs/phrasebook "I love you"',
    "lesson": "read and run a lesson of the course: lesson 1",
    "learn": "exercises of the course, with a tutor: learn 1",
}
EXPERT_VERBS = {
    "card": "estimate parameters, memory and time of a training run: card phrasebook",
    "sweep": "train with several settings: sweep reverse --lr 1e-3 3e-3 --run-dir lr",
    "graph": "draw the computation graph of a loss: graph runs/phrasebook",
    "heads": 'rank a translator\'s heads: heads runs/phrasebook "I love you"',
    "check": "check causality, cache, gradients, resuming: check runs/phrasebook",
    "embed": 'print sentence vectors: embed runs/bert-similar "I love you"',
    "import": "make a run of a pretrained model: import gpt2/ --run-dir runs/gpt2",
    "export": "write a run's model for transformers: export runs/bert-mlm bert/",
    "claims": "put claims of the literature to the test: claims sqrt-dk",
}
VERBS = {**FIRST_VERBS, **EXPERT_VERBS}


def main(argv: list[str] | None = None) -> int:
    """Run the verb of a command line (default: sys.argv), and return the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args == sys.argv[1:]:
        COMMAND[:] = starting_command()
    for stream in (sys.stdout, sys.stderr):  # characters that the terminal cannot encode become "?"
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    debug = "--debug" in args
    try:
        code = _run([a for a in args if a != "--debug"])
        print(end="", flush=True)  # so that an error of the output is reported here
        return code
    except BaseException as error:
        exit_code = _report_error(error, debug)
        if exit_code is None:  # a bug: Python prints the traceback and exits with 1
            raise
        current_ranks().abort(exit_code)
        return exit_code


def starting_command() -> list[str]:
    """The command that started this process: `minitransformer`, or a user's program with its own tasks."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name.removesuffix(".__main__") if spec else ""
    if "minitransformer" in (module, Path(sys.argv[0]).stem) or not os.path.isfile(sys.argv[0]):
        return ["minitransformer"]
    return ["python", "-m", module] if spec else ["python", os.path.abspath(sys.argv[0])]


def _run(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if args else 2
    if args[0] == "--version":
        print(f"minitransformer {__version__}")
        return 0
    check_verb(args[0])
    allocator.keep_freed_memory()
    try:
        load(args[0]).run(args[1:])
    except SystemExit as exit:  # 0 after --help, 2 without arguments
        return int(exit.code or 0)
    return 0


def load(verb: str) -> Any:
    """Import the module of a verb."""
    return import_module(f".{verb}_" if keyword.iskeyword(verb) else f".{verb}", __name__)


def check_verb(verb: str) -> None:
    """Raise a UserError for an unknown verb, or for one that does not run under mpiexec."""
    ranks = current_ranks() if verb in ("train", "sweep") else join()
    if verb not in VERBS:
        raise UserError(
            f"unknown verb {verb!r}.{did_you_mean(verb, VERBS)}\n"
            f"Choose one of {', '.join(VERBS)}; see minitransformer --help."
        )
    if ranks.size > 1:
        raise UserError(
            f"mpiexec started {ranks.size} processes, but `{verb}` runs in a single process.\n"
            f"Leave mpiexec out: only `train` and `sweep` use several ranks."
        )


def _report_error(error: BaseException, debug: bool) -> int | None:
    """Print an error. Return the exit code, or None for a bug in a single process, which is not printed."""
    ranks = current_ranks()
    ranks.wait_turn(error)
    match error:
        case UserError() | MinigradError():
            message = str(error)
        case MemoryError():
            message = f"out of memory: {str(error) or 'an allocation failed'}.\nUse smaller sizes."
        case KeyboardInterrupt():
            print("stopped", file=sys.stderr)
            return 1
        case BrokenPipeError():  # the reader of the output, such as `head`, has closed it
            _discard_output()
            return 1
        case OSError():
            if error.filename is None:
                _discard_output()
            problem = f"{error.filename or 'standard output'}: {error.strerror or error}"
            message = f"{problem}.\nCheck the path, the free space and the permissions."
        case _ if ranks.size == 1:
            return None
        case _:
            print(f"{ranks.name}{''.join(traceback.format_exception(error))}", file=sys.stderr, flush=True)
            return 1
    if debug:
        traceback.print_exc()
    print(f"{ranks.name}error: {printable(message)}", file=sys.stderr, flush=True)
    return getattr(error, "exit_code", 2)


def _discard_output() -> None:
    """Discard unwritten output. Otherwise, Python would try to write it at exit, and print a traceback."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def usage() -> str:
    """List the verbs, one per line."""
    first, expert = (
        [f"  {verb:<9}  {what}" for verb, what in verbs.items()] for verbs in (FIRST_VERBS, EXPERT_VERBS)
    )
    options = "VERB --help lists its options; --debug shows tracebacks; --version"
    return "\n".join(["usage: minitransformer VERB ...", *first, "for experts:", *expert, options])
