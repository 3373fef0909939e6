"""A parser of command lines: function parameters, or dataclass fields, become arguments.

A function's parameters before `*` are positional arguments. Those after it, and the fields of dataclasses,
are flags; a parameter whose default is a dataclass stands for the flags of its fields. Errors are UserErrors
of two lines.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from argparse import (
    SUPPRESS,
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from ..base_config import Config
from ..errors import UserError, did_you_mean, truncated_repr
from ..files import one_line

T = TypeVar("T")

HELP = {  # for arguments that several verbs have
    "run": "The run folder.",
    "data": "Your own file: the run's data, if it has moved, or other data.",
    "data_dir": "A folder with the public data set; by default, it is downloaded.",
    "checkpoint": "best, last, ema (the moving average at the last one), average:5 (the mean of the newest "
    "five), or a name such as step-00000400.",
    "device": "cpu, cuda (or cuda:1), or auto, a GPU if there is one.",
}
SHORT = {"output": "-o"}
OTHER_NAMES = {  # options of Hugging Face's Trainer and generate, nanoGPT and others -> our options
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


def parse(target: Callable[..., T], argv: Sequence[str] | None = None, prog: str | None = None) -> T:
    """Call a function or class with the arguments of a command line; default: sys.argv."""
    about, _, _ = (inspect.getdoc(target) or "").partition("\nArgs:\n")
    if about.startswith(f"{target.__name__}("):  # the docstring that Python generates for a dataclass
        about = ""
    parser = Parser(prog or Path(sys.argv[0]).name, about)
    parser.add(target)
    given = parser.read(sys.argv[1:] if argv is None else argv)
    values = {name: given[name] for name, *_ in _parameters(target) if name in given}
    parts = {n: default for n, _, default, _ in _parameters(target) if is_dataclass(default)}
    return target(**values, **{name: with_values(part, given) for name, part in parts.items()})


def with_values(part: T, given: Mapping[str, Any]) -> T:
    """Return a copy of a dataclass instance with the values that belong to its fields."""
    names = [field.name for field in fields(part)]  # type: ignore[arg-type]
    return replace(part, **{name: given[name] for name in names if name in given})  # type: ignore[type-var]


class Parser(ArgumentParser):
    """An argument parser for parameters and fields (`add`). Only arguments that are passed get a value."""

    def __init__(self, prog: str, about: str = "", has_help: bool = True) -> None:
        width = shutil.get_terminal_size((80, 24)).columns
        super().__init__(
            prog=prog,
            usage=f"{prog} [options]",
            description="\n\n".join(textwrap.fill(text, width) for text in about.split("\n\n")),
            formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, max_help_position=28, width=width),
            argument_default=SUPPRESS,
            allow_abbrev=False,
            add_help=False,
        )
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf|nan)")  # argparse would read -1e-3 as a flag
        self.flags = ["--help"]
        if has_help:
            self.add_argument("-h", "--help", action="help", help=SUPPRESS)

    def add(self, target: Any, heading: str | None = None) -> None:
        """Add arguments for the parameters of a function, or the fields of a dataclass or its instance."""
        group = self.add_argument_group(heading)
        texts = HELP | _help_of(target)
        for name, kind, default, is_positional in _parameters(target):
            if is_dataclass(default):
                self.add(default, default.__doc__)
                continue
            settings = _settings(kind, default, isinstance(target, Config))
            is_shown = default is not False and default not in (None, "", (), MISSING)
            value = " ".join(map(str, default)) if isinstance(default, tuple) else default
            text = texts.get(name, "") + (f" (default: {value})" if is_shown else "")
            settings["help"] = text.strip().replace("%", "%%")
            if is_positional:
                nargs = settings.setdefault("nargs", None if default is MISSING else "?")
                title = {None: name.upper(), "?": f"[{name.upper()}]"}.get(nargs, f"{name.upper()}...")
                self.usage = str(self.usage).replace("[options]", f"{title} [options]")
                # without a word, argparse would convert the text SUPPRESS
                group.add_argument(name, **settings | {"metavar": name.upper(), "default": MISSING})
                continue
            flag = f"--{name.replace('_', '-')}"
            if flag in self.flags:
                raise UserError(f"there are two options {flag}.\nRename the field {name} of your own class.")
            group.add_argument(*filter(None, [SHORT.get(name), flag]), dest=name, **settings)
            self.flags.append(flag)

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Parse words into values by name. Raise a UserError for an unknown argument."""
        given, rest = self.read_known(words)
        if rest:
            raise UserError(self._unknown_error(rest))
        return given

    def read_known(self, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """Parse words into values by name. Return these and the words of unknown arguments."""
        end = [*words, "--"].index("--")
        words = [*map(_with_hyphens, words[:end]), *words[end:]]
        given, rest = self.parse_known_intermixed_args(words)
        values = {name: value for name, value in vars(given).items() if value is not MISSING}
        return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}, rest

    def error(self, message: str) -> NoReturn:
        message = one_line(message.removeprefix("argument "))
        message = message.replace(
            "expected one argument", "expected a value (--flag=VALUE if it begins with -)"
        )
        message = message.replace("ignored explicit argument", "takes no value, got")
        raise UserError(f"{message}.\n`{self.prog} --help` shows what it takes.")

    def _unknown_error(self, words: Sequence[str]) -> str:
        """The message for words that are neither options of the command nor their values."""
        word = next((word for word in words if word.startswith("-")), words[0])
        name = word.partition("=")[0]
        if not name.startswith("-"):
            return f"unexpected argument {truncated_repr(word)}.\n`{self.prog} --help` shows what it takes."
        others = {f"--{other}" for other in OTHER_NAMES.get(name[2:], "").split()}
        longer = [flag for flag in self.flags if name[2:] in flag][:3] if len(name) > 5 else []
        close = did_you_mean(name, self.flags)
        if found := [flag for flag in self.flags if flag in others] or (longer if not close else []):
            close = f" Did you mean {' or '.join(found)}?"
        return f"there is no option {truncated_repr(name)}.{close}\n`{self.prog} --help` lists them."


