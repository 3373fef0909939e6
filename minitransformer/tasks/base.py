"""The base class of tasks, their registry, and functions that several tasks share.

protocols.py defines what a task must have; `Task` has the defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, no_grad
from minigrad.nn import functional as F

from ..data.batching import IGNORE
from ..data.labels import check_labels
from ..data.splits import Splits
from ..errors import UserError, did_you_mean
from ..models.protocol import MODELS, model_class
from ..text.tokenizer import Tokenizer
from .metrics import METRICS, Metric
from .protocols import Objective, ReadsTexts, Rows, Scores, TaskData, Trained
from .scores import Score

__all__ = ["TASKS", "Rows", "Task", "Trained", "register_task", "task_class"]

T = TypeVar("T", bound="type[Task]")


class Task(TaskData, Objective, Scores, ReadsTexts):
    """Base class of tasks, with defaults. `ExampleTask` adds shuffled batches of separate examples."""

    # ------------------------------------------------------------ the data

    unit = "examples"
    own_training: ClassVar[Mapping[str, Any]] = {}
    validation: Any  # the validation split, as `score` takes it
    order: Any  # the `Batches` of the training split

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Tokenizer | None:
        return None

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        return []

    @classmethod
    def labels_in(cls, examples: Any) -> list[str]:
        return []

    @classmethod
    def reading(cls, splits: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    @classmethod
    def filter(cls, data: Any, tokenizer: Any, splits: Splits) -> Splits:
        return splits

    @classmethod
    def warnings(cls, data: Any, tokenizer: Any, splits: Splits) -> list[str]:
        return []

    @classmethod
    def own_data(cls, data: Any) -> Any:
        """The section with dataset "file" (see `ReadsFiles`)."""
        return replace(data, dataset="file")

    @classmethod
    def read_test_file(cls, run: Trained, path: Path) -> Any:
        """The examples of `read_file`, with their labels checked (see `ReadsFiles`)."""
        reader: Any = cls
        examples = reader.read_file(run.recipe.data, path)
        if run.labels:
            check_labels(str(path), cls.labels_in(examples), run.labels)
        return examples

    @property
    def largest_batch(self) -> int:
        return self.order.largest

    @property
    def batches_per_epoch(self) -> int:
        return self.order.per_epoch

    def split(self, batch: Any, parts: int) -> Iterator[tuple[int, Any]]:
        for rows in split_rows(len(batch["target"]), parts):
            yield int(rows[0]), batch.rows(slice(rows[0], rows[-1] + 1))

    def check_parts(self, parts: int) -> None:
        """By default, any batch can be split by rows."""

    # ------------------------------------------------------------ the objective

    requires: ClassVar[tuple[str, ...]] = ()
    is_encoder_decoder: ClassVar[bool | None] = None

    @classmethod
    def check_model(cls, model_type: str) -> None:
        model: Any = model_class(model_type)
        known = isinstance(MODELS[model_type], str)  # a model of the package, not registered by the user
        fits = all(hasattr(model, name) for name in cls.requires) and (
            cls.is_encoder_decoder in (None, getattr(model, "is_encoder_decoder", None))
        )
        if model_type not in cls.model_types and (known or not fits):
            problem = f"{model_type} cannot learn the task {cls.name}"
            kind = {None: "", True: "is_encoder_decoder = True", False: "is_encoder_decoder = False"}
            own = " and ".join(filter(None, [kind[cls.is_encoder_decoder], ", ".join(cls.requires)]))
            raise UserError(
                f"{problem}.\nChoose one of {', '.join(name for name in cls.model_types if name in MODELS)}"
                + (f", or a model of your own with {own}." if own else ", or a model of your own.")
            )

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        """By default, all settings are valid together."""

    @classmethod
    def model_config(cls, config: Any, tokenizer: Any, labels: Sequence[str] = ()) -> Any:
        """The config with those values of `from_data` that it has fields for."""
        names = {field.name for field in fields(config)}
        values = cls.from_data(tokenizer, labels)
        return replace(config, **{name: value for name, value in values.items() if name in names})

    @classmethod
    def from_data(cls, tokenizer: Any, labels: Sequence[str]) -> dict[str, Any]:
        """Model settings from the data: vocabulary size, number of labels, ids of special tokens."""
        values: dict[str, Any] = {"num_labels": len(labels)} if labels else {}
        if tokenizer is not None:
            values |= {
                "vocab_size": tokenizer.vocab_size,
                "pad_token_id": tokenizer.pad_id,
                "bos_token_id": [*tokenizer.prefix, tokenizer.start_id][0],
                "eos_token_id": tokenizer.end_id,
                "decoder_start_token_id": tokenizer.start_id,
            }
        return values

    @classmethod
    def positions(cls, data: Any) -> int:
        return 0

    def loss(self, model: Any, batch: Any, label_smoothing: float) -> Tensor:
        """The sum of the cross-entropies of all targets. Tasks define `logits`, which calls the model."""
        return loss_sum(self.logits(model, batch), batch["target"], label_smoothing)

    # ------------------------------------------------------------ the scores

    metrics: ClassVar[Mapping[str, Metric | str]] = {}
    accuracy: ClassVar[str] = "accuracy"  # the name of the fraction of correct targets
    live: Trained | None = None  # the run in training, to generate texts in validations

    @classmethod
    def known_metrics(cls) -> dict[str, Metric]:
        own = {name: Metric(each) if isinstance(each, str) else each for name, each in cls.metrics.items()}
        return METRICS | own

    @classmethod
    def metric(cls, name: str) -> Metric:
        """The metric of a score; "accuracy, short ones" is formatted like "accuracy"."""
        known = cls.known_metrics()
        other = known.get(name.partition(",")[0], Metric(name))
        return known.get(name) or replace(other, label=name.replace("_", " "))

    def score(self, model: Any, examples: Any) -> Mapping[str, float]:
        """The mean loss and the fraction of correct targets, as `Score`s."""
        return score_batches(lambda batch: self.logits(model, batch), self.batches(examples), self.accuracy)

    def validate(self, model: Any) -> dict[str, float]:
        return {name: float(score) for name, score in self.score(model, self.validation).items()}

    @property
    def has_loss(self) -> bool:
        """True unless a class outside of the package overrides `score` or `validate`."""
        methods = type(self).score, type(self).validate
        return all(method.__module__.startswith(f"{__package__}.") for method in methods)

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        return []

    # ------------------------------------------------------------ user inputs

    inputs: ClassVar[tuple[str, ...]] = ("a text",)
    marks: ClassVar[tuple[str, ...]] = ()
    reads_words = False

    @classmethod
    def as_read(cls, run: Trained, text: str) -> str:
        return text

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        return []


TASKS: dict[str, type[Task]] = {}


def register_task(cls: T) -> T:
    """Class decorator that registers a task under its `name`, for recipes and the command line."""
    missing = [name for name in ("name", "Data", "model_types") if not hasattr(cls, name)]
    if missing:
        raise UserError(
            f"{cls.__name__} has no {', '.join(missing)}.\n"
            f"Define as class attributes a name, Data (the [data] section, a dataclass), and model_types."
        )
    known = TASKS.get(cls.name, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise UserError(f"the task name {cls.name!r} is taken by {known.__qualname__}.\nChoose another name.")
    TASKS[cls.name] = cls
    return cls


def task_class(name: str) -> type[Task]:
    """The task registered under a name; a UserError if there is none."""
    if name not in TASKS:
        raise UserError(
            f"unknown task {name!r:.60}.{did_you_mean(name, TASKS)}\n"
            f"Choose one of {', '.join(sorted(TASKS))}."
        )
    return TASKS[name]


# ---------------------------------------------------------------- shared functions


def needed_options(run: Trained) -> Mapping[str, Any]:
    """The options of `generate` that a run's model needs (`Trained.generation`)."""
    return getattr(run, "generation", {})


