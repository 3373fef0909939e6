"""Denoising: spans of a text are removed, and the model restores them, as in T5's and BART's pre-training.

New spans are drawn in each step. See data/denoising.py for the objectives of both models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.batching import pair_row
from ..data.denoising import (
    DENOISING,
    corrupted_spans,
    fill_spans,
    infilled_spans,
    span_corruption,
    text_infilling,
)
from ..data.masking import row_generator
from ..data.phrasebook import sentence_splits
from ..data.prefixes import phrasebook_tasks
from ..data.rows import Examples, read_texts
from ..data.splits import Splits
from ..errors import UserError, check_choice, check_range
from ..text.tokenizer import Tokenizer
from ..text.tokenizer_presets import sentinels
from .base import VALIDATION, Trained, register_task
from .encoder_decoder import EncoderDecoderTask, generate_targets
from .inputs import (
    check_length,
    check_texts,
    marked_ids,
    split_at_marks,
    with_mark,
)
from .predictions import Prediction, text_prediction
from .scores import exact_match
from .settings import TextSettings, check_positions

SENTINELS = sentinels(32)
MASK = "<MASK>"


@dataclass(frozen=True)
class DenoisingData(TextSettings):
    """The source of the texts, the noise, and the batching."""

    dataset: str = "phrasebook"  # "phrasebook" or "file" (--data FILE: one text per line)
    objective: str = "span_corruption"  # "span_corruption" (T5) or "infilling" (BART)
    noise: float = 0.15  # the fraction of tokens that is removed
    mean_span: float = 3.0  # mean length of the removed spans, in tokens
    sentences: int = 3  # sentences per text of the phrasebook
    tokenizer: str = "word"  # "word", "bpe", "unigram", "wordpiece" or "char"
    batch_size: int = 64  # texts per batch
    max_length: int = 64  # tokens per text; longer ones are left out

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "batch_size sentences", 1)
        check_range(self, "max_length", 4)
        check_range(self, "mean_span", 1)
        check_choice("objective", self.objective, ("span_corruption", "infilling"))
        if not 0 < self.noise < 1:
            raise UserError(f"noise = {self.noise} is out of range.\nChoose a value > 0 and < 1.")


@register_task
class Denoising(EncoderDecoderTask):
    """The source is a text with gaps; the target is the missing spans, or the whole text."""

    # ------------------------------------------------------------ the data

    name = "denoising"
    Data = DenoisingData
    unit = "texts"
    marks = special_tokens = (*SENTINELS, MASK)

    @classmethod
    def built_in(cls, data: Any) -> Splits:
        """Return texts of `data.sentences` consecutive sentences of the phrasebook, English or French.

        The tokenizer's vocabulary also has the words of the task text-to-text, whose models can then start
        from this one (--init-from).
        """
        found = {}
        for name, split in sentence_splits().items():
            texts = []
            n = data.sentences
            for sentences in zip(*split, strict=True):  # the English side, then the French one
                ended = [text if text[-1] in ".?" else f"{text}." for text in sentences]
                texts += [" ".join(ended[i : i + n]) for i in range(0, len(ended) - n + 1, n)]
            found[name] = texts
        words = [side for pair in phrasebook_tasks()["train"] for side in pair]
        return Splits(found, tokenizer_texts=[*found["train"], *words])

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[str]:
        lines = read_texts(path, data)
        return Examples([line.strip() for line in lines if line.strip()], lines.notes)

    misfits = "too short or too long (fewer than 2 or more than {} tokens, --max-length)"

    @classmethod
    def fits(cls, data: Any, tokenizer: Tokenizer, example: str) -> bool:
        return 2 <= len(tokenizer.encode(example)) <= data.max_length

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        """Return a text whose middle word is replaced by the mark of a gap."""
        mark = MASK if data.objective == "infilling" else SENTINELS[0]
        return [[with_mark(text, mark)] for (text,) in super().short_inputs(data, tokenizer, splits)]

    stream = DENOISING

    def encode(self, example: str) -> dict[str, Any]:
        return {"ids": self.tokenizer.encode(example)}

    def vary(self, row: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
        return dict(pair_row(*self.add_noise(row["ids"], random), self.tokenizer))

    def add_noise(self, ids: list[int], random: np.random.Generator) -> tuple[list[int], list[int]]:
        """Remove spans of a text. Return the source ids and the target ids."""
        data = self.data
        if data.objective == "infilling":
            spans = infilled_spans(len(ids), random, data.noise, data.mean_span)
            return text_infilling(ids, spans, self.tokenizer.special_id(MASK))
        spans = corrupted_spans(len(ids), random, data.noise, data.mean_span)
        return span_corruption(ids, spans[: len(SENTINELS) - 1], sentinel_ids(self.tokenizer))

    # ------------------------------------------------------------ the objective

    model_types = ("t5", "bart", "transformer")

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        super().check(data, model)
        check_positions("max_length", data.max_length + 2, model)

    # ------------------------------------------------------------ the scores

    column_names = ("source", "text", "prediction")
    metrics = (exact_match,)

    @classmethod
    def generated_rows(cls, run: Trained, examples: Any, **decoding: Any) -> list[tuple[str, str, str]]:
        """Return the source (with the same gaps in each call), text and model's text of each example."""
        sources = cls.sources(run, examples)
        shown = [" ".join(run.tokenizer.id_to_token[i] for i in source) for source in sources]
        texts = [run.tokenizer.decode(run.tokenizer.encode(text)) for text in examples]
        return [*zip(shown, texts, fill_gaps(run, sources, **decoding), strict=True)]

    @classmethod
    def sources(cls, run: Trained, texts: Sequence[str]) -> list[list[int]]:
        """Return the source ids of the texts, with the same noise in each call."""
        task = cls.of_run(run, texts)
        drawn = (row_generator(task.seed, DENOISING, VALIDATION, row) for row in range(len(texts)))
        rows = zip(map(run.tokenizer.encode, texts), drawn, strict=True)
        return [task.add_noise(ids, random)[0] for ids, random in rows]

    # ------------------------------------------------------------ filling gaps

    @classmethod
    def read(cls, run: Trained, texts: Sequence[str]) -> str:
        check_texts(run, texts, cls.inputs)
        text = texts[0].strip()  # like the lines of training data
        length = len(marked_ids(run.tokenizer, text, cls.marks))
        check_length(length, run.recipe.data.max_length, text, run.model.max_length)
        return text

    @classmethod
    def read_input(cls, run: Trained, texts: Sequence[str]) -> str:
        """Read a text with gaps: <extra_id_0>, <extra_id_1>, ... (span corruption) or <MASK> (infilling)."""
        text = cls.read(run, texts)
        check_gaps(text, run.recipe.data.objective)
        return text

    @classmethod
    def predict(
        cls, run: Trained, examples: Sequence[str], top: int = 5, **decoding: Any
    ) -> list[Prediction]:
        """Return the texts with their gaps filled."""
        sources = [marked_ids(run.tokenizer, text, cls.marks) for text in examples]
        return list(map(text_prediction, fill_gaps(run, sources, **decoding)))


