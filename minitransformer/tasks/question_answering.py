"""Extractive question answering: the answer is a span of a context (Devlin et al. 2018, 4.2).

The model reads [CLS] question [SEP] context [SEP], and scores each token as the first and the last of the
answer. An answer must begin and end at token boundaries: "8" is not found in "1984".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from minigrad import Tensor

from ..data.batching import IGNORE, Batch
from ..data.labels import (
    Question,
    answer_places,
    make_questions,
    of_sentences,
    read_answered,
)
from ..data.rows import DataError
from ..data.splits import Splits
from ..errors import check_range
from ..text.tokenizer import Tokenizer
from .base import Trained, loss_sum, register_task
from .encoder import EncoderTask, LabelledData
from .predictions import Prediction, softmax
from .scores import answer_scores


@dataclass(frozen=True)
class QuestionData(LabelledData):
    """The source and the batching of questions, contexts and answers."""

    max_answer_length: int = 20  # maximum number of tokens in a predicted answer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "max_answer_length", 1)


class ContextToken(NamedTuple):
    """A token of a context, at the characters from `start` to `end` (exclusive)."""

    id: int
    start: int
    end: int
    begins_word: bool
    ends_word: bool


@register_task
class QuestionAnswering(EncoderTask):
    """The first and the last token of the answer to a question, in a given context."""

    # ------------------------------------------------------------ the data

    name = "question-answering"
    Data = QuestionData
    unit = "questions"

    @classmethod
    def built_in(cls, data: Any) -> Splits:
        rounds = {"train": 3, "validation": 1, "test": 3}
        return of_sentences(lambda split, name: make_questions(split, rounds[name]))

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Question]:
        return read_answered(path, data)

    @classmethod
    def texts(cls, example: Question) -> list[str]:
        return [example.question, example.context]

    @classmethod
    def length(cls, tokenizer: Tokenizer, example: Question) -> int:
        return len(tokenizer.encode(example.question)) + len(context_tokens(tokenizer, example.context)) + 3

    @classmethod
    def filter(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> Splits:
        """Also drop training examples whose answer cannot be learned, since it cuts a token."""
        splits = super().filter(data, tokenizer, splits)
        train = [example for example in splits["train"] if answer_span(tokenizer, example)]
        if not train:
            raise DataError(
                f"none of the {len(splits['train'])} training answers begins and ends at a token boundary.\n"
                f"Train with --tokenizer wordpiece or bpe, whose tokens are smaller."
            )
        return splits.keep({**splits, "train": train}, f"to train on {INSIDE}")

    @classmethod
    def warnings(cls, data: Any, tokenizer: Any, splits: Splits) -> list[str]:
        """Return a warning for each split with answers that no model can give exactly."""
        lines = []
        limit = data.max_answer_length
        for name, examples in splits.items():
            spans = [answer_span(tokenizer, example) for example in examples]
            long = sum(span is not None and span[1] - span[0] >= limit for span in spans)
            of = f"of {len(examples):,} questions"
            if inside := spans.count(None):
                lines.append(f"warning: {name}: {inside:,} {of} {INSIDE}; they count as wrong")
            if long:
                lines.append(
                    f"warning: {name}: {long:,} {of} whose answer has more than {limit} tokens, the limit of "
                    f"predictions (--max-answer-length)"
                )
        return lines

    def encode(self, example: Question) -> dict[str, Any]:
        question = self.tokenizer.encode(example.question)
        context = [token.id for token in context_tokens(self.tokenizer, example.context)]
        span = answer_span(self.tokenizer, example)
        offset = len(question) + 2  # [CLS], and the [SEP] after the question
        target = (IGNORE, IGNORE) if span is None else (span[0] + offset, span[1] + offset)
        return self.join_texts(question, context) | {"target": target}

    def unknown_targets(self, example: Question) -> int:
        """Return 2 (the first and the last token) if the answer begins or ends inside a token, else 0."""
        return 0 if answer_span(self.tokenizer, example) else 2

    # ------------------------------------------------------------ the objective

    head = "question_answering"
    segments = 2

    def logits(self, model: Any, batch: Batch) -> Float[Tensor, "B 2 T"]:
        """Return each token's scores as first and as last token of the answer; -1e9 outside the context."""
        scores = self.output(model, batch).logits.transpose(1, 2)  # (B, 2, T)
        inside = (batch["token_types"] == 1) & (batch["input"] != self.sep_id)
        return scores + np.where(inside, 0, -1e9).astype(np.float32)[:, None, :]

    def loss(self, model: Any, batch: Batch, label_smoothing: float) -> Tensor:
        """Return the summed losses of first and last tokens, without label smoothing.

        Smoothing would reward tokens of the question.
        """
        return loss_sum(self.logits(model, batch), batch["target"], 0.0)

    # ------------------------------------------------------------ the scores

    metrics = (answer_scores,)

    def decode(self, logits: np.ndarray, example: Question) -> str:
        return self.best_answer(logits, example)[0]

    def best_answer(self, logits: np.ndarray, example: Question) -> tuple[str, float]:
        """Return the answer with the highest sum of first and last score, and its probability.

        The probability is the product of the probabilities of its first and its last token.
        """
        tokens = context_tokens(self.tokenizer, example.context)
        n = len(tokens)
        offset = len(self.tokenizer.encode(example.question)) + 2
        first, last = logits[:, offset : offset + n]
        # first <= last < first + max_answer_length
        ordered = np.triu(np.ones((n, n))) * np.tri(n, n, self.data.max_answer_length - 1)
        sums = np.where(ordered > 0, first[:, None] + last, -np.inf)
        i, j = divmod(int(sums.argmax()), n)
        probability = softmax(logits[0])[offset + i] * softmax(logits[1])[offset + j]
        return example.context[tokens[i].start : tokens[j].end], float(probability)

    def expected(self, example: Question) -> tuple[str, ...]:
        return example.answers

    # ------------------------------------------------------------ predicting

    inputs = ("a question", "a context")

    def prediction(self, logits: np.ndarray, example: Question, top: int) -> Prediction:
        answer, probability = self.best_answer(logits, example)
        return Prediction(f"{answer}  {probability:.1%}", {"prediction": answer, "probability": probability})

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> Question:
        return Question(texts[0], texts[1], texts[1])

    def with_answer(self, example: Question, answer: str) -> Question:
        return example._replace(answer=answer)