def split_rows(n: int, parts: int) -> list[np.ndarray]:
    """The numbers 0 to n - 1, split into at most `parts` parts of similar sizes."""
    return np.array_split(np.arange(n), min(n, parts))


def first_rows(task: Task, batch: Any, count: int) -> Any:
    """About the first `count` rows of a task's batch; the whole batch if it cannot be split."""
    parts = -(-len(batch["target"]) // max(count, 1))
    try:
        task.check_parts(parts)
    except UserError:
        return batch
    return next(part for _, part in task.split(batch, parts) if part.n_tokens)


_unsmoothed: ContextVar[list[Tensor] | None] = ContextVar("_unsmoothed", default=None)


@contextmanager
def record_unsmoothed_losses() -> Iterator[list[Tensor]]:
    """A context in which `loss_sum` appends to a list what each loss is without label smoothing."""
    found: list[Tensor] = []
    token = _unsmoothed.set(found)
    try:
        yield found
    finally:
        _unsmoothed.reset(token)


def loss_sum(logits: Tensor, target: np.ndarray, label_smoothing: float) -> Tensor:
    """The cross-entropy summed over targets: logits (..., V), target (...)."""
    rows = logits.reshape(-1, logits.shape[-1])
    loss = partial(F.cross_entropy, ignore_index=IGNORE, reduction="sum")
    if (unsmoothed := _unsmoothed.get()) is not None:
        with no_grad():
            unsmoothed.append(loss(rows.detach(), target.reshape(-1)))
    return loss(rows, target.reshape(-1), label_smoothing=label_smoothing)


@no_grad()
def score_batches(
    logits: Callable[[Any], Tensor], batches: Iterable[Any], accuracy: str = "accuracy"
) -> dict[str, Score]:
    """The mean loss and accuracy over the targets of all batches; each row is an example."""
    rows = [target_statistics(logits(batch), batch["target"]) for batch in batches]
    return target_scores(np.concatenate([row.reshape(len(row), -1, 3).sum(1) for row in rows]), accuracy)


def target_statistics(logits: Tensor, target: np.ndarray) -> Float[np.ndarray, "*target 3"]:
    """For each target: its loss, whether the prediction is correct, and 1 (0 if ignored). Logits (..., V)."""
    losses = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target.reshape(-1), ignore_index=IGNORE, reduction="none"
    )
    correct = logits.argmax(-1).numpy() == target
    return np.stack([losses.numpy().reshape(target.shape), correct, target != IGNORE], -1, dtype=np.float64)


