"""BERT's pre-training: masked language modelling, and next-sentence prediction (Devlin et al. 2018, 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigrad import Tensor, no_grad

from ..data.batching import IGNORE, Batch, pad
from ..data.labels import documents, of_sentences, read_documents
from ..data.masking import MASKING, PAIRING, mask_tokens, next_or_other, row_generator
from ..data.rows import Examples
from ..data.splits import Sources, Splits, user_splits
from ..errors import UserError, check_range
from ..text.tokenizer_presets import MASK
from .base import VALIDATION, Rows, Trained, register_task
from .encoder import EncoderTask
from .inputs import (
    marked_ids,
    with_mark,
)
from .losses import loss_sum, target_scores, target_statistics
from .metrics import Metric
from .predictions import Prediction, likeliest, percentages, softmax
from .scores import Score, perplexity
from .settings import TextSettings


@dataclass(frozen=True)
class MaskedData(TextSettings):
    """The source and the batching of sentences, or documents of sentences."""

    dataset: str = "phrasebook"  # its English side; or "file" (--data FILE)
    tokenizer: str = "word"  # "word", "wordpiece", "bpe" or "char"
    batch_size: int = 128  # rows per batch
    max_length: int = 64  # tokens per row, [CLS] and [SEP] included
    next_sentence: bool = False  # also predict whether the second sentence of a row follows the first

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "batch_size", 1)
        check_range(self, "max_length", 4)


Document = tuple[str, ...]
NEXT_SENTENCE_INPUTS = ("a text", "another that may follow it")


@register_task
class MaskedLanguageModelling(EncoderTask):
    """Fill in masked words. An example is a sentence, or two consecutive ones and their document's number.

    Each step draws new masks, and new sentences to replace half of the second sentences.
    """

    # ------------------------------------------------------------ the data

    name = "masked-language-modelling"
    Data = MaskedData
    unit = "rows"
    marks = (MASK,)

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        if sources.data is None:
            return of_sentences(
                lambda split, _: cls.rows_of(
                    data, documents(split) if data.next_sentence else [[english for english, _ in split]]
                )
            )
        if not data.next_sentence:
            return user_splits(sources, lambda path: cls.read_file(data, path), "sentences")
        own = user_splits(sources, lambda path: cls.read_whole_documents(data, path), "documents")
        return Splits({name: cls.rows_of(data, split) for name, split in own.items()}, own.dropped, own.notes)

    @classmethod
    def read_whole_documents(cls, data: Any, path: Path) -> Examples:
        found = read_documents(path, data)
        return Examples(map(tuple, found), found.notes)

    @classmethod
    def rows_of(cls, data: Any, found: Sequence[Sequence[str]]) -> list[Document]:
        """Return the examples in documents: each sentence or, with `next_sentence`, each consecutive pair."""
        if not data.next_sentence:
            return [(text,) for document in found for text in document]
        return [
            (first, second, str(number))
            for number, document in enumerate(found)
            for first, second in pairwise(document)
        ]

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Document]:
        found = read_documents(path, data)
        return Examples(cls.rows_of(data, found), found.notes)

    @classmethod
    def filter(cls, data: Any, tokenizer: Any, splits: Splits) -> Splits:
        if data.next_sentence and len({row[2] for row in splits["train"]}) < 2:
            raise UserError(
                "pairs of sentences need at least two documents of two sentences to train on.\n"
                "Write a blank line after each document, or pass --no-next-sentence."
            )
        return super().filter(data, tokenizer, splits)

    @classmethod
    def texts(cls, example: Document) -> list[str]:
        return list(example[:2])

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        """Return a text whose middle word is masked."""
        return [[with_mark(text, MASK)] for (text,) in super().short_inputs(data, tokenizer, splits)]

    @cached_property
    def token_ids(self) -> Callable[[str], list[int]]:
        """A function that returns the ids of a text. It caches each text, since pairs change in each step."""
        return cache(lambda text: marked_ids(self.tokenizer, text, self.marks))

    stream = MASKING

    def encode(self, example: Document) -> dict[str, Any]:
        return self.join_texts(*map(self.token_ids, self.texts(example)))

    def vary(self, row: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
        """Mask tokens of a row. The target of a masked position is its token; other targets are IGNORE."""
        ids = np.array(row["input"])
        first = self.tokenizer.first_ordinary_id
        words = (first, self.tokenizer.vocab_size)
        read, target = mask_tokens(ids, ids >= first, self.tokenizer.special_id(MASK), words, random)
        return row | {"input": read.tolist(), "target": target.tolist()}

    def batches(self, examples: Sequence[Document]) -> Iterator[Batch]:
        """Yield all examples once. Second sentences are replaced by sentences of `examples`.

        Sentences of the training data would give the answer away.
        """
        size = self.data.batch_size
        for number, start in enumerate(range(0, len(examples), size)):
            yield self.collate(examples[start : start + size], VALIDATION + number, examples)

    def collate(
        self, examples: Sequence[Document], step: int, others: Sequence[Document] | None = None
    ) -> Batch:
        """Make a batch of examples. Half of the second sentences are replaced by sentences of `others`.

        By default, `others` is the training split. "follows" is 0 if the second sentence follows the first,
        and 1 if it was replaced, as in BERT.
        """
        if not self.data.next_sentence or len(examples[0]) == 1:  # a user's single text
            return super().collate(examples, step)
        others = self.train if others is None else others
        drawn = (row_generator(self.seed, PAIRING, step, r) for r in range(len(examples)))
        pairs = [next_or_other(e, others, random) for e, random in zip(examples, drawn, strict=True)]
        batch = super().collate([pair for pair, _ in pairs], step)
        batch["follows"] = np.array([0 if follows else 1 for _, follows in pairs])
        batch["counts"] = (batch["target"] != IGNORE).sum(1) + 1
        return batch

    # ------------------------------------------------------------ the objective

    @classmethod
    def head_of(cls, data: Any) -> str:
        return "pretraining" if data.next_sentence else "masked_lm"

    def outputs(self, model: Any, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the logits of the words, and those of the next sentence or None without `next_sentence`."""
        if not self.data.next_sentence:
            return model(batch["input"]), None
        out = model(batch["input"], None, batch["token_types"])
        return out.logits, out.next_sentence_logits

    def logits(self, model: Any, batch: Batch) -> Tensor:
        return self.outputs(model, batch)[0]

    def loss(self, model: Any, batch: Batch, label_smoothing: float) -> Tensor:
        """Return the summed losses of masked words and sentence pairs. All have the same weight."""
        words, follows = self.outputs(model, batch)
        total = loss_sum(words, batch["target"], label_smoothing)
        if follows is None or "follows" not in batch:
            return total
        return total + loss_sum(follows, batch["follows"], label_smoothing)

    # ------------------------------------------------------------ the scores

    descriptions: ClassVar[Mapping[str, Metric | str]] = {
        "token_accuracy": Metric("accuracy of masked tokens", True, "%", of_tokens=True),
        "next_sentence_accuracy": Metric("accuracy of next sentences", True, "%"),
        "next_sentence_loss": Metric("loss of next sentences", False),
    }

    @no_grad()
    def score(self, model: Any, examples: Sequence[Any]) -> dict[str, Score]:
        """Return the mean loss and the accuracy, of masked words and of sentence pairs."""
        rows = []
        pairs = []
        for batch in self.batches(examples):
            words, follows = self.outputs(model, batch)
            rows.append(target_statistics(words, batch["target"]).sum(1))
            if follows is not None:
                pairs.append(target_statistics(follows, batch["follows"]))
        scores = target_scores(np.concatenate(rows), "token_accuracy")
        if pairs:
            found = target_scores(np.concatenate(pairs))
            scores |= {f"next_sentence_{name}": score for name, score in found.items()}
        return scores

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        examples = cls.within_limit(run, examples)
        scores = cls.of_run(run, examples).score(run.model, examples)
        return {**scores, "perplexity": perplexity(scores["loss"]), "n": len(examples)}, []

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        """Return sentences whose middle word is masked, with the most likely words for it."""
        texts = [with_mark(document[0], MASK) for document in splits["test"][:5]]
        found = cls.predictions(run, [[text] for text in texts], 3)
        return [f"{text} -> {prediction.text}" for text, prediction in zip(texts, found, strict=True)]

    # ------------------------------------------------------------ predicting

    @classmethod
    def read(cls, run: Trained, texts: Sequence[str], names: Sequence[str] = ()) -> Document:
        """Read one text, or two if the run was trained with `next_sentence`."""
        is_pair = run.recipe.data.next_sentence and len(texts) > 1
        return super().read(run, texts, NEXT_SENTENCE_INPUTS if is_pair else cls.inputs)

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> Document:
        return (*texts, "0")[: 2 * len(texts) - 1]  # a pair ends with a document's number

    @classmethod
    def read_input(cls, run: Trained, texts: Sequence[str]) -> Document:
        example = cls.read(run, texts)
        if len(example) == 1 and MASK not in example[0]:
            raise UserError(
                f"there is no {MASK} in {texts[0][:60]!r}.\nWrite {MASK} for each word to fill in."
            )
        return example

    @classmethod
    @no_grad()
    def predict(
        cls, run: Trained, examples: Sequence[Document], top: int = 5, **decoding: Any
    ) -> list[Prediction]:
        """Return the likeliest words for each [MASK]; for two texts, also whether the second follows."""
        task = cls.of_run(run, [])
        size = run.recipe.data.batch_size
        found = []
        for start in range(0, len(examples), size):
            rows = [task.encode(example) for example in examples[start : start + size]]
            words, follows = task.outputs(run.model, pad(rows, run.tokenizer.pad_id))
            for i, row in enumerate(rows):
                pair = follows.numpy()[i] if follows is not None and row["token_types"][-1] else None
                found.append(task.fill_in(row, words.numpy()[i], pair, top))
        return found

    def fill_in(
        self, row: dict[str, Any], words: np.ndarray, follows: np.ndarray | None, top: int
    ) -> Prediction:
        """Return the prediction for a row, given its logits `words` (T, V) and `follows` (2,) or None."""
        names = self.tokenizer.id_to_token
        ids = np.array(row["input"])
        masks = np.flatnonzero(ids == self.tokenizer.special_id(MASK))
        candidates = [likeliest(words[place], names, top) for place in masks]
        ids[masks] = words[masks].argmax(-1)
        shown = [percentages(probabilities) for probabilities in candidates]
        values: dict[str, Any] = {"prediction": self.tokenizer.decode(ids.tolist()), "masks": candidates}
        if follows is not None:
            values["follows"] = float(softmax(follows)[0])
            shown.append(f"the second follows the first {values['follows']:.1%}")
        return Prediction(" | ".join(shown), values)
