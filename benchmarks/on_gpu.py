"""`python -m benchmarks.on_gpu FOLDER`: all measurements and tests on a GPU, in about a quarter of an hour.

The parts run one after the other, each in a process of its own with a time limit; one that fails or takes too
long does not stop the others. FOLDER gets report.txt, with the end of each part's output as soon as it is
there, and the figures of the table as JSON and Markdown.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from minigrad import MinigradError
from minigrad.core.devices import check_device
from minitransformer.cli.parsing import parse
from minitransformer.errors import UserError

from .measuring import LocalTurns, spread
from .peers import ours
from .works import recipe_parts, weights_of, work_of

PYTHON = [sys.executable, "-m"]
RECIPES = "phrasebook", "bert-mlm", "t5-denoise"  # whose first step is compared with the CPU's
LINES = 150  # of a part's output that the report keeps
WORKS = "gpt2", "shakespeare-char"


def parts(folder: Path, run_dir: Path, data_dir: Path | None) -> dict[str, tuple[int, list[str]]]:
    """The parts, the most important first: a time limit in seconds, and a command."""
    figures = [f"--{kind}={folder / f'steps.{kind[:4]}'}" for kind in ("json", "markdown")]
    tests = [*map(str, [*Path("tests").glob("*/"), *Path("tests/slow").glob("*/")])]
    train = ["shakespeare-char", "--device", "cuda", "--precision", "bfloat16", "--capture"]
    data = [] if data_dir is None else ["--data-dir", str(data_dir)]
    return {
        "machine": (20, ["nvidia-smi"]),
        "steps": (300, [*PYTHON, "benchmarks", "steps", "--device", "cuda", "--seconds", "6", *figures]),
        **{f"kernels of {work}": (90, call("kernels", work)) for work in WORKS},
        "tests": (150, [*PYTHON, "pytest", "-q", "-m", "gpu", "-n", "auto", *tests]),
        **{f"shadow of {name}": (60, call("shadow", name)) for name in RECIPES},
        "training": (180, [*PYTHON, "minitransformer", "train", *train, *data, "--run-dir", str(run_dir)]),
    }


def call(function: str, argument: str) -> list[str]:
    """The command that calls a function of this module; its result False is a failure."""
    program = f"import sys; from benchmarks import on_gpu; sys.exit(on_gpu.{function}({argument!r}) is False)"
    return [sys.executable, "-c", program]


def run(folder: Path, data_dir: Path | None, only: Sequence[str] = ()) -> bool:
    """Run all parts, or those that begin with a word of `only`; return whether all ended with exit code 0."""
    passed = True
    with tempfile.TemporaryDirectory() as temporary, open(folder / "report.txt", "w") as report:
        for name, (seconds, command) in parts(folder, Path(temporary) / "run", data_dir).items():
            if only and name.split()[0] not in only:
                continue
            start = time.monotonic()
            output, ending = finished(command, seconds)
            head = f"== {name}: {ending} after {time.monotonic() - start:.0f} s"
            print(head, *output.splitlines()[-LINES:], sep="\n", file=report, flush=True)
            print(head, flush=True)
            passed &= ending == "exit code 0"
    return passed


def finished(command: list[str], seconds: float) -> tuple[str, str]:
    """A command's output, and how it ended."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, text=True
        )
    except subprocess.TimeoutExpired as error:
        return (error.output or b"").decode(errors="replace"), f"stopped at the limit of {seconds} s"
    except OSError as error:
        return str(error), "not started"
    return done.stdout, f"exit code {done.returncode}"


# ---------------------------------------------------------------- what each kernel saves


def kernels(work: str, device: str = "cuda", turns: int = 20) -> None:
    """Print the milliseconds of a captured step with all kernels, and without one; then a profile."""
    of: Any = work_of(work)
    step = ours.decoder(of, weights_of(of.model()), device)
    local = LocalTurns(step, step.wait)
    for name, without in WITHOUT.items():
        with without():
            step.capture()
            for _ in range(5):  # the third call captures
                step()
            number = local.ready()
            times = [local.turn(number, 0.0, "wall") for _ in range(turns)]
        low, middle, high = (f"{1e3 * t:.2f}" for t in spread(times))
        print(f"{middle} ms [{low}, {high}] {name}", flush=True)
    if find_spec("torch"):
        profile(step)


