"""`minitransformer predict RUN TEXT...`: predict labels, answers and missing words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import UserError, check_integer, counted
from ..files import printable, to_json
from ..runs.run import Run
from ..tasks.predictions import Prediction
from .lines import decode_line, read_lines, warn
from .parsing import parse
from .wording import predicts, unsupported_error

Inputs = list[list[Any]]  # each a text, or several: a question and a context; or a list of words


def run(argv: list[str]) -> None:
    def predict(
        run: Path,
        text: tuple[str, ...] = (),
        *,
        top: int = 5,
        words: bool = False,
        json: bool = False,
        checkpoint: str = "best",
        device: str = "cpu",
    ) -> None:
        """Label, answer or complete: each argument, or without arguments each line of standard input.

        Prints the label, the tag of each word, the words for each [MASK], the text with its gaps filled, the
        answer, the similarity or the class, with probabilities. Pass a question and its context, or two texts
        to compare, as two arguments, or on one line with a tab between them.

        Args:
            text: The texts, each in quotes; or images: .png, .jpg or .npy files, or test:3, of the test data.
            top: The number of labels or words to show, most likely first.
            words: For a tagger: split texts at spaces only, not at punctuation.
            json: Print a JSON object for each input.
        """
        check_integer("top", top, 1)
        trained = Run(run, checkpoint, device)
        if not predicts(trained.task):
            raise unsupported_error(trained, "predict labels or answers")
        check_words(trained, words)
        if text:
            inputs: Inputs = [[one.split()] for one in text] if words else inputs_of(trained, text)
            for line in predict_arguments(trained, inputs, top, json):
                print(line if len(inputs) > 1 else line.removesuffix("\n"))
            return
        for lines in predict_lines(trained, read_lines("predict"), top, json, words):
            print(*lines, sep="\n", flush=True)

    parse(predict, argv, "minitransformer predict")


def check_words(run: Run, words: bool) -> None:
    """Raise a UserError if --words is passed for a run that does not tag words."""
    if words and not run.task.reads_words:
        raise UserError(f"--words has no effect: {run.folder} does not tag words.\nLeave it out.")


def inputs_of(run: Run, arguments: Sequence[str]) -> Inputs:
    """The inputs in the arguments: split at tabs, or grouped by the number of texts in an input."""
    names = run.task.inputs
    if any("\t" in argument for argument in arguments):
        return [argument.split("\t") for argument in arguments]
    if len(arguments) % len(names):
        raise UserError(
            f"{run.folder} reads {' and '.join(names)}, got {counted(len(arguments), 'text')}.\n"
            f"Pass both, each in quotes."
        )
    return [list(arguments[i : i + len(names)]) for i in range(0, len(arguments), len(names))]


def format_prediction(texts: Sequence[Any], prediction: Prediction, json: bool) -> str:
    """The printed prediction of an input."""
    if json:
        return to_json({"input": texts[0] if len(texts) == 1 else list(texts), **prediction.values})
    return printable(prediction.text)


def predict_arguments(run: Run, inputs: Inputs, top: int, json: bool) -> list[str]:
    """The printed predictions of the inputs.

    An input that cannot be read gets a warning, and an empty line (JSON: null), if others can be read.
    """
    try:
        found = dict(enumerate(run.task.predictions(run, inputs, top)))
    except UserError:  # from one of the inputs
        errors: dict[int, UserError] = {}
        found = dict(predict_each(run, dict(enumerate(inputs)), top, errors))
        if not found:
            raise
        for i, error in errors.items():
            warn(f"text {i + 1}", "read", error)
    empty = "null" if json else ""
    return [
        format_prediction(texts, found[i], json) if i in found else empty for i, texts in enumerate(inputs)
    ]


def predict_lines(
    run: Run, blocks: Iterable[list[bytes]], top: int, json: bool, words: bool = False
) -> Iterator[list[str]]:
    """The printed predictions of the lines of each block.

    Empty lines, and with a warning lines that cannot be read, get an empty line (JSON: null).
    """
    number = 0
    for lines in blocks:
        inputs: dict[int, list[Any]] = {}
        shown = ["null" if json else ""] * len(lines)
        for i, line in enumerate(lines):
            try:
                text = decode_line(line, is_first=number + i == 0)
                if text.strip():
                    inputs[i] = [text.split()] if words else text.split("\t")
            except UserError as error:
                warn(f"line {number + i + 1}", "read", error)
        try:
            found = dict(zip(inputs, run.task.predictions(run, list(inputs.values()), top), strict=True))
        except UserError:  # from one of the lines
            errors: dict[int, UserError] = {}
            found = dict(predict_each(run, inputs, top, errors))
            for i, problem in errors.items():
                warn(f"line {number + i + 1}", "read", problem)
        for i, prediction in found.items():
            shown[i] = format_prediction(inputs[i], prediction, json)
        number += len(lines)
        yield shown


def predict_each(
    run: Run, inputs: dict[int, list[Any]], top: int, errors: dict[int, UserError]
) -> Iterator[tuple[int, Prediction]]:
    """Predict inputs one by one; the errors of those that cannot be read are added to `errors`."""
    for i, texts in inputs.items():
        try:
            (prediction,) = run.task.predictions(run, [texts], top)
            yield i, prediction
        except UserError as error:
            errors[i] = error
