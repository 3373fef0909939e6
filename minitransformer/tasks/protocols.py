"""What a task is: its data, its objective and its scores, and what only some tasks do.

A task is one class. Its class methods are called before there is a model, or with a run that is trained; an
instance, which `build` makes of a recipe, gives a `Trainer` batches, a loss and a validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from minigrad import Tensor

from ..data.splits import Splits
from .metrics import Metric
from .predictions import Prediction

Rows = list[tuple[str, ...]]  # of predictions.txt, the names of the columns first


class Trained(Protocol):
    """A run that was loaded from its folder (`runs.run.Run`), or is being trained (`runs.live.LiveRun`)."""

    folder: Path
    recipe: Any
    task: Any
    tokenizer: Any
    labels: list[str]
    model: Any

    @property
    def reading(self) -> Mapping[str, Any]:
        """How its training data is read (`TaskData.reading`); empty if that is not known."""

    def splits(self) -> Splits:
        """The splits that the run was trained with."""


# ---------------------------------------------------------------- the three protocols


class TaskData(Protocol):
    """Where examples come from, and the batches that a trainer reads.

    `train` calls, in this order: splits, train_tokenizer, labels, reading, filter, labels_in, build and
    warnings. Then the trainer calls next_batch and split for each step. A batch has `target`, integers of
    any shape whose first axis is the example, -100 (IGNORE) where there is no target; and `n_tokens`, the
    number of targets.
    """

    name: ClassVar[str]  # in TASKS and recipes
    Data: ClassVar[Any]  # the [data] section, a frozen dataclass
    unit: ClassVar[str]  # what examples are called: "pairs"

    @classmethod
    def splits(cls, data: Any, sources: Any) -> Splits:
        """The "train", "validation" and (else the latter is scored) "test" splits."""
        raise NotImplementedError

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Any:
        """The tokenizer, trained on the training split; None for data without text."""

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        """The names of the classes that a model tells apart. The run remembers them."""

    @classmethod
    def labels_in(cls, examples: Any) -> list[str]:
        """The labels of examples, one by one; empty for data whose targets are not classes."""

    @classmethod
    def reading(cls, splits: Mapping[str, Any]) -> dict[str, Any]:
        """How the training data is read, beyond the settings. The run remembers it in run.json."""

    @classmethod
    def filter(cls, data: Any, tokenizer: Any, splits: Splits) -> Splits:
        """The splits without examples that cannot be used."""

    @classmethod
    def warnings(cls, data: Any, tokenizer: Any, splits: Splits) -> list[str]:
        """What is wrong with examples that are used all the same, a line each."""

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> Self:
        """The task of a recipe, with its batches."""
        raise NotImplementedError

    @property
    def largest_batch(self) -> int:
        """The number of rows in the largest batch."""
        raise NotImplementedError

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches in which the training data is read once."""

    def next_batch(self) -> Any:
        """The batch of the next step."""
        raise NotImplementedError

    def batches(self, examples: Any) -> Iterator[Any]:
        """All examples once, in batches, always the same."""
        raise NotImplementedError

    def split(self, batch: Any, parts: int) -> Iterator[tuple[int, Any]]:
        """The batch in parts (micro-batches times ranks), each with the number of its first row."""

    def check_parts(self, parts: int) -> None:
        """Raise a UserError if batches cannot be split into so many parts."""

    def state(self) -> dict[str, Any]:
        """Where in the data the training is, for a checkpoint."""
        raise NotImplementedError

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        raise NotImplementedError


class Objective(Protocol):
    """Which models learn the task, and what they minimize.

    `Recipe` calls check_model and check, `build_model` calls model_config. The trainer calls loss for each
    part of a batch, and divides by the batch's `n_tokens`.
    """

    model_types: ClassVar[tuple[str, ...]]  # of the package's models; the first is the default
    requires: ClassVar[tuple[str, ...]]  # the methods that your own model must have
    is_encoder_decoder: ClassVar[bool | None]  # which models it takes; None: both

    @classmethod
    def check_model(cls, model_type: str) -> None:
        """Raise a UserError for a model that cannot learn this task."""

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        """Raise a UserError for settings of data and model that contradict each other."""

    @classmethod
    def model_config(cls, config: Any, tokenizer: Any, labels: Sequence[str] = ()) -> Any:
        """The model's settings with what the data decides, such as `vocab_size` and `num_labels`."""

    @classmethod
    def positions(cls, data: Any) -> int:
        """How many positions of a batch a model computes at least, all of them together."""

    def logits(self, model: Any, batch: Any) -> Tensor:
        """What the model says of the batch, (..., V): a logit for each class of each target (...)."""
        raise NotImplementedError

    def loss(self, model: Any, batch: Any, label_smoothing: float) -> Tensor:
        """The sum of the losses of all targets, a scalar."""


