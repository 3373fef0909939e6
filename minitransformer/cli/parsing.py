"""Parses command lines with tyro. Its errors become two-line UserErrors, like all others."""

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

from ..errors import UserError, did_you_mean, truncated_repr

LIMIT = 300  # characters of an error
SWITCHES = ("header",)  # options that are True, False or None, for which tyro expects a value
OTHER_NAMES = {  # names of Hugging Face's Trainer and generate, nanoGPT and others -> our options
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
FRAME = "│╭╮╰╯─- "  # of the box that tyro draws around errors
REWORDED = {  # messages of Python and tyro -> ours
    r"invalid literal for int\(\) with base \d+: ": "expected an integer, got ",
    r"could not convert string to float: ": "expected a number, got ",
    r"Expected 1 values$": "Expected a value",
}
HELP = " " * 9  # the indent of an argument's help in that box


def run_command(function: Callable[..., None], argv: Sequence[str], prog: str) -> None:
    """Call a function with arguments parsed from a command line."""

    @functools.wraps(function)
    def bound(*values: Any, **named: Any) -> Callable[[], None]:
        return functools.partial(function, *values, **named)

    parse(bound, argv, prog)()


def parse(target: Callable[..., Any], argv: Sequence[str], prog: str, **settings: Any) -> Any:
    """Call a function or class with parsed arguments; a UserError if they are invalid."""
    messages = io.StringIO()
    argv = with_switches(argv)
    try:
        with redirect_stderr(messages):
            made, unknown = tyro.cli(target, args=argv, prog=prog, return_unknown_args=True, **settings)
    except SystemExit as exit:
        if not exit.code:  # after --help
            raise
        cause: BaseException | None = exit
        while cause is not None and not isinstance(cause, UserError):
            cause = cause.__context__
        raise UserError(str(cause) if cause else _tyro_error(messages.getvalue(), prog)) from None
    if messages.getvalue():  # warnings
        print(messages.getvalue(), end="", file=sys.stderr)
    if unknown:
        raise UserError(_unknown_error(unknown, _options(target, prog, settings), prog))
    return made


def with_switches(argv: Sequence[str]) -> list[str]:
    """The arguments with `--header` and `--no-header` expanded to `--header True` and `--header False`."""
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


def _unknown_error(words: Sequence[str], options: Sequence[str], prog: str) -> str:
    """The error for arguments that are neither options of the command nor their values."""
    word = next((word for word in words if word.startswith("-")), words[0])
    name = word.partition("=")[0].replace("_", "-")
    if not name.startswith("-"):
        return f"unexpected argument {truncated_repr(word)}.\n`{prog} --help` shows what it takes."
    options = [option for option in options if option != name]  # --help may speak of another command's
    others = {f"--{other}" for other in OTHER_NAMES.get(name[2:], "").split()}
    longer = [option for option in options if name[2:] in option][:3] if len(name) > 5 else []
    close = did_you_mean(name, options)
    if found := [option for option in options if option in others] or (longer if not close else []):
        close = f" Did you mean {' or '.join(found)}?"
    return f"there is no option {truncated_repr(name)}.{close}\n`{prog} --help` lists them."


def _options(target: Callable[..., Any], prog: str, settings: dict[str, Any]) -> list[str]:
    """The options that --help lists."""
    shown = io.StringIO()
    with redirect_stdout(shown), suppress(SystemExit):
        tyro.cli(target, args=["--help"], prog=prog, **settings)
    return list(dict.fromkeys(re.findall(r"--[a-z][a-z0-9-]+", shown.getvalue())))


def _choices(listed: str) -> str:
    """The choices of an option; None is what it is if it is left out."""
    names = [name for name in re.findall("'([^']*)'", listed) if name != "None"]
    return f"Expected {'one of ' if len(names) > 1 else ''}{', '.join(names)}"


def _tyro_error(box: str, prog: str) -> str:
    """tyro's error, without the title, the frame and the explanations of its box."""
    is_text = lambda line: bool(line.strip(FRAME))
    body = takewhile(is_text, dropwhile(lambda line: not is_text(line), box.splitlines()[1:]))
    words = [line.strip("│ ") for line in body if not line.strip("│").startswith(HELP)]
    first = " ".join(words).removeprefix("Error parsing ").removesuffix(".")
    for theirs, ours in REWORDED.items():
        first = re.sub(theirs, ours, first)
    first = re.sub(r"Expected one of \((.*)\)", lambda found: _choices(found[1]), first)
    first = first if len(first) <= LIMIT else f"{first[:LIMIT]}..."
    return f"{first[:1].lower()}{first[1:]}.\n`{prog} --help` shows what it takes."
