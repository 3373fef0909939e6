"""Tagging: a label for each word, such as the BIO tag of a named entity (Devlin et al. 2018, 5.3).

A word's tag is predicted at its first token; its other tokens have no target. Texts are split into words as
in the training data: `U.S.` is one word if it is one in the training data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.batching import IGNORE
from ..data.labels import TaggedSentence, are_entities, of_sentences, read_tagged, tag_sentences
from ..data.splits import Splits
from ..errors import UserError
from ..text.tokenizer import Tokenizer
from ..text.words import WordSplitter, words_with_marks
from .base import Trained, register_task
from .encoder import EncoderTask, LabelledData
from .inputs import MAX_SHORT, held_out_first, pick_input, word_ids
from .predictions import Prediction, softmax
from .scores import tag_scores


@register_task
class Tagging(EncoderTask):
    """A tag for each word."""

    # ------------------------------------------------------------ the data

    name = "tagging"
    Data = LabelledData
    unit = "sentences"

    @classmethod
    def built_in(cls, data: Any) -> Splits:
        return of_sentences(lambda split, _: tag_sentences(split))

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[TaggedSentence]:
        return read_tagged(path, data)

    @classmethod
    def texts(cls, example: TaggedSentence) -> list[str]:
        return list(example.words)

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        sentences = ([" ".join(example.words)] for example in held_out_first(splits))
        return pick_input(tokenizer, sentences, min(MAX_SHORT, data.max_length - 2))

    @classmethod
    def length(cls, tokenizer: Tokenizer, example: TaggedSentence) -> int:
        return sum(len(word_ids(tokenizer, word)) for word in example.words) + 2

    @classmethod
    def labels_in(cls, examples: Sequence[TaggedSentence]) -> list[str]:
        return [tag for example in examples for tag in example.tags]

    @classmethod
    def warnings(cls, data: Any, tokenizer: Any, splits: Splits) -> list[str]:
        """Return a warning that there is no entity F1, unless the tags mark entities."""
        tags = cls.labels_in(next(iter(splits.values())))
        if are_entities(tags):
            return []
        found = ", ".join(sorted(set(tags))[:5])
        needed = "it needs the tags O, B-type and I-type, or O, B and I"
        return [f"scores have no entity F1: {needed}; found {found}"]

    @classmethod
    def reading(cls, splits: Mapping[str, Any]) -> dict[str, Any]:
        """Return the training words that contain punctuation marks, to split other texts in the same way."""
        return {
            "marked_words": words_with_marks(word for example in splits["train"] for word in example.words)
        }

    def encode(self, example: TaggedSentence) -> dict[str, Any]:
        ids: list[int] = []
        target = [IGNORE]
        for word, tag in zip(example.words, example.tags, strict=True):
            pieces = word_ids(self.tokenizer, word)
            ids += pieces
            target += [self.label_id(tag)] + [IGNORE] * (len(pieces) - 1)
        return self.join_texts(ids) | {"target": [*target, IGNORE]}

    # ------------------------------------------------------------ the objective

    head = "token_classification"

    # ------------------------------------------------------------ the scores

    metrics = (tag_scores,)

    @classmethod
    def title(cls, example: TaggedSentence, number: int) -> str:
        return " ".join(example.words)

    def decode(self, logits: np.ndarray, example: TaggedSentence) -> str:
        return " ".join(self.label_names[i] for i in self.word_logits(logits, example).argmax(-1))

    def word_logits(self, logits: np.ndarray, example: TaggedSentence) -> np.ndarray:
        """Return the logits at the first token of each word."""
        lengths = [len(word_ids(self.tokenizer, word)) for word in example.words]
        return logits[1 + np.cumsum([0, *lengths[:-1]])]

    # ------------------------------------------------------------ predicting

    reads_words = True

    def prediction(self, logits: np.ndarray, example: TaggedSentence, top: int) -> Prediction:
        """Return a word and its tag on each line, then a blank line, in the format of `read_tagged`."""
        rows = [softmax(row) for row in self.word_logits(logits, example)]
        tags = [self.label_names[int(row.argmax())] for row in rows]
        width = max(map(len, example.words))
        lines = [f"{word:<{width}}  {tag}\n" for word, tag in zip(example.words, tags, strict=True)]
        probabilities = [float(row.max()) for row in rows]
        values = {"words": list(example.words), "prediction": tags, "probabilities": probabilities}
        return Prediction("".join(lines), values)

    @classmethod
    def read(cls, run: Trained, texts: Sequence[Any], names: Sequence[str] = ()) -> TaggedSentence:
        if len(texts) == 1 and not isinstance(texts[0], str):
            texts = [check_word_list(texts[0])]
        return super().read(run, texts, names)

    @classmethod
    def as_read(cls, run: Trained, text: str) -> str:
        """Return the words of a text, separated by spaces."""
        return " ".join(WordSplitter(run.reading.get("marked_words", [])).split(text))

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[Any]) -> TaggedSentence:
        """Make an example of a list of words, or of a sentence, which is split as in the training data."""
        (text,) = texts
        if isinstance(text, str):
            text = cls.as_read(run, text).split()
        return TaggedSentence(tuple(text), (run.labels[0],) * len(text))

    def with_answer(self, example: TaggedSentence, answer: list[str]) -> TaggedSentence:
        return example._replace(tags=tuple(answer))


def check_word_list(words: Sequence[Any]) -> list[str]:
    """Return a user's list of words. Raise a UserError if one is not a string without spaces."""
    for word in words:
        if not isinstance(word, str) or word.split() != [word]:
            raise UserError(
                f"a word must be a string without spaces, got {word!r:.60}.\n"
                f"Pass a list such as ['in', 'the', 'U.S.']."
            )
    return list(words)
