"""Base class of the tasks of encoder-only models. Each example becomes a row of token ids, with its targets.

A subclass defines how an example is encoded as a row (`encode`), and how logits are decoded (`decode`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from minigrad import Tensor

from ..data.batching import Batch
from ..data.splits import Sources, Splits
from ..errors import UserError, check_range, counted_units
from ..text.tokenizer import Tokenizer
from ..text.tokenizer_presets import BERT_TOKENS, CLS, SEP
from .base import Task, Trained
from .inputs import (
    check_length,
    check_texts,
    marked_ids,
)
from .settings import TextSettings, check_positions


@dataclass(frozen=True)
class LabelledData(TextSettings):
    """The source and the batching of labelled texts."""

    tokenizer: str = "word"  # "word", "wordpiece", "bpe", "unigram" or "char"
    batch_size: int = 32  # examples per batch
    max_length: int = 64  # tokens per example, [CLS] and [SEP] included; longer ones are left out
    examples: int = 0  # number of examples to train on; 0: all

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "batch_size", 1)
        check_range(self, "max_length", 3)
        check_range(self, "examples", 0)


class EncoderTask(Task):
    """Base class of tasks in which an encoder reads a row of tokens and its `head` predicts the targets."""

    # ------------------------------------------------------------ the data

    special_tokens = BERT_TOKENS

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        splits = super().splits(data, sources)
        train = splits["train"]
        if sources.data is not None and 0 < data.examples < len(train):
            of = f"{data.examples:,} of {counted_units(len(train), cls.unit)}"
            splits.notes.append(f"warning: training on only {of} (--examples {data.examples}; 0 is all)")
        splits["train"] = train[: data.examples or None]
        return splits

    misfits = "too long (more than {} tokens, --max-length)"

    @classmethod
    def fits(cls, data: Any, tokenizer: Tokenizer, example: Any) -> bool:
        return cls.length(tokenizer, example) <= data.max_length

    @classmethod
    def length(cls, tokenizer: Tokenizer, example: Any) -> int:
        """The number of tokens in the row of an example, including [CLS] and each [SEP]."""
        texts = cls.texts(example)
        return sum(len(marked_ids(tokenizer, text, cls.marks)) for text in texts) + 1 + len(texts)

    def __init__(self, *settings: Any, **named: Any) -> None:
        super().__init__(*settings, **named)
        self.cls_id = self.tokenizer.special_id(CLS)
        self.sep_id = self.tokenizer.special_id(SEP)
        if not self.stream:  # the same rows in each epoch
            self.encode = cache(self.encode)  # type: ignore[method-assign]

    def join_texts(self, *texts: Sequence[int]) -> dict[str, Any]:
        """Return the row [CLS] first [SEP] second [SEP], and the segment of each token (BERT, figure 2)."""
        ids = [self.cls_id]
        types = [0]
        for segment, text in enumerate(texts):
            ids += [*text, self.sep_id]
            types += [segment] * (len(text) + 1)
        return {"input": ids, "token_types": types}

    # ------------------------------------------------------------ the objective

    model_types = ("bert",)
    is_encoder_decoder = False
    head: ClassVar[str]  # the `head` setting that BERT needs
    segments: ClassVar[int] = 1  # the number of texts in a row

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
        """Return the `head` setting that BERT needs for these data settings."""
        return cls.head

    def output(self, model: Any, batch: Batch) -> Any:
        """Return the model's output for a batch. Token types are passed only if rows have several texts."""
        types = () if self.segments == 1 else (None, batch["token_types"])
        return model(batch["input"], *types)

    def logits(self, model: Any, batch: Batch) -> Tensor:
        return self.output(model, batch)

    # ------------------------------------------------------------ scores and predictions

    @classmethod
    def read(cls, run: Trained, texts: Sequence[str], names: Sequence[str] = ()) -> Any:
        """Make an example from the user's texts, with any target. Raise a UserError for invalid texts."""
        check_texts(run, texts, names or cls.inputs)
        example = cls.unlabelled(run, [text.strip() if isinstance(text, str) else text for text in texts])
        length = cls.length(run.tokenizer, example)
        check_length(length, run.recipe.data.max_length, texts[-1], run.model.max_length)
        return example

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> Any:
        """Make an example with the user's texts and any target."""
        raise NotImplementedError
