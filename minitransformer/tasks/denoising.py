"""Denoising: spans of a text are removed, and the model restores them, as in T5's and BART's pre-training.

The spans are drawn again in each step. See data/denoising.py for both objectives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base_config import Config
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
from ..data.rows import DataError, Examples, FileFormat, read_texts
from ..data.splits import Splits
from ..errors import UserError, check_range, did_you_mean
from ..text.tokenizer import Tokenizer
from ..text.tokenizer_presets import sentinels
from .base import VALIDATION, Rows, Task, Trained, register_task
from .inputs import (
    check_length,
    check_texts,
    marked_ids,
    split_at_marks,
    warn_left_out,
    warn_of_unknown,
    with_mark,
)
from .predictions import Prediction
from .scores import accuracy, perplexity
from .settings import check_dataset, check_one_vocabulary, check_positions
from .translation import generate_targets

SENTINELS = sentinels(32)
MASK = "<MASK>"
OBJECTIVES = ("span_corruption", "infilling")


@dataclass(frozen=True)
class DenoisingData(Config):
    """Texts, and the noise: their source and batching."""

    dataset: str = "phrasebook"  # "phrasebook" or "file" (--data FILE: a text on each line)
    objective: str = "span_corruption"  # of T5; or "infilling", of BART
    noise: float = 0.15  # the fraction of tokens that is removed
    mean_span: float = 3.0  # mean length of the spans
    sentences: int = 3  # per text of the phrasebook
    tokenizer: str = "word"  # "word", "bpe", "unigram", "wordpiece" or "char"
    batch_size: int = 64  # texts per batch
    max_length: int = 64  # tokens per text; longer ones are left out
    format: str = "auto"  # of --data: "auto", "plain" (every line is data), "tsv", "csv", "jsonl", "json"
    header: bool | None = None  # whether the first line of --data is a header (--header, --no-header)
    columns: str = ""  # of --data that are read, by name or number, such as "text"
    skip_bad_rows: bool = False  # leave out rows of --data that cannot be used

    def __post_init__(self) -> None:
        check_dataset(self.dataset, ("phrasebook", "file"))
        check_range(self, "batch_size sentences", 1)
        check_range(self, "max_length", 4)
        check_range(self, "mean_span", 1)
        FileFormat.of(self)
        if self.objective not in OBJECTIVES:
            raise UserError(
                f"unknown objective {self.objective!r}.{did_you_mean(self.objective, OBJECTIVES)}\n"
                f"Choose one of {', '.join(OBJECTIVES)}."
            )
        if not 0 < self.noise < 1:
            raise UserError(f"noise = {self.noise} is out of range.\nChoose a value > 0 and < 1.")


@register_task
class Denoising(Task):
    """The source is a text with gaps; the target is the missing spans, or the whole text."""

    # ------------------------------------------------------------ the data

    name = "denoising"
    Data = DenoisingData
    unit = "texts"
    marks = special_tokens = (*SENTINELS, MASK)

    @classmethod
    def built_in(cls, data: Any) -> Splits:
        """Texts of a few sentences; the tokenizer also has the words of tasks that --init-from can start."""
        found = {}
        for name, split in sentence_splits().items():
            texts = []
            n = data.sentences
            for sentences in zip(*split, strict=True):  # in English, in French
                ended = [text if text[-1] in ".?" else f"{text}." for text in sentences]
                texts += [" ".join(ended[i : i + n]) for i in range(0, len(ended) - n + 1, n)]
            found[name] = texts
        words = [side for pair in phrasebook_tasks()["train"] for side in pair]
        return Splits(found, tokenizer_texts=[*found["train"], *words])

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[str]:
        lines = read_texts(path, FileFormat.of(data))
        return Examples([line.strip() for line in lines if line.strip()], lines.notes)

    @classmethod
    def filter(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> Splits:
        """The splits without texts of fewer than 2 tokens, or more than `max_length`."""
        kept = {name: cls.within_limits(data, tokenizer, split) for name, split in splits.items()}
        if empty := [name for name, split in kept.items() if not split]:
            raise DataError(
                f"no text of the {empty[0]} split has 2 to {data.max_length} tokens.\nRaise --max-length."
            )
        return splits.keep(kept, f"not of 2 to {data.max_length} tokens")

    @classmethod
    def within_limits(cls, data: Any, tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
        """The texts of 2 to `max_length` tokens."""
        return [text for text in texts if 2 <= len(tokenizer.encode(text)) <= data.max_length]

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        """A text whose middle word is a gap."""
        mark = MASK if data.objective == "infilling" else SENTINELS[0]
        return [[with_mark(text, mark)] for (text,) in super().short_inputs(data, tokenizer, splits)]

    stream = DENOISING

    def encode(self, example: str) -> dict[str, Any]:
        return {"ids": self.tokenizer.encode(example)}

    def vary(self, row: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
        return dict(pair_row(*self.add_noise(row["ids"], random), self.tokenizer))

    def add_noise(self, ids: list[int], random: np.random.Generator) -> tuple[list[int], list[int]]:
        """The source and target ids of a text."""
        data = self.data
        if data.objective == "infilling":
            spans = infilled_spans(len(ids), random, data.noise, data.mean_span)
            return text_infilling(ids, spans, self.tokenizer.special_id(MASK))
        spans = corrupted_spans(len(ids), random, data.noise, data.mean_span)
        return span_corruption(ids, spans[: len(SENTINELS) - 1], sentinel_ids(self.tokenizer))

    # ------------------------------------------------------------ the objective

    model_types = ("t5", "bart", "transformer")
    requires = ("encode", "decode", "logits", "new_cache")
    is_encoder_decoder = True

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        check_positions("max_length", data.max_length + 2, model)
        check_one_vocabulary(cls.name, model)

    # ------------------------------------------------------------ the scores

    accuracy = "token_accuracy"

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        """The fraction of texts restored exactly, and the scores of the targets with teacher forcing."""
        limit = run.recipe.data.max_length
        total = len(examples)
        examples = cls.within_limits(run.recipe.data, run.tokenizer, examples)
        if not examples:
            raise UserError(f"none of {total} texts has 2 to {limit} tokens.\nPass longer or shorter ones.")
        warn_left_out(total - len(examples), cls.unit, f"fewer than 2 or more than {limit} tokens")
        task = cls.of_run(run, examples)
        sources = cls.sources(run, examples)
        predictions = fill_gaps(run, sources, **decoding)
        texts = [run.tokenizer.decode(run.tokenizer.encode(text)) for text in examples]
        scores = {"exact_match": accuracy(predictions, texts), **task.score(run.model, examples)}
        scores |= {"perplexity": perplexity(scores["loss"]), "n": len(examples)}
        shown = [" ".join(run.tokenizer.id_to_token[i] for i in source) for source in sources]
        return scores, [("source", "text", "prediction"), *zip(shown, texts, predictions, strict=True)]

    @classmethod
    def sources(cls, run: Trained, texts: Sequence[str]) -> list[list[int]]:
        """The source ids of the texts, always with the same noise."""
        task = cls.of_run(run, texts)
        drawn = (row_generator(task.seed, DENOISING, VALIDATION, row) for row in range(len(texts)))
        rows = zip(map(run.tokenizer.encode, texts), drawn, strict=True)
        return [task.add_noise(ids, random)[0] for ids, random in rows]

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        sources = cls.sources(run, splits["test"][:5])
        shown = [" ".join(run.tokenizer.id_to_token[i] for i in source) for source in sources]
        return [f"{s} -> {t}" for s, t in zip(shown, fill_gaps(run, sources), strict=True)]

    @classmethod
    def read(cls, run: Trained, texts: Sequence[str]) -> str:
        check_texts(run, texts, cls.inputs)
        return texts[0].strip()  # like the lines of training data

    # ------------------------------------------------------------ filling gaps

    @classmethod
    def translate(cls, run: Trained, texts: Sequence[str], **decoding: Any) -> list[str]:
        """Fill the gaps of texts: <extra_id_0>, <extra_id_1>, ..., or <MASK>."""
        sources = [cls.source_ids(run, text) for text in texts]
        return fill_gaps(run, sources, **decoding)

    @classmethod
    def source_ids(cls, run: Trained, text: str) -> list[int]:
        """The ids of a text, with gaps marked as the run's objective marks them."""
        check_texts(run, [text], cls.inputs)
        check_gaps(text, run.recipe.data.objective)
        ids = marked_ids(run.tokenizer, text.strip(), cls.marks)
        check_length(len(ids), run.recipe.data.max_length, text, run.model.max_length)
        return ids

    @classmethod
    def predictions(cls, run: Trained, inputs: Sequence[Sequence[str]], top: int = 5) -> list[Prediction]:
        for texts in inputs:
            check_texts(run, texts, cls.inputs)
        sources = [cls.source_ids(run, text) for (text,) in inputs]
        warn_of_unknown(run, [text for (text,) in inputs])
        return [Prediction(text, {"prediction": text}) for text in fill_gaps(run, sources)]


def sentinel_ids(tokenizer: Tokenizer) -> list[int]:
    return [tokenizer.special_id(token) for token in SENTINELS]


def check_gaps(text: str, objective: str) -> None:
    """Raise a UserError unless the gaps of a text are marked as the objective marks them."""
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
    """Let the model fill the gaps of source ids; returns the whole texts, `num_return_sequences` for each."""
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
