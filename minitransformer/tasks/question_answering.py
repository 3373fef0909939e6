"""Question answering: where the answer to a question stands in a text (Devlin et al. 2018, 4.2).

The model reads [CLS] question [SEP] context [SEP], and scores each token as first and last of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from minigrad import Tensor

from ..data.batching import IGNORE
from ..data.labels import Answered, answered, read_answered, sentence_splits
from ..errors import UserError
from ..tokenizers import Tokenizer
from .base import Trained, loss_sum, register_task
from .encoder import EncoderTask, LabelledData, Row, TextBatch
from .metrics import Metric
from .predictions import Prediction, softmax
from .scores import answer_scores

LONGEST = 20  # tokens of an answer


@dataclass(frozen=True)
class QuestionData(LabelledData):
    """Questions, contexts and answers: their source and batching."""


@register_task
class QuestionAnswering(EncoderTask):
    """The first and the last token of an answer."""

    name, Data, unit, head = "question-answering", QuestionData, "questions", "question_answering"
    segments, inputs, noun = 2, ("a question", "a context"), "question answerer"
    metrics: ClassVar[Mapping[str, Metric | str]] = {"f1": Metric("F1 of answers' words", True, "%")}

    @classmethod
    def built_in(cls, data: Any) -> dict[str, list[Answered]]:
        rounds = {"train": 3, "validation": 1, "test": 3}
        return {name: answered(split, rounds[name]) for name, split in sentence_splits().items()}

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Answered]:
        return read_answered(path)

    @classmethod
    def texts(cls, example: Answered) -> list[str]:
        return [example.question, example.context]

    @classmethod
    def length(cls, tokenizer: Tokenizer, example: Answered) -> int:
        context = sum(len(pieces) for pieces, _, _ in pieces_of(tokenizer, example.context))
        return len(tokenizer.encode(example.question)) + context + 3

    def encode(self, example: Answered) -> Row:
        question, words = (
            self.tokenizer.encode(example.question),
            pieces_of(self.tokenizer, example.context),
        )
        ids, types = self.join_texts(question, [i for pieces, _, _ in words for i in pieces])
        start = example.context.find(example.answer)
        end, place = start + len(example.answer), len(question) + 2
        answer: list[int] = []  # the places of its tokens
        for pieces, a, b in words:
            answer += range(place, place + len(pieces)) if a < end and b > start else []
            place += len(pieces)
        return Row(ids, types, (answer[0], answer[-1]) if answer else (IGNORE, IGNORE))

    def logits(self, model: Any, batch: TextBatch) -> Float[Tensor, "B 2 T"]:
        """A score of each token of the context; of other tokens -1e9."""
        scores = self.output(model, batch).logits.transpose(1, 2)  # (B, 2, T)
        inside = (batch.token_types == 1) & (batch.input != self.sep_id)
        return scores + Tensor(np.where(inside, 0, -1e9).astype(np.float32)[:, None, :])

    def loss(self, model: Any, batch: TextBatch, label_smoothing: float) -> Tensor:
        """The sum of the losses of first and last tokens; smoothing would reward tokens of the question."""
        return loss_sum(self.logits(model, batch), batch.target, 0.0)

    def decode(self, logits: np.ndarray, example: Answered) -> str:
        return self.best_answer(logits, example)[0]

    def prediction(self, logits: np.ndarray, example: Answered, top: int) -> Prediction:
        answer, chance = self.best_answer(logits, example)
        return Prediction(f"{answer}  {chance:.1%}", {"prediction": answer, "probability": chance})

    def best_answer(self, logits: np.ndarray, example: Answered) -> tuple[str, float]:
        """The answer with the highest sum of scores whose last token is not before its first.

        Its probability is that of the first token, times that of the last.
        """
        words = pieces_of(self.tokenizer, example.context)
        word_of = [i for i, (pieces, _, _) in enumerate(words) for _ in pieces]  # of each token
        n, offset = len(word_of), len(self.tokenizer.encode(example.question)) + 2
        first, last = logits[:, offset : offset + n]
        ordered = np.triu(np.ones((n, n))) * np.tri(n, n, LONGEST - 1)  # first <= last < first + LONGEST
        sums = np.where(ordered > 0, first[:, None] + last, -np.inf)
        i, j = divmod(int(sums.argmax()), n)
        chance = softmax(logits[0])[offset + i] * softmax(logits[1])[offset + j]
        return example.context[words[word_of[i]][1] : words[word_of[j]][2]], float(chance)

    @classmethod
    def expected(cls, example: Answered) -> str:
        return example.answer

    @classmethod
    def compute_metrics(cls, predictions: Sequence[str], expected: Sequence[str]) -> Mapping[str, float]:
        return answer_scores(predictions, expected)

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> Answered:
        if not pieces_of(run.tokenizer, texts[1]):
            raise UserError("the context has no words.\nPass a text that answers the question.")
        return Answered(texts[0], texts[1], texts[1])

    @classmethod
    def with_label(cls, example: Answered, prediction: str) -> Answered:
        return example._replace(answer=prediction)


def pieces_of(tokenizer: Tokenizer, context: str) -> list[tuple[list[int], int, int]]:
    """The tokens of each word or mark of a context, and where it begins and ends."""
    return [
        (tokenizer.encode(match[0]) or [tokenizer.unk_id or 0], match.start(), match.end())
        for match in re.finditer(r"\w[\w'-]*|[^\w\s]", context)
    ]
