"""Base class of the tasks of encoder-only models: examples become rows of token ids, each with its targets.

A subclass defines how to encode an example as a row (`encode`), and how to read a row's logits (`decode`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int

from minigrad import Tensor, no_grad

from ..base_config import Config
from ..data.batching import IGNORE, pad_rows
from ..data.labels import sentence_splits
from ..data.rows import DataError, FileFormat
from ..data.splits import Sources, Splits, user_splits
from ..errors import UserError, check_range, counted_units, none_of
from ..text.tokenizer import Tokenizer
from ..text.tokenizer_presets import BERT_TOKENS, CLS, SEP
from .base import Rows, Trained, check_dataset, check_positions, text_tokenizer
from .examples import Batch, ExampleTask
from .inputs import (
    MAX_SHORT,
    check_length,
    check_texts,
    held_out_first,
    pick_input,
    warn_left_out,
    warn_of_unknown,
)
from .predictions import Prediction


class Row(NamedTuple):
    """Token ids, the segment of each token (0 or 1), and one target, or a target for each token."""

    ids: list[int]
    token_types: list[int]
    target: Any


@dataclass(frozen=True)
class TextBatch(Batch):
    """Padded rows, and the segment of each token."""

    token_types: Int[Any, "B T"]


@dataclass(frozen=True)
class LabelledData(Config):
    """Labelled texts: their source and batching."""

    dataset: str = "phrasebook"  # "phrasebook" or "file" (--data FILE)
    tokenizer: str = "word"  # "word", "wordpiece", "bpe", "unigram" or "char"
    batch_size: int = 32  # examples per batch
    max_length: int = 64  # tokens per example, [CLS] and [SEP] included; longer ones are left out
    examples: int = 0  # number to train on; 0: all
    format: str = "auto"  # of --data: "auto", "plain" (every line is data), or one of docs/your-data.md
    header: bool | None = None  # whether the first line of --data is a header (--header, --no-header)
    columns: str = ""  # of --data that are read, by name or number, such as "2,1"
    skip_bad_rows: bool = False  # leave out rows of --data that cannot be used

    datasets: ClassVar[tuple[str, ...]] = ("phrasebook", "file")

    def __post_init__(self) -> None:
        check_dataset(self.dataset, self.datasets)
        check_range(self, "batch_size", 1)
        check_range(self, "max_length", 3)
        check_range(self, "examples", 0)
        FileFormat.of(self)


class EncoderTask(ExampleTask):
    """Base class of tasks on rows of tokens, which an encoder reads and whose `head` predicts the targets."""

    # ------------------------------------------------------------ the data

    @classmethod
    def built_in(cls, data: Any) -> dict[str, list[Any]]:
        """The splits of a data set of the package."""
        raise NotImplementedError

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Any]:
        raise NotImplementedError

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        if sources.data is not None:
            splits = user_splits(sources, lambda path: cls.read_file(data, path), cls.unit)
        else:
            splits = Splits(cls.built_in(data))
        train = splits["train"]
        notes = splits.notes
        if sources.data is not None and 0 < data.examples < len(train):
            of = f"{data.examples:,} of {counted_units(len(train), cls.unit)}"
            notes = [*notes, f"warning: training on only {of} (--examples {data.examples}; 0 is all)"]
        return Splits({**splits, "train": train[: data.examples or None]}, splits.dropped, notes)

    @classmethod
    def class_names(cls, labels: Iterable[str]) -> list[str]:
        """The sorted distinct labels of the training data; a DataError if there are fewer than two."""
        names = sorted(set(labels))
        if len(names) < 2:
            raise DataError(
                f"all training {cls.unit} have the label {names[0][:60]!r}: there is nothing to learn.\n"
                f"Pass data with at least two labels."
            )
        return names

    @classmethod
    def texts(cls, example: Any) -> list[str]:
        """The texts of an example, on which the tokenizer is trained."""
        raise NotImplementedError

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Tokenizer:
        """Trained on the texts of the training split; for the phrasebook, on all its training sentences."""
        texts = {
            name: [text for example in split for text in cls.texts(example)] for name, split in splits.items()
        }
        held_out = [text for name, split in texts.items() if name != "train" for text in split]
        if data.dataset.startswith("phrasebook"):  # also those without labels
            texts["train"] = [english for english, _ in sentence_splits()["train"]]
        return text_tokenizer(data.tokenizer, vocab_size, texts["train"], held_out, added=BERT_TOKENS)

    @classmethod
    def filter(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> Splits:
        """The splits without examples of more than `max_length` tokens; a DataError if nothing is left."""
        limit = data.max_length
        kept = {}
        for name, split in splits.items():
            kept[name] = [example for example in split if cls.length(tokenizer, example) <= limit]
            if not kept[name]:
                raise DataError(
                    f"{none_of(len(split), cls.unit)} of the {name} split has at most {limit} tokens.\n"
                    f"Raise --max-length, or pass shorter ones."
                )
        too_long = sum(map(len, splits.values())) - sum(map(len, kept.values()))
        return Splits(
            kept, {**splits.dropped, f"too long (more than {limit} tokens, --max-length)": too_long}
        )

    @classmethod
    def length(cls, tokenizer: Tokenizer, example: Any) -> int:
        """The number of tokens of an example's row."""
        texts = cls.texts(example)
        return sum(len(tokenizer.encode(text)) for text in texts) + 1 + len(texts)

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        limit = min(MAX_SHORT, data.max_length - 3) * len(cls.inputs)
        return pick_input(tokenizer, map(cls.texts, held_out_first(splits)), limit)

    def __init__(
        self,
        data: Any,
        train: Sequence[Any],
        validation: Sequence[Any],
        tokenizer: Any = None,
        labels: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        super().__init__(data, train, validation, tokenizer, labels, seed)
        self.label_ids = {label: i for i, label in enumerate(labels)}
        self.cls_id = tokenizer.special_id(CLS)
        self.sep_id = tokenizer.special_id(SEP)
        self._rows: dict[Any, Row] = {}

    def encode(self, example: Any) -> Row:
        """The row of an example."""
        raise NotImplementedError

    def row(self, example: Any) -> Row:
        """`encode`, cached by example."""
        if example not in self._rows:
            self._rows[example] = self.encode(example)
        return self._rows[example]

    def join_texts(self, *texts: Sequence[int]) -> tuple[list[int], list[int]]:
        """[CLS] first [SEP] second [SEP], and the segment of each token (figure 2)."""
        ids = [self.cls_id]
        types = [0]
        for segment, text in enumerate(texts):
            ids += [*text, self.sep_id]
            types += [segment] * (len(text) + 1)
        return ids, types

    def label_id(self, label: str) -> int:
        """The class of a label; IGNORE for one that is not in the training data (see `unknown_targets`)."""
        return self.label_ids.get(label, IGNORE)

    def unknown_targets(self, example: Any) -> int:
        return sum(label not in self.label_ids for label in self.labels_in([example]))

    def collate(self, examples: Sequence[Any], step: int) -> TextBatch:
        rows = [self.row(example) for example in examples]
        ids = pad_rows([row.ids for row in rows], self.tokenizer.pad_id)
        types = pad_rows([row.token_types for row in rows], 0)
        targets = [row.target for row in rows]
        per_token = isinstance(targets[0], list)
        return TextBatch(ids, pad_rows(targets, IGNORE) if per_token else np.array(targets, np.int64), types)

    # ------------------------------------------------------------ the objective

    model_types = ("bert",)
    is_encoder_decoder = False
    head: ClassVar[str]  # of BERT
    segments: ClassVar[int] = 1  # texts in a row

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        check_positions("max_length", data.max_length, model)
        head = cls.head_of(data)
        if getattr(model, "head", head) != head:
            raise UserError(
                f"the task {cls.name} needs head = {head!r}, got {model.head!r}.\n"
                f'Write head = "{head}" below [model], or pass --head {head}.'
            )

    @classmethod
    def head_of(cls, data: Any) -> str:
        """The head that a BERT needs for this data."""
        return cls.head

    def output(self, model: Any, batch: TextBatch) -> Any:
        """The model's output for a batch; segments are passed only if rows have several texts."""
        return model(batch.input) if self.segments == 1 else model(batch.input, None, batch.token_types)

    def logits(self, model: Any, batch: Any) -> Tensor:
        return self.output(model, batch)

    # ------------------------------------------------------------ the scores

    def decode(self, logits: np.ndarray, example: Any) -> str:
        """The prediction in the logits of an example's row, as text."""
        raise NotImplementedError

    @classmethod
    def expected(cls, example: Any) -> str:
        """The correct answer of an example, as text."""
        raise NotImplementedError

    @no_grad()
    def predict(self, model: Any, examples: Sequence[Any]) -> list[tuple[str, str, str]]:
        predictions: list[str] = []
        for batch in self.batches(examples):
            for logits in self.logits(model, batch).numpy():
                predictions.append(self.decode(logits, examples[len(predictions)]))
        inputs = [" | ".join(self.texts(example)) for example in examples]
        return list(zip(inputs, map(self.expected, examples), predictions, strict=True))

    @classmethod
    def reference(cls, example: Any) -> Any:
        """What `compute_metrics` compares the prediction with: the correct answer, or several."""
        return cls.expected(example)

    @classmethod
    def compute_metrics(cls, predictions: Sequence[str], expected: Sequence[Any]) -> Mapping[str, float]:
        """The scores of predictions."""
        raise NotImplementedError

    @classmethod
    def within_limit(cls, run: Trained, examples: Sequence[Any]) -> list[Any]:
        """The examples of at most `max_length` tokens; warns of others, and a UserError if none is left."""
        limit = run.recipe.data.max_length
        kept = [example for example in examples if cls.length(run.tokenizer, example) <= limit]
        if not kept:
            raise UserError(
                f"{none_of(len(examples), cls.unit)} has at most {limit} tokens, the limit of this run.\n"
                f"Pass shorter ones."
            )
        warn_left_out(len(examples) - len(kept), cls.unit, f"more than {limit} tokens")
        return kept

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        kept = cls.within_limit(run, examples)
        scores, rows = super().evaluate(run, kept, **decoding)
        metrics = cls.compute_metrics([row[-1] for row in rows[1:]], list(map(cls.reference, kept)))
        return {**metrics, "loss": scores["loss"], "n": scores["n"]}, rows

    # ------------------------------------------------------------ predicting

    @classmethod
    def read_example(cls, run: Trained, texts: Sequence[str]) -> Any:
        """An example with the model's prediction as its target."""
        example = cls.read_input(run, texts)
        prediction = cls.of_run(run, [example]).predict(run.model, [example])[0][2]
        return cls.with_label(example, prediction)

    @classmethod
    def read_input(cls, run: Trained, texts: Sequence[str]) -> Any:
        """An example with the user's texts and any target; a UserError if the run cannot read them."""
        check_texts(run, texts, cls.inputs)
        example = cls.unlabelled(run, [text.strip() if isinstance(text, str) else text for text in texts])
        length = cls.length(run.tokenizer, example)
        check_length(length, run.recipe.data.max_length, texts[-1], run.model.max_length)
        return example

    @classmethod
    @no_grad()
    def predictions(cls, run: Trained, inputs: Sequence[Sequence[str]], top: int = 5) -> list[Prediction]:
        examples = [cls.read_input(run, texts) for texts in inputs]
        warn_of_unknown(run, [text for example in examples for text in cls.texts(example)])
        task = cls.of_run(run, examples)
        rows = [row for batch in task.batches(examples) for row in task.logits(run.model, batch).numpy()]
        return [task.prediction(row, e, top) for row, e in zip(rows, examples, strict=True)]

    def prediction(self, logits: np.ndarray, example: Any, top: int) -> Prediction:
        """The prediction in the logits of an example's row."""
        text = self.decode(logits, example)
        return Prediction(text, {"prediction": text})

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> Any:
        """An example with the user's texts, and any target."""
        raise NotImplementedError

    @classmethod
    def with_label(cls, example: Any, prediction: str) -> Any:
        """The example with a prediction as its target."""
        raise NotImplementedError
