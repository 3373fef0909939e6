"""`minitransformer generate RUN --prompt TEXT`: a language model continues a text."""

from __future__ import annotations

import math
from typing import Annotated

import tyro
from tyro.conf import arg

from minigrad import random

from ..errors import UserError
from ..generation import generate
from ..recipes import LanguageRecipe
from ..training.run import Run
from .arguments import Checkpoint, Device, Flag, RunFolder


def run(argv: list[str]) -> None:
    def generate(
        run: RunFolder,
        prompt: Annotated[str, arg(help_behavior_hint="(default: a new line)")] = "\n",
        max_new_tokens: int = 500,
        temperature: float = 0.8,
        top_k: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None,
        greedy: Flag = False,
        seed: int = 0,
        checkpoint: Checkpoint = "best",
        device: Device = "cpu",
    ) -> None:
        """Continue a text.

        Args:
            prompt: The text to continue.
            max_new_tokens: How many tokens to add.
            temperature: Below 1 the likely tokens become likelier, above 1 less so.
            top_k: Draw from this many of the likeliest tokens only.
            greedy: Take the likeliest token always.
            seed: The same seed gives the same text.
        """
        drawn = None if greedy else temperature
        print(prompt + continuation(Run(run, checkpoint, device), prompt, max_new_tokens, drawn, top_k, seed))

    tyro.cli(generate, args=argv, prog="minitransformer generate")


def continuation(
    run: Run, prompt: str, max_new_tokens: int, temperature: float | None, top_k: int | None, seed: int
) -> str:
    """What the run's model adds to `prompt`: sampled, or greedy where `temperature` is None."""
    if not isinstance(run.recipe, LanguageRecipe):
        raise UserError(
            f"{run.folder} translates, it does not continue a text.\n"
            f"Use `minitransformer translate {run.folder} TEXT`."
        )
    for name, value in (("max_new_tokens", max_new_tokens), ("top_k", top_k)):
        if value is not None and value < 1:
            raise UserError(f"{name} = {value} is out of range.\nChoose a value from 1 on.")
    if temperature is not None and not 0 < temperature < math.inf:
        raise UserError(
            f"temperature = {temperature} is out of range.\nChoose a value above 0, or pass --greedy."
        )
    ids = run.tokenizer.encode(prompt)
    if not ids:
        raise UserError(f"the prompt {prompt!r} has no token in it.\nGive at least one.")
    random.manual_seed(seed)
    sampled = temperature is not None
    (new,) = generate(run.model, [ids], max_new_tokens, None, sampled, temperature or 1.0, top_k)
    return run.tokenizer.decode(new)
