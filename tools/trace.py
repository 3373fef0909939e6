"""List what a command or a program runs: calls, functions, files, and changes of file.

    python -m tools.trace                                   # a training step: a line for each file
    python -m tools.trace --calls                           # every call, in order
    python -m tools.trace minitransformer train reverse     # a command, from its first import on
    python -m tools.trace program.py                        # a Python file of your own

The step is `Trainer.train_step` on a padded batch of sentences: forward through a Transformer of one encoder
and one decoder layer, cross-entropy with label smoothing, backward, gradient clipping and AdamW; on the CPU,
by the NumPy kernels.
Counted are Python calls of functions in minigrad and minitransformer, except while their modules are
imported (before Python 3.12 a comprehension is a call, too).
"""

from __future__ import annotations

import inspect
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ("minigrad", "minitransformer")


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
    from minigrad import kernels
    from minitransformer import TrainConfig, Trainer, Transformer, TransformerConfig
    from minitransformer.tasks import Translation
    from minitransformer.text.tokenizer import Tokenizer

    kernels.use("numpy")
    pairs = [("i see", "je vois"), ("i see you", "je te vois"), ("you see", "tu vois")]
    tokenizer = Tokenizer.train_word([text for pair in pairs for text in pair])
    task = Translation(Translation.Data(max_tokens=64, max_length=64), pairs, pairs, tokenizer)
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(TransformerConfig(tokenizer.vocab_size, d_model=32, num_heads=4, d_ff=64, **layers))
    step = Trainer(model, task, TrainConfig(steps=10, warmup_steps=2), Path("unused")).train_step
    for _ in range(3):
        step()
    return step


def program(arguments: list[str]) -> Callable[[], Any]:
    """What runs a command of minitransformer or a Python file, with its arguments."""
    sys.argv = arguments
    if arguments[0] == "minitransformer":
        from minitransformer.__main__ import main

        return lambda: sys.exit(main())
    return lambda: runpy.run_path(arguments[0], run_name="__main__")


def trace(step: Callable[[], Any]) -> Trace:
    """The calls of `step`."""
    found = Trace()
    places: dict[Any, tuple[str, int, str] | None] = {}  # by code; None for what is not counted
    imports = 0  # modules that are being imported

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal imports
        code = frame.f_code
        if event in ("call", "return") and code.co_name == "<module>" and is_ours(code):
            imports += 1 if event == "call" else -1
        elif event == "call" and not imports:
            if code not in places:
                places[code] = place_of(code)
            if (place := places[code]) is not None:
                found.calls.append(place)

    sys.setprofile(profile)
    try:
        step()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    return found


def is_ours(code: Any) -> bool:
    """Whether code is of one of the packages."""
    file = Path(code.co_filename)
    return file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in PACKAGES


def place_of(code: Any) -> tuple[str, int, str] | None:
    """The file, line and name of a function of the packages; None for other code, and for what is trivial."""
    if not code.co_flags & inspect.CO_OPTIMIZED or not is_ours(code) or code.co_qualname == "Tensor.shape":
        return None
    file = Path(code.co_filename).relative_to(ROOT).as_posix()
    return file, code.co_firstlineno, code.co_qualname


if __name__ == "__main__":
    calls_wanted = sys.argv[1:2] == ["--calls"]
    arguments = sys.argv[1 + calls_wanted :]
    traced = trace(program(arguments) if arguments else training_step())
    if calls_wanted:
        print(*(f"{file}:{line} {name}" for file, line, name in traced.calls), traced.summary, sep="\n")
    else:
        print(traced)
