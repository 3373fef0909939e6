"""A run folder: everything that a training writes.

config.toml  run.json  tokenizer.json  log.jsonl  checkpoints/  curves.png  predictions.txt  metrics.json
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.devices import check_device
from minigrad.io import write_atomically

from .. import recipes
from ..data.datasets import DataError, multi30k, read_long_text, read_pairs, sha256_of, tinyshakespeare
from ..data.phrasebook import DOCUMENT_SENTENCES, phrasebook
from ..errors import UserError
from ..files import read_json, read_text, write_json
from ..models import GPT, Transformer
from ..recipes import LanguageRecipe, Recipe, TextData, TranslationRecipe
from ..tokenizers import Tokenizer
from .checkpoint import Checkpoints
from .tasks import LanguageModelling, Translation

RESUMED_SETTINGS = ("seed", "precision", "betas", "adam_eps", "weight_decay")  # --resume cannot change them
HELD_OUT = 500  # maximum number of a user's pairs for each of validation and test


class RunError(UserError):
    """A folder that is missing, contains another run, or is not a run folder."""


# ---------------------------------------------------------------- data


def load_splits(recipe: Recipe, data: Path | None, data_dir: Path | None) -> dict[str, Any]:
    """The splits "train", "validation" and "test" of the recipe's data: lists of pairs, or texts."""
    dataset = "file" if data is not None else recipe.data.dataset
    if dataset == "file" and data is None:
        raise DataError("this run was trained on a file of your own.\nPass it with --data FILE.")
    if isinstance(recipe, LanguageRecipe):
        if data is not None:
            return _split_text(read_long_text(data))
        if dataset == "tinyshakespeare":
            return dict(tinyshakespeare(data_dir))
    elif data is not None:
        return _split_pairs(read_pairs(data))
    elif dataset == "phrasebook":
        book = phrasebook()
        chosen = _random_indices(len(book.train), 300)
        chosen = chosen[[book.train[i] not in DOCUMENT_SENTENCES for i in chosen]]
        train, validation = _split_at(book.train, chosen)
        return {"train": train, "validation": validation, "test": book.test}
    elif dataset == "multi30k":
        return dict(multi30k(recipe.data.source_language, recipe.data.target_language, data_dir))
    raise DataError(
        f"{recipe.task} has no dataset {dataset!r}.\nUse the dataset of a recipe, or pass --data FILE."
    )


def _random_indices(n: int, number: int) -> np.ndarray:
    """`number` of n indices, always the same."""
    return np.random.Generator(np.random.Philox(key=[0, n])).permutation(n)[:number]


def _split_at(pairs: Sequence[Any], indices: np.ndarray) -> tuple[list, list]:
    """The pairs that are not at the indices, and those that are."""
    chosen = set(indices.tolist())
    return [p for i, p in enumerate(pairs) if i not in chosen], [pairs[i] for i in sorted(chosen)]


