"""Command lines are parsed by tyro; what it refuses becomes an error of two lines, as all others."""

from __future__ import annotations

import functools
import io
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import dropwhile, takewhile, zip_longest
from typing import Any

import tyro

from ..errors import UserError, nearest, short

LIMIT = 300  # characters of an error
SWITCHES = ("header",)  # options that are true, false, or neither: tyro wants a value
OTHER_NAMES = {  # what Hugging Face's Trainer and generate, nanoGPT and others call our options
    "batch-size": "max-tokens",
    "beam-size": "num-beams",
    "beams": "num-beams",
    "bf16": "precision",
    "eval-interval": "validate-every",
    "eval-steps": "validate-every",
    "fp16": "precision",
    "grad-clip": "clip-norm",
    "gradient-accumulation-steps": "micro-batches",
    "learning-rate": "lr",
    "logging-steps": "log-every",
    "lr-scheduler-type": "schedule",
    "max-grad-norm": "clip-norm",
    "max-iters": "steps",
    "max-length": "max-new-tokens block-size",
    "max-steps": "steps",
    "max-tokens": "max-new-tokens",
    "num-train-epochs": "epochs",
    "out-dir": "run-dir",
    "output-dir": "run-dir",
    "save-steps": "checkpoint-every",
}
FRAME = "│╭╮╰╯─- "  # what tyro draws around its errors, with lines across
REWORDED = {  # Python's words and tyro's
    r"invalid literal for int\(\) with base \d+: ": "expected an integer, got ",
    r"could not convert string to float: ": "expected a number, got ",
    r"Expected 1 values$": "Expected a value",
}
HELP = " " * 9  # what the help of an argument begins with there


def run_command(function: Callable[..., None], argv: Sequence[str], prog: str) -> None:
    """Call a function with the arguments of a command line."""

    @functools.wraps(function)
    def bound(*values: Any, **named: Any) -> Callable[[], None]:
        return functools.partial(function, *values, **named)

    parse(bound, argv, prog)()


def parse(target: Callable[..., Any], argv: Sequence[str], prog: str, **settings: Any) -> Any:
    """What a function or a class makes of the arguments; a UserError if tyro refuses them."""
    said = io.StringIO()
    argv = with_switches(argv)
    try:
        with redirect_stderr(said):
            made, unknown = tyro.cli(target, args=argv, prog=prog, return_unknown_args=True, **settings)
    except SystemExit as exit:
        if not exit.code:  # after --help
            raise
        cause: BaseException | None = exit
        while cause is not None and not isinstance(cause, UserError):
            cause = cause.__context__
        raise UserError(str(cause) if cause else _refusal(said.getvalue(), prog)) from None
    if said.getvalue():  # warnings
        print(said.getvalue(), end="", file=sys.stderr)
    if unknown:
        raise UserError(_unknown(unknown, _options(target, prog, settings), prog))
    return made


def with_switches(argv: Sequence[str]) -> list[str]:
    """The arguments, in which `--header` and `--no-header` have the value that tyro wants."""
    expanded = []
    for word, following in zip_longest(argv, argv[1:], fillvalue=""):
        name = word.removeprefix("--")
        if word.startswith("--no-") and name.removeprefix("no-") in SWITCHES:
            expanded += [f"--{name.removeprefix('no-')}", "False"]
        elif word.startswith("--") and name in SWITCHES and following not in ("None", "True", "False"):
            expanded += [word, "True"]
        else:
            expanded.append(word)
    return expanded


def _unknown(words: Sequence[str], options: Sequence[str], prog: str) -> str:
    """What is wrong with words that are no options of the command, or no values of one."""
    word = next((word for word in words if word.startswith("-")), words[0])
    name = word.partition("=")[0].replace("_", "-")
    if not name.startswith("-"):
        return f"unexpected argument {short(word)}.\n`{prog} --help` shows what it takes."
    options = [option for option in options if option != name]  # --help may speak of another command's
    others = {f"--{other}" for other in OTHER_NAMES.get(name[2:], "").split()}
    longer = [option for option in options if name[2:] in option][:3] if len(name) > 5 else []
    close = nearest(name, options)
    if found := [option for option in options if option in others] or (longer if not close else []):
        close = f" Did you mean {' or '.join(found)}?"
    return f"there is no option {short(name)}.{close}\n`{prog} --help` lists them."


def _options(target: Callable[..., Any], prog: str, settings: dict[str, Any]) -> list[str]:
    """The options that --help lists."""
    shown = io.StringIO()
    with redirect_stdout(shown), suppress(SystemExit):
        tyro.cli(target, args=["--help"], prog=prog, **settings)
    return list(dict.fromkeys(re.findall(r"--[a-z][a-z0-9-]+", shown.getvalue())))


def _refusal(box: str, prog: str) -> str:
    """tyro's error without its title, its frame, and the explanations below a line across it."""
    is_text = lambda line: bool(line.strip(FRAME))
    body = takewhile(is_text, dropwhile(lambda line: not is_text(line), box.splitlines()[1:]))
    words = [line.strip("│ ") for line in body if not line.strip("│").startswith(HELP)]
    first = " ".join(words).removeprefix("Error parsing ").removesuffix(".")
    for theirs, ours in REWORDED.items():
        first = re.sub(theirs, ours, first)
    first = first if len(first) <= LIMIT else f"{first[:LIMIT]}..."
    return f"{first[:1].lower()}{first[1:]}.\n`{prog} --help` shows what it takes."
