"""Translation, or any mapping from text to text, learned from pairs of texts by an encoder-decoder.

Read this task first. It defines its data, its objective (the next token of the target), its scores, and how
to translate with a trained model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..data.batching import Batch, TokenBatches, pair_row
from ..data.conversations import dialogues, summaries
from ..data.datasets import check_language, multi30k
from ..data.generated import addition, reverse
from ..data.rows import read_pairs
from ..data.splits import Sources, Splits, phrasebook_splits
from ..errors import UserError, check_range, counted
from ..text.tokenizer import Tokenizer
from .base import VALIDATION, Trained, register_task
from .encoder_decoder import EncoderDecoderTask, generate_targets
from .inputs import MAX_CANDIDATES, MAX_SHORT, check_length, check_texts, pick_input
from .metrics import translation_scores
from .predictions import Prediction, text_prediction
from .scores import Score
from .settings import TextSettings

Pair = tuple[str, str]


GENERATED: dict[str, Callable[[], dict[str, Any]]] = {
    "reverse": reverse, "addition": addition, "summaries": summaries, "dialogues": dialogues,
}  # fmt: skip


@dataclass(frozen=True)
class PairData(TextSettings):
    """The source and the batching of sentence pairs."""

    # "phrasebook", "multi30k", "reverse", "addition", "summaries", "dialogues", or "file" (--data FILE)
    dataset: str = "phrasebook"
    source_language: str = "en"  # of multi30k: "en", "de" or "fr"
    target_language: str = "fr"
    tokenizer: str = "word"  # "word", "bpe", "unigram", "wordpiece" or "char"
    max_tokens: int = 2048  # tokens per batch, of the longer side, including padding
    max_length: int = 128  # tokens per side; longer pairs are left out, longer inputs are errors

    datasets: ClassVar[tuple[str, ...]] = ("phrasebook", "multi30k", *GENERATED, "file")

    def __post_init__(self) -> None:
        super().__post_init__()
        for language in (self.source_language, self.target_language):
            if language or self.dataset != "file":  # the languages of a file may be unknown
                check_language(language)
        check_lengths(self)


def check_lengths(data: Any) -> None:
    """Raise a UserError if max_tokens is less than max_length."""
    check_range(data, "max_length max_tokens", 2)
    if data.max_tokens < data.max_length:
        raise UserError(
            f"max_tokens = {data.max_tokens} is less than max_length = {data.max_length}.\n"
            f"Raise max_tokens, or lower max_length."
        )


@register_task
class Translation(EncoderDecoderTask):
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
        return read_pairs(path, data)

    @classmethod
    def own_data(cls, data: Any) -> Any:
        return replace(data, dataset="file", source_language="", target_language="")

    misfits = "too long ({} tokens or more, --max-length)"

    @classmethod
    def fits(cls, data: Any, tokenizer: Tokenizer, example: Pair) -> bool:
        """Whether both sides are shorter than `max_length` tokens, which leaves one for <END>."""
        return all(len(tokenizer.encode(side)) < data.max_length for side in example)

    @classmethod
    def warnings(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> list[str]:
        """Return a warning if targets do not round-trip through the tokenizer."""
        targets = [target for pairs in splits.values() for _, target in pairs]
        if tokenizer.kind == "bpe" or not (lossy := tokenizer.lossy_texts(targets)):  # BPE is lossless
            return []
        example = f"{lossy[0][:60]!r} as {tokenizer.decode(tokenizer.encode(lossy[0]))[:60]!r}"
        verb = "does" if len(lossy) == 1 else "do"
        return [
            f"warning: {len(lossy):,} of {counted(len(targets), 'target')} {verb} not round-trip through the "
            f"tokenizer (such as {example}), and cannot be translated exactly; trained with --tokenizer bpe, "
            f"all could"
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
        """Return both sides of each pair as token ids."""
        encode = self.tokenizer.encode
        encode_target = getattr(self.tokenizer, "encode_target", encode)  # a user's may not have it
        return [(encode(source), encode_target(target)) for source, target in pairs]

    def encode(self, example: tuple[list[int], list[int]]) -> dict[str, Any]:
        return dict(pair_row(*example, self.tokenizer))

    def batch_order(self) -> TokenBatches:
        return self.batches_of(self.train)

    def batches_of(self, examples: Sequence[tuple[list[int], list[int]]]) -> TokenBatches:
        """Group examples of similar length into batches of at most `max_tokens` tokens."""
        lengths = [(len(source) + 1, len(target) + 1) for source, target in examples]  # with <END>
        return TokenBatches(np.array(lengths, np.int64).reshape(-1, 2), self.data.max_tokens, self.seed)

    def batches(self, examples: Sequence[tuple[list[int], list[int]]]) -> Iterator[Batch]:
        for rows in self.batches_of(examples).epoch(0):
            yield self.collate([examples[i] for i in rows], VALIDATION)

    # ------------------------------------------------------------ the objective

    model_types: ClassVar[tuple[str, ...]] = ("transformer", "t5", "bart", "seq2seq")
    # ------------------------------------------------------------ the scores

    metrics = (translation_scores,)

    def score(self, model: Any, examples: Sequence[Any]) -> dict[str, Score]:
        scores: Mapping[str, Any] = super().score(model, examples)
        in_order = np.argsort(np.concatenate(self.batches_of(examples).epoch(0)))
        return {name: score.of(in_order) for name, score in scores.items()}

    @classmethod
    def title(cls, example: Pair, number: int) -> str:
        return " → ".join(example)

    @classmethod
    def default_example(cls, run: Trained, examples: Sequence[Pair]) -> Pair:
        fits = lambda pair: all(len(run.tokenizer.encode(side)) < MAX_SHORT for side in pair)
        short = list(filter(fits, examples)) or examples
        source, target = (pick_input(run.tokenizer, short[:MAX_CANDIDATES], 2 * MAX_SHORT) or short)[0]
        return source, target

    # ------------------------------------------------------------ translating

    @classmethod
    def read(cls, run: Trained, texts: Sequence[str]) -> Pair:
        """Read a text, and its translation if there is a second text."""
        check_texts(run, texts, (*cls.inputs, "its translation")[: max(len(texts), 1)])
        source, target = [text.strip() for text in (*texts, "")[:2]]  # like the training pairs
        for side in (source, target):
            length = len(run.tokenizer.encode(side)) + 1  # with <END>
            check_length(length, run.recipe.data.max_length, side, run.model.max_length)
        return source, target

    @classmethod
    def read_input(cls, run: Trained, texts: Sequence[str]) -> Pair:
        """Read one text, to be translated."""
        check_texts(run, texts, cls.inputs)
        return cls.read(run, texts)

    @classmethod
    def source_ids(cls, tokenizer: Any, source: str) -> list[int]:
        """Return the ids that the model reads before it generates the target."""
        return [*tokenizer.prefix, *tokenizer.encode(source), tokenizer.end_id]

    def with_answer(self, example: Pair, answer: str) -> Pair:
        return example[0], answer

    @classmethod
    def predict(
        cls, run: Trained, examples: Sequence[Pair], top: int = 5, **decoding: Any
    ) -> list[Prediction]:
        """Return the translation of each pair's source."""
        sources = [cls.source_ids(run.tokenizer, source) for source, _ in examples]
        # an undertrained model may never end a translation
        limits = [min(run.recipe.data.max_length, 10 * len(source) + 100) for source in sources]
        targets = generate_targets(run, sources, limits, **decoding)
        return [text_prediction(run.tokenizer.decode(ids)) for results in targets for ids in results]