def profile(step: Callable[[], object], number: int = 10) -> None:
    """Print the time of each kernel in a step, by torch's profiler, which sees all kernels of a process."""
    import torch
    from torch.profiler import ProfilerActivity

    if not torch.cuda.is_available():
        return
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(number):
            step()
        torch.cuda.synchronize()
    events = sorted(found.key_averages(), key=lambda event: -event.self_device_time_total)
    for event in events[:40]:
        ms = event.self_device_time_total / 1e3 / number
        print(f"{ms:8.3f} ms {event.count / number:6.1f} times {event.key[:80]}")


@contextlib.contextmanager
def float32_between_layers() -> Iterator[None]:
    """As under PyTorch's autocast: embeddings are not rounded, and norms return float32."""
    from minigrad.nn.functional import core
    from minigrad.ops import normalization

    with (
        mock.patch.object(core, "cast_for_autocast", lambda precision, x: x),
        contextlib.ExitStack() as stack,
    ):
        for norm in (normalization.layer_norm, normalization.rms_norm):
            stack.enter_context(mock.patch.object(norm.op, "autocast", "float32"))
        yield


def float32_logits() -> Any:
    """Convert the logits before the loss."""
    from minigrad.ops import losses

    return mock.patch.object(losses.cross_entropy.op, "autocast", "float32")


@contextlib.contextmanager
def without_sums() -> Iterator[None]:
    """Add and multiply 16-bit arrays in float32, as on a CPU."""
    from minigrad.core.arithmetic import add, multiply

    with contextlib.ExitStack() as stack:
        for op in (add.op, multiply.op):
            stack.enter_context(mock.patch.dict(op.kernels, {"cuda": []}))
            stack.enter_context(mock.patch.dict(op.in_order, clear=True))
        yield


def without_epilogue() -> Any:
    from minigrad.kernels.cuda import cublas

    return mock.patch.object(cublas, "product_and_row_sums", return_value=None)


WITHOUT: dict[str, Callable[[], Any]] = {
    "with all kernels": contextlib.nullcontext,
    "activations in float32 between layers": float32_between_layers,
    "cross-entropy of a float32 copy of the logits": float32_logits,
    "without native sums and products of 16 bits": without_sums,
    "without cuBLASLt's sums for the gradients of biases": without_epilogue,
    "with all kernels, again": contextlib.nullcontext,
}


# ---------------------------------------------------------------- beside the CPU


def shadow(name: str, device: str = "cuda") -> bool:
    """Print whether a recipe's first steps, in 32 and in 16 bits, are the same on the GPU as on the CPU."""
    import minigrad as mg
    from minitransformer import Trainer

    recipe, task, model = recipe_parts(name)
    model.to(device)
    passed = True
    for precision in ("float32", "bfloat16"):
        config = replace(recipe.training, precision=precision)
        with tempfile.TemporaryDirectory() as folder:
            report = mg.shadow(Trainer(model, task, config, Path(folder) / "run").train_step)
        print(f"{precision}: {report}", flush=True)
        passed &= report.passed
    return passed


@dataclass(frozen=True)
class Options:
    """All measurements and tests on a GPU, in about a quarter of an hour."""

    folder: Path = field(metadata={"positional": True})
    """The folder that report.txt and the figures are written to."""
    data_dir: Path | None = None
    """The folder that contains tiny Shakespeare's input.txt, as for `minitransformer train`."""
    only: tuple[Literal["machine", "steps", "kernels", "tests", "shadow", "training"], ...] = ()
    """The parts to run; by default, all."""


if __name__ == "__main__":
    try:
        options = parse(Options, prog="python -m benchmarks.on_gpu")
        check_device("cuda")
        options.folder.mkdir(parents=True, exist_ok=True)
    except (UserError, MinigradError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    sys.exit(not run(options.folder, options.data_dir, options.only))
