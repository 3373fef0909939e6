"""`minitransformer translate RUN TEXT...`: translate sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import one_line
from ..runs.run import Run
from ..tasks.inputs import warn_of_unknown
from .decoding import Decoding
from .lines import decode_line, read_lines, warn
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
        """Translate sentences: each argument, or without arguments each line of standard input.

        Decoding is greedy, unless you pass --do-sample or --num-beams. (`generate` samples, unless you pass
        --greedy.) With --num-return-sequences N, each sentence gets N lines.

        Args:
            text: The sentences, each in quotes.
            do_sample: Sample tokens instead of taking the most likely one.
        """
        options = decoding.options(do_sample)
        trained = Run(run, checkpoint, device)
        if not hasattr(trained.task, "translate"):
            raise unsupported_error(trained, "translate")
        if text:
            print(*map(one_line, translate_arguments(trained, text, **options)), sep="\n")
            return
        for lines in translate_lines(trained, read_lines("translate"), **options):
            print(*map(one_line, lines), sep="\n", flush=True)

    parse(translate, argv, "minitransformer translate")


def translate_arguments(run: Run, texts: Sequence[str], **decoding: Any) -> list[str]:
    """The translations of the texts; if some cannot be translated, these are empty, with a warning."""
    sentences = {}
    errors = {}
    for i, text in enumerate(texts):
        try:
            run.task.source_ids(run, text)
            sentences[i] = text
        except UserError as error:
            errors[i] = error
    if not sentences:
        raise errors[0]
    for i, problem in errors.items():
        warn(f"text {i + 1}", "translated", problem)
    return translate_some(run, sentences, len(texts), **decoding)


def translate_some(run: Run, sentences: Mapping[int, str], length: int, **decoding: Any) -> list[str]:
    """Translate sentences, given by position; other positions below `length` get empty translations."""
    count = decoding.get("num_return_sequences", 1)
    warn_of_unknown(run, sentences.values())
    texts = iter(run.task.translate(run, list(sentences.values()), **decoding))
    results = {i: list(islice(texts, count)) for i in sentences}
    return [text for i in range(length) for text in results.get(i, [""] * count)]


def translate_lines(run: Run, blocks: Iterable[list[bytes]], **decoding: Any) -> Iterator[list[str]]:
    """The translations of the lines of each block. A line that has none gets a warning and an empty line."""
    number = 0
    for lines in blocks:
        sentences = {}
        for i, line in enumerate(lines):
            number += 1
            try:
                sentence = decode_line(line, is_first=number == 1)
                if sentence.strip():
                    run.task.source_ids(run, sentence)
                    sentences[i] = sentence
            except UserError as error:
                warn(f"line {number}", "translated", error)
        yield translate_some(run, sentences, len(lines), **decoding)
