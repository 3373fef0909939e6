"""List what one training step runs: calls, functions, files, and changes of file.

    python -m tools.trace_step            # a line for each file
    python -m tools.trace_step --calls    # every call, in order

The step is `Trainer.train_step` on a padded batch of sentences: forward through a Transformer of one encoder
and one decoder layer, cross-entropy with label smoothing, backward, gradient clipping and AdamW; on the CPU,
by the NumPy kernels.
Counted are Python calls of functions in minigrad and minitransformer (before Python 3.12 a comprehension is
one, too).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import minigrad as mg
from minigrad import kernels
from minitransformer import TrainConfig, Trainer, Transformer, TransformerConfig
from minitransformer.tasks import Translation
from minitransformer.text.tokenizer import Tokenizer

ROOT = Path(mg.__file__).parents[1]
PACKAGES = ("minigrad", "minitransformer")
ATTRIBUTES = {mg.Tensor.shape.fget.__code__}  # functions that a reader does not follow


@dataclass
class Trace:
    """The functions that ran, (file, line, name), in order."""

    calls: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def functions(self) -> int:
        return len(set(self.calls))

    @property
    def files(self) -> Counter[str]:
        return Counter(file for file, _, _ in self.calls)

    @property
    def changes(self) -> int:
        """How often a call is in a different file than the previous one."""
        files = [file for file, _, _ in self.calls]
        return sum(a != b for a, b in pairwise(files))

    def __str__(self) -> str:
        lines = [f"{n:6} {file}" for file, n in self.files.most_common()]
        return "\n".join([*lines, self.summary])

    @property
    def summary(self) -> str:
        return (
            f"{len(self.calls):,} calls of {self.functions} functions in {len(self.files)} files, "
            f"with {self.changes} changes of file"
        )


def training_step() -> Callable[[], Any]:
    """The step of a `Trainer`: translation, with a Transformer of one encoder and one decoder layer."""
    pairs = [("i see", "je vois"), ("i see you", "je te vois"), ("you see", "tu vois")]
    tokenizer = Tokenizer.train_word([text for pair in pairs for text in pair])
    task = Translation(tokenizer, pairs, pairs, max_tokens=64, seed=0)
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(TransformerConfig(tokenizer.vocab_size, d_model=32, num_heads=4, d_ff=64, **layers))
    return Trainer(model, task, TrainConfig(steps=10, warmup_steps=2), Path("unused")).train_step


def trace(step: Callable[[], Any], warm_up: int = 3) -> Trace:
    """The calls of `step`, after a few warm-up steps."""
    found = Trace()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        file = Path(code.co_filename)
        if code in ATTRIBUTES:
            return
        if event == "call" and file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in PACKAGES:
            name = file.relative_to(ROOT).as_posix()
            found.calls.append((name, code.co_firstlineno, code.co_qualname))

    with kernels.use("numpy"):
        for _ in range(warm_up):
            step()
        sys.setprofile(profile)
        try:
            step()
        finally:
            sys.setprofile(None)
    return found


if __name__ == "__main__":
    traced = trace(training_step())
    if "--calls" in sys.argv[1:]:
        print(*(f"{file}:{line} {name}" for file, line, name in traced.calls), traced.summary, sep="\n")
    else:
        print(traced)
