"""`minitransformer translate RUN TEXT...`: translate sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..files import one_line
from ..runs.run import Run
from . import lines
from .decoding import Decoding
from .lines import Inputs, numbered_lines, numbered_texts
from .parsing import parse
from .wording import unsupported_error


def run(argv: list[str]) -> None:
    def translate(
        run: Path,
        text: tuple[str, ...] = (),
        *,
        do_sample: bool = False,
        decoding: Decoding = Decoding(),  # noqa: B008 (frozen)
        checkpoint: str = "best",
        device: str = "cpu",
    ) -> None:
        """Translate each argument or, without arguments, each line of standard input.

        Decoding is greedy, unless you pass --do-sample or --num-beams. (`generate` samples, unless you pass
        --greedy.) With --num-return-sequences N, N lines are printed for each sentence.

        Args:
            text: The sentences, each in quotes.
            do_sample: Sample tokens instead of taking the most likely one.
        """
        options = decoding.options(do_sample)
        trained = Run(run, checkpoint, device)
        if not hasattr(trained.task, "translate"):
            raise unsupported_error(trained, "translate")
        split = lambda line: [line]
        blocks = numbered_texts(map(split, text)) if text else numbered_lines("translate", split)
        for texts in translations(trained, blocks, **options):
            print(*map(one_line, texts), sep="\n", flush=True)

    parse(translate, argv, "minitransformer translate")


def translations(run: Run, blocks: Iterable[Inputs], **decoding: Any) -> Iterator[list[str]]:
    """Yield a list of translations for each block of inputs, with "" for inputs that are not translated."""
    empty = [""] * decoding.get("num_return_sequences", 1)
    for inputs in blocks:
        found = lines.predict(run, inputs, "translated", **decoding)
        yield [text for each in found for text in [prediction.text for prediction in each] or empty]