def _with_hyphens(word: str) -> str:
    """Replace underscores in a flag's name with hyphens: `--d_model=8` becomes `--d-model=8`."""
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value if word.startswith("--") else word


def _parameters(target: Any) -> Iterator[tuple[str, Any, Any, bool]]:
    """Yield the name, annotation and default of each argument, and whether it is positional."""
    if is_dataclass(target):
        hints = get_type_hints(target if isinstance(target, type) else type(target))
        for field in fields(target):
            default = field.default if isinstance(target, type) else getattr(target, field.name)
            yield field.name, hints[field.name], default, field.metadata.get("positional", False)
        return
    hints = get_type_hints(target)
    for name, parameter in inspect.signature(target).parameters.items():
        default = MISSING if parameter.default is parameter.empty else parameter.default
        yield name, hints[name], default, parameter.kind is not parameter.KEYWORD_ONLY


def _settings(kind: Any, default: Any, has_opposite: bool) -> dict[str, Any]:
    """The keyword arguments of `add_argument` for an annotation: bool, Literal, tuple or another type.

    A union with None is optional. If `has_opposite` is True, a bool that is False by default gets a --no-...
    flag.
    """
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    kinds = [part for part in parts if part is not NoneType]
    is_optional = len(kinds) < len(parts)
    kind = kinds[0]
    if kind is bool:
        return {"action": BooleanOptionalAction if default is not False or has_opposite else "store_true"}
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        convert = _converter([type(choices[0])], is_optional)
        return {"choices": [*choices, *([None] if is_optional else [])], "type": convert}
    if get_origin(kind) is tuple:
        each, *others = get_args(kind)
        nargs = ("+" if default is MISSING else "*") if others == [...] else 1 + len(others)
        return {**_settings(each, default, False), "nargs": nargs}
    return {"type": _converter(kinds, is_optional), "metavar": kind.__name__.upper()}


def _converter(kinds: Sequence[Any], is_optional: bool) -> Callable[[str], Any]:
    def convert(word: str) -> Any:
        if is_optional and word == "None":
            return None
        for kind in kinds:
            with suppress(ValueError):
                return word if kind is Any else kind(word)
        expected = "an integer" if kinds[-1] is int else "a number"
        raise ArgumentTypeError(f"expected {expected}, got {truncated_repr(word)}")

    return convert


# a dataclass field, with a comment before or behind it, or a string below it
FIELD = re.compile(
    r"^    (?:# (?P<before>.*)\n    )?(?P<name>\w+): "
    r'(?:[^#\n]*(?:\(\n[^#\n]*)?# (?P<behind>.*)|.*\n    """(?P<below>(?:.|\n)*?)"""|)',
    re.MULTILINE,
)
ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def _help_of(target: Any) -> dict[str, str]:
    """The help texts of arguments, from the "Args" section of a docstring or the source of a dataclass."""
    if not is_dataclass(target):
        found = dict(ARGUMENT.findall((inspect.getdoc(target) or "").partition("\nArgs:\n")[2]))
        return {name: " ".join(text.split()) for name, text in found.items()}
    texts = {}
    for cls in reversed((target if isinstance(target, type) else type(target)).__mro__):
        with suppress(OSError, TypeError):  # a class may have no source code
            for field in FIELD.finditer(inspect.getsource(cls)):
                text = field["behind"] or field["below"] or field["before"] or ""
                texts[field["name"]] = " ".join(text.split())
    return texts
