"""What the tasks of encoder-only models share: examples as rows of token ids, each with its targets.

A subclass says how an example is written as a row (`encode`) and how a row's logits are read (`decode`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int

from minigrad import Tensor, no_grad

from ..data.batching import IGNORE, BatchStream, ShuffledBatches, pad_rows
from ..data.datasets import DataError
from ..data.labels import sentence_splits
from ..data.splits import Sources, Splits, own_pairs
from ..errors import UserError, check_range
from ..layouts import BERT_TOKENS, CLS, SEP
from ..tokenizers import Tokenizer
from .base import Rows, Task, Trained, check_dataset, check_positions, text_tokenizer


class Row(NamedTuple):
    """Token ids, the segment of each (0 or 1), and targets: one for the row, or for each token."""

    ids: list[int]
    token_types: list[int]
    target: Any


@dataclass(frozen=True)
class TextBatch:
    """Padded rows, and what is to be predicted, IGNORE where that is nothing."""

    ids: Int[Any, "B T"]
    token_types: Int[Any, "B T"]
    target: Int[Any, "B ..."]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice) -> TextBatch:
        return TextBatch(self.ids[rows], self.token_types[rows], self.target[rows])

    @property
    def n_tokens(self) -> int:
        """The number of targets."""
        return int((self.target != IGNORE).sum())


@dataclass(frozen=True)
class LabelledData:
    """Labelled texts: their source and batching."""

    dataset: str = "phrasebook"  # or "file" (--data FILE)
    tokenizer: str = "word"  # or "wordpiece", "bpe", "char"
    batch_size: int = 32  # examples per batch
    max_length: int = 64  # tokens per example, [CLS] and [SEP] included; longer ones are left out
    examples: int = 0  # how many to train on; 0: all

    datasets: ClassVar[tuple[str, ...]] = ("phrasebook", "file")

    def __post_init__(self) -> None:
        check_dataset(self.dataset, self.datasets)
        check_range(self, "batch_size", 1)
        check_range(self, "max_length", 3)
        check_range(self, "examples", 0)


class EncoderTask(Task):
    """Rows of tokens, read by an encoder whose `head` predicts the targets."""

    model_types = ("bert",)
    is_encoder_decoder = False
    noun = "encoder"
    head: ClassVar[str]  # of BERT
    segments: ClassVar[int] = 1  # texts in a row

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
            splits = own_pairs(sources, lambda path: cls.read_file(data, path), cls.unit)
        else:
            splits = Splits(cls.built_in(data))
        number = getattr(data, "examples", 0)
        return Splits({**splits, "train": splits["train"][: number or None]}, splits.dropped)

    @classmethod
    def texts(cls, example: Any) -> list[str]:
        """The texts of an example, from which the tokenizer is trained."""
        raise NotImplementedError

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Tokenizer:
        """Trained on the texts of the training split; of the phrasebook, on all sentences, labelled or not."""
        texts = [text for example in splits["train"] for text in cls.texts(example)]
        if data.dataset.startswith("phrasebook"):
            texts = [english for english, _ in sentence_splits()["train"]]
        held_out = [
            text for name, split in splits.items() if name != "train" for e in split for text in cls.texts(e)
        ]
        return text_tokenizer(data.tokenizer, vocab_size, texts, held_out, added=BERT_TOKENS)

    @classmethod
    def filter(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> Splits:
        for token in BERT_TOKENS:
            tokenizer.special_id(token)
        short = {
            name: [example for example in split if cls.length(tokenizer, example) <= data.max_length]
            for name, split in splits.items()
        }
        for name, split in short.items():
            if not split:
                raise DataError(
                    f"none of the {len(splits[name])} {cls.unit} of the {name} split has at most "
                    f"{data.max_length} tokens.\nRaise --max-length, or pass shorter ones."
                )
        too_long = sum(map(len, splits.values())) - sum(map(len, short.values()))
        return Splits(short, {**splits.dropped, f"too long (more than {data.max_length} tokens)": too_long})

    @classmethod
    def length(cls, tokenizer: Tokenizer, example: Any) -> int:
        """The number of tokens of an example's row."""
        texts = cls.texts(example)
        return sum(len(tokenizer.encode(text)) for text in texts) + 1 + len(texts)

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        check_positions("max_length", data.max_length, model)
        head = cls.head_for(data)
        if getattr(model, "head", head) != head:
            raise UserError(
                f"the task {cls.name} needs head = {head!r}, got {model.head!r}.\n"
                f'Write head = "{head}" below [model], or pass --head {head}.'
            )

    @classmethod
    def head_for(cls, data: Any) -> str:
        return cls.head

    @classmethod
    def positions(cls, data: Any) -> int:
        return 3 * data.batch_size

    # ------------------------------------------------------------ rows and batches

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: Sequence[Any],
        validation: Sequence[Any],
        data: Any,
        seed: int,
        labels: Sequence[str] = (),
    ) -> None:
        self.tokenizer, self.data, self.seed, self.label_names = tokenizer, data, seed, list(labels)
        self.label_ids = {label: i for i, label in enumerate(labels)}
        self.cls_id, self.sep_id = tokenizer.special_id(CLS), tokenizer.special_id(SEP)
        self.train = [self.encode(example) for example in train]
        self.validation = [self.encode(example) for example in validation]
        self.stream = BatchStream(ShuffledBatches(len(self.train), data.batch_size, seed))

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> EncoderTask:
        train, validation = splits["train"], splits["validation"]
        return cls(tokenizer, train, validation, recipe.data, recipe.training.seed, labels)

    def encode(self, example: Any) -> Row:
        """The row of an example."""
        raise NotImplementedError

    def decode(self, logits: np.ndarray, row: Row, example: Any) -> str:
        """What the logits of a row say, as text."""
        raise NotImplementedError

    def joined(self, *texts: Sequence[int]) -> tuple[list[int], list[int]]:
        """[CLS] first [SEP] second [SEP], and the segment of each token (figure 2 of the paper)."""
        ids, types = [self.cls_id], [0]
        for segment, text in enumerate(texts):
            ids += [*text, self.sep_id]
            types += [segment] * (len(text) + 1)
        return ids, types

    def label_id(self, label: str) -> int:
        """The class of a label; IGNORE for one that was not in the training data."""
        return self.label_ids.get(label, IGNORE)

    def collate(self, rows: Sequence[Row]) -> TextBatch:
        ids = pad_rows([row.ids for row in rows], self.tokenizer.pad_id)
        types = pad_rows([row.token_types for row in rows], 0)
        per_token = isinstance(rows[0].target, list)
        targets = [row.target for row in rows]
        return TextBatch(ids, types, pad_rows(targets, IGNORE) if per_token else np.array(targets, np.int64))

    @property
    def largest_batch(self) -> int:
        return min(self.data.batch_size, len(self.train))

    def next_batch(self) -> TextBatch:
        return self.collate([self.train[i] for i in next(self.stream)])

    def batches(self, examples: Sequence[Row]) -> Iterator[TextBatch]:
        for start in range(0, len(examples), 64):
            yield self.collate(examples[start : start + 64])

    def output(self, model: Any, batch: TextBatch) -> Any:
        """What the model says of a batch; a model of one text is not asked about segments."""
        if self.segments == 1:
            return model(batch.ids)
        return model(batch.ids, token_type_ids=batch.token_types)

    def logits(self, model: Any, batch: TextBatch) -> Tensor:
        return self.output(model, batch)

    def state(self) -> dict[str, Any]:
        return self.stream.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.stream.restore(state)

    # ------------------------------------------------------------ a trained model

    @classmethod
    def of(cls, run: Trained, examples: Sequence[Any]) -> EncoderTask:
        """The task with these examples, with the settings of a run."""
        return cls(run.tokenizer, examples, [], run.recipe.data, run.recipe.training.seed, run.labels)

    @no_grad()
    def predictions(self, model: Any, examples: Sequence[Any]) -> list[str]:
        """What the model says of each example that the task was made of."""
        found: list[str] = []
        for batch in self.batches(self.train):
            for logits in self.logits(model, batch).numpy():
                i = len(found)
                found.append(self.decode(logits, self.train[i], examples[i]))
        return found

    @classmethod
    def expected(cls, example: Any) -> str:
        """The right answer of an example."""
        raise NotImplementedError

    @classmethod
    def compare(cls, predicted: Sequence[str], expected: Sequence[str]) -> dict[str, float]:
        """The scores of predictions."""
        raise NotImplementedError

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        kept = [e for e in examples if cls.length(run.tokenizer, e) <= run.recipe.data.max_length]
        task = cls.of(run, kept)
        predicted, expected = task.predictions(run.model, kept), [cls.expected(e) for e in kept]
        scores = {**cls.compare(predicted, expected), "loss": task.score(run.model, task.train)["loss"]}
        rows = [(*cls.texts(e), x, p) for e, x, p in zip(kept, expected, predicted, strict=True)]
        columns = ("text", "second text")[: cls.segments]
        return {**scores, "n": len(kept)}, [(*columns, "reference", "prediction"), *rows]

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        examples = splits["test"][:5]
        predicted = cls.of(run, examples).predictions(run.model, examples)
        return [f"{' '.join(cls.texts(e))} -> {p}" for e, p in zip(examples, predicted, strict=True)]

    @classmethod
    def example(
        cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]
    ) -> tuple[EncoderTask, str]:
        """The user's text, or one of the data."""
        if len(texts) not in (0, cls.segments):
            raise UserError(
                f"{run.folder} reads {cls.segments} text(s), got {len(texts)}.\nPass {cls.segments}, each in quotes."
            )
        chosen = cls.unlabelled(run, texts) if texts else validation()[0]
        limit = run.recipe.data.max_length
        if cls.length(run.tokenizer, chosen) > limit:
            raise UserError(f"a text of more than {limit} tokens, the limit of this run.\nShorten it.")
        task = cls.of(run, [chosen])
        task.data = replace(task.data, batch_size=1)
        return task, " ".join(cls.texts(chosen))

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> Any:
        """An example of the user's texts, whose target is what the model says."""
        raise NotImplementedError
