"""Tasks whose data are separate examples: shuffled in each epoch, and collated into batches of one size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from minigrad import Tensor, no_grad

from ..data.batching import IGNORE, SHUFFLE, generator
from ..data.datasets import DataError
from ..errors import UserError, counted
from .base import Rows, Task, Trained
from .predictions import Prediction
from .protocols import ReadsExamples
from .scores import Score

VALIDATION = 2**40  # the first step number of validation batches, which training never reaches
B = TypeVar("B", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """Arrays whose first axis is the example. `target` has classes, IGNORE where there is none.

    A task whose models read more than one array derives its batch from this one.
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
    """The base of tasks with separate examples.

    A kind of its own has `splits` and `collate`, and `[data]` has a `batch_size`. The examples of a step are
    a function of seed and step.
    """

    # ------------------------------------------------------------ the data

    without_targets: ClassVar[str] = (  # the error for validation data that has none
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
        """A batch of examples. What is drawn (such as masked positions) is a function of seed, step and row:
        `data.masking.row_generator(self.seed, STREAM, step, row)`."""
        raise NotImplementedError

    def unknown_targets(self, example: Any) -> int:
        """The number of an example's targets that no model of the task can predict: they count as wrong."""
        return 0

    @property
    def largest_batch(self) -> int:
        return min(self.data.batch_size, len(self.train))

    @property
    def batches_per_epoch(self) -> int:
        return max(len(self.train) // self.data.batch_size, 1)  # what is left over waits for another epoch

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
        """The model's logits, one row for each target. A model may return an object with `logits`."""
        out = model(batch.input)
        return getattr(out, "logits", out)

    # ------------------------------------------------------------ the scores

    def score(self, model: Any, examples: Any) -> Mapping[str, float]:
        """Mean loss of the targets that are known, and the share of all targets that the model gets right."""
        scores: dict[str, Any] = dict(super().score(model, examples))
        unknown = np.array([self.unknown_targets(example) for example in examples])
        if unknown.any():
            known = scores[self.accuracy].statistics
            scores[self.accuracy] = Score(known + np.stack([np.zeros_like(unknown), unknown], -1))
        return scores

    def predict(self, model: Any, examples: Sequence[Any]) -> list[tuple[str, str, str]]:
        """Each example's input, what is right, and what the model says, as text; empty if there is none."""
        return []

    @classmethod
    def of_run(cls, run: Trained, examples: Sequence[Any]) -> Self:
        """The task of a run, with these examples. What it draws is the same for runs of all seeds."""
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
        return [f"{given} -> {prediction}" for given, _, prediction in rows]

    @classmethod
    def example(cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]) -> tuple[Self, str]:
        """One of the user's (see `ReadsExamples`), or the first of the validation split."""
        example = reader(cls).read_example(run, texts) if texts else validation()[0]
        task = cls.of_run(run, [example])
        named = task.predict(run.model, [example])
        return task, named[0][0] if named else f"{cls.name}: an example"

    # ------------------------------------------------------------ predicting

    @classmethod
    @no_grad()
    def predictions(cls, run: Trained, inputs: Sequence[Sequence[str]], top: int = 5) -> list[Prediction]:
        if not inputs:
            return []
        examples = [reader(cls).read_example(run, texts) for texts in inputs]
        rows = cls.of_run(run, examples).predict(run.model, examples)
        if len(rows) != len(inputs):
            raise UserError(
                f"the task {cls.name} predicts nothing: its `predict` gives {counted(len(rows), 'row')} "
                f"for {counted(len(inputs), 'example')}.\n"
                f"Let it return one for each (see docs/your-data.md#a-task-of-your-own)."
            )
        return [Prediction(said, {"prediction": said}) for _, _, said in rows]


def reader(task: Any) -> type[ReadsExamples]:
    """The task, if it makes examples of a user's texts; else a UserError."""
    if isinstance(task, ReadsExamples):
        return task  # type: ignore[return-value]
    raise UserError(
        f"the task {task.name} reads no text: it has no `read_example`.\n"
        f"Give it one (see docs/your-data.md#a-task-of-your-own). "
        f"`graph` without a text draws an example of the data."
    )