def target_scores(
    statistics: Float[np.ndarray, "examples 3"], accuracy: str = "accuracy"
) -> dict[str, Score]:
    """The mean loss and accuracy, from the sums of `target_statistics` over each example."""
    if not statistics[:, 2].any():
        raise UserError(
            "there is nothing to score: no example has a known label.\n"
            "Pass examples with labels of the training data."
        )
    return {"loss": Score(statistics[:, [0, 2]]), accuracy: Score(statistics[:, [1, 2]])}


def text_tokenizer(
    kind: str,
    vocab_size: int,
    texts: Sequence[str],
    held_out: Sequence[str],
    special_tokens: bool = True,
    added: Sequence[str] = (),
) -> Tokenizer:
    """Train a tokenizer of one of KINDS; vocab_size 0 means all words or characters, or 8,000 pieces.

    The `held_out` texts must round-trip too: how spaces and unknown characters are encoded depends on them.
    `added` are special tokens of the task.
    """
    if kind == "word":
        return Tokenizer.train_word(texts, vocab_size=vocab_size or None, held_out=held_out, added=added)
    if kind == "bpe":
        return Tokenizer.train_bpe(texts, vocab_size or 8000, held_out=held_out, added=added)
    if kind == "wordpiece":
        return Tokenizer.train_wordpiece(texts, vocab_size or 8000, added=added)
    if kind == "unigram":
        return Tokenizer.train_unigram(texts, vocab_size or 8000, added)
    if kind == "char":
        return Tokenizer.train_char(texts if special_tokens else [*texts, *held_out], special_tokens, added)
    raise UserError(
        f"unknown tokenizer {kind!r}.{did_you_mean(kind, KINDS)}\nChoose one of {', '.join(KINDS)}."
    )


KINDS = ("word", "bpe", "wordpiece", "unigram", "char")


def check_dataset(dataset: str, known: Sequence[str]) -> None:
    """Raise a UserError for an unknown data set."""
    if dataset not in known:
        own = " (with --data FILE)" if "file" in known else ""
        raise UserError(
            f"unknown dataset {dataset!r}.{did_you_mean(dataset, known)}\n"
            f"Choose one of {', '.join(known)}{own}."
        )


def check_positions(length: str, n: int, model: Any) -> None:
    """Raise a UserError if the model has fewer than n learned positions."""
    if getattr(model, "positions", "learned") != "learned":
        return
    for name in ("n_positions", "max_positions", "max_position_embeddings"):
        if n > (limit := getattr(model, name, math.inf)):
            raise UserError(
                f"{length} = {n} is more than {name} = {limit}.\nLower {length}, or raise {name}."
            )


def check_one_vocabulary(task: str, model: Any) -> None:
    """Raise a UserError for a model with a separate target vocabulary: only one tokenizer is trained."""
    if (size := getattr(model, "target_vocab_size", None)) is not None:
        raise UserError(
            f"target_vocab_size = {size}, but the task {task} has one tokenizer for source and target.\n"
            f"Leave target_vocab_size out: vocab_size is the size of both."
        )
