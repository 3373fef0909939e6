"""`minitransformer translate RUN TEXT...`: translate sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

from tyro.conf import Positional, arg

from ..errors import UserError
from ..files import printable
from ..tasks.inputs import warn_of_unknown
from ..training.run import Run
from .arguments import Checkpoint, Device, Flag, RunFolder
from .decoding import Decoding
from .lines import decode_line, one_line, read_lines
from .parsing import run_command


def run(argv: list[str]) -> None:
    def translate(
        run: RunFolder,
        text: Annotated[tuple[str, ...], Positional, arg(metavar="TEXT...", help_behavior_hint="")] = (),
        do_sample: Flag = False,
        decoding: Annotated[Decoding, arg(name="")] = Decoding(),  # noqa: B008 (frozen)
        checkpoint: Checkpoint = "best",
        device: Device = "cpu",
    ) -> None:
        """Translate sentences: each argument, or without arguments each line of standard input.

        Each token is the most likely one (greedy), unless you pass --do-sample or --num-beams; `generate`
        draws its tokens, unless you pass --greedy. With --num-return-sequences N, a sentence gets N lines.

        Args:
            text: The sentences, each in quotes.
            do_sample: Draw tokens (sampling) instead of taking the most likely one.
        """
        options = decoding.options(do_sample)
        trained = Run(run, checkpoint, device)
        trained.task.translate(trained, [])  # or an error: it does not
        if text:
            warn_of_unknown(trained, text)
            print(*map(one_line, trained.task.translate(trained, text, **options)), sep="\n")
            return
        for lines in translate_lines(trained, read_lines("translate"), **options):
            print(*map(one_line, lines), sep="\n", flush=True)

    run_command(translate, argv, "minitransformer translate")


def translate_lines(run: Run, blocks: Iterable[list[bytes]], **decoding: Any) -> Iterator[list[str]]:
    """The translations of the lines of each block; empty ones, and a warning, if a line has none."""
    number, count = 0, decoding.get("num_return_sequences", 1)
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
                reason = str(error).partition("\n")[0]
                print(printable(f"warning: line {number} is not translated: {reason}"), file=sys.stderr)
        warn_of_unknown(run, sentences.values())
        texts = iter(run.task.translate(run, list(sentences.values()), **decoding))
        results = {i: list(islice(texts, count)) for i in sentences}
        yield [text for i in range(len(lines)) for text in results.get(i, [""] * count)]
