"""The base class of tasks: a task defines the data, the loss and the scores of a training run.

A task is a subclass of `Task`. It defines where the examples come from and how an example becomes arrays;
everything else has a default. Class methods are called before there is a model, or with a trained run. An
instance, which `build` creates from a recipe, gives a `Trainer` batches, a loss and validation scores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from minigrad import Tensor, no_grad

from ..data.batching import IGNORE, Batch, ShuffledBatches, is_classes, pad
from ..data.labels import check_labels
from ..data.masking import row_generator
from ..data.rows import DataError
from ..data.splits import Sources, Splits, user_splits
from ..errors import UserError, counted_units, did_you_mean, singular
from ..models.protocol import MODELS, model_class
from ..text.tokenizer import Tokenizer
from .inputs import MAX_SHORT, held_out_first, pick_input, warn_of_unknown
from .losses import loss_sum, squared_errors, target_scores, target_statistics
from .metrics import METRICS, Metric
from .predictions import Prediction, class_prediction
from .scores import Score
from .settings import text_tokenizer

Trained = Any  # a run that is loaded from its folder (runs.run.Run), or in training (runs.live.LiveRun)
Rows = list[tuple[str, ...]]  # the rows of predictions.txt, with a header row
VALIDATION = 2**40  # the first step number of validation batches, which training never reaches
T = TypeVar("T", bound="type[Task]")


class Task:
    """Base class of tasks. Define `name`, `Data`, `model_types`, `splits` (or `read_file`) and `encode`.

    Some commands need methods that this class does not define:

    - `train --data` and `evaluate --data` need `read_file(data, path)`, which returns the examples of a file;
    - `predict` needs `read(run, texts)`, which makes an example from a user's texts, with any target;
    - `graph` of a text needs `read`, and calls `with_answer(example, answer)`, if defined, to replace the
      target by the model's answer;
    - `translate` and `chat` need `read` and `translate(run, texts, **decoding)`, see `Translation`;
    - `generate` needs `generate`, `stream_text` and `default_prompt`, see `LanguageModelling`.
    """

    # ------------------------------------------------------------ the data

    name: ClassVar[str]  # the key in TASKS, and the task's name in recipes
    Data: ClassVar[Any]  # the frozen dataclass of a recipe's [data] section
    unit: ClassVar[str] = "examples"  # the plural noun for examples in messages, such as "images"
    own_training: ClassVar[Mapping[str, Any]] = {}  # training settings to use with the user's own file
    special_tokens: ClassVar[Sequence[str]] = ()  # added to the special tokens that every tokenizer has

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        """Return the "train", "validation" and, if there is one, "test" split of a data set or file."""
        if sources.data is None:
            return cls.built_in(data)
        reader = check_reads_files(cls)
        return user_splits(sources, lambda path: reader.read_file(data, path), cls.unit)

    @classmethod
    def built_in(cls, data: Any) -> Splits:
        """Return the splits of one of the package's data sets."""
        raise DataError(f"the task {cls.name} has no data of its own.\nPass yours with --data FILE.")

    @classmethod
    def own_data(cls, data: Any) -> Any:
        """Return the [data] settings for a user's file, without those of a built-in data set."""
        return replace(data, dataset="file") if hasattr(data, "dataset") else data

    @classmethod
    def read_test_file(cls, run: Trained, path: Path) -> Any:
        """Read the examples of a file to score a trained run. Raise a UserError for unknown labels."""
        examples = check_reads_files(cls).read_file(run.recipe.data, path)
        if run.labels:
            check_labels(str(path), cls.labels_in(examples), run.labels)
        return examples

    @classmethod
    def texts(cls, example: Any) -> list[str]:
        """Return the texts of an example; by default, all strings in it."""
        parts = [example] if isinstance(example, str) else example
        return [part for part in parts if isinstance(part, str)]

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Tokenizer | None:
        """Train the tokenizer on the training split, or on `splits.tokenizer_texts` if it has that.

        Return None for a task without a `tokenizer` setting.
        """
        if not hasattr(data, "tokenizer"):
            return None
        texts = {name: [text for each in split for text in cls.texts(each)] for name, split in splits.items()}
        held_out = [text for name, split in texts.items() if name != "train" for text in split]
        train = getattr(splits, "tokenizer_texts", None) or texts["train"]
        return text_tokenizer(data.tokenizer, vocab_size, train, held_out, added=cls.special_tokens)

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        """Return the class names, which are stored in run.json: the sorted labels of the training split."""
        names = sorted(set(cls.labels_in(splits["train"])))
        if len(names) == 1:
            raise DataError(
                f"all training {cls.unit} have the label {names[0][:60]!r}: there is nothing to learn.\n"
                f"Pass data with at least two labels."
            )
        return names

    @classmethod
    def labels_in(cls, examples: Any) -> list[str]:
        """Return the labels of examples, one for each target; an empty list if targets are not classes."""
        return []

    @classmethod
    def reading(cls, splits: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a run must know to read other data like its training data. It is stored in run.json."""
        return {}

    @classmethod
    def filter(cls, data: Any, tokenizer: Any, splits: Splits) -> Splits:
        """Return the splits without the examples that do not fit (see `fits`)."""
        if not cls.misfits:
            return splits
        kept = {
            name: cls.fitting_examples(data, tokenizer, split, f" of the {name} split")
            for name, split in splits.items()
        }
        return splits.keep(kept, cls.misfits.format(data.max_length))

    misfits: ClassVar[str] = ""  # why examples are left out, with {} for max_length; "" keeps all

    @classmethod
    def fits(cls, data: Any, tokenizer: Any, example: Any) -> bool:
        """Whether an example is neither too long for `max_length` nor too short. Used if `misfits` is set."""
        return True

    @classmethod
    def fitting_examples(
        cls, data: Any, tokenizer: Any, examples: Sequence[Any], where: str = ""
    ) -> list[Any]:
        """Return the examples that fit. Raise a DataError if none do."""
        kept = [example for example in examples if cls.fits(data, tokenizer, example)]
        if not kept:
            raise DataError(
                f"no {cls.unit}{where} can be used: "
                f"{cls.misfits.format(data.max_length)}.\n"
                f"Pass others, or train with a larger --max-length."
            )
        return kept

    @classmethod
    def warnings(cls, data: Any, tokenizer: Any, splits: Splits) -> list[str]:
        """Return warnings about examples that are used despite a problem, one line each."""
        return []

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> Self:
        """Create the task of a recipe. Raise a DataError if no validation target can be predicted."""
        train, validation = splits["train"], splits["validation"]
        task = cls(recipe.data, train, validation, tokenizer, labels, recipe.training.seed)
        if len(validation) and not any(batch.n_tokens for batch in task.batches(task.validation)):
            raise DataError(
                "nothing in the validation data can be predicted: no target of it is in the training data.\n"
                "Pass --validation-data with targets of the training data."
            )
        return task

    @classmethod
    def of_run(cls, run: Trained, examples: Sequence[Any]) -> Self:
        """Create a run's task with these examples, for scoring or prediction, with seed 0."""
        return cls(run.recipe.data, examples, examples, run.tokenizer, run.labels)

    def __init__(
        self,
        data: Any,
        train: Any,
        validation: Any,
        tokenizer: Any = None,
        labels: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.data = data
        self.train = train
        self.validation = validation
        self.tokenizer = tokenizer
        self.label_names = list(labels)
        self.label_ids = {label: i for i, label in enumerate(labels)}
        self.seed = seed
        self.order: Any = self.batch_order()

    # ------------------------------------------------------------ the arrays

    stream: ClassVar[int] = 0  # the random stream of `vary`, which is not called if it is 0
    splits_rows: ClassVar[bool] = True  # whether the loss of a batch is the sum of the losses of its rows

    def encode(self, example: Any) -> dict[str, Any]:
        """Return the arrays of one example. Lists of ids are padded in a batch; arrays and numbers are not.

        "target" is what the model predicts: one or more classes, or one or more numbers. Classes equal to
        IGNORE are excluded from the loss. The model reads "input", unless the task overrides `logits`.
        """
        raise NotImplementedError

    def vary(self, row: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
        """Change an encoded row at random, such as by masking tokens. Called if the task sets `stream`.

        `random` depends only on the seed, the stream, the step and the row, so a resumed run draws the same
        numbers.
        """
        return row

    def collate(self, examples: Sequence[Any], step: int) -> Batch:
        """Make a batch of examples. Random numbers may depend only on the seed, step and row, see `vary`."""
        rows = [self.encode(example) for example in examples]
        if self.stream:
            drawn = (row_generator(self.seed, self.stream, step, i) for i in range(len(rows)))
            rows = [self.vary(row, random) for row, random in zip(rows, drawn, strict=True)]
        return pad(rows, getattr(self.tokenizer, "pad_id", None))

    def batch_order(self) -> Any:
        """Return the object that selects the training examples of each step."""
        return ShuffledBatches(len(self.train), self.data.batch_size, self.seed)

    def batch(self, step: int) -> Batch:
        """Return the batch of a step, counted from 0. It depends only on the seed and the step."""
        return self.collate([self.train[i] for i in self.order.rows(step)], step)

    def batches(self, examples: Any) -> Iterator[Batch]:
        """Yield all examples once, in the same batches on each call."""
        for number, start in enumerate(range(0, len(examples), self.data.batch_size)):
            yield self.collate(examples[start : start + self.data.batch_size], VALIDATION + number)

    @property
    def largest_batch(self) -> int:
        """The number of rows in the largest batch."""
        return self.order.largest

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches in one pass over the training data."""
        return self.order.per_epoch

    def split(self, batch: Batch, parts: int) -> Iterator[tuple[int, Batch]]:
        """Split a batch for micro-batches and ranks. Yield the index of a part's first row, and the part.

        A batch with fewer rows than `parts` gives one part per row.
        """
        self.check_parts(parts)
        if parts == 1:
            yield 0, batch
            return
        for rows in split_rows(len(batch["target"]), parts):
            yield int(rows[0]), batch.rows(slice(rows[0], rows[-1] + 1))

    def check_parts(self, parts: int) -> None:
        """Raise a UserError if batches cannot be split into this many parts."""
        if parts > 1 and not self.splits_rows:
            raise UserError(
                f"a batch of the task {self.name} cannot be split into {parts} parts: each of its rows is "
                f"compared with all others.\nTrain with micro_batches = 1, in a single process."
            )

    # ------------------------------------------------------------ the objective

    model_types: ClassVar[tuple[str, ...]]  # the package's models that learn the task, the default first
    requires: ClassVar[tuple[str, ...]] = ()  # methods that a user's own model must have
    is_encoder_decoder: ClassVar[bool | None] = None  # what the model's attribute must be; None: either

    @classmethod
    def check_model(cls, model_type: str) -> None:
        """Raise a UserError if a model of this type cannot learn the task."""
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
        """Raise a UserError if settings of data and model are incompatible."""

    @classmethod
    def model_config(cls, config: Any, tokenizer: Any, labels: Sequence[str] = ()) -> Any:
        """Return the model's settings with the values of `from_data`, for the fields that it has."""
        names = {field.name for field in fields(config)}
        values = cls.from_data(tokenizer, labels)
        return replace(config, **{name: value for name, value in values.items() if name in names})

    @classmethod
    def from_data(cls, tokenizer: Any, labels: Sequence[str]) -> dict[str, Any]:
        """Return the model settings that the data sets: vocabulary size, number of labels, special ids."""
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
        """Return a lower bound on the positions in a batch, to estimate memory, or 0 if none is known."""
        return 0

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """Return the predictions for a batch: the logits of the classes, or a number, for each target.

        An encoder-decoder reads "source" and "target_in", other models read "input". A model may return an
        object with `logits` instead of a Tensor.
        """
        out = model(batch["source"], batch["target_in"]) if "source" in batch else model(batch["input"])
        return out if isinstance(out, Tensor) else out.logits

    def loss(self, model: Any, batch: Batch, label_smoothing: float) -> Tensor:
        """Return the sum of the losses of all targets, a scalar. The trainer divides it by `batch.n_tokens`.

        The loss of a class is its cross-entropy, that of numbers their mean squared error.
        """
        logits = self.logits(model, batch)
        if is_classes(batch["target"]):
            return loss_sum(logits, batch["target"], label_smoothing)
        return squared_errors(logits, batch["target"]).sum()

    # ------------------------------------------------------------ the scores

    metrics: ClassVar[tuple[Callable[..., Any], ...]] = ()  # see `compute_metrics`
    descriptions: ClassVar[Mapping[str, Metric | str]] = {}  # metrics, or just labels, of the task's scores
    accuracy: ClassVar[str] = "accuracy"  # the name of the score "fraction of correct targets"
    live: Trained | None = None  # the run in training, for tasks that generate texts to validate

    @classmethod
    def known_metrics(cls) -> dict[str, Metric]:
        """Return the metrics by score name: METRICS, and the task's `descriptions`."""
        own = {
            name: Metric(each) if isinstance(each, str) else each for name, each in cls.descriptions.items()
        }
        return METRICS | own

    @classmethod
    def metric(cls, name: str) -> Metric:
        """Return the metric of a score. "accuracy, short ones" is formatted like "accuracy"."""
        known = cls.known_metrics()
        other = known.get(name.partition(",")[0], Metric(name))
        return known.get(name) or replace(other, label=name.replace("_", " "))

    def score(self, model: Any, examples: Any) -> Mapping[str, float]:
        """Return the mean loss and, for classes, the fraction of correct targets, as `Score`s."""
        return self.scores_of(self.statistics(model, examples), examples)

    @no_grad()
    def statistics(self, model: Any, examples: Any, rows: list[np.ndarray] | None = None) -> np.ndarray:
        """Return the `target_statistics` summed over each example. Append each example's logits to `rows`."""
        found = []
        for batch in self.batches(examples):
            logits = self.logits(model, batch)
            each = target_statistics(logits, batch["target"])
            found.append(each.reshape(len(each), -1, each.shape[-1]).sum(1))
            if rows is not None:
                rows += [*logits.numpy()]
        return np.concatenate(found)

    def scores_of(self, statistics: np.ndarray, examples: Any) -> dict[str, Score]:
        """Return the scores. A target that is not in the training data has no loss, but counts as wrong."""
        scores = target_scores(statistics, self.accuracy)
        if self.accuracy in scores:
            unknown = np.array([self.unknown_targets(example) for example in examples])
            correct, known = statistics[:, 1:].T
            scores[self.accuracy] = Score(np.stack([correct, known + unknown], -1))
        return scores

    def label_id(self, label: str) -> int:
        """Return the class of a label; IGNORE if it is not in the training data (see `unknown_targets`)."""
        return self.label_ids.get(label, IGNORE)

    def unknown_targets(self, example: Any) -> int:
        """Return the number of an example's targets that are not in the training data."""
        return sum(label not in self.label_ids for label in self.labels_in([example]))

    def validate(self, model: Any) -> dict[str, float]:
        """Return the scores of the validation split. The score that --monitor names selects checkpoints."""
        return {name: float(score) for name, score in self.score(model, self.validation).items()}

    @property
    def has_loss(self) -> bool:
        """Whether validation scores surely include a loss: True if no user's class overrides the scoring."""
        methods = type(self).score, type(self).validate
        return all(method.__module__.startswith(f"{__package__}.") for method in methods)

    @classmethod
    def compute_metrics(cls, predictions: Sequence[Any], expected: Sequence[Any]) -> dict[str, Any]:
        """Return the scores of all `metrics`.

        A metric is a function of predictions and expected answers. It returns a dict of scores, or one score,
        which gets the function's name.
        """
        scores: dict[str, Any] = {}
        for metric in cls.metrics:
            found = metric(predictions, expected)
            scores |= found if isinstance(found, Mapping) else {metric.__name__: found}
        return scores

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        """Return the scores, including `n`, the number of examples, and the rows of predictions.txt, if any.

        `decoding` has arguments of `generate`, for tasks with `translate`.
        """
        examples = cls.within_limit(run, examples)
        task = cls.of_run(run, examples)
        logits: list[np.ndarray] = []
        statistics = task.statistics(run.model, examples, logits)
        has_own = type(task).score is not Task.score
        found = task.score(run.model, examples) if has_own else task.scores_of(statistics, examples)
        scores: dict[str, Any] = {**found, "n": len(examples)}
        if statistics.shape[1] == 2 and "loss" in scores:  # of numbers: the loss is not in nats
            scores["mse"] = scores.pop("loss")
        rows = task.answers(logits, examples)
        if rows and cls.metrics:
            _, expected, predictions = zip(*rows, strict=True)
            known = {name: scores[name] for name in ("loss", "mse", "n") if name in scores}
            scores = cls.compute_metrics(predictions, expected) | known
        shown = [(text, answer_text(answer), answer_text(found)) for text, answer, found in rows]
        return scores, [("input", "expected", "prediction"), *shown] if rows else []

    @classmethod
    def within_limit(cls, run: Trained, examples: Any) -> Any:
        """Return the examples that the run can read, and warn of others. Raise a UserError if none fit."""
        if not len(examples):
            raise UserError("there is nothing to score.\nPass data with at least one example.")
        if not cls.misfits:
            return examples
        data = run.recipe.data
        kept = cls.fitting_examples(data, run.tokenizer, examples)
        if left_out := len(examples) - len(kept):
            why = cls.misfits.format(data.max_length)
            print(f"warning: left out {counted_units(left_out, cls.unit)}: {why}", file=sys.stderr)
        return kept

    @classmethod
    def title(cls, example: Any, number: int) -> str:
        """Return the input of an example as text; for data without text, the unit and `number`."""
        return " | ".join(cls.texts(example)) or f"{singular(cls.unit)} {number}"

    @no_grad()
    def rows_of_logits(self, model: Any, examples: Sequence[Any]) -> list[np.ndarray]:
        """Return the logits of each example."""
        return [row for batch in self.batches(examples) for row in self.logits(model, batch).numpy()]

    def answers(self, logits: Sequence[np.ndarray], examples: Sequence[Any]) -> list[tuple[str, Any, Any]]:
        """Return the input, correct answer and prediction of each example; [] without labels and metrics."""
        if not (self.label_names or self.metrics):
            return []
        if logits[0].ndim > 1 and type(self).decode is Task.decode:
            return []  # the task does not decode several targets
        return [
            (self.title(example, n), self.expected(example), self.decode(logits[n], example))
            for n, example in enumerate(examples)
        ]

    def decode(self, logits: np.ndarray, example: Any) -> Any:
        """Return the prediction for an example: the name of a class, a number, or a list of numbers."""
        if self.label_names:
            return self.label_names[int(logits.argmax())]
        return logits.item() if logits.size == 1 else logits.tolist()

    def expected(self, example: Any) -> Any:
        """Return the correct answer, to compare with `decode`'s; a tuple if several are accepted."""
        if labels := self.labels_in([example]):
            return " ".join(labels)
        target = np.asarray(self.encode(example)["target"])
        if self.label_names:
            return self.label_names[target.item()] if target.item() >= 0 else ""
        return float(target.item()) if target.size == 1 else target.tolist()

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        """Return a few predictions, one line each, to print after training."""
        examples = splits.get("test", splits["validation"])[:5]
        task = cls.of_run(run, examples)
        found = task.answers(task.rows_of_logits(run.model, examples), examples)
        return [f"{text} -> {answer_text(prediction)}" for text, _, prediction in found]

    # ------------------------------------------------------------ a user's inputs

    inputs: ClassVar[tuple[str, ...]] = ("a text",)  # what the texts of an input are, such as "a question"
    marks: ClassVar[tuple[str, ...]] = ()  # special tokens that a user may write in a text
    reads_words: ClassVar[bool] = False  # whether a text may be a list of words

    @classmethod
    def as_read(cls, run: Trained, text: str) -> str:
        """Return a user's text in the format of the training texts."""
        return text

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        """Return a list with one short input (a list of texts) from the held-out data; [] if there is none.

        The input is stored in run.json, and is part of the example command that training prints.
        """
        if tokenizer is None:
            return []
        number = len(cls.inputs)
        candidates = (cls.texts(example)[:number] for example in held_out_first(splits))
        limit = min(MAX_SHORT, getattr(data, "max_length", 2 * MAX_SHORT) - 3)
        return pick_input(tokenizer, candidates, limit * number)

    @classmethod
    def read_input(cls, run: Trained, texts: Sequence[Any]) -> Any:
        """Make an example from a user's texts. Raise a UserError if there is nothing to predict."""
        return reading_task(cls).read(run, texts)

    @classmethod
    def predictions(
        cls, run: Trained, inputs: Sequence[Sequence[Any]], top: int = 5, **decoding: Any
    ) -> list[Prediction]:
        """Return the `predict` results for a user's inputs, each a list of texts."""
        return cls.predict(run, [cls.read_input(run, texts) for texts in inputs], top, **decoding)

    @classmethod
    def predict(
        cls, run: Trained, examples: Sequence[Any], top: int = 5, **decoding: Any
    ) -> list[Prediction]:
        """Return a prediction for each example, with the `top` most likely classes.

        `decoding` has arguments of `generate`, for tasks with `translate`. If `num_return_sequences` is
        given, each example has that many consecutive predictions.
        """
        task = cls.of_run(run, examples)
        rows = task.rows_of_logits(run.model, examples)
        return [task.prediction(logits, example, top) for logits, example in zip(rows, examples, strict=True)]

    def prediction(self, logits: np.ndarray, example: Any, top: int) -> Prediction:
        """Return the prediction for an example, given its logits, as text and as values for programs."""
        if self.label_names and logits.ndim == 1:
            return class_prediction(logits, self.label_names, top)
        found = self.decode(logits, example)
        return Prediction(answer_text(found), {"prediction": found})

    @classmethod
    def example(cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]) -> tuple[Self, str]:
        """Return a task whose only batch is one example, and the example's title.

        The example is made from the user's texts; without texts, it comes from the validation data. `graph`
        draws the computation graph of its loss.
        """
        if not texts:
            example = cls.default_example(run, validation())
        else:
            example = reading_task(cls).read(run, texts)
            if run.tokenizer is not None:
                warn_of_unknown(run, cls.texts(example))
            if hasattr(cls, "with_answer") and len(texts) == len(cls.inputs):
                (found,) = cls.predict(run, [example])
                task: Any = cls.of_run(run, [example])
                example = task.with_answer(example, found.values["prediction"])
        return cls.of_run(run, [example]), cls.title(example, 0)

    @classmethod
    def default_example(cls, run: Trained, examples: Any) -> Any:
        """Return the example that `graph` draws by default."""
        return examples[0]


def check_reads_files(task: Any) -> Any:
    """Return the task. Raise a UserError if it cannot read the user's files."""
    if hasattr(task, "read_file"):
        return task
    raise UserError(
        f"the task {task.name} cannot read your own files.\nLeave --data out to use the run's data."
    )


def reading_task(task: Any) -> Any:
    """Return the task. Raise a UserError if it cannot make examples from a user's texts."""
    if hasattr(task, "read"):
        return task
    raise UserError(
        f"the task {task.name} cannot read a text: it has no `read`.\n"
        f"Define it (see docs/your-own.md#a-task). "
        f"Without a text, `graph` draws an example of the data."
    )


def answer_text(answer: Any) -> str:
    """Format a prediction or a correct answer as text."""
    if isinstance(answer, float):
        return f"{answer:.4g}"
    return answer if isinstance(answer, str) else " | ".join(map(answer_text, answer))


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
    """Return the task registered under a name. Raise a UserError if there is none."""
    if name not in list(TASKS):
        raise UserError(
            f"unknown task {name!r:.60}.{did_you_mean(str(name), TASKS)}\n"
            f"Choose one of {', '.join(sorted(TASKS))}; or if it is a task of your own, run the program that "
            f"registers it: `python mine.py train ...`."
        )
    return TASKS[name]


# ---------------------------------------------------------------- shared functions


def needed_options(run: Trained) -> Mapping[str, Any]:
    """Return the options of `generate` that a run's model needs."""
    return getattr(run, "generation", {})


def split_rows(n: int, parts: int) -> list[np.ndarray]:
    """Split the numbers from 0 to n - 1 into `parts` parts of similar sizes, at most n."""
    return np.array_split(np.arange(n), min(n, parts))


def first_rows(task: Task, batch: Any, count: int) -> Any:
    """Return about the first `count` rows of a task's batch; the whole batch if it cannot be split."""
    if not task.splits_rows:
        return batch
    parts = -(-len(batch["target"]) // max(count, 1))
    return next(part for _, part in task.split(batch, parts) if part.n_tokens)
