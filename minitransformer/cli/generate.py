"""`minitransformer generate RUN --prompt TEXT`: a language model goes on with a text."""

from __future__ import annotations

from pathlib import Path

import tyro

from minigrad import random

from ..errors import UserError
from ..generation import generate
from ..recipes import LanguageRecipe
from ..training.run import Run


def run(argv: list[str]) -> None:
    def generate(
        run: tyro.conf.Positional[Path],
        prompt: str = "\n",
        max_new_tokens: int = 500,
        temperature: float = 0.8,
        top_k: int | None = None,
        greedy: bool = False,
        seed: int = 0,
        checkpoint: str = "best",
    ) -> None:
        """Continue a text.

        Args:
            run: The run folder.
            prompt: The text to continue.
            max_new_tokens: How many tokens to add.
            temperature: Below 1 the likely tokens become likelier, above 1 less so.
            top_k: Draw from this many of the likeliest tokens only.
            greedy: Take the likeliest token always.
            seed: The same seed gives the same text.
            checkpoint: Which one to use, best or last.
        """
        opened = Run(run, checkpoint)
        print(
            prompt
            + continuation(opened, prompt, max_new_tokens, None if greedy else temperature, top_k, seed)
        )

    tyro.cli(generate, args=argv, prog="minitransformer generate")


def continuation(
    run: Run, prompt: str, max_new_tokens: int, temperature: float | None, top_k: int | None, seed: int
) -> str:
    """What the run's model adds to `prompt`: sampled, or greedy where `temperature` is None."""
    if not isinstance(run.recipe, LanguageRecipe):
        raise UserError(
            f"{run.folder} translates, it does not continue a text.\nUse `minitransformer translate {run.folder} TEXT`."
        )
    if not prompt:
        raise UserError("the prompt is empty.\nGive at least one character.")
    if top_k is not None and top_k < 1:
        raise UserError(f"top_k is at least 1, got {top_k}.\nLeave it out to draw from all tokens.")
    random.manual_seed(seed)
    sampled = temperature is not None
    (ids,) = generate(
        run.model,
        [run.tokenizer.encode(prompt)],
        max_new_tokens,
        None,
        sampled,
        temperature if sampled else 1.0,
        top_k,
    )
    return run.tokenizer.decode(ids)
