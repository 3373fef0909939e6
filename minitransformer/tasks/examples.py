"""Base class of tasks on separate examples, which are shuffled in each epoch and collated into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from minigrad import Tensor, no_grad

from ..data.batching import IGNORE, SHUFFLE, generator
from ..data.rows import DataError
from ..errors import UserError, counted
from .base import Rows, Task, Trained
from .predictions import Prediction
from .protocols import ReadsExamples
from .scores import Score

VALIDATION = 2**40  # the first step number of validation batches, which training never reaches
B = TypeVar("B", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """Arrays whose first axis is the example. `target` has classes, or IGNORE where there is no target.

    Subclass this for models that read more than one array.
    """

    input: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self: B, rows: slice) -> B:
        return type(self)(*(array[rows] for array in vars(self).values()))

    @property
    def n_tokens(self) -> int:
        """The number of targets."""
        return int((self.target != IGNORE).sum())


class ExampleTask(Task):
    """Base class of tasks on separate examples.

    A subclass defines `splits` and `collate`, and its `[data]` section has a `batch_size`. The examples of a
    step depend on seed and step only.
    """

    # ------------------------------------------------------------ the data

    without_targets: ClassVar[str] = (  # the error for validation data without targets
        "no label of the validation data occurs in the training data.\n"
        "Pass --validation-data with labels of the training data."
    )

    def __init__(
        self,
        data: Any,
        train: Sequence[Any],
        validation: Sequence[Any],
        tokenizer: Any = None,
        labels: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.data = data
        self.train = train
        self.validation = validation
        self.tokenizer = tokenizer
        self.label_names = list(labels)
        self.seed = seed
        self.step = 0
        self._epoch = -1
        self._order = np.arange(0)

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> Self:
        train, validation = splits["train"], splits["validation"]
        task = cls(recipe.data, train, validation, tokenizer, labels, recipe.training.seed)
        if len(validation) and not any(batch.n_tokens for batch in task.batches(validation)):
            raise DataError(cls.without_targets)
        return task

    def collate(self, examples: Sequence[Any], step: int) -> Any:
        """Collate examples into a batch.

        Random numbers (such as masked positions) may depend on seed, step and row only: draw them from
        `data.masking.row_generator(self.seed, STREAM, step, row)`.
        """
        raise NotImplementedError

    def unknown_targets(self, example: Any) -> int:
        """The number of an example's targets that the model cannot predict; they count as wrong."""
        return 0

    @property
    def largest_batch(self) -> int:
        return min(self.data.batch_size, len(self.train))

    @property
    def batches_per_epoch(self) -> int:
        return max(len(self.train) // self.data.batch_size, 1)  # drops the last, smaller batch

    def next_batch(self) -> Any:
        epoch, number = divmod(self.step, self.batches_per_epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = generator(self.seed, SHUFFLE, epoch).permutation(len(self.train))
        rows = self._order[number * self.data.batch_size :][: self.data.batch_size]
        self.step += 1
        return self.collate([self.train[i] for i in rows], self.step - 1)

    def batches(self, examples: Sequence[Any]) -> Iterator[Any]:
        for number, start in enumerate(range(0, len(examples), self.data.batch_size)):
            yield self.collate(examples[start : start + self.data.batch_size], VALIDATION + number)

    def state(self) -> dict[str, Any]:
        return {"step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]

    # ------------------------------------------------------------ the objective

    def logits(self, model: Any, batch: Any) -> Tensor:
        """The model's logits, one row per target. The model may return an object with `logits`."""
        out = model(batch.input)
        return getattr(out, "logits", out)

    # ------------------------------------------------------------ the scores

    def score(self, model: Any, examples: Any) -> Mapping[str, float]:
        """The mean loss of targets with known labels, and the fraction of all targets that are predicted."""
        scores: dict[str, Any] = dict(super().score(model, examples))
        unknown = np.array([self.unknown_targets(example) for example in examples])
        if unknown.any():
            known = scores[self.accuracy].statistics
            scores[self.accuracy] = Score(known + np.stack([np.zeros_like(unknown), unknown], -1))
        return scores

    def predict(self, model: Any, examples: Sequence[Any]) -> list[tuple[str, str, str]]:
        """The input, the correct answer and the prediction of each example, as text; by default, none."""
        return []

    @classmethod
    def of_run(cls, run: Trained, examples: Sequence[Any]) -> Self:
        """The task of a run with these examples. Its random numbers do not depend on the run's seed."""
        return cls(run.recipe.data, examples, examples, run.tokenizer, run.labels)

    @classmethod
    @no_grad()
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        if not len(examples):
            raise UserError("there is nothing to score.\nPass data with at least one example.")
        task = cls.of_run(run, examples)
        scores = {**task.score(run.model, examples), "n": len(examples)}
        rows = task.predict(run.model, examples)
        return scores, [("input", "expected", "prediction"), *rows] if rows else []

    @classmethod
    @no_grad()
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        examples = splits.get("test", splits["validation"])[:5]
        rows = cls.of_run(run, examples).predict(run.model, examples)
        return [f"{text} -> {prediction}" for text, _, prediction in rows]

    @classmethod
    def example(cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]) -> tuple[Self, str]:
        """An example of the user's texts (see `ReadsExamples`), or the first of the validation split."""
        example = check_reads_examples(cls).read_example(run, texts) if texts else validation()[0]
        task = cls.of_run(run, [example])
        rows = task.predict(run.model, [example])
        return task, rows[0][0] if rows else f"{cls.name}: an example"

    # ------------------------------------------------------------ predicting

    @classmethod
    @no_grad()
    def predictions(cls, run: Trained, inputs: Sequence[Sequence[str]], top: int = 5) -> list[Prediction]:
        if not inputs:
            return []
        examples = [check_reads_examples(cls).read_example(run, texts) for texts in inputs]
        rows = cls.of_run(run, examples).predict(run.model, examples)
        if len(rows) != len(inputs):
            raise UserError(
                f"the task {cls.name} predicts nothing: its `predict` returns {counted(len(rows), 'row')} "
                f"for {counted(len(inputs), 'example')}.\n"
                f"Return one for each (see docs/your-data.md#a-task-of-your-own)."
            )
        return [Prediction(text, {"prediction": text}) for _, _, text in rows]


def check_reads_examples(task: Any) -> type[ReadsExamples]:
    """The task; a UserError if it cannot make examples from a user's texts."""
    if isinstance(task, ReadsExamples):
        return task  # type: ignore[return-value]
    raise UserError(
        f"the task {task.name} cannot read a text: it has no `read_example`.\n"
        f"Define it (see docs/your-data.md#a-task-of-your-own). "
        f"Without a text, `graph` draws an example of the data."
    )
