"""Text to text: one model learns several tasks, named by a prefix of the source (Raffel et al. 2020, 2.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ..data.batching import generator
from ..data.prefixes import phrasebook_tasks
from ..data.rows import read_prefixed
from ..data.splits import Pair, Sources, Splits, user_splits
from ..errors import check_range
from .base import Rows, Trained, register_task
from .scores import Score
from .settings import TextSettings
from .translation import Translation, check_lengths

FEW = 15  # the random stream that orders the training pairs


@dataclass(frozen=True)
class PrefixedData(TextSettings):
    """The source and the batching of pairs: a text with a task prefix, and a target."""

    dataset: str = "phrasebook"  # "phrasebook" or "file" (--data FILE); the prefix is part of the source
    tokenizer: str = "word"  # "word", "bpe", "unigram", "wordpiece" or "char"
    max_tokens: int = 2048  # tokens per batch, of the longer side, including padding
    max_length: int = 64  # tokens per side; longer pairs are left out, longer inputs are errors
    examples: int = 0  # number of pairs to train on; 0: all

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "examples", 0)
        check_lengths(self)


@register_task
class TextToText(Translation):
    """Pairs of texts whose source begins with the name of the task."""

    # ------------------------------------------------------------ the data

    name = "text-to-text"
    Data: ClassVar[Any] = PrefixedData

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        if sources.data is None:
            splits = Splits(phrasebook_tasks())
        else:
            splits = user_splits(sources, lambda path: cls.read_file(data, path))
        train = splits["train"]
        # in random order, so that even a few examples have every prefix
        rows = generator(0, FEW, len(train)).permutation(len(train))[: data.examples or None]
        shown = {source.partition(":")[0]: (source, target) for source, target in splits["test"]}
        found = {**splits, "train": [train[i] for i in rows]}
        return Splits(found, splits.dropped, splits.notes, samples=[*shown.values()][:8])

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Pair]:
        return read_prefixed(path, data)

    @classmethod
    def own_data(cls, data: Any) -> Any:
        return replace(data, dataset="file")

    # ------------------------------------------------------------ the objective

    model_types = ("t5", "bart", "transformer", "seq2seq")

    # ------------------------------------------------------------ the scores

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        """Return the scores over all tasks, and the exact match of each prefix."""
        scores, rows = super().evaluate(run, examples, **decoding)
        prefixes = [source.partition(":")[0].strip() for source, _, _ in rows[1:]]
        for prefix in dict.fromkeys(prefixes):
            selected = [(row, name == prefix) for row, name in zip(rows[1:], prefixes, strict=True)]
            scores[f"exact_match, {prefix}"] = Score([(e == p and of, of) for (_, e, p), of in selected])
        return scores, rows
