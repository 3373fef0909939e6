"""Checks of a run. Each compares two ways to compute the same numbers.

A check returns the largest relative difference that it found, and the limit. If a check does not apply, such
as the cache of a model without one, it is skipped, with a reason.
"""

from __future__ import annotations

import copy
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from minigrad import enable_grad, no_grad

from ..data.splits import Splits
from ..errors import UserError
from ..tasks import Task
from ..tasks.base import first_rows
from ..training.trainer import Trainer
from .run import Run

# settings of a training without validations
NO_VALIDATION: dict[str, Any] = {"validation_texts": 0, "samples": 0, "monitor": "loss"}
LENGTH = 12  # tokens per row of test inputs
ROWS = 4  # rows of test inputs
FLOAT32 = 1e-4  # limit of relative differences in float32
MIN_STRETCH = 100  # minimum number of characters in a stretch of a long text
TEXTS = 200  # number of texts on which the tokenizer is checked
PARTS = 3  # number of micro-batches


class Skip(Exception):
    """The exception for a check that does not apply to a run. The message is the reason."""


@dataclass(frozen=True)
class Outcome:
    """The result of a check. `passed` is None if it was skipped. An outcome is falsy only if it failed."""

    name: str
    passed: bool | None
    detail: str
    hint: str = ""  # where to look, if it failed

    def __bool__(self) -> bool:
        return self.passed is not False


