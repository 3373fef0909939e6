"""The overhead of the trainer per training step: data, schedule, checks for NaN, the log.

A real run of `nano` on a text of random letters, with every step logged, compared with the bare step on one
of its batches: the loss, its backward, clipping and the optimizer.
"""

from __future__ import annotations

import random
import string
import tempfile
from pathlib import Path

from minigrad import manual_seed, optim
from minitransformer import GPT, GPTConfig, TrainConfig, Trainer
from minitransformer.tasks import LanguageModelling
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.training.log import Log
from minitransformer.training.progress import show_progress
from minitransformer.training.ranks import Ranks

from .measuring import CLOCKS, ratios, spread
from .tables import Table

# nano
LAYERS = 4
HEADS = 4
WIDTH = 128
LENGTH = 64
BATCH = 12
LETTERS = 65


def nano(folder: Path, batch: int = BATCH, ranks: Ranks | None = None) -> Trainer:
    """A trainer of `nano` on a text of random letters."""
    text = "".join(random.Random(0).choices(string.printable[:LETTERS], k=50_000))
    task = LanguageModelling(
        LanguageModelling.Data(block_size=LENGTH, batch_size=batch),
        text,
        text[:200],
        Tokenizer.train_char([text]),
    )
    manual_seed(0)
    model = GPT(
        GPTConfig(LETTERS, LENGTH, WIDTH, LAYERS, HEADS, embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0)
    )
    return Trainer(
        model,
        task,
        TrainConfig(steps=10_000, log_every=1, validate_every=10_000, checkpoint_every=10_000),
        folder,
        ranks=ranks,
    )


def training(repeats: int = 50, clock: str = "wall") -> Table:
    """Milliseconds of a bare step and of the trainer's, in turns, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = nano(Path(folder))
        model, task = trainer.model, trainer.task
        batch = task.batch(0)

        def bare() -> None:
            trainer.optimizer.zero_grad()
            loss = task.loss(model, batch, 0.0) / batch.n_tokens
            loss.backward()
            optim.clip_grad_norm_(model.parameters(), 1.0)
            trainer.optimizer.step()

        times: dict[str, list[float]] = {"bare": [], "trainer": []}
        with Log(Path(folder) / "log.jsonl", print) as log, show_progress(trainer.console, 0, 10_000) as show:
            whole = lambda: trainer.advance(log, show)
            for turn in range(repeats + 2):
                for name, step in (("bare", bare), ("trainer", whole)):
                    start = CLOCKS[clock]()
                    step()
                    if turn >= 2:
                        times[name].append((CLOCKS[clock]() - start) * 1e3)
    row = {
        "bare step": spread(times["bare"]),
        "trainer's step": spread(times["trainer"]),
        "ratio (limit 1.03)": ratios(times["trainer"], times["bare"]),
    }
    return Table("ms of a step of nano, bare and by the trainer, logged", {"nano": row})
