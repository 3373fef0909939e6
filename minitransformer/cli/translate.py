"""`minitransformer translate RUN TEXT...`: translate sentences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

from ..errors import UserError
from ..generation import generate
from ..recipes import TranslationRecipe
from ..training.run import Run
from .arguments import Checkpoint, Device, RunFolder


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
        sentences = list(text) or read_lines()
        if not sentences:
            raise UserError(f'there is nothing to translate.\nPass a sentence: translate {run} "I love you".')
        warn_of_unknown(trained, sentences)
        for translation in translations(trained, sentences):
            print(translation)

    tyro.cli(translate, args=argv, prog="minitransformer translate")


def read_lines() -> list[str]:
    """The lines of standard input."""
    try:
        return sys.stdin.read().splitlines()
    except UnicodeDecodeError:
        raise UserError("standard input is not UTF-8.\nConvert it to UTF-8.") from None


def warn_of_unknown(run: Run, texts: Sequence[str]) -> None:
    """Warn of words that are not in the vocabulary."""
    unknown = dict.fromkeys(word for text in texts for word in run.tokenizer.unknown_words(text))
    if unknown:
        print(f"warning: not in the vocabulary, read as <UNK>: {', '.join(unknown)}", file=sys.stderr)


def translations(run: Run, sentences: Sequence[str], batch_size: int = 64) -> list[str]:
    """The greedy translations of `sentences`."""
    if not isinstance(run.recipe, TranslationRecipe):
        raise UserError(
            f"{run.folder} is a language model, which does not translate.\n"
            f"Use `minitransformer generate {run.folder}`."
        )
    sources = [_source(run, sentence) for sentence in sentences]
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # similar lengths share a batch
    results = [""] * len(sources)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        targets = generate(run.model, [sources[i] for i in rows], run.recipe.data.max_length)
        for i, ids in zip(rows, targets, strict=True):
            results[i] = run.tokenizer.decode(ids)
    return results


def _source(run: Run, sentence: str) -> list[int]:
    """The ids of a sentence, with <END>."""
    return [*sentence_ids(run, sentence), run.tokenizer.end_id]  # type: ignore[list-item]


def sentence_ids(run: Run, sentence: str) -> list[int]:
    """The ids of a sentence; a UserError if it is empty or too long for the run."""
    ids, limit = run.tokenizer.encode(sentence), run.recipe.data.max_length  # type: ignore[union-attr]
    if not ids:
        raise UserError("an empty sentence has no translation.\nPass at least one word.")
    if len(ids) >= limit:
        raise UserError(
            f"a sentence of {len(ids)} tokens, but this run takes at most {limit - 1}: {sentence[:60]!r}.\n"
            f"Split the sentence."
        )
    return ids