class Subject:
    """The run to check, and a batch of its data."""

    def __init__(self, run: Run, splits: Splits) -> None:
        self.run = run
        self.model = run.model
        self.splits = run.task.filter(run.recipe.data, run.tokenizer, splits)
        self.task = self.new_task()
        self.batch = self.task.batch(0)

    def new_task(self) -> Task:
        """A new task, at the start of its data."""
        run = self.run
        return run.task.build(run.recipe, run.tokenizer, self.splits, run.labels)

    def check_parts(self, parts: int) -> None:
        """Skip the check if the task's batches cannot be split."""
        try:
            self.task.check_parts(parts)
        except UserError as error:
            raise Skip(str(error).splitlines()[0]) from None

    def tokens(self) -> np.ndarray:
        """Random ids (ROWS, LENGTH) of ordinary tokens."""
        size = self.model.config.vocab_size
        first = min(self.run.tokenizer.first_ordinary_id if self.run.tokenizer else 0, size - 1)
        length = min(LENGTH, getattr(self.model, "max_length", None) or LENGTH)
        return np.random.default_rng(0).integers(first, size, (ROWS, length))

    def is_autoregressive(self) -> bool:
        """Whether the model generates tokens one by one."""
        return all(hasattr(self.model, name) for name in ("is_encoder_decoder", "logits", "new_cache"))

    def target_logits(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The logits at each target token. Only encoder-decoders read the source."""
        model = self.model
        return (model(source, target) if model.is_encoder_decoder else model(target)).numpy()


# ---------------------------------------------------------------- the checks


def causality(subject: Subject) -> tuple[float, float]:
    """Check that changing later tokens does not change logits."""
    if not subject.is_autoregressive():
        raise Skip("the model reads the whole text at once")
    source = subject.tokens()
    target = subject.tokens()[::-1].copy()
    before = subject.target_logits(source, target)
    worst = 0.0
    for position in (0, target.shape[1] // 2, target.shape[1] - 2):
        changed = target.copy()
        changed[:, position + 1 :] = np.roll(target[:, position + 1 :], 1, 0)
        after = subject.target_logits(source, changed)
        worst = max(worst, relative(after[:, : position + 1], before[:, : position + 1]))
    return worst, FLOAT32


def padding(subject: Subject) -> tuple[float, float]:
    """Check that a text has the same logits with and without padding."""
    run = subject.run
    model = subject.model
    task = subject.task
    if subject.is_autoregressive():
        ids = subject.tokens()
        pad = getattr(model.config, "pad_token_id", None) or 0
        # shorten the texts, so that padding does not exceed the model's positions
        extra = np.full((len(ids), 2), pad)
        short = ids[:, 2:]
        if model.is_encoder_decoder:
            return relative(model(np.hstack([short, extra]), ids).numpy(), model(short, ids).numpy()), FLOAT32
        mask = np.hstack([np.zeros_like(extra, bool), np.ones_like(short, bool)])
        padded = model(np.hstack([extra, short]), mask).numpy()[:, 2:]
        return relative(padded, model(short).numpy()), FLOAT32
    if run.tokenizer is None:
        raise Skip("the data has no text to pad")
    subject.check_parts(2)
    examples = sorted(task.validation[:50], key=lambda one: next(iter(task.batches([one])))["input"].shape[1])
    alone, padded = (next(iter(task.batches(rows))) for rows in ([examples[0]], [examples[0], examples[-1]]))
    if padded["input"].shape == (2, alone["input"].shape[1]):
        raise Skip("all texts have the same length")
    one, other = (np.array(task.loss(model, row, 0.0).item()) for row in (alone, padded.rows(slice(0, 1))))
    return relative(other, one), FLOAT32


def cache(subject: Subject) -> tuple[float, float]:
    """Check that decoding token by token with a cache gives the same logits as the whole text."""
    model = subject.model
    if not subject.is_autoregressive() or model.new_cache(LENGTH) is None:
        raise Skip("the model has no cache")
    source = subject.tokens()
    target = subject.tokens()[::-1].copy()
    if model.is_encoder_decoder:
        mask = model.padding_mask(source)
        memory = model.encode(source, mask)
        step = lambda ids, cache: model.decode(ids, memory, mask, cache=cache)
    else:
        step = lambda ids, cache: model.states(ids, cache)
    kept = model.new_cache(LENGTH)
    half = target.shape[1] // 2
    pieces = [target[:, :half], *(target[:, i : i + 1] for i in range(half, target.shape[1]))]
    states = [model.logits(step(piece, kept)).numpy() for piece in pieces]
    return relative(np.concatenate(states, 1), subject.target_logits(source, target)), FLOAT32


def accumulation(subject: Subject) -> tuple[float, float]:
    """Check that a step in micro-batches has the same gradients as on the whole batch, including dropout."""
    parts = min(PARTS, len(subject.batch["target"]))
    subject.check_parts(parts)
    if parts == 1:
        raise Skip("a batch has one row")
    steps = []
    with enable_grad(), tempfile.TemporaryDirectory() as folder:
        for micro_batches in (1, parts):
            step = trainer(subject, Path(folder), micro_batches=micro_batches)
            step.train_step()
            steps.append([w.grad.numpy() for w in step.model.parameters() if w.grad is not None])
    # gradients that should be 0 have rounding errors; with a single-token vocabulary, all are 0
    tiny = max(1e-3 * max(np.abs(grad).max() for grad in steps[0]), 1e-30)
    return max(relative(b, a, tiny) for a, b in zip(*steps, strict=True)), 1e-3


def gradient(subject: Subject) -> tuple[float, float]:
    """Check that the gradients in a random direction equal finite differences of the loss in float64."""
    rows = first_rows(subject.task, subject.batch, ROWS)
    found = gradients(subject, rows)
    exact = copy.deepcopy(subject.model).double().eval()
    label_smoothing = subject.run.recipe.training.label_smoothing
    loss = lambda: subject.task.loss(exact, rows, label_smoothing).item() / rows.n_tokens
    rng = np.random.default_rng(0)
    worst = 0.0
    largest = max(map(norm, found.values()))
    weights = {name: weight for name, weight in exact.named_parameters() if weight.requires_grad}
    for name, weight in weights.items():
        direction = rng.normal(size=weight.shape)
        direction /= norm(direction)
        slope = slope_of(loss, weight, direction, 1e-6 * max(norm(weight.array), 1e-3))
        own = found.get(name, np.zeros(1))
        expected = float((own * direction).sum())
        size = max(abs(slope), abs(expected), norm(own) / direction.size**0.5, 1e-4 * largest, 1e-30)
        worst = max(worst, abs(slope - expected) / size)
    return worst, 1e-2


def round_trip(subject: Subject) -> tuple[float, float]:
    """Check that texts round-trip through the tokenizer."""
    tokenizer = subject.run.tokenizer
    if tokenizer is None:
        raise Skip("the data has no text")
    if tokenizer.kind == "wordpiece":
        raise Skip("WordPiece does not preserve case and spaces")
    texts = texts_of(subject.splits["train"], subject.run.task.texts)
    known = [text for text in texts if not tokenizer.unknown_words(text)]
    if not known:
        raise Skip("all texts of the training data have unknown words")
    return len(tokenizer.lossy_texts(known)) / len(known), 0.0


def resume(subject: Subject) -> tuple[float, float]:
    """Check that a resumed training has the same weights as one that was not interrupted."""
    with enable_grad(), tempfile.TemporaryDirectory() as folder:
        straight = trainer(subject, Path(folder))
        straight.train_step()
        straight.save()
        straight.train_step()
        resumed = trainer(subject, Path(folder))
        resumed.resume()
        resumed.train_step()
    pairs = zip(straight.model.parameters(), resumed.model.parameters(), strict=True)
    return max(relative(b.numpy(), a.numpy()) for a, b in pairs), 0.0


# ---------------------------------------------------------------- helpers


def relative(one: np.ndarray, other: np.ndarray, tiny: float = 1e-30) -> float:
    """The largest difference of two arrays, divided by the second's largest absolute value, or by `tiny`."""
    return float(np.abs(one - other).max() / max(np.abs(other).max(), tiny))


def norm(array: np.ndarray) -> float:
    """The L2 norm of an array, in float64."""
    return float(np.sqrt((np.asarray(array, np.float64) ** 2).sum()))


def trainer(subject: Subject, folder: Path, **changes: Any) -> Trainer:
    """A trainer with a copy of the run's model, at the start of the data."""
    config = replace(subject.run.recipe.training, **NO_VALIDATION, **changes)
    model = copy.deepcopy(subject.model)
    return Trainer(model, subject.new_task(), config, folder, Console(quiet=True))


def gradients(subject: Subject, batch: Any) -> dict[str, np.ndarray]:
    """The gradient of the mean loss for each parameter, without dropout."""
    model = subject.model
    label_smoothing = subject.run.recipe.training.label_smoothing
    model.zero_grad()
    with enable_grad():
        (subject.task.loss(model, batch, label_smoothing) / batch.n_tokens).backward()
    grads = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    return {name: grad.numpy().astype(np.float64) for name, grad in grads.items() if grad is not None}


def slope_of(loss: Callable[[], float], weight: Any, direction: np.ndarray, width: float) -> float:
    """The slope of the loss along a direction of a parameter, by central differences."""
    place = weight.array.copy()
    losses = []
    for sign in (1, -1):
        weight.array[...] = place + sign * width * direction
        losses.append(loss())
    weight.array[...] = place
    return (losses[0] - losses[1]) / (2 * width)


def texts_of(examples: Any, texts: Callable[[Any], list[str]]) -> list[str]:
    """Return some texts of a split: parts of a long text, or the texts of the first examples."""
    if isinstance(examples, str):
        return stretches(examples)
    return [text for example in examples[:TEXTS] for text in texts(example)]


def stretches(text: str) -> list[str]:
    """Split a long text into stretches that begin and end with whole words.

    Spaces at the ends of a stretch are removed, since tokenizers do not preserve them.
    """
    size = max(len(text) // TEXTS, MIN_STRETCH)
    found = []
    for start in range(0, len(text), size):
        part = text[start : start + size]
        if start:
            part = re.sub(r"^\S*\s+", "", part) or part
        if start + size < len(text):
            part = re.sub(r"\s+\S*$", "", part) or part
        found.append(part if part == text else part.strip())
    return [part for part in found if part][:TEXTS]


CHECKS: dict[str, tuple[Callable[[Subject], tuple[float, float]], str, str]] = {
    "causality": (
        causality,
        "later tokens do not change logits",
        "look at the causal mask of self-attention, and at operations over all positions",
    ),
    "padding": (
        padding,
        "padding does not change logits",
        "look at the padding mask, at positions, and at operations over all positions",
    ),
    "cache": (
        cache,
        "logits are the same with and without the cache",
        "look at the content of the cache, and at masks and positions of later tokens",
    ),
    "accumulation": (
        accumulation,
        "micro-batches give the gradient of the whole batch",
        "a task's loss must be a sum over targets, and `split` must return each part's first row",
    ),
    "gradient": (
        gradient,
        "gradients match finite differences of the loss",
        "check your own ops with mg.gradcheck, and look for detached values",
    ),
    "round trip": (
        round_trip,
        "texts round-trip through the tokenizer",
        "try another tokenizer, such as --tokenizer bpe",
    ),
    "resume": (
        resume,
        "a resumed training gives the same weights",
        "look at the task's `batch`, and at random numbers not drawn from seed and step",
    ),
}


def check_run(run: Run, splits: Splits) -> Iterator[Outcome]:
    """Run all checks, and yield their outcomes."""
    subject = Subject(run, splits)
    for name, (check, claim, hint) in CHECKS.items():
        run.model.eval()
        try:
            with no_grad():
                difference, limit = check(subject)
        except Skip as reason:
            yield Outcome(name, None, str(reason))
        except MemoryError:
            raise
        except Exception as error:  # an error in the model fails the check
            problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            yield Outcome(name, False, f"{claim}: {problem}", hint)
        else:
            found = f"difference {difference:.2g}" + (f", limit {limit:g}" if limit else "")
            passed = bool(difference <= limit)
            yield Outcome(name, passed, f"{claim} ({found})", "" if passed else hint)
