"""Similarity: texts with the same meaning get similar vectors (Reimers and Gurevych 2019).

The loss is contrastive with in-batch negatives (Henderson et al. 2017): it is the cross-entropy of finding
each text's partner among all second texts of the batch. The logits are the cosine similarities, times 20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigrad import Tensor, no_grad

from ..data.batching import Batch, pad_rows
from ..data.phrasebook import sentence_splits
from ..data.rows import read_pairs
from ..data.splits import Splits
from ..text.tokenizer import Tokenizer
from .base import Rows, Trained, register_task
from .encoder import EncoderTask, LabelledData
from .metrics import Metric
from .predictions import Prediction
from .scores import Score

SCALE = 20.0
Pair = tuple[str, str]


@register_task
class Similarity(EncoderTask):
    """Learns a unit vector for each text, closest to the vector of the text with the same meaning."""

    # ------------------------------------------------------------ the data

    name = "similarity"
    Data = LabelledData
    unit = "pairs"

    @classmethod
    def built_in(cls, data: Any) -> Splits:
        return Splits({name: [(e, f) for e, f in split] for name, split in sentence_splits().items()})

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Pair]:
        return read_pairs(path, data, same_meaning=True)

    @classmethod
    def length(cls, tokenizer: Tokenizer, example: Sequence[str]) -> int:
        return max(len(tokenizer.encode(text)) for text in example) + 2

    def text_rows(self, texts: Sequence[str]) -> np.ndarray:
        """Return a row [CLS] text [SEP] for each text, cut to at most `max_length` tokens."""
        ids = [self.tokenizer.encode(text)[: self.data.max_length - 2] for text in texts]
        return pad_rows([self.join_texts(each)["input"] for each in ids], self.tokenizer.pad_id)

    def collate(self, examples: Sequence[Pair], step: int) -> Batch:
        """Make a batch of all first texts, then all second texts. Text i's partner is second `target[i]`."""
        texts = [pair[side] for side in (0, 1) for pair in examples]
        return Batch(input=self.text_rows(texts), target=np.arange(len(examples)))

    # ------------------------------------------------------------ the objective

    head = "similarity"
    splits_rows = False  # each text is compared with all others of the batch

    def logits(self, model: Any, batch: Any) -> Tensor:
        vectors = model(batch["input"])
        n = len(batch["target"])
        return vectors[:n] @ vectors[n:].transpose(0, 1) * SCALE

    # ------------------------------------------------------------ the scores

    descriptions: ClassVar[Mapping[str, Metric | str]] = {
        "accuracy": Metric("nearest is the partner", True, "%")
    }

    @classmethod
    def vectors(cls, run: Trained, texts: Sequence[str]) -> np.ndarray:
        """Return the unit vector of each text. The dot product of two vectors is their cosine similarity."""
        return cls.of_run(run, []).text_vectors(run.model, [text.strip() for text in texts])

    @no_grad()
    def text_vectors(self, model: Any, texts: Sequence[str]) -> np.ndarray:
        """Return the unit vector of each text. Texts must be in the format of the training texts."""
        parts = [texts[start : start + 64] for start in range(0, len(texts), 64)]
        return np.concatenate([model(self.text_rows(part)).numpy() for part in parts])

    def score(self, model: Any, examples: Any) -> dict[str, Score]:
        """Return the accuracy and mean reciprocal rank of the partner among second texts, and the loss."""
        return self.rank_pairs(model, examples)[0]

    def rank_pairs(self, model: Any, examples: Sequence[Pair]) -> tuple[dict[str, Score], list[str]]:
        """Return the scores of pairs, and the second text that is nearest to each first text.

        In a tie, other texts rank ahead of the partner, so a model that maps all texts to one vector gets an
        accuracy of 0.
        """
        firsts = [a for a, _ in examples]
        seconds = [b for _, b in examples]
        first = self.text_vectors(model, firsts)
        second = self.text_vectors(model, seconds)
        same = np.unique(seconds, return_inverse=True)[1]
        ranks = []
        nearest = []
        for start in range(0, len(examples), 64):
            rows = np.arange(start, min(start + 64, len(examples)))
            cosines = first[rows] @ second.T
            partner = cosines[np.arange(len(rows)), rows]
            ahead = (cosines >= partner[:, None]) & (same[rows, None] != same)
            ranks += (ahead.sum(1) + 1).tolist()
            nearest += [seconds[i] for i in cosines.argmax(1)]
        scores: dict[str, Any] = {
            "accuracy": Score([(rank == 1, 1) for rank in ranks]),
            "mrr": Score([(1 / rank, 1) for rank in ranks]),
        }
        return {**scores, "loss": super().score(model, examples)["loss"]}, nearest

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        examples = cls.within_limit(run, examples)
        scores, nearest = cls.of_run(run, examples).rank_pairs(run.model, examples)
        rows = [(first, second, found) for (first, second), found in zip(examples, nearest, strict=True)]
        return {**scores, "n": len(examples)}, [("text", "partner", "nearest"), *rows]

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        rows = cls.evaluate(run, splits["test"])[1][1:6]
        return [f"{text} -> {nearest}" for text, _, nearest in rows]

    @classmethod
    def title(cls, example: Pair, number: int) -> str:
        return example[0]

    # ------------------------------------------------------------ predicting

    inputs = ("a text", "another to compare it with")

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> Pair:
        return texts[0], texts[1]

    @classmethod
    def predict(
        cls, run: Trained, examples: Sequence[Pair], top: int = 5, **decoding: Any
    ) -> list[Prediction]:
        """Return the cosine similarity of each pair of texts."""
        first, second = (cls.vectors(run, side) for side in zip(*examples, strict=True))
        cosines = (first * second).sum(-1).tolist()
        return [Prediction(f"cosine {cosine:.3f}", {"prediction": cosine}) for cosine in cosines]
