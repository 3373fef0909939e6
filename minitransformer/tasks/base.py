"""What a task is, and the registry of tasks.

A task's class methods say all that is asked about a kind of data: where it comes from, which models learn it,
how they are scored. An instance gives a trainer batches, a loss and a validation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, no_grad
from minigrad.nn import functional as F

from ..data.batching import IGNORE
from ..data.labels import check_labels
from ..data.splits import Sources, Splits
from ..errors import UserError, counted_units, nearest
from ..files import printable, shell_command
from ..models.protocol import MODELS, model_class
from ..text.tokenizer import Tokenizer
from .metrics import METRICS, Metric
from .predictions import Prediction
from .scores import Score

T = TypeVar("T", bound="type[Task]")
Rows = list[tuple[str, ...]]  # of predictions.txt, the names of the columns first


class Trained(Protocol):
    """A run that was loaded from its folder (`runs.run.Run`)."""

    folder: Path
    recipe: Any
    task: Any
    tokenizer: Any
    labels: list[str]
    model: Any

    @property
    def reading(self) -> Mapping[str, Any]:
        """How its training data is read (`Task.reading`); empty if that is not known."""

    def splits(self) -> Splits:
        """The splits that the run was trained with."""


class Task:
    """The base of tasks: see `Translation` for all of it, and `ExampleTask` for tasks with plain batches.

    A batch has `target` (integers, IGNORE where there is none) and `n_tokens` (their number), and can be
    constructed from its arrays.
    """

    name: ClassVar[str]  # in TASKS and recipes
    Data: ClassVar[Any]  # the [data] section, a frozen dataclass
    model_types: ClassVar[tuple[str, ...]]  # of the package's models; the first is the default
    requires: ClassVar[tuple[str, ...]] = ()  # the methods that your own model must have
    is_encoder_decoder: ClassVar[bool | None] = None  # which models it takes; None: both
    unit: ClassVar[str] = "examples"  # what a split is counted in
    noun: ClassVar[str] = "model"  # what a model of it is called in messages
    verb: ClassVar[str] = "evaluate"  # the command that uses such a model
    inputs: ClassVar[tuple[str, ...]] = (
        "a text",
    )  # the texts of an input of `predict`, as messages name them
    marks: ClassVar[tuple[str, ...]] = ()  # special tokens that a user may write in a text
    reads_words: ClassVar[bool] = False  # whether a text of an input may be a list of words
    metrics: ClassVar[Mapping[str, Metric | str]] = {}  # its scores beside the common ones; a text is a label
    scored: ClassVar[str] = ""  # what `n` of its scores counts, if not `unit`
    not_recorded: ClassVar[tuple[str, str]] = ("", "")  # what a run without `reading` does not say; a remedy

    # ------------------------------------------------------------ the data

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        """The "train", "validation" and (else the latter is scored) "test" splits."""
        raise NotImplementedError

    @classmethod
    def read_file(cls, data: Any, path: Path) -> Any:
        """A whole file as a split, to score a run on."""
        raise UserError(
            f"the task {cls.name} reads no file of your own.\nLeave --data out to use the data of the run."
        )

    @classmethod
    def read_test_file(cls, run: Trained, path: Path) -> Any:
        """`read_file`, of which a trained run is to be scored: an error for labels that it does not know."""
        examples = cls.read_file(run.recipe.data, path)
        if run.labels:
            check_labels(printable(path), cls.labels_in(examples), run.labels)
        return examples

    @classmethod
    def own_data(cls, data: Any) -> Any:
        """The [data] section for a file of the user's, which is no longer about its data set."""
        return replace(data, dataset="file")

    @classmethod
    def filter(cls, data: Any, tokenizer: Any, splits: Splits) -> Splits:
        """The splits without examples that cannot be used."""
        return splits

    @classmethod
    def describe(cls, data: Any, tokenizer: Any, splits: Splits) -> list[str]:
        """How many examples each split has, and how many were dropped and why."""
        counts = ", ".join(f"{len(split):,} {name}" for name, split in splits.items())
        dropped = ", ".join(counted_units(n, reason) for reason, n in splits.dropped.items() if n)
        return [f"{cls.unit}: {counts}" + (f"; dropped: {dropped}" if dropped else "")]

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Tokenizer | None:
        """The tokenizer, trained on the training split; None for data without text."""
        return None

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        """The names of the classes that a model tells apart. The run remembers them."""
        return []

    @classmethod
    def labels_in(cls, examples: Any) -> list[str]:
        """The labels of examples, one by one; empty for data whose targets are not classes."""
        return []

    @classmethod
    def reading(cls, splits: Mapping[str, Any]) -> dict[str, Any]:
        """How the training data is read, beyond the settings: a user's inputs are read so too. The run
        remembers it, in run.json."""
        return {}

    # ------------------------------------------------------------ the model

    @classmethod
    def check_model(cls, model_type: str) -> None:
        """Raise a UserError for a model that cannot learn this task."""
        model: Any = model_class(model_type)
        known = isinstance(MODELS[model_type], str)  # of the package, not registered by the user
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
        """Raise a UserError for settings of data and model that contradict each other."""

    @classmethod
    def model_config(cls, config: Any, tokenizer: Any, labels: Sequence[str] = ()) -> Any:
        """The config with what the data decides: the values of `from_data` that it has a field for."""
        names = {field.name for field in fields(config)}
        values = cls.from_data(tokenizer, labels)
        return replace(config, **{name: value for name, value in values.items() if name in names})

    @classmethod
    def from_data(cls, tokenizer: Any, labels: Sequence[str]) -> dict[str, Any]:
        """What the data decides of a model: sizes of vocabulary and classes, ids of special tokens."""
        values: dict[str, Any] = {"num_labels": len(labels)} if labels else {}
        if tokenizer is not None:
            values |= {
                "vocab_size": tokenizer.vocab_size,
                "pad_token_id": tokenizer.pad_id,
                "bos_token_id": tokenizer.start_id,
                "eos_token_id": tokenizer.end_id,
                "decoder_start_token_id": tokenizer.start_id,
            }
        return values

    @classmethod
    def positions(cls, data: Any) -> int:
        """How many positions of a batch a model computes at least, all of them together."""
        return 0

    # ------------------------------------------------------------ a trained model

    @classmethod
    def known_metrics(cls) -> dict[str, Metric]:
        """The scores that are described: the common ones, and those of the task."""
        own = {name: Metric(each) if isinstance(each, str) else each for name, each in cls.metrics.items()}
        return METRICS | own

    @classmethod
    def metric(cls, name: str) -> Metric:
        """What is known of a score; "accuracy, short ones" is written as accuracy is."""
        known = cls.known_metrics()
        other = known.get(name.partition(",")[0], Metric(name))
        return known.get(name) or replace(other, label=name.replace("_", " "))

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        """Scores, with `n`, the number of what was scored, and the rows of predictions.txt, if any.

        Those that are a `Score` get intervals, and can be compared with other runs'.
        `decoding` are arguments of `generate`, for a task whose models generate.
        """
        raise NotImplementedError

    @classmethod
    def example(cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]) -> tuple[Task, str]:
        """A task whose only batch is one example, and its title: of the user's texts, or of the data."""
        raise NotImplementedError

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        """A few results, printed after training."""
        return []

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        """A short input of the held-out data that a run can read, as the texts of it. The run remembers it.

        It is in the command that training prints, and what is used where a command is given no text.
        """
        return []

    @classmethod
    def command(cls, recipe: Any, folder: Path, inputs: Sequence[Sequence[str]]) -> list[str | Path]:
        """The words of a command that uses a run, its verb first; `inputs` are the run's `short_inputs`."""
        takes_texts = cls.verb in ("translate", "predict") and inputs
        return [cls.verb, folder, *(inputs[0] if takes_texts else ())]

    @classmethod
    def command_line(cls, recipe: Any, folder: Path, inputs: Sequence[Sequence[str]] = ()) -> str:
        """`command` as it is typed in a shell."""
        return shell_command(["minitransformer", *cls.command(recipe, folder, inputs)])

    @classmethod
    def default_prompt(cls, run: Trained) -> str:
        """What a model continues if no prompt is given."""
        raise cls._cannot(run, "continue a text")

    @classmethod
    def translate(cls, run: Trained, texts: Sequence[str], **decoding: Any) -> list[str]:
        """What the model writes for each text: one, or `num_return_sequences` for the first, then ..."""
        raise cls._cannot(run, "translate")

    @classmethod
    def source_ids(cls, run: Trained, text: str) -> list[int]:
        """The ids of a text to translate; a UserError if it is empty or too long for the run."""
        return run.tokenizer.encode(text)

    @classmethod
    def as_read(cls, run: Trained, text: str) -> str:
        """A user's text, written as the texts of the training data are."""
        return text

    @classmethod
    def predictions(cls, run: Trained, inputs: Sequence[Sequence[str]], top: int = 5) -> list[Prediction]:
        """What the model says of each input, which is a text or several; of classes, the `top` likeliest."""
        raise cls._cannot(run, "predict labels or answers")

    @classmethod
    def generate(cls, run: Trained, prompt: str, max_new_tokens: int, **decoding: Any) -> list[str]:
        """How the model continues a text: one text, or `num_return_sequences`."""
        raise cls._cannot(run, "continue a text")

    @classmethod
    def stream_text(cls, run: Trained, prompt: str, max_new_tokens: int, **decoding: Any) -> Iterator[str]:
        """How the model continues a text, piece by piece as its tokens come."""
        raise cls._cannot(run, "continue a text")

    @classmethod
    def _cannot(cls, run: Trained, what: str) -> UserError:
        article = "an" if cls.noun[0] in "aeiou" else "a"
        return UserError(
            f"{run.folder} is {article} {cls.noun}, which does not {what}.\n"
            f"Use `{cls.command_line(run.recipe, run.folder)}`."
        )

    # ------------------------------------------------------------ batches, loss, validation

    validation: Any
    live: Trained | None = None  # the run that is being trained on it, to generate texts at validations

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> Task:
        """The task of a recipe, with its batches."""
        raise NotImplementedError

    @property
    def largest_batch(self) -> int:
        """The number of rows in the largest batch."""
        raise NotImplementedError

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches in which the training data are read once."""
        raise UserError(
            f"the task {type(self).__name__} has no epochs: it does not define batches_per_epoch.\n"
            f"Leave epochs at 0, and choose a number of steps."
        )

    def next_batch(self) -> Any:
        raise NotImplementedError

    def batches(self, examples: Any) -> Iterator[Any]:
        """All examples once, in batches, always the same."""
        raise NotImplementedError

    def split(self, batch: Any, parts: int) -> Iterator[tuple[int, Any]]:
        """The batch in parts, each with the number of its first row."""
        for rows in split_rows(len(batch.target), parts):
            yield int(rows[0]), batch[rows[0] : rows[-1] + 1]

    def check_parts(self, parts: int) -> None:
        """Raise a UserError if batches cannot be split into so many parts: micro-batches times ranks."""

    def first_rows(self, batch: Any, count: int) -> Any:
        """About the first `count` rows of a batch; all of them, if it cannot be split."""
        parts = -(-len(batch.target) // max(count, 1))
        try:
            self.check_parts(parts)
        except UserError:
            return batch
        return next(part for _, part in self.split(batch, parts) if part.n_tokens)

    def logits(self, model: Any, batch: Any) -> Tensor:
        """What the model says of the batch: a logit for each class of each target."""
        raise NotImplementedError

    def loss(self, model: Any, batch: Any, label_smoothing: float) -> Tensor:
        """The sum of the losses of all targets."""
        return loss_sum(self.logits(model, batch), batch.target, label_smoothing)

    def validate(self, model: Any) -> dict[str, float]:
        """The scores of the validation split; the one that --monitor names chooses the best checkpoint."""
        return {name: float(score) for name, score in self.score(model, self.validation).items()}

    @property
    def has_loss(self) -> bool:
        """Whether validations are known to have a loss: they do unless a class outside of the package says
        what they score."""
        methods = type(self).score, type(self).validate
        return all(method.__module__.startswith(f"{__package__}.") for method in methods)

    accuracy: ClassVar[str] = "accuracy"  # the name of the share of targets that are right

    def score(self, model: Any, examples: Any) -> Mapping[str, float]:
        """Mean loss, and the share of targets that the model gets right, as `Score`s."""
        return score_batches(lambda batch: self.logits(model, batch), self.batches(examples), self.accuracy)

    def state(self) -> dict[str, Any]:
        """Where in the data the training is, for a checkpoint."""
        raise NotImplementedError

    def restore(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


TASKS: dict[str, type[Task]] = {}


def register_task(cls: T) -> T:
    """A decorator that makes a task known by its `name`, to recipes, `train`, `evaluate` and `graph`."""
    missing = [name for name in ("name", "Data", "model_types") if not hasattr(cls, name)]
    if missing:
        raise UserError(
            f"{cls.__name__} has no {', '.join(missing)}.\n"
            f"Give it class attributes: a name, its [data] section (a dataclass), and types of models."
        )
    known = TASKS.get(cls.name, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise UserError(f"the task {cls.name!r} is taken by {known.__qualname__}.\nChoose another name.")
    TASKS[cls.name] = cls
    return cls


def task_class(name: str) -> type[Task]:
    """The task of a name; a UserError if there is none."""
    if name not in TASKS:
        raise UserError(
            f"unknown task {name!r:.60}.{nearest(name, TASKS)}\nChoose one of {', '.join(sorted(TASKS))}."
        )
    return TASKS[name]


# ---------------------------------------------------------------- what several tasks need


def split_rows(n: int, parts: int) -> list[np.ndarray]:
    """The numbers 0 to n - 1 in `parts` parts of similar sizes, without empty ones."""
    return np.array_split(np.arange(n), min(n, parts))


def loss_sum(logits: Tensor, target: np.ndarray, label_smoothing: float) -> Tensor:
    """The sum of cross-entropies: logits (..., V), target (...)."""
    rows = logits.reshape(-1, logits.shape[-1])
    return F.cross_entropy(
        rows, target.reshape(-1), ignore_index=IGNORE, reduction="sum", label_smoothing=label_smoothing
    )


@no_grad()
def score_batches(
    logits: Callable[[Any], Tensor], batches: Iterable[Any], accuracy: str = "accuracy"
) -> dict[str, Score]:
    """Mean loss and accuracy over the targets of all batches, whose rows are the examples."""
    rows = [target_statistics(logits(batch), batch.target) for batch in batches]
    return target_scores(np.concatenate([row.reshape(len(row), -1, 3).sum(1) for row in rows]), accuracy)


def target_statistics(logits: Tensor, target: np.ndarray) -> Float[np.ndarray, "*target 3"]:
    """Of each target its loss, whether the model is right, and whether there is one: logits (..., V)."""
    losses = F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target.reshape(-1), ignore_index=IGNORE, reduction="none"
    )
    right = logits.argmax(-1).numpy() == target
    return np.stack([losses.numpy().reshape(target.shape), right, target != IGNORE], -1, dtype=np.float64)


def target_scores(
    statistics: Float[np.ndarray, "examples 3"], accuracy: str = "accuracy"
) -> dict[str, Score]:
    """Mean loss and accuracy of the sums of `target_statistics`."""
    if not statistics[:, 2].any():
        raise UserError(
            "there is nothing to score: no example has a target.\n"
            "Pass examples with labels that the training data has."
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
    """A tokenizer of one of KINDS for the training texts; vocab_size 0 means all tokens (8,000 pieces).

    How spaces and unknown characters are written depends on `held_out` too, which must round-trip. `added`
    are special tokens of the task.
    """
    if kind == "word":
        return Tokenizer.train_word(texts, vocab_size=vocab_size or None, held_out=held_out, added=added)
    if kind == "bpe":
        return Tokenizer.train_bpe(texts, vocab_size or 8000, held_out=held_out, added=added)
    if kind == "wordpiece":
        return Tokenizer.train_wordpiece(texts, vocab_size or 8000, added=added)
    if kind == "char":
        return Tokenizer.train_char(texts if special_tokens else [*texts, *held_out], special_tokens, added)
    raise UserError(f"unknown tokenizer {kind!r}.{nearest(kind, KINDS)}\nChoose one of {', '.join(KINDS)}.")


KINDS = ("word", "bpe", "wordpiece", "char")


def check_dataset(dataset: str, known: Sequence[str]) -> None:
    """Raise a UserError for a data set that a task does not have."""
    if dataset not in known:
        own = " (with --data FILE)" if "file" in known else ""
        raise UserError(
            f"there is no dataset {dataset!r}.{nearest(dataset, known)}\n"
            f"Choose one of {', '.join(known)}{own}."
        )


def check_positions(length: str, n: int, model: Any) -> None:
    """Raise a UserError if the model has a table of fewer than n positions."""
    if getattr(model, "positions", "learned") != "learned":
        return
    for name in ("n_positions", "max_positions", "max_position_embeddings"):
        if n > (limit := getattr(model, name, math.inf)):
            raise UserError(
                f"{length} = {n} is more than {name} = {limit}.\nLower {length}, or raise {name}."
            )


def check_one_vocabulary(task: str, model: Any) -> None:
    """Raise a UserError for a model with a vocabulary of the target's own: one tokenizer is trained."""
    if (size := getattr(model, "target_vocab_size", None)) is not None:
        raise UserError(
            f"target_vocab_size = {size}, but the task {task} has one tokenizer for source and target.\n"
            f"Leave target_vocab_size out: vocab_size is the size of both."
        )
