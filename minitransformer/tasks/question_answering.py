"""Question answering: where the answer to a question stands in a text (Devlin et al. 2018, 4.2).

The model reads [CLS] question [SEP] context [SEP], and gives each token a score as the first and as the last one
of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from minigrad import Tensor

from ..data.batching import IGNORE
from ..data.labels import Answered, answered, read_answered, sentence_splits
from ..tokenizers import Tokenizer
from .base import Trained, loss_sum, register_task
from .encoder import EncoderTask, LabelledData, Row, TextBatch
from .scores import answer_scores

LONGEST = 20  # tokens of an answer


@dataclass(frozen=True)
class QuestionData(LabelledData):
    """Questions, contexts and answers: their source and batching."""


@register_task
class QuestionAnswering(EncoderTask):
    """The first and the last token of an answer."""

    name, Data, unit, head = "question-answering", QuestionData, "questions", "question_answering"
    segments = 2
    metrics: ClassVar[dict[str, str]] = {"f1": "F1 of answers' words"}

    @classmethod
    def built_in(cls, data: Any) -> dict[str, list[Answered]]:
        return {
            name: answered(split, rounds=3 if name == "test" else 2)
            for name, split in sentence_splits().items()
        }

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Answered]:
        return read_answered(path)

    @classmethod
    def texts(cls, example: Answered) -> list[str]:
        return [example.question, example.context]

    def encode(self, example: Answered) -> Row:
        """Words and marks of the context are tokenized one by one, so that an answer has ends."""
        question = self.tokenizer.encode(example.question)
        places = pieces_of(self.tokenizer, example.context)
        ids, types = self.joined(question, [i for pieces, _, _ in places for i in pieces])
        start = example.context.find(example.answer)
        end, offset = start + len(example.answer), len(question) + 2
        target = [IGNORE, IGNORE]
        for pieces, a, b in places:
            if a < end and b > start:  # a part of the answer
                target = [offset if target[0] == IGNORE else target[0], offset + len(pieces) - 1]
            offset += len(pieces)
        return Row(ids, types, tuple(target))

    @classmethod
    def length(cls, tokenizer: Any, example: Answered) -> int:
        context = sum(len(pieces) for pieces, _, _ in pieces_of(tokenizer, example.context))
        return len(tokenizer.encode(example.question)) + context + 3

    def logits(self, model: Any, batch: TextBatch) -> Float[Tensor, "B 2 T"]:
        """A score of each token of the context; of other tokens -1e9."""
        scores = self.output(model, batch).logits.transpose(1, 2)  # (B, 2, T)
        inside = (batch.token_types == 1) & (batch.ids != self.sep_id)
        return scores + np.where(inside, 0, -1e9).astype(np.float32)[:, None, :]

    def loss(self, model: Any, batch: TextBatch, label_smoothing: float) -> Tensor:
        """The sum of the losses of first and last tokens; smoothing would reward tokens outside the context."""
        return loss_sum(self.logits(model, batch), batch.target, 0.0)

    def decode(self, logits: np.ndarray, row: Row, example: Answered) -> str:
        """The answer with the highest sum of scores whose last token is not before its first."""
        words = pieces_of(self.tokenizer, example.context)
        word_of = [i for i, (pieces, _, _) in enumerate(words) for _ in pieces]  # of each token
        n, offset = len(word_of), row.token_types.index(1)
        first, last = logits[:, offset : offset + n]
        ordered = np.tri(n, n, LONGEST) > np.tri(n, n, -1)  # (first, last), at most LONGEST apart
        sums = np.where(ordered, first[:, None] + last, -np.inf)
        i, j = divmod(int(sums.argmax()), n)
        return example.context[words[word_of[i]][1] : words[word_of[j]][2]]

    @classmethod
    def expected(cls, example: Answered) -> str:
        return example.answer

    @classmethod
    def compare(cls, predicted: Sequence[str], expected: Sequence[str]) -> dict[str, float]:
        return answer_scores(predicted, expected)

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> Answered:
        example = Answered(texts[0], texts[1], "")
        answer = cls.of(run, [example]).predictions(run.model, [example])[0]
        return example._replace(answer=answer)


def pieces_of(tokenizer: Tokenizer, context: str) -> list[tuple[list[int], int, int]]:
    """The tokens of each word or mark of a context, and where it begins and ends."""
    return [
        (tokenizer.encode(match[0]) or [tokenizer.unk_id or 0], match.start(), match.end())
        for match in re.finditer(r"\w[\w'-]*|[^\w\s]", context)
    ]
