"""The protocols of tasks: data, objective and scores, and optional abilities.

A task is one class. Its class methods are called before there is a model, or with a trained run. An instance,
which `build` creates from a recipe, gives a `Trainer` batches, a loss and validation scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from minigrad import Tensor

from ..data.batching import Batch
from ..data.splits import Splits
from .metrics import Metric
from .predictions import Prediction

Rows = list[tuple[str, ...]]  # of predictions.txt, with a header row


class Trained(Protocol):
    """A run that is loaded from its folder (`runs.run.Run`), or in training (`runs.live.LiveRun`)."""

    folder: Path
    recipe: Any
    task: Any
    tokenizer: Any
    labels: list[str]
    model: Any

    @property
    def generation(self) -> Mapping[str, Any]:
        """Options of `generate` that the model needs, such as forced tokens."""

    @property
    def reading(self) -> Mapping[str, Any]:
        """How its training data was read (`TaskData.reading`); empty if unknown."""

    def splits(self) -> Splits:
        """The splits that the run was trained with."""


# ---------------------------------------------------------------- the three protocols


class TaskData(Protocol):
    """The source of examples, and the batches for a trainer.

    `train` calls, in this order: splits, train_tokenizer, labels, reading, filter, labels_in, build and
    warnings. Then the trainer calls batch and split in each step.
    """

    name: ClassVar[str]  # in TASKS and recipes
    Data: ClassVar[Any]  # the [data] section, a frozen dataclass
    unit: ClassVar[str]  # what examples are called: "pairs"
    own_training: ClassVar[Mapping[str, Any]]  # settings for the user's file instead of the recipe's data

    @classmethod
    def splits(cls, data: Any, sources: Any) -> Splits:
        """The "train", "validation" and "test" splits; "test" is optional."""
        raise NotImplementedError

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Any:
        """The tokenizer, trained on the training split; None for data without text."""

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        """The names of the classes, which are stored in run.json."""

    @classmethod
    def labels_in(cls, examples: Any) -> list[str]:
        """The labels of examples, one for each target; empty if targets are not classes."""

    @classmethod
    def reading(cls, splits: Mapping[str, Any]) -> dict[str, Any]:
        """How the training data was read, beyond the settings. It is stored in run.json."""

    @classmethod
    def filter(cls, data: Any, tokenizer: Any, splits: Splits) -> Splits:
        """The splits without examples that cannot be used."""

    @classmethod
    def warnings(cls, data: Any, tokenizer: Any, splits: Splits) -> list[str]:
        """Problems of examples that are used nevertheless, a line each."""

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> Self:
        """Create the task of a recipe."""
        raise NotImplementedError

    @property
    def largest_batch(self) -> int:
        """The number of rows in the largest batch."""
        raise NotImplementedError

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches in one pass over the training data."""

    def batch(self, step: int) -> Batch:
        """The batch of a step, counted from 0: it depends on seed and step only."""
        raise NotImplementedError

    def batches(self, examples: Any) -> Iterator[Batch]:
        """All examples once, in the same batches on each call."""
        raise NotImplementedError

    def split(self, batch: Any, parts: int) -> Iterator[tuple[int, Any]]:
        """Split a batch into parts (micro-batches times ranks), each with the index of its first row."""

    def check_parts(self, parts: int) -> None:
        """Raise a UserError if batches cannot be split into this many parts."""


class Objective(Protocol):
    """The models that can learn the task, and the loss.

    `Recipe` calls check_model and check, `build_model` calls model_config. The trainer calls loss for each
    part of a batch, and divides by the batch's `n_tokens`.
    """

    model_types: ClassVar[tuple[str, ...]]  # models of the package; the first is the default
    requires: ClassVar[tuple[str, ...]]  # methods that your own model must have
    is_encoder_decoder: ClassVar[bool | None]  # required of the model; None: either

    @classmethod
    def check_model(cls, model_type: str) -> None:
        """Raise a UserError for a model that cannot learn this task."""

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        """Raise a UserError if settings of data and model are incompatible."""

    @classmethod
    def model_config(cls, config: Any, tokenizer: Any, labels: Sequence[str] = ()) -> Any:
        """The model's settings, completed from the data: `vocab_size`, `num_labels` and others."""

    @classmethod
    def positions(cls, data: Any) -> int:
        """A lower bound on the number of positions in a batch, to estimate memory."""

    def logits(self, model: Any, batch: Any) -> Tensor:
        """The logits (..., V) of a batch: one for each class of each target (...)."""
        raise NotImplementedError

    def loss(self, model: Any, batch: Any, label_smoothing: float) -> Tensor:
        """The sum of the losses of all targets, a scalar."""


