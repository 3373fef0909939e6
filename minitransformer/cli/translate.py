"""`minitransformer translate RUN TEXT...`: sentences through a trained run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import tyro

from ..errors import UserError
from ..generation import generate
from ..recipes import TranslationRecipe
from ..training.run import Run


def run(argv: list[str]) -> None:
    def translate(
        run: tyro.conf.Positional[Path],
        text: tyro.conf.Positional[tuple[str, ...]] = (),
        checkpoint: str = "best",
    ) -> None:
        """Translate sentences, one an argument (or one a line of standard input, if there is none).

        Args:
            run: The run folder.
            text: The sentences; put each in quotes.
            checkpoint: Which one to use, best or last.
        """
        sentences = list(text) or [line.rstrip("\n") for line in sys.stdin]
        opened = Run(run, checkpoint)
        for translation in translations(opened, sentences):
            print(translation)

    tyro.cli(translate, args=argv, prog="minitransformer translate")


def translations(run: Run, sentences: Sequence[str], batch_size: int = 64) -> list[str]:
    """The greedy translations of `sentences`; unknown words are named in a warning."""
    if not isinstance(run.recipe, TranslationRecipe):
        raise UserError(
            f"{run.folder} is a language model, which does not translate.\nUse `minitransformer generate {run.folder}`."
        )
    limit, tokenizer = run.recipe.data.max_length, run.tokenizer
    if not sentences:
        raise UserError(
            'there is nothing to translate.\nGive a sentence in quotes: minitransformer translate RUN "I love you".'
        )
    sources = []
    for sentence in sentences:
        ids = tokenizer.encode(sentence)
        if not ids:
            raise UserError("an empty sentence has no translation.\nGive at least one word.")
        if len(ids) >= limit:
            raise UserError(
                f"a sentence of {len(ids)} tokens, and this run takes at most {limit - 1}: {sentence[:60]}...\nCut it in two."
            )
        unknown = tokenizer.unknown_words(sentence)
        if unknown:
            print(f"warning: not in the vocabulary, read as <UNK>: {', '.join(unknown)}", file=sys.stderr)
        sources.append([*ids, tokenizer.end_id])
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # alike lengths together
    results = [""] * len(sources)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        for i, ids in zip(rows, generate(run.model, [sources[i] for i in rows], limit), strict=True):
            results[i] = tokenizer.decode(ids)
    return results
