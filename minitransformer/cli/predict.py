"""`minitransformer predict RUN TEXT...`: predict labels, answers and missing words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import UserError, check_integer, counted
from ..files import printable, to_json
from ..runs.run import Run
from ..tasks.predictions import Prediction
from . import lines
from .lines import numbered_lines, numbered_texts
from .parsing import parse
from .wording import unsupported_error


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
        """Label, answer or complete each argument or, without arguments, each line of standard input.

        Prints what the task predicts, with probabilities: a label, a tag for each word, words for each
        [MASK], a text with its gaps filled, an answer, a similarity or an image's class. Pass a question and
        its context, or two texts to compare, as two arguments, or on one line with a tab between them.

        Args:
            text: The texts, each in quotes; or images: .png, .jpg or .npy files, or test:3 for image 3 of the
                test data.
            top: The number of labels or words to show, most likely first.
            words: For a tagger: split texts at spaces only, not at punctuation.
            json: Print a JSON object for each input.
        """
        check_integer("top", top, 1)
        trained = Run(run, checkpoint, device)
        if not hasattr(trained.task, "read"):
            raise unsupported_error(trained, "predict labels or answers")
        check_words(trained, words)
        split = (lambda line: [line.split()]) if words else (lambda line: line.split("\t"))
        inputs = list(map(split, text)) if words else inputs_of(trained, text)
        for block in numbered_texts(inputs) if text else numbered_lines("predict", split):
            found = lines.predict(trained, block, "read", top=top)
            shown = [format_prediction(*each, json) for each in zip(block.values(), found, strict=True)]
            if text and len(shown) == 1:
                shown = [shown[0].removesuffix("\n")]
            print(*shown, sep="\n", flush=True)

    parse(predict, argv, "minitransformer predict")


def check_words(run: Run, words: bool) -> None:
    """Raise a UserError if --words is passed for a run that does not tag words."""
    if words and not run.task.reads_words:
        raise UserError(f"--words has no effect: {run.folder} does not tag words.\nLeave it out.")


def inputs_of(run: Run, arguments: Sequence[str]) -> list[list[str]]:
    """Return the inputs in the arguments, split at tabs, or grouped by the number of texts in an input."""
    names = run.task.inputs
    if any("\t" in argument for argument in arguments):
        return [argument.split("\t") for argument in arguments]
    if len(arguments) % len(names):
        raise UserError(
            f"{run.folder} reads {' and '.join(names)}, got {counted(len(arguments), 'text')}.\n"
            f"Pass both, each in quotes."
        )
    return [list(arguments[i : i + len(names)]) for i in range(0, len(arguments), len(names))]


def format_prediction(texts: Sequence[Any], predictions: Sequence[Prediction], json: bool) -> str:
    """Format the prediction of an input; without one, an empty line or, as JSON, null."""
    if not predictions:
        return "null" if json else ""
    (found,) = predictions
    if json:
        return to_json({"input": texts[0] if len(texts) == 1 else list(texts), **found.values})
    return printable(found.text)
