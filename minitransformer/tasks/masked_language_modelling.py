"""BERT's pre-training: masked words, and whether a sentence follows another (Devlin et al. 2018, 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from minigrad import Tensor, no_grad
from minigrad.nn import functional as F

from ..data.batching import IGNORE, pad_rows
from ..data.labels import documents, read_documents, sentence_splits
from ..data.masking import MASKING, PAIRING, mask_tokens, row_generator, sentence_pair
from ..errors import UserError, check_range
from ..layouts import MASK
from .base import Rows, Trained, check_dataset, loss_sum, perplexity, register_task
from .encoder import EncoderTask

VALIDATION = 2**40  # the step whose masks the held-out splits have; no training comes so far


@dataclass(frozen=True)
class MaskedData:
    """Sentences, or documents of sentences: their source and batching."""

    dataset: str = "phrasebook"  # its English side; or "file" (--data FILE)
    tokenizer: str = "word"  # or "wordpiece", "bpe", "char"
    batch_size: int = 128  # rows per batch
    max_length: int = 64  # tokens per row, [CLS] and [SEP] included
    next_sentence: bool = (
        False  # rows are two sentences, and whether the second follows the first is predicted
    )

    def __post_init__(self) -> None:
        check_dataset(self.dataset, ("phrasebook", "file"))
        check_range(self, "batch_size", 1)
        check_range(self, "max_length", 4)


@dataclass(frozen=True)
class MaskedBatch:
    """Rows with masks; `target` is the word at each chosen place, `follows` 0 if the second sentence follows."""

    ids: Int[Any, "B T"]
    token_types: Int[Any, "B T"]
    target: Int[Any, "B T"]
    follows: Int[Any, " B"]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice) -> MaskedBatch:
        return MaskedBatch(self.ids[rows], self.token_types[rows], self.target[rows], self.follows[rows])

    @property
    def n_tokens(self) -> int:
        """The number of predictions: masked words, and sentence pairs."""
        return int((self.target != IGNORE).sum() + (self.follows != IGNORE).sum())


Document = tuple[str, ...]


@register_task
class MaskedLanguageModelling(EncoderTask):
    """Fill in masked words. Masks and pairs of sentences are drawn anew in each step."""

    name, Data, unit, noun = "masked-language-modelling", MaskedData, "documents", "masked language model"
    metrics: ClassVar[dict[str, str]] = {
        "token_accuracy": "accuracy of masked tokens",
        "next_sentence_accuracy": "accuracy of next sentences",
        "n": "masked tokens",
    }

    # ------------------------------------------------------------ the data: documents; single sentences without pairs

    @classmethod
    def built_in(cls, data: Any) -> dict[str, list[Document]]:
        splits = sentence_splits()
        if not data.next_sentence:
            return {name: [(english,) for english, _ in split] for name, split in splits.items()}
        return {name: [tuple(d) for d in documents(split)] for name, split in splits.items()}

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Document]:
        found = read_documents(path)
        return [tuple(d) for d in found] if data.next_sentence else [(s,) for d in found for s in d]

    @classmethod
    def texts(cls, example: Document) -> list[str]:
        return list(example)

    @classmethod
    def length(cls, tokenizer: Any, example: Document) -> int:
        """Of the longest row."""
        lengths = sorted((len(tokenizer.encode(text)) for text in example), reverse=True)
        return sum(lengths[:2]) + 3

    @classmethod
    def head_for(cls, data: Any) -> str:
        return "pretraining" if data.next_sentence else "masked_lm"

    # ------------------------------------------------------------ batches

    def __init__(
        self,
        tokenizer: Any,
        train: Sequence[Document],
        validation: Sequence[Document],
        data: Any,
        seed: int,
        labels: Sequence[str] = (),
    ) -> None:
        self.tokenizer, self.data, self.seed, self.step = tokenizer, data, seed, 0
        self.cls_id, self.sep_id, self.mask_id = map(tokenizer.special_id, ("[CLS]", "[SEP]", MASK))
        self.train, self.validation = self._documents(train), self._documents(validation)

    def _documents(self, found: Sequence[Document]) -> list[list[list[int]]]:
        """Token ids; of pairs, only documents of at least two sentences."""
        encoded = [[self.tokenizer.encode(text) for text in document] for document in found]
        if self.data.next_sentence:
            encoded = [document for document in encoded if len(document) > 1]
            if found and len(encoded) < 2:
                raise UserError(
                    f"{len(encoded)} documents of two or more sentences are too few for pairs of sentences.\n"
                    f"Write a blank line after each document, or pass --no-next-sentence."
                )
        return encoded

    def rows(
        self, found: Sequence[Sequence[list[int]]], seed: int, step: int, numbers: Sequence[int | None]
    ) -> MaskedBatch:
        """A batch whose row r is drawn with (seed, step, r); of a document, if `numbers` says which."""
        ids, types, targets, follows = [], [], [], []
        for r, number in enumerate(numbers):
            random = row_generator(seed, PAIRING, step, r)
            if self.data.next_sentence:
                first, second, follow = sentence_pair(found, random)
                texts = [found[d][s] for d, s in (first, second)]
                follows.append(0 if follow else 1)
            else:
                texts = list(found[int(random.integers(len(found))) if number is None else number])
                follows.append(IGNORE)
            row, kinds = self.joined(*texts)
            read, target = self._masked(row, row_generator(seed, MASKING, step, r))
            ids.append(read)
            types.append(kinds)
            targets.append(target)
        return MaskedBatch(
            pad_rows(ids, self.tokenizer.pad_id),
            pad_rows(types, 0),
            pad_rows(targets, IGNORE),
            np.array(follows),
        )

    def _masked(self, row: list[int], random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        ids, first = np.array(row), self.tokenizer.first_ordinary_id
        ordinary = (ids >= first) | (ids == self.tokenizer.unk_id)
        return mask_tokens(ids, ordinary, self.mask_id, (first, self.tokenizer.vocab_size), random)

    @property
    def largest_batch(self) -> int:
        return self.data.batch_size

    def next_batch(self) -> MaskedBatch:
        batch = self.rows(self.train, self.seed, self.step, [None] * self.data.batch_size)
        self.step += 1
        return batch

    def batches(self, examples: Sequence[Any]) -> Iterator[MaskedBatch]:
        """Each sentence once, or as many pairs as there are sentences, always with the same masks."""
        n = sum(map(len, examples))
        for i, start in enumerate(range(0, n, 256)):
            numbers = range(start, min(start + 256, n))
            chosen = [None if self.data.next_sentence else number for number in numbers]
            yield self.rows(examples, 0, VALIDATION + i, chosen)

    def state(self) -> dict[str, Any]:
        return {"step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]

    # ------------------------------------------------------------ loss and scores

    def predict(self, model: Any, batch: MaskedBatch) -> tuple[Tensor, Tensor | None]:
        """Logits of words, and of whether the second sentence follows."""
        if not self.data.next_sentence:
            return model(batch.ids), None
        out = model(batch.ids, token_type_ids=batch.token_types)
        return out.logits, out.next_sentence_logits

    def logits(self, model: Any, batch: MaskedBatch) -> Tensor:
        return self.predict(model, batch)[0]

    def loss(self, model: Any, batch: MaskedBatch, label_smoothing: float) -> Tensor:
        """The sum of the losses of masked words and of sentence pairs: all predictions weigh the same."""
        words, follows = self.predict(model, batch)
        total = loss_sum(words, batch.target, label_smoothing)
        return total if follows is None else total + loss_sum(follows, batch.follows, label_smoothing)

    @no_grad()
    def score(self, model: Any, examples: Sequence[Any]) -> dict[str, float]:
        total, hits, n, pair_total, pair_hits, pairs = 0.0, 0, 0, 0.0, 0, 0
        for batch in self.batches(examples):
            words, follows = self.predict(model, batch)
            total += loss_sum(words, batch.target, 0.0).item()
            hits += int((words.argmax(-1).numpy() == batch.target).sum())
            n += int((batch.target != IGNORE).sum())
            if follows is not None:
                pair_total += loss_sum(follows, batch.follows, 0.0).item()
                pair_hits += int((follows.argmax(-1).numpy() == batch.follows).sum())
                pairs += len(batch)
        scores = {"loss": (total + pair_total) / (n + pairs), "token_accuracy": hits / n}
        if pairs:
            scores |= {"word_loss": total / n, "next_sentence_accuracy": pair_hits / pairs}
        return scores

    # ------------------------------------------------------------ a trained model

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        task = cls(run.tokenizer, examples, [], run.recipe.data, 0)
        scores = task.score(run.model, task.train)
        scores["perplexity"] = perplexity(scores.get("word_loss", scores["loss"]))
        n = sum(int((batch.target != IGNORE).sum()) for batch in task.batches(task.train))
        return {**scores, "n": n}, []

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        """Sentences whose last word but one is masked, with the likeliest words."""
        lines = []
        for document in splits["test"][:5]:
            words = document[0].split()
            words[-2 % len(words)] = MASK
            text = " ".join(words)
            found = ", ".join(f"{word} {p:.0%}" for word, p in fill_mask(run, text, 3)[0])
            lines.append(f"{text} -> {found}")
        return lines

    @classmethod
    def example(
        cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]
    ) -> tuple[MaskedLanguageModelling, str]:
        """The user's sentence, or two, or those of the data."""
        data = run.recipe.data
        chosen = [tuple(texts)] if texts else [tuple(d) for d in validation()[:2]]
        if texts and data.next_sentence:
            chosen = [(texts[0], texts[-1]), (texts[-1], texts[0])]
        task = cls(run.tokenizer, chosen, [], data, seed=0)
        batch = task.rows(task.train, 0, 0, [0])
        task.next_batch = lambda: batch  # type: ignore[method-assign]
        return task, " ".join(chosen[0])


@no_grad()
def fill_mask(run: Trained, text: str, top: int = 5) -> list[list[tuple[str, float]]]:
    """The likeliest tokens for each [MASK] of a text, with their probabilities."""
    tokenizer = run.tokenizer
    parts = [tokenizer.encode(part) for part in text.split(MASK)]
    if len(parts) == 1:
        raise UserError(f"there is no {MASK} in {text[:60]!r}.\nWrite {MASK} for each word to fill in.")
    ids = [tokenizer.special_id("[CLS]"), *parts[0]]
    for part in parts[1:]:
        ids += [tokenizer.special_id(MASK), *part]
    row = np.array([[*ids, tokenizer.special_id("[SEP]")]])
    out = run.model(row)
    chances = F.softmax(getattr(out, "logits", out), -1).numpy()[0]
    best = np.argsort(-chances, axis=-1)[:, :top]
    return [
        [(tokenizer.id_to_token[int(i)], float(chances[place, i])) for i in best[place]]
        for place in np.flatnonzero(row[0] == tokenizer.special_id(MASK))
    ]
