"""A run: what is built from a recipe (tokenizer, model, task), and what is loaded from a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from minigrad.devices import check_device

from ..data.datasets import DataError
from ..data.splits import Sources, Splits, checksums, filter_by_length, load_splits
from ..models import GPT, Transformer
from ..recipes import LanguageRecipe, Recipe, TextData, TranslationRecipe
from ..tokenizers import Tokenizer
from .checkpoint import Checkpoints
from .folder import Record, RunError, read_config, read_record, read_tokenizer
from .memory import check_memory
from .tasks import LanguageModelling, Translation, check_text

# ---------------------------------------------------------------- building


def train_tokenizer(recipe: Recipe, splits: Mapping[str, Any]) -> Tokenizer:
    """The recipe's tokenizer, trained on the training split; a text's alphabet comes from all splits.

    How spaces and unknown characters are written depends on all splits: they shall come back.
    """
    kind, size = recipe.data.tokenizer, recipe.model.vocab_size
    texts = {name: _texts(split) for name, split in splits.items()}
    held_out = [text for name, split in texts.items() if name != "train" for text in split]
    if kind == "word":
        return Tokenizer.train_word(texts["train"], vocab_size=size or None, held_out=held_out)
    if kind == "bpe":
        return Tokenizer.train_bpe(texts["train"], size or 8000, held_out=held_out)
    if kind == "char":
        language = isinstance(recipe, LanguageRecipe)
        return Tokenizer.train_char(
            [*texts["train"], *held_out] if language else texts["train"], special_tokens=not language
        )
    raise DataError(f"unknown tokenizer {kind!r}.\nChoose word, bpe or char.")


def _texts(split: Any) -> list[str]:
    return [split] if isinstance(split, str) else [side for pair in split for side in pair]


def build_model(recipe: Recipe, tokenizer: Tokenizer) -> Transformer | GPT:
    """The recipe's model with initial weights, for the tokenizer's vocabulary."""
    if isinstance(recipe, LanguageRecipe):
        return GPT(replace(recipe.model, vocab_size=tokenizer.vocab_size))
    ids = {
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.start_id,
        "eos_token_id": tokenizer.end_id,
    }
    return Transformer(replace(recipe.model, vocab_size=tokenizer.vocab_size, **ids))  # type: ignore[arg-type]


def filter_splits(recipe: Recipe, tokenizer: Tokenizer, splits: Splits) -> Splits:
    """The splits without pairs of `max_length` tokens or more; a DataError if a split has nothing left."""
    if isinstance(recipe, TranslationRecipe):
        limit = recipe.data.max_length
        kept = {name: filter_by_length(pairs, tokenizer, limit) for name, pairs in splits.items()}
        too_long = sum(map(len, splits.values())) - sum(map(len, kept.values()))
        return Splits(kept, {**splits.dropped, f"too long ({limit} tokens or more)": too_long})
    if "test" in splits:
        check_text(tokenizer.encode_array(splits["test"]))
    return splits


def build_task(
    recipe: Recipe, tokenizer: Tokenizer, splits: Mapping[str, Any]
) -> Translation | LanguageModelling:
    """The recipe's task, of the splits that `filter_splits` gave."""
    seed, data = recipe.training.seed, recipe.data
    train, validation = splits["train"], splits["validation"]
    if isinstance(data, TextData):
        return LanguageModelling(tokenizer, train, validation, data.block_size, data.batch_size, seed)
    return Translation(tokenizer, train, validation, data.max_tokens, seed)


def describe_splits(recipe: Recipe, tokenizer: Tokenizer, splits: Splits) -> list[str]:
    """How many examples each split has, how many were dropped and why, and what the tokenizer loses."""
    unit = "characters" if isinstance(recipe, LanguageRecipe) else "pairs"
    counts = ", ".join(f"{len(split):,} {name}" for name, split in splits.items())
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in splits.dropped.items() if n)
    lines = [f"{unit}: {counts}" + (f"; dropped: {dropped}" if dropped else "")]
    if isinstance(recipe, LanguageRecipe) or tokenizer.kind == "bpe":  # whose pieces were chosen to lose none
        return lines
    targets = [target for pairs in splits.values() for _, target in pairs]
    if lost := tokenizer.lost(targets):
        example = f"{lost[0][:60]!r} as {tokenizer.decode(tokenizer.encode(lost[0]))[:60]!r}"
        lines.append(
            f"warning: {len(lost):,} of {len(targets):,} targets do not come back from the tokenizer "
            f"(such as {example}), and cannot be translated exactly; try --tokenizer bpe"
        )
    return lines


# ---------------------------------------------------------------- loading


class Run:
    """A run, loaded from its folder: recipe, tokenizer, and the model on `device`.

    All files are checked against their checksums; a damaged one is an error that names it.
    """

    def __init__(self, folder: Path, which: str = "best", device: str = "cpu") -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise RunError(
                f"there is no run folder {folder}.\n"
                f"Train one with `minitransformer train RECIPE --run-dir {folder}`."
            )
        for name in ("run.json", "config.toml", "tokenizer.json"):
            if not (self.folder / name).exists():
                raise _not_a_run(folder, f"it has no {name}")
        device, record = check_device(device), read_record(self.folder)
        if record is None:
            raise _not_a_run(folder, "a training did not write its run.json")
        self.record = record
        checkpoints = Checkpoints(self.folder / "checkpoints", identity=record.identity)
        with ThreadPoolExecutor(1) as thread:  # reads and checks the weights while the model is built
            weights = thread.submit(checkpoints.read_model, which)
            self.recipe = read_config(self.folder, self.record)
            self.tokenizer = read_tokenizer(self.folder, self.record)
            check_memory(self.recipe, self.tokenizer.vocab_size, training=False)
            self.model = build_model(self.recipe, self.tokenizer)
            self.checkpoint = checkpoints.load(self.model, *weights.result())
        self.model.to(device).eval()

    def splits(self, data: Path | None = None, data_dir: Path | None = None) -> Splits:
        """The splits that the run was trained with, from where they were or from `data` or `data_dir`."""
        sources = self.record.sources.updated(Sources(data, data_dir=data_dir))
        splits = load_splits(self.recipe, sources=sources)
        check_same_data(self.folder, self.record, splits)
        return splits


def _not_a_run(folder: Path, problem: str) -> RunError:
    return RunError(
        f"{folder} is not a run folder: {problem}.\nChoose a folder that `minitransformer train` wrote."
    )


def check_same_data(folder: Path, record: Record, splits: Mapping[str, Any]) -> None:
    """Raise a RunError for data that the run was not trained on: its test split may be training data."""
    if record.data_sha256 != checksums(splits):
        raise RunError(
            f"{folder} was trained on other data.\n"
            f"Pass the same --data or --data-dir, or start over with `train --overwrite`."
        )
