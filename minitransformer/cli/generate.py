"""`minitransformer generate RUN --prompt TEXT`: continue a text with a language model."""

from __future__ import annotations

import math
from pathlib import Path

from ..errors import UserError, check_integer
from ..files import printable
from ..runs.run import Run
from .decoding import Decoding
from .parsing import parse
from .wording import unsupported_error

MAX_NEW_TOKENS = 1_000_000
TEMPERATURE = 0.8


def run(argv: list[str]) -> None:
    def generate(
        run: Path,
        *,
        prompt: str | None = None,
        max_new_tokens: int = 500,
        greedy: bool = False,
        decoding: Decoding = Decoding(),  # noqa: B008 (frozen)
        checkpoint: str = "best",
        device: str = "cpu",
    ) -> None:
        """Continue a text. Samples at a temperature of 0.8, unless you pass --greedy or --num-beams.

        (`translate` is greedy, unless you pass --do-sample.) The text is printed as it is generated; with
        --num-beams or --num-return-sequences, at the end.

        Args:
            prompt: The text to continue. By default, a line feed; the start of the held-out text if the
                training text has no line feeds; the start token of an imported model. It may contain special
                tokens of an imported model.
            max_new_tokens: The number of tokens to generate.
            greedy: Always take the most likely token, instead of sampling.
        """
        check_integer("max_new_tokens", max_new_tokens, 1, MAX_NEW_TOKENS + 1)
        if decoding.temperature is not None and not 0 < decoding.temperature < math.inf:
            raise UserError(
                f"temperature = {decoding.temperature} is out of range.\n"
                f"Choose a value above 0, or pass --greedy."
            )
        options = decoding.options(not greedy and decoding.num_beams == 1, TEMPERATURE, "leave --greedy out")
        trained = Run(run, checkpoint, device)
        if not hasattr(trained.task, "generate"):
            raise unsupported_error(trained, "continue a text")
        prompt = trained.task.default_prompt(trained) if prompt is None else prompt
        if decoding.num_beams > 1 or decoding.num_return_sequences > 1:
            for text in trained.task.generate(trained, prompt, max_new_tokens, **options):
                print(printable(prompt + text))
            return
        pieces = trained.task.stream_text(trained, prompt, max_new_tokens, **options)
        first = next(pieces)  # may raise an error: print nothing before
        print(printable(prompt + first), end="", flush=True)
        for piece in pieces:
            print(printable(piece), end="", flush=bool(piece))
        print()

    parse(generate, argv, "minitransformer generate")