class Scores(Protocol):
    """The scores of a model: in training, of a trained run, and of single examples.

    The trainer calls validate; `evaluate` and `compare` call evaluate. A `Score` keeps each example's
    contribution: it gets confidence intervals, and can be compared with other runs'.
    """

    metrics: ClassVar[Mapping[str, Metric | str]]  # in addition to METRICS; a string is a label

    @classmethod
    def known_metrics(cls) -> dict[str, Metric]:
        """The metrics by name: the common ones, and those of the task."""

    @classmethod
    def metric(cls, name: str) -> Metric:
        """The metric of a score: its label, and whether higher is better."""

    def score(self, model: Any, examples: Any) -> Mapping[str, float]:
        """Scores with teacher forcing, such as the mean loss."""

    def validate(self, model: Any) -> dict[str, float]:
        """The scores of the validation split. The one named by --monitor chooses the best checkpoint."""

    @property
    def has_loss(self) -> bool:
        """Whether validations are known to have a loss."""

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        """The scores, including `n`, the number of scored units; and the rows of predictions.txt, if any.

        `decoding` are arguments of `generate`, for tasks that implement `Translates`.
        """
        raise NotImplementedError

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        """A few predictions, a line each, printed after training."""

    @classmethod
    def example(cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]) -> tuple[Any, str]:
        """A task whose only batch is one example, from the user's texts or the data; and its title.

        `graph` draws the computation graph of its loss.
        """
        raise NotImplementedError


# ---------------------------------------------------------------- optional abilities


class ReadsTexts(Protocol):
    """How a user's input is read, for `predict`, `explain` and warnings about unknown words.

    All tasks have these; the defaults are for a single text, which is not changed.
    """

    inputs: ClassVar[tuple[str, ...]]  # names of an input's texts: ("a question", "a context")
    marks: ClassVar[tuple[str, ...]]  # special tokens that a user may write in a text
    reads_words: ClassVar[bool]  # whether a text may be a list of words

    @classmethod
    def as_read(cls, run: Trained, text: str) -> str:
        """A user's text in the format of the training texts."""

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        """A list with a short input (its texts) from the held-out data; [] if there is none.

        It is stored in run.json, and appears in the command that training prints.
        """


@runtime_checkable
class ReadsFiles(Protocol):
    """A task that reads the user's files, for `train --data` and `evaluate --data`."""

    @classmethod
    def read_file(cls, data: Any, path: Path) -> Any:
        """All examples of a file."""

    @classmethod
    def read_test_file(cls, run: Trained, path: Path) -> Any:
        """All examples of a file, to score a trained run; a UserError for labels unknown to the run."""

    @classmethod
    def own_data(cls, data: Any) -> Any:
        """The [data] section for the user's file, without the settings of its data set."""


@runtime_checkable
class ReadsExamples(Protocol):
    """A task that makes an example from a user's texts, for `predict` and `graph`."""

    @classmethod
    def read_example(cls, run: Trained, texts: Sequence[str]) -> Any:
        """An example from the texts of an input, with any target; a UserError if the run cannot read them."""


@runtime_checkable
class Translates(Protocol):
    """A task whose models generate a text from a text, for `translate` and `chat`."""

    @classmethod
    def translate(cls, run: Trained, texts: Sequence[str], **decoding: Any) -> list[str]:
        """The generated texts: one for each text, or `num_return_sequences` for the first, and so on."""

    @classmethod
    def source_ids(cls, run: Trained, text: str) -> list[int]:
        """The ids of a text to translate; a UserError if it is empty or too long for the run."""


@runtime_checkable
class Continues(Protocol):
    """A task whose models continue a text, for `generate`."""

    @classmethod
    def default_prompt(cls, run: Trained) -> str:
        """The prompt if the user passes none."""

    @classmethod
    def generate(cls, run: Trained, prompt: str, max_new_tokens: int, **decoding: Any) -> list[str]:
        """The continuations of a prompt: one, or `num_return_sequences`."""

    @classmethod
    def stream_text(cls, run: Trained, prompt: str, max_new_tokens: int, **decoding: Any) -> Iterator[str]:
        """Yield the continuation of a prompt piece by piece, as its tokens are generated."""


@runtime_checkable
class Predicts(Protocol):
    """A task whose models label, answer or complete, for `predict`."""

    @classmethod
    def predictions(cls, run: Trained, inputs: Sequence[Sequence[str]], top: int = 5) -> list[Prediction]:
        """The prediction for each input (a list of texts), with the `top` most likely classes."""
