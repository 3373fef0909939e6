"""Translation, or any mapping from text to text: pairs of texts for an encoder-decoder.

This is the task to read first: its data, its objective (the next token of the target), its scores, and
translation with a trained model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigrad import Tensor

from ..base_config import Config
from ..data.batching import BatchStream, PairBatch, TokenBatches, collate
from ..data.conversations import dialogues, summaries
from ..data.datasets import check_language, multi30k
from ..data.generated import addition, reverse
from ..data.phrasebook import DOCUMENT_SENTENCES
from ..data.rows import FileFormat, read_pairs
from ..data.splits import Sources, Splits, filter_by_length, phrasebook_splits, user_splits
from ..errors import UserError, check_range, counted
from ..generation import generate
from ..text.tokenizer import Tokenizer
from .base import (
    Rows,
    Task,
    Trained,
    check_dataset,
    check_one_vocabulary,
    check_positions,
    needed_options,
    register_task,
    score_batches,
    text_tokenizer,
)
from .inputs import MAX_CANDIDATES, MAX_SHORT, held_out_first, pick_input, warn_of_unknown
from .metrics import translation_scores
from .scores import Score, perplexity

Pair = tuple[str, str]


GENERATED: dict[str, Callable[[], dict[str, Any]]] = {
    "reverse": reverse, "addition": addition, "summaries": summaries, "dialogues": dialogues,
}  # fmt: skip


@dataclass(frozen=True)
class PairData(Config):
    """Sentence pairs: their source and batching."""

    # "phrasebook", "multi30k", "reverse", "addition", "summaries", "dialogues", or "file" (--data FILE)
    dataset: str = "phrasebook"
    source_language: str = "en"  # of multi30k: "en", "de" or "fr"
    target_language: str = "fr"
    tokenizer: str = "word"  # "word", "bpe", "unigram", "wordpiece" or "char"
    max_tokens: int = 2048  # tokens per batch, of the longer side, including padding
    max_length: int = 128  # tokens per side; longer pairs are left out, longer inputs are errors
    format: str = "auto"  # of --data: "auto", "plain" (every line is data), "tsv", "csv", "jsonl", "json"
    header: bool | None = None  # whether the first line of --data is a header (--header, --no-header)
    columns: str = ""  # of --data that are read, by name or number, such as "2,1"
    skip_bad_rows: bool = False  # leave out rows of --data that cannot be used

    def __post_init__(self) -> None:
        check_dataset(self.dataset, ("phrasebook", "multi30k", *GENERATED, "file"))
        for language in (self.source_language, self.target_language):
            if language or self.dataset != "file":  # the languages of a file may be unknown
                check_language(language)
        check_lengths(self)
        FileFormat.of(self)


def check_lengths(data: Any) -> None:
    """Raise a UserError if max_tokens is less than max_length."""
    check_range(data, "max_length max_tokens", 2)
    if data.max_tokens < data.max_length:
        raise UserError(
            f"max_tokens = {data.max_tokens} is less than max_length = {data.max_length}.\n"
            f"Raise max_tokens, or lower max_length."
        )


@register_task
class Translation(Task):
    """Pairs of texts, batched by length. The decoder's input is the target, shifted right."""

    # ------------------------------------------------------------ the data

    name = "translation"
    Data: ClassVar[Any] = PairData
    unit = "pairs"

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        if sources.data is not None:
            return user_splits(sources, lambda path: cls.read_file(data, path))
        if data.dataset == "phrasebook":
            return phrasebook_splits()
        if data.dataset in GENERATED:
            return Splits(GENERATED[data.dataset]())
        return Splits(multi30k(data.source_language, data.target_language, sources.data_dir))

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Pair]:
        return read_pairs(path, FileFormat.of(data))

    @classmethod
    def own_data(cls, data: Any) -> Any:
        return replace(data, dataset="file", source_language="", target_language="")

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Tokenizer:
        """One tokenizer for both sides (section 5.1)."""
        texts = {name: [side for pair in pairs for side in pair] for name, pairs in splits.items()}
        held_out = [text for name, split in texts.items() if name != "train" for text in split]
        return text_tokenizer(data.tokenizer, vocab_size, texts["train"], held_out)

    @classmethod
    def filter(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> Splits:
        """The splits without pairs of `max_length` tokens or more; a DataError if a split is left empty."""
        kept = {name: filter_by_length(pairs, tokenizer, data.max_length) for name, pairs in splits.items()}
        too_long = sum(map(len, splits.values())) - sum(map(len, kept.values()))
        reason = f"too long ({data.max_length} tokens or more, --max-length)"
        return Splits(kept, {**splits.dropped, reason: too_long})

    @classmethod
    def warnings(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> list[str]:
        """Warns of targets that do not round-trip through the tokenizer."""
        targets = [target for pairs in splits.values() for _, target in pairs]
        if tokenizer.kind == "bpe" or not (lossy := tokenizer.lossy_texts(targets)):  # BPE is lossless
            return []
        example = f"{lossy[0][:60]!r} as {tokenizer.decode(tokenizer.encode(lossy[0]))[:60]!r}"
        verb = "does" if len(lossy) == 1 else "do"
        return [
            f"warning: {len(lossy):,} of {counted(len(targets), 'target')} {verb} not round-trip through the "
            f"tokenizer (such as {example}), and cannot be translated exactly; with --tokenizer bpe, all do"
        ]

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        sources = ([source] for source, _ in held_out_first(splits))
        return pick_input(tokenizer, sources, min(MAX_SHORT, data.max_length - 1))

    def __init__(
        self,
        tokenizer: Any,
        train: Sequence[tuple[Any, Any]],
        validation: Sequence[tuple[Any, Any]],
        max_tokens: int,
        seed: int,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.seed = seed
        self.train, self.validation = self.ids(train), self.ids(validation)
        self.stream = BatchStream(TokenBatches(_lengths(self.train), max_tokens, seed))

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> Self:
        train, validation = splits["train"], splits["validation"]
        return cls(tokenizer, train, validation, recipe.data.max_tokens, recipe.training.seed)

    def ids(self, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[list[int], list[int]]]:
        """Both sides of each pair as token ids."""
        encode = self.tokenizer.encode
        encode_target = getattr(self.tokenizer, "encode_target", encode)  # your own may have one method
        return [(encode(source), encode_target(target)) for source, target in pairs]

    @property
    def largest_batch(self) -> int:
        return max(map(len, self.stream.batches.epoch(0)))

    @property
    def batches_per_epoch(self) -> int:
        return len(self.stream.batches.epoch(0))  # the same in each epoch

    def next_batch(self) -> PairBatch:
        return collate([self.train[i] for i in next(self.stream)], self.tokenizer)

    def batches(self, examples: Sequence[tuple[list[int], list[int]]]) -> Iterator[PairBatch]:
        for rows in self.rows(examples):
            yield collate([examples[i] for i in rows], self.tokenizer)

    def rows(self, examples: Sequence[tuple[list[int], list[int]]]) -> list[np.ndarray]:
        """The indices of the examples in each batch, which have similar lengths."""
        return TokenBatches(_lengths(examples), self.max_tokens, self.seed).epoch(0)

    def state(self) -> dict[str, Any]:
        return self.stream.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.stream.restore(state)

    # ------------------------------------------------------------ the objective

    model_types: ClassVar[tuple[str, ...]] = ("transformer", "t5", "bart", "seq2seq")
    requires: ClassVar[tuple[str, ...]] = ("encode", "decode", "logits", "new_cache")
    is_encoder_decoder = True

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        check_positions("max_length", data.max_length, model)
        check_one_vocabulary(cls.name, model)

    def logits(self, model: Any, batch: PairBatch) -> Tensor:
        return model(batch.source, batch.target_in)  # (B, T, V)

    # ------------------------------------------------------------ the scores

    accuracy = "token_accuracy"
    compute_metrics = staticmethod(translation_scores)  # from hypotheses and references

    def score(self, model: Any, examples: Sequence[Any]) -> dict[str, Score]:
        scores = score_batches(lambda batch: self.logits(model, batch), self.batches(examples), self.accuracy)
        in_order = np.argsort(np.concatenate(self.rows(examples)))
        return {name: score.of(in_order) for name, score in scores.items()}

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        """Scores of the model's translations, and scores with teacher forcing."""
        data = run.recipe.data
        pairs = filter_by_length(examples, run.tokenizer, data.max_length)
        if left_out := len(examples) - len(pairs):
            pairs_left = counted(left_out, "pair")
            print(f"warning: left out {pairs_left} of {data.max_length} tokens or more", file=sys.stderr)
        sources = [s for s, _ in pairs]
        references = [t for _, t in pairs]
        hypotheses = cls.translate(run, sources, **decoding)
        task = cls(run.tokenizer, pairs, [], data.max_tokens, run.recipe.training.seed)
        scores = {**cls.compute_metrics(hypotheses, references), **task.score(run.model, task.train)}
        scores |= {"perplexity": perplexity(scores["loss"]), "n": len(pairs)}
        rows = zip(sources, references, hypotheses, strict=True)
        return scores, [("source", "reference", "prediction"), *rows]

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        pairs = DOCUMENT_SENTENCES if run.recipe.data.dataset == "phrasebook" else splits["test"][:5]
        sources = [source for source, _ in pairs]
        return [f"{s} -> {t}" for s, t in zip(sources, cls.translate(run, sources), strict=True)]

    @classmethod
    def example(cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]) -> tuple[Self, str]:
        """A sentence and its translation, by default the model's own."""
        data = run.recipe.data
        if not texts:
            short = filter_by_length(validation(), run.tokenizer, min(MAX_SHORT, data.max_length))
            texts = (pick_input(run.tokenizer, short[:MAX_CANDIDATES], data.max_length) or short)[0]
        texts = [text.strip() for text in texts]  # like the training pairs
        for text in texts:
            cls.source_ids(run, text)
        warn_of_unknown(run, texts)
        source, target = texts if len(texts) == 2 else (*texts, *cls.translate(run, texts))
        return cls(run.tokenizer, [(source, target)], [], data.max_length, seed=0), f"{source} → {target}"

    # ------------------------------------------------------------ translating

    @classmethod
    def translate(
        cls, run: Trained, texts: Sequence[str], batch_size: int = 64, **decoding: Any
    ) -> list[str]:
        """The model's translations. `decoding` are arguments of `generate`; the default is greedy.

        With `num_return_sequences`, all translations of the first text come first, then those of the second.
        """
        before, end = run.tokenizer.prefix, run.tokenizer.end_id
        sources = [[*before, *cls.source_ids(run, text), end] for text in texts]
        decoding = {**needed_options(run), **decoding}
        count = decoding.get("num_return_sequences", 1)
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # similar lengths share a batch
        results = [[""] * count for _ in sources]
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            limits = [_target_limit(run, sources[i]) for i in rows]
            targets = generate(run.model, [sources[i] for i in rows], max(limits), **decoding)
            for k, (i, limit) in enumerate(zip(rows, limits, strict=True)):
                own = targets[k * count : (k + 1) * count]
                results[i] = [run.tokenizer.decode(ids[:limit]) for ids in own]
        return [text for texts in results for text in texts]

    @classmethod
    def source_ids(cls, run: Trained, text: str) -> list[int]:
        """The ids of a text; a UserError if it is empty or too long for the run."""
        ids = run.tokenizer.encode(text.strip())  # like the training pairs
        limit = run.recipe.data.max_length
        if not ids:
            raise UserError("an empty sentence has no translation.\nPass at least one word.")
        if len(ids) >= limit:
            raise UserError(
                f"the sentence has {counted(len(ids), 'token')}, but this run takes at most {limit - 1}: "
                f"{text[:60]!r}.\n"
                f"Split the sentence."
            )
        return ids


def _lengths(pairs: Sequence[tuple[list[int], list[int]]]) -> np.ndarray:
    """The lengths (N, 2) of sources and targets, including one special token each."""
    return np.array([(len(s) + 1, len(t) + 1) for s, t in pairs], dtype=np.int64).reshape(-1, 2)


def _target_limit(run: Trained, source: Sequence[int]) -> int:
    """The maximum length of a translation, since an undertrained model may never end it."""
    return min(run.recipe.data.max_length, 10 * len(source) + 100)