INSIDE = "whose answer begins or ends inside a token"


def answer_span(tokenizer: Tokenizer, example: Question) -> tuple[int, int] | None:
    """The indices of the answer's first and last token in the context; None if no token boundaries match.

    If the answer occurs several times, the occurrence given in the data is taken, or else the first one of
    whole words. If there are several right answers, the first one at token boundaries is taken.
    """
    tokens = context_tokens(tokenizer, example.context)
    others = [Question(*example[:2], other) for other in example.others]
    for each in (example, *others):
        if span := _span(tokens, answer_places(each)):
            return span
    return None


def _span(tokens: Sequence[ContextToken], places: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The indices of the first and last token of the first place that begins and ends at token boundaries."""
    for whole_words in (True, False):
        first = {t.start: i for i, t in reversed([*enumerate(tokens)]) if t.begins_word or not whole_words}
        last = {t.end: i for i, t in enumerate(tokens) if t.ends_word or not whole_words}
        for start, end in places:
            if start in first and end in last:
                return first[start], last[end]
    return None


def context_tokens(tokenizer: Tokenizer, context: str) -> list[ContextToken]:
    """The tokens of a context; each word and punctuation mark is tokenized separately."""
    found = []
    for match in re.finditer(r"\w[\w'-]*|[^\w\s]", context):
        tokens = _word_tokens(tokenizer, match[0])
        at = match.start()
        last = len(tokens) - 1
        for i, (token, start, end) in enumerate(tokens):
            found.append(ContextToken(token, at + start, at + end, i == 0, i == last))
    return found


@lru_cache(2**16)
def _word_tokens(tokenizer: Tokenizer, word: str) -> list[tuple[int, int, int]]:
    """The ids of a word's tokens, with their start and end in the word; <UNK> for a word without tokens."""
    tokens = []
    for i, (start, end) in tokenizer.encode_with_offsets(word):
        while end < len(word) and unicodedata.combining(word[end]):
            end += 1  # an accent belongs to its letter
        tokens.append((i, start, end))
    return tokens or [(tokenizer.unk_id or 0, 0, len(word))]
