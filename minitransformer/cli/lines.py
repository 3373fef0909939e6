"""Texts from the command line or standard input, for `translate`, `chat`, `predict` and `embed`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..errors import UserError
from ..files import one_line
from ..runs.run import Run
from ..tasks.inputs import warn_of_unknown
from ..tasks.predictions import Prediction

BLOCK = 1 << 14  # bytes to read at a time


def warn_line(message: str) -> None:
    """Print a warning on one line."""
    print(one_line(f"warning: {message}"), file=sys.stderr)


def read_lines(what: str) -> Iterator[list[bytes]]:
    """Yield lines of standard input as they arrive, without line ends. Raise a UserError if it is empty."""
    if sys.stdin.isatty():
        print(f"type texts to {what}, one per line; end with Ctrl-D", file=sys.stderr)
    stream: Any = sys.stdin.buffer
    block = stream.read1(BLOCK)
    if not block:
        raise UserError(f"there is nothing to {what}.\nPass a text in quotes, or lines on standard input.")
    parts: list[bytes] = []  # the parts of a line that is not complete yet
    while block:
        first, *others = block.split(b"\n")
        parts.append(first)
        if others:
            yield [b"".join(parts), *others[:-1]]
            parts = others[-1:]
        block = stream.read1(BLOCK)
    if rest := b"".join(parts):
        yield [rest]


def decode_line(line: bytes, is_first: bool = False) -> str:
    """Decode a line of UTF-8. The first line may begin with a byte-order mark."""
    try:
        return line.decode("utf-8-sig" if is_first else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"it is not UTF-8 (byte {error.start}).\nConvert it to UTF-8.") from None


Inputs = Mapping[str, Any]  # name, such as "line 3" -> input, UserError if invalid, None for an empty line


def numbered_lines(what: str, split: Callable[[str], Any]) -> Iterator[Inputs]:
    """Yield blocks of inputs, which `split` makes from the lines of standard input."""
    number = 0
    for lines in read_lines(what):
        inputs: dict[str, Any] = {}
        for line in lines:
            number += 1
            try:
                text = decode_line(line, is_first=number == 1)
                inputs[f"line {number}"] = split(text) if text.strip() else None
            except UserError as error:
                inputs[f"line {number}"] = error
        yield inputs


def numbered_texts(inputs: Iterable[Any]) -> Iterator[Inputs]:
    """Yield a single block with the inputs in a command's arguments."""
    yield {f"text {number}": each for number, each in enumerate(inputs, 1)}


def predict(run: Run, inputs: Inputs, done: str, **options: Any) -> list[list[Prediction]]:
    """Return a list of predictions for each input (a list of texts): one, or `num_return_sequences`.

    The list is empty for an empty line, and for an input that cannot be read. The latter prints a warning
    such as "line 3 is not translated", where `done` is "translated". If no argument of a command can be
    read, the error of the first one is raised.
    """
    examples = {}
    errors = {}
    for name, texts in inputs.items():
        try:
            if isinstance(texts, UserError):
                raise texts
            if texts is not None:
                examples[name] = run.task.read_input(run, texts)
        except UserError as error:
            errors[name] = error
    if errors and not examples and "text 1" in errors:
        raise errors["text 1"]
    for name, problem in errors.items():
        reason = str(problem).partition("\n")[0]
        warn_line(f"{name} is not {done}: {reason}")
    if not examples:
        return [[]] * len(inputs)
    if run.tokenizer is not None:
        warn_of_unknown(run, [text for example in examples.values() for text in run.task.texts(example)])
    found = run.task.predict(run, list(examples.values()), **options)
    count = len(found) // len(examples)
    of_input = {name: found[i * count : (i + 1) * count] for i, name in enumerate(examples)}
    return [of_input.get(name, []) for name in inputs]