def _split_pairs(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """A tenth of a user's pairs (at most HELD_OUT) for validation and for test each; the rest to train on."""
    unique = list(dict.fromkeys(pairs))
    if len(unique) < 10:
        raise DataError(
            f"{len(unique)} different pairs are too few for training and test.\nProvide at least 10."
        )
    number = min(HELD_OUT, len(unique) // 10)
    train, held_out = _split_at(unique, _random_indices(len(unique), 2 * number))
    return {"train": train, "validation": held_out[::2], "test": held_out[1::2]}


def _split_text(text: str) -> dict[str, Any]:
    cut = len(text) * 9 // 10
    return {"train": text[:cut], "validation": text[cut:]}


# ---------------------------------------------------------------- building


def train_tokenizer(recipe: Recipe, splits: Mapping[str, Any]) -> Tokenizer:
    """The recipe's tokenizer, trained on the training split; a text's alphabet comes from all splits."""
    kind, size = recipe.data.tokenizer, recipe.model.vocab_size
    if isinstance(recipe, LanguageRecipe):
        texts = [splits["train"]] if kind != "char" else list(splits.values())
    else:
        texts = [side for pair in splits["train"] for side in pair]
    if kind == "word":
        return Tokenizer.train_word(texts, vocab_size=size or None)
    if kind == "bpe":
        return Tokenizer.train_bpe(texts, size or 8000)
    if kind == "char":
        return Tokenizer.train_char(texts, special_tokens=isinstance(recipe, TranslationRecipe))
    raise DataError(f"unknown tokenizer {kind!r}.\nChoose word, bpe or char.")


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


def build_task(
    recipe: Recipe, tokenizer: Tokenizer, splits: Mapping[str, Any]
) -> Translation | LanguageModelling:
    """The recipe's task; pairs of `max_length` tokens or more are left out."""
    seed, data = recipe.training.seed, recipe.data
    train, validation = splits["train"], splits["validation"]
    if isinstance(data, TextData):
        return LanguageModelling(tokenizer, train, validation, data.block_size, data.batch_size, seed)
    train, validation = (filter_by_length(pairs, tokenizer, data.max_length) for pairs in (train, validation))
    return Translation(tokenizer, train, validation, data.max_tokens, seed)


def filter_by_length(
    pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, max_length: int
) -> list[tuple[str, str]]:
    """The pairs whose sides are both shorter than `max_length` tokens, which leaves one for <END>."""
    short = [pair for pair in pairs if all(len(tokenizer.encode(side)) < max_length for side in pair)]
    if not short:
        raise DataError(
            f"none of {len(pairs)} pairs is shorter than {max_length} tokens.\nRaise --max-length."
        )
    return short


# ---------------------------------------------------------------- folders


RUN_FILES = (
    "config.toml", "run.json", "tokenizer.json", "log.jsonl", "curves.png", "predictions.txt", "metrics.json",
)  # fmt: skip


def check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise a RunError unless a training may write to `folder`. Changes nothing."""
    if resume and overwrite:
        raise RunError("--resume and --overwrite contradict each other.\nPass one of them.")
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() and not is_run(folder):
        raise RunError(
            f"{folder} exists and is not a run folder; nothing in it was changed.\n"
            f"Choose another with --run-dir DIR."
        )
    if folder.exists() and not (resume or overwrite):
        raise RunError(
            f"{folder} contains a run already.\n"
            f"Continue it with --resume, replace it with --overwrite, or choose another with --run-dir DIR."
        )


def is_run(folder: Path) -> bool:
    """Whether a training wrote the folder."""
    return all((folder / name).is_file() for name in ("config.toml", "run.json"))


def clear(folder: Path) -> None:
    """Delete the files of a run, and no others in its folder."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    for name in RUN_FILES:
        (folder / name).unlink(missing_ok=True)


def describe(recipe: Recipe, splits: Mapping[str, Any]) -> dict[str, Any]:
    """The content of run.json: versions, machine, seed, data checksums."""

    def installed(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed"

    return {
        "recipe": recipe.name,
        "seed": recipe.training.seed,
        "versions": {
            "python": platform.python_version(),
            **{p: installed(p) for p in ("minitransformer", "numpy", "tokenizers")},
        },
        "machine": {
            "platform": platform.platform(),
            "processor": platform.machine(),
            "byteorder": sys.byteorder,
        },
        "data_sha256": {
            name: sha256_of([split] if isinstance(split, str) else ["\t".join(p) for p in split])
            for name, split in splits.items()
        },
    }


class Run:
    """A run, loaded from its folder: recipe, tokenizer, and the model on `device`."""

    def __init__(self, folder: Path, which: str = "best", device: str = "cpu") -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise RunError(
                f"there is no run folder {folder}.\n"
                f"Train one with `minitransformer train RECIPE --run-dir {folder}`."
            )
        for name in ("config.toml", "tokenizer.json"):
            if not (self.folder / name).exists():
                raise RunError(
                    f"{folder} is not a run folder: it has no {name}.\n"
                    f"Choose a folder that `minitransformer train` wrote."
                )
        self.recipe = read_config(self.folder)
        self.tokenizer = Tokenizer.load(self.folder / "tokenizer.json")
        self.model = build_model(self.recipe, self.tokenizer)
        self.checkpoint = Checkpoints(self.folder / "checkpoints").load_model(self.model, which)
        self.model.to(check_device(device)).eval()


def read_config(folder: Path) -> Recipe:
    """The recipe that a run was trained with."""
    path = folder / "config.toml"
    return recipes.parse_recipe(read_text(path), folder.name, str(path))


def write_run(folder: Path, recipe: Recipe, tokenizer: Tokenizer, splits: Mapping[str, Any]) -> None:
    """Start a run folder: its settings, versions, data checksums and tokenizer."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "run.json", describe(recipe, splits))
    except OSError as error:
        raise RunError(
            f"cannot write to {folder}: {error.strerror}.\nChoose another with --run-dir DIR."
        ) from None
    tokenizer.save(folder / "tokenizer.json")
    write_atomically(folder / "config.toml", recipes.to_toml(recipe).encode())


def recipe_of_run(folder: Path, recipe: Recipe) -> Recipe:
    """The recipe with the settings of the run in `folder`, if there is one."""
    if not is_run(folder):
        return recipe
    name = read_json(folder / "run.json").get("recipe")
    if name != recipe.name:
        raise RunError(
            f"{folder} is a run of {name}, not of {recipe.name}.\nPass its recipe, or another --run-dir DIR."
        )
    return replace(read_config(folder), name=name)


def check_same_run(folder: Path, recipe: Recipe, splits: Mapping[str, Any]) -> None:
    """Raise a RunError if data, model or `RESUMED_SETTINGS` differ from those of the run."""
    check_same_data(folder, recipe, splits)
    before = read_config(folder)
    for part in ("data", "model", "training"):
        old, new = asdict(getattr(before, part)), asdict(getattr(recipe, part))
        names = RESUMED_SETTINGS if part == "training" else new
        changed = [
            f"{name} is {old.get(name)}, not {new[name]}" for name in names if old.get(name) != new[name]
        ]
        if changed:
            raise RunError(
                f"{folder} was started with different settings: {', '.join(changed)}.\n"
                f"Leave those flags out, or start over with --overwrite."
            )


def check_same_data(folder: Path, recipe: Recipe, splits: Mapping[str, Any]) -> None:
    """Raise a RunError for data that the run was not trained on: its test split may be training data."""
    path = folder / "run.json"
    if path.is_file() and read_json(path).get("data_sha256") != describe(recipe, splits)["data_sha256"]:
        raise RunError(
            f"{folder} was trained on other data.\n"
            f"Pass the same --data or --data-dir, or start over with `train --overwrite`."
        )
