"""Predictions of `minitransformer card` compared with training: memory, and the time of a step.

Each case has two processes. One makes the card; the other runs `minitransformer train` for a few steps, from
reading the data to the scores of the test split, and its peak resident memory counts.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from minitransformer.cli import card, main, train
from minitransformer.data.splits import Sources
from minitransformer.recipes import load_recipe
from minitransformer.training.trainer import Trainer

from .children import in_child
from .measuring import CLOCKS
from .peaks import highest
from .tables import Table

MB = 1e6
STEPS = 10
CASES = (
    "reverse",
    "phrasebook",
    "phrasebook --max-tokens 16384",
    "phrasebook --d-model 512 --d-ff 2048 --num-encoder-layers 6 --num-decoder-layers 6 --steps 5",
    "multi30k-en-de",
    "seq2seq-attention",
    "shakespeare-char-cpu",
    "shakespeare-char-cpu --batch-size 128",
    "shakespeare-char-cpu --batch-size 128 --micro-batches 4",
    "llama-char",
    "lstm-char",
    "bert-mlm",
    "bert-mlm --hidden-size 384 --num-hidden-layers 6 --intermediate-size 1536",
    "t5-denoise",
    "digits-vit",
    "digits-vit --batch-size 1024",
)
PUBLIC = {"multi30k": "multi30k", "tinyshakespeare": "tinyshakespeare"}  # data sets and their folders


class NotTrainedError(RuntimeError):
    """Raised when training failed."""


def predict(words: list[str], clock: str) -> tuple[float, float]:
    """The memory in bytes and the seconds of a step that the card states."""
    recipe, options = card.read_command(words)
    found = card.card_of(recipe, Sources(options.data, data_dir=options.data_dir), CLOCKS[clock])
    return found.memory, found.seconds_per_step


def train_recipe(words: list[str], clock: str) -> tuple[float, float]:
    """The peak memory in bytes of `minitransformer train`, and the median seconds of its steps."""
    seconds: list[float] = []

    class Timed(Trainer):
        def train_step(self) -> dict[str, float]:
            start = CLOCKS[clock]()
            record = super().train_step()
            seconds.append(CLOCKS[clock]() - start)
            return record

    train.Trainer = Timed  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as messages:
        with contextlib.redirect_stdout(io.StringIO()):
            code = main(["train", *words, "--run-dir", str(Path(folder) / "run")])
        if code:
            raise NotTrainedError(messages.getvalue())
    return highest(), statistics.median(seconds[1:])  # the first one loads and compiles


def command(case: str, data_dir: Path | None) -> list[str]:
    """The words of a case, with the folder of its data."""
    words = case.split()
    public = PUBLIC.get(getattr(load_recipe(words[0]).data, "dataset", ""))
    return [*words, "--data-dir", str(data_dir / public)] if data_dir and public else words


def cards(
    cases: Sequence[str], data_dir: Path | None = None, clock: str = "wall", kernels: str | None = None
) -> Table:
    """Predicted and measured memory and time of each case."""
    table = Table(
        f"memory of `train` and time of a step: as `card` predicts them, and measured ({clock} time)"
    )
    for case in cases:
        words = command(case, data_dir)
        memory, seconds = in_child("cards", "predict", words, clock, kernels=kernels)
        steps = [] if "--steps" in words else ["--steps", str(STEPS)]
        peak, taken = in_child("cards", "train_recipe", [*words, *steps], clock, kernels=kernels)
        table.rows[case] = {
            "card, MB": memory / MB,
            "measured, MB": peak / MB,
            "difference (limit 20%)": f"{memory / peak - 1:+.0%}",
            "card, ms a step": seconds * 1e3,
            "measured, ms a step": taken * 1e3,
            "difference": f"{seconds / taken - 1:+.0%}",
        }
    return table