class Scores(Protocol):
    """How good a model is: during training, of a trained run, and of single examples.

    The trainer calls validate; `evaluate` and `compare` call evaluate. Scores that are a `Score` remember
    what each example adds: they get intervals, and can be compared with other runs'.
    """

    metrics: ClassVar[Mapping[str, Metric | str]]  # beside the common ones (METRICS); a text is a label

    @classmethod
    def known_metrics(cls) -> dict[str, Metric]:
        """The scores that are described: the common ones, and those of the task."""

    @classmethod
    def metric(cls, name: str) -> Metric:
        """What is known of a score: its label, and whether higher is better."""

    def score(self, model: Any, examples: Any) -> Mapping[str, float]:
        """The scores of examples with the right targets given, such as the mean loss."""

    def validate(self, model: Any) -> dict[str, float]:
        """The scores of the validation split; the one that --monitor names chooses the best checkpoint."""

    @property
    def has_loss(self) -> bool:
        """Whether validations are known to have a loss."""

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        """Scores, with `n`, the number of what was scored, and the rows of predictions.txt, if any.

        `decoding` are arguments of `generate`, for a task that `Translates`.
        """
        raise NotImplementedError

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        """A few results, a line each, printed after training."""

    @classmethod
    def example(cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]) -> tuple[Any, str]:
        """A task whose only batch is one example, and its title: of the user's texts, or of the data.

        `graph` draws what its loss is computed from.
        """
        raise NotImplementedError


# ---------------------------------------------------------------- what only some tasks do


class ReadsTexts(Protocol):
    """How an input of the user's is read, for `predict`, `explain` and warnings of unknown words.

    Each task has these; the defaults are those of one text, read as it is.
    """

    inputs: ClassVar[tuple[str, ...]]  # what the texts of an input are called: ("a question", "a context")
    marks: ClassVar[tuple[str, ...]]  # special tokens that a user may write in a text
    reads_words: ClassVar[bool]  # whether a text may be a list of words
    not_recorded: ClassVar[tuple[str, str]]  # what a run without `reading` does not say; a remedy

    @classmethod
    def as_read(cls, run: Trained, text: str) -> str:
        """A user's text, written as the texts of the training data are."""

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        """A short input of the held-out data that a run can read, as its texts; [] if there is none.

        The run remembers it: it is in the command that training prints.
        """


@runtime_checkable
class ReadsFiles(Protocol):
    """A task that reads a file of the user's: for `train --data` and `evaluate --data`."""

    @classmethod
    def read_file(cls, data: Any, path: Path) -> Any:
        """All examples of a file."""

    @classmethod
    def read_test_file(cls, run: Trained, path: Path) -> Any:
        """The same, to score a trained run on; a UserError for labels that it does not know."""

    @classmethod
    def own_data(cls, data: Any) -> Any:
        """The [data] section for a file of the user's, which is no longer about its data set."""


@runtime_checkable
class ReadsExamples(Protocol):
    """A task that makes an example of a user's texts: for `predict` and `graph`."""

    @classmethod
    def read_example(cls, run: Trained, texts: Sequence[str]) -> Any:
        """An example of the texts of an input, with any target; a UserError if the run cannot read them."""


@runtime_checkable
class Translates(Protocol):
    """A task whose models write a text for a text: for `translate` and `chat`."""

    @classmethod
    def translate(cls, run: Trained, texts: Sequence[str], **decoding: Any) -> list[str]:
        """What the model writes for each text: one, or `num_return_sequences` for the first, then ..."""

    @classmethod
    def source_ids(cls, run: Trained, text: str) -> list[int]:
        """The ids of a text to translate; a UserError if it is empty or too long for the run."""


@runtime_checkable
class Continues(Protocol):
    """A task whose models continue a text: for `generate`."""

    @classmethod
    def default_prompt(cls, run: Trained) -> str:
        """What a model continues if no prompt is given."""

    @classmethod
    def generate(cls, run: Trained, prompt: str, max_new_tokens: int, **decoding: Any) -> list[str]:
        """How the model continues a text: one text, or `num_return_sequences`."""

    @classmethod
    def stream_text(cls, run: Trained, prompt: str, max_new_tokens: int, **decoding: Any) -> Iterator[str]:
        """How the model continues a text, piece by piece as its tokens come."""


@runtime_checkable
class Predicts(Protocol):
    """A task whose models label, answer or complete: for `predict`."""

    @classmethod
    def predictions(cls, run: Trained, inputs: Sequence[Sequence[str]], top: int = 5) -> list[Prediction]:
        """What the model says of each input, which is a text or several; of classes, the `top` likeliest."""
