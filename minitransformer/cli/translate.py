"""`minitransformer translate RUN TEXT...`: translate sentences."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import Positional, arg

from ..errors import UserError
from ..files import printable
from ..generation import generate
from ..recipes import TranslationRecipe
from ..training.run import Run
from .arguments import Checkpoint, Device, RunFolder

MAX_LINE = 1 << 20  # bytes of a line of standard input


def run(argv: list[str]) -> None:
    def translate(
        run: RunFolder,
        text: Annotated[tuple[str, ...], Positional, arg(metavar="TEXT...", help_behavior_hint="")] = (),
        checkpoint: Checkpoint = "best",
        device: Device = "cpu",
    ) -> None:
        """Translate sentences: each argument, or without arguments each line of standard input.

        Args:
            text: The sentences, each in quotes.
        """
        trained = Run(run, checkpoint, device)
        check_translates(trained)
        if text:
            warn_of_unknown(trained, text)
            print(*map(one_line, translations(trained, text)), sep="\n")
            return
        for lines in translate_lines(trained, read_lines()):
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


def translate_lines(run: Run, blocks: Iterable[list[bytes]]) -> Iterator[list[str]]:
    """The translations of the lines of each block; an empty one, and a warning, if a line has none."""
    number = 0
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
        results = dict(zip(sentences, translations(run, list(sentences.values())), strict=True))
        yield [results.get(i, "") for i in range(len(lines))]


def decode_line(line: bytes, is_first: bool = False) -> str:
    """The text of a line; the first one may begin with a byte-order mark."""
    if len(line) > MAX_LINE:
        raise UserError(f"it is longer than {MAX_LINE:,} bytes.\nSplit it.")
    try:
        return line.decode("utf-8-sig" if is_first else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"it is not UTF-8 (byte {error.start}).\nConvert it to UTF-8.") from None


def warn_of_unknown(run: Run, texts: Iterable[str], most: int = 20) -> None:
    """Warn of words that are not in the vocabulary, and name the first of them."""
    unknown = list(dict.fromkeys(word for text in texts for word in run.tokenizer.unknown_words(text)))
    if unknown:
        others = f", and {len(unknown) - most:,} others" if len(unknown) > most else ""
        named = printable(", ".join(unknown[:most]))
        print(f"warning: not in the vocabulary, read as <UNK>: {named}{others}", file=sys.stderr)


def check_translates(run: Run) -> None:
    """Raise a UserError for a run that does not translate."""
    if not isinstance(run.recipe, TranslationRecipe):
        raise UserError(
            f"{run.folder} is a language model, which does not translate.\n"
            f"Use `minitransformer generate {run.folder}`."
        )


def translations(run: Run, sentences: Sequence[str], batch_size: int = 64) -> list[str]:
    """The greedy translations of `sentences`."""
    check_translates(run)
    sources = [_source(run, sentence) for sentence in sentences]
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # similar lengths share a batch
    results = [""] * len(sources)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        limits = [_target_limit(run, sources[i]) for i in rows]
        targets = generate(run.model, [sources[i] for i in rows], max(limits))
        for i, ids, limit in zip(rows, targets, limits, strict=True):
            results[i] = run.tokenizer.decode(ids[:limit])
    return results


def _target_limit(run: Run, source: Sequence[int]) -> int:
    """The most tokens of a translation: a model that has learned little may never end it."""
    return min(run.recipe.data.max_length, 10 * len(source) + 100)  # type: ignore[union-attr]


def _source(run: Run, sentence: str) -> list[int]:
    """The ids of a sentence, with <END>."""
    return [*sentence_ids(run, sentence), run.tokenizer.end_id]  # type: ignore[list-item]


def sentence_ids(run: Run, sentence: str) -> list[int]:
    """The ids of a sentence; a UserError if it is empty or too long for the run."""
    ids = run.tokenizer.encode(sentence.strip())  # as the sides of training pairs
    limit = run.recipe.data.max_length  # type: ignore[union-attr]
    if not ids:
        raise UserError("an empty sentence has no translation.\nPass at least one word.")
    if len(ids) >= limit:
        raise UserError(
            f"a sentence of {len(ids)} tokens, but this run takes at most {limit - 1}: {sentence[:60]!r}.\n"
            f"Split the sentence."
        )
    return ids
