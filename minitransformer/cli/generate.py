"""`minitransformer generate RUN --prompt TEXT`: a language model continues a text."""

from __future__ import annotations

import math
from typing import Annotated

import tyro
from tyro.conf import arg

from minigrad import random

from ..errors import UserError, check_integer
from ..files import printable
from ..training.run import Run
from .arguments import Checkpoint, Device, Flag, RunFolder

MAX_NEW_TOKENS = 1_000_000


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
            max_new_tokens: The number of tokens to generate.
            temperature: Below 1, likely tokens become more likely; above 1, less likely.
            top_k: Sample from this many of the most likely tokens only.
            greedy: Always take the most likely token.
            seed: The same seed gives the same text.
        """
        trained, sampling = Run(run, checkpoint, device), None if greedy else temperature
        text = continuation(trained, prompt, max_new_tokens, sampling, top_k, seed)
        print(printable(prompt + text))

    tyro.cli(generate, args=argv, prog="minitransformer generate")


def continuation(
    run: Run, prompt: str, max_new_tokens: int, temperature: float | None, top_k: int | None, seed: int
) -> str:
    """The run's continuation of `prompt`: sampled, or greedy if `temperature` is None."""
    check_integer("max_new_tokens", max_new_tokens, 1, MAX_NEW_TOKENS + 1)
    if top_k is not None:
        check_integer("top_k", top_k, 1)
    if temperature is not None and not 0 < temperature < math.inf:
        raise UserError(
            f"temperature = {temperature} is out of range.\nChoose a value above 0, or pass --greedy."
        )
    random.manual_seed(seed)
    sampling = {"do_sample": temperature is not None, "temperature": temperature or 1.0, "top_k": top_k}
    return run.task.generate(run, prompt, max_new_tokens, **sampling)
