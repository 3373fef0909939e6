"""`minitransformer translate RUN TEXT...`: translate sentences."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import tyro
from tyro.conf import Positional, arg

from ..errors import UserError
from ..files import printable
from ..tasks.translation import sentence_ids, warn_of_unknown
from ..training.run import Run
from .arguments import Checkpoint, Device, Flag, RunFolder
from .decoding import Decoding

MAX_LINE = 1 << 20  # bytes of a line of standard input


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

        With --num-return-sequences N, N lines are printed for each sentence.

        Args:
            text: The sentences, each in quotes.
            do_sample: Draw tokens instead of taking the most likely one.
        """
        options = decoding.options(do_sample)
        trained = Run(run, checkpoint, device)
        trained.task.translate(trained, [])  # or an error: it does not
        if text:
            warn_of_unknown(trained, text)
            print(*map(one_line, trained.task.translate(trained, text, **options)), sep="\n")
            return
        for lines in translate_lines(trained, read_lines(), **options):
            print(*map(one_line, lines), sep="\n", flush=True)

    tyro.cli(translate, args=argv, prog="minitransformer translate")


def one_line(text: str) -> str:
    """The text on one line, with control characters made visible."""
    return printable(text).replace("\n", "\\n")


def read_lines(max_lines: int = 512) -> Iterator[list[bytes]]:
    """The lines of standard input as they arrive, some at a time, without their ends; at least one.

    Of a line longer than MAX_LINE bytes only the first MAX_LINE + 1 are kept.
    """
    stream: Any = sys.stdin.buffer if sys.stdin else io.BytesIO()
    rest, empty = b"", True
    while block := stream.read1(MAX_LINE):
        lines = block.split(b"\n")
        lines[0] = (rest + lines[0])[: MAX_LINE + 1]
        rest = lines.pop()
        for start in range(0, len(lines), max_lines):
            yield lines[start : start + max_lines]
        empty = False
    if empty:
        raise UserError(
            "there is nothing to translate.\nPass a sentence in quotes, or lines on standard input."
        )
    if rest:
        yield [rest]


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
                    sentence_ids(run, sentence)
                    sentences[i] = sentence
            except UserError as error:
                reason = str(error).partition("\n")[0]
                print(printable(f"warning: line {number} is not translated: {reason}"), file=sys.stderr)
        warn_of_unknown(run, sentences.values())
        texts = iter(run.task.translate(run, list(sentences.values()), **decoding))
        results = {i: list(islice(texts, count)) for i in sentences}
        yield [text for i in range(len(lines)) for text in results.get(i, [""] * count)]


def decode_line(line: bytes, is_first: bool = False) -> str:
    """The text of a line; the first one may begin with a byte-order mark."""
    if len(line) > MAX_LINE:
        raise UserError(f"it is longer than {MAX_LINE:,} bytes.\nSplit it.")
    try:
        return line.decode("utf-8-sig" if is_first else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"it is not UTF-8 (byte {error.start}).\nConvert it to UTF-8.") from None