def sentinel_ids(tokenizer: Tokenizer) -> list[int]:
    return [tokenizer.special_id(token) for token in SENTINELS]


def check_gaps(text: str, objective: str) -> None:
    """Raise a UserError unless a text has gaps, marked as the objective marks them."""
    marks = split_at_marks(text, (*SENTINELS, MASK))[1::2]
    expected = [MASK] * len(marks) if objective == "infilling" else SENTINELS[: len(marks)]
    if marks and marks == expected:
        return
    how = (
        f"{MASK} for each gap"
        if objective == "infilling"
        else "<extra_id_0>, <extra_id_1>, ... for the gaps, in order"
    )
    found = f"the gaps {', '.join(marks[:5])}, not {', '.join(expected[:5])}" if marks else "no gap"
    raise UserError(f"{text[:60]!r} has {found}.\nWrite {how}.")


def fill_gaps(run: Trained, sources: Sequence[list[int]], **decoding: Any) -> list[str]:
    """Return the texts in which the model has filled the gaps, `num_return_sequences` for each source."""
    tokenizer = run.tokenizer
    data = run.recipe.data
    rows = [[*tokenizer.prefix, *source, tokenizer.end_id] for source in sources]
    limits = [data.max_length + len(SENTINELS)] * len(rows)
    texts = []
    for source, targets in zip(sources, generate_targets(run, rows, limits, **decoding), strict=True):
        for target in targets:
            new = [i for i in target if i != tokenizer.end_id]
            if data.objective == "span_corruption":
                new = fill_spans(source, new, sentinel_ids(tokenizer))
            texts.append(tokenizer.decode(new))
    return texts
