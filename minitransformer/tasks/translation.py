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

from ..base_config import Config
from ..data.batching import Batch, TokenBatches, pair_row
from ..data.conversations import dialogues, summaries
from ..data.datasets import check_language, multi30k
from ..data.generated import addition, reverse
from ..data.rows import FileFormat, read_pairs
from ..data.splits import Sources, Splits, filter_by_length, phrasebook_splits
from ..errors import UserError, check_range, counted
from ..generation import generate
from ..text.tokenizer import Tokenizer
from .base import VALIDATION, Rows, Task, Trained, needed_options, register_task
from .inputs import MAX_CANDIDATES, MAX_SHORT, pick_input, warn_of_unknown
from .metrics import translation_scores
from .scores import Score, perplexity
from .settings import check_dataset, check_one_vocabulary, check_positions

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
            return super().splits(data, sources)
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
    def filter(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> Splits:
        """The splits without pairs of `max_length` tokens or more; a DataError if a split is left empty."""
        kept = {name: filter_by_length(pairs, tokenizer, data.max_length) for name, pairs in splits.items()}
        return splits.keep(kept, f"too long ({data.max_length} tokens or more, --max-length)")

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

    def __init__(
        self,
        data: Any,
        train: Sequence[tuple[Any, Any]],
        validation: Sequence[tuple[Any, Any]],
        tokenizer: Any,
        labels: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        self.tokenizer = tokenizer
        super().__init__(data, self.ids(train), self.ids(validation), tokenizer, labels, seed)

    def ids(self, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[list[int], list[int]]]:
        """Both sides of each pair as token ids."""
        encode = self.tokenizer.encode
        encode_target = getattr(self.tokenizer, "encode_target", encode)  # your own may have one method
        return [(encode(source), encode_target(target)) for source, target in pairs]

    def encode(self, example: tuple[list[int], list[int]]) -> dict[str, Any]:
        return dict(pair_row(*example, self.tokenizer))

    def batch_order(self) -> TokenBatches:
        return self.batches_of(self.train)

    def batches_of(self, examples: Sequence[tuple[list[int], list[int]]]) -> TokenBatches:
        """Batches of examples of similar length, up to a number of tokens."""
        lengths = [(len(source) + 1, len(target) + 1) for source, target in examples]  # with <END>
        return TokenBatches(np.array(lengths, np.int64).reshape(-1, 2), self.data.max_tokens, self.seed)

    def batches(self, examples: Sequence[tuple[list[int], list[int]]]) -> Iterator[Batch]:
        for rows in self.batches_of(examples).epoch(0):
            yield self.collate([examples[i] for i in rows], VALIDATION)

    # ------------------------------------------------------------ the objective

    model_types: ClassVar[tuple[str, ...]] = ("transformer", "t5", "bart", "seq2seq")
    requires: ClassVar[tuple[str, ...]] = ("encode", "decode", "logits", "new_cache")
    is_encoder_decoder = True

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        check_positions("max_length", data.max_length, model)
        check_one_vocabulary(cls.name, model)

    # ------------------------------------------------------------ the scores

    accuracy = "token_accuracy"
    metrics = (translation_scores,)

    def score(self, model: Any, examples: Sequence[Any]) -> dict[str, Score]:
        scores: Mapping[str, Any] = super().score(model, examples)
        in_order = np.argsort(np.concatenate(self.batches_of(examples).epoch(0)))
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
        task = cls(data, pairs, [], run.tokenizer, seed=run.recipe.training.seed)
        scores = {**cls.compute_metrics(hypotheses, references), **task.score(run.model, task.train)}
        scores |= {"perplexity": perplexity(scores["loss"]), "n": len(pairs)}
        rows = zip(sources, references, hypotheses, strict=True)
        return scores, [("source", "reference", "prediction"), *rows]

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        pairs = getattr(splits, "samples", None) or splits["test"][:5]
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
        return cls(data, [(source, target)], [], run.tokenizer), f"{source} → {target}"

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
        limits = [_target_limit(run, source) for source in sources]
        targets = generate_targets(run, sources, limits, batch_size, **decoding)
        return [run.tokenizer.decode(ids) for results in targets for ids in results]

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


def generate_targets(
    run: Trained, sources: Sequence[list[int]], limits: Sequence[int], batch_size: int = 64, **decoding: Any
) -> list[list[list[int]]]:
    """For each source, the ids of its `num_return_sequences` targets, of at most its limit of tokens."""
    decoding = {**needed_options(run), **decoding}
    count = decoding.get("num_return_sequences", 1)
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # similar lengths share a batch
    results: list[list[list[int]]] = [[]] * len(sources)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        longest = max(limits[i] for i in rows)
        targets = generate(run.model, [sources[i] for i in rows], longest, **decoding)
        for k, i in enumerate(rows):
            results[i] = [ids[: limits[i]] for ids in targets[k * count : (k + 1) * count]]
    return results


def _target_limit(run: Trained, source: Sequence[int]) -> int:
    """The maximum length of a translation, since an undertrained model may never end it."""
    return min(run.recipe.data.max_length, 10 * len(source) + 100)
