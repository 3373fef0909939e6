"""Recipes: model, data and training in one TOML file. Each key is also a flag of `train`."""

from __future__ import annotations

import dataclasses
import reprlib
import tomllib
import types
import typing
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from ..config import TrainConfig
from ..data.datasets import check_language
from ..errors import UserError, check_range, nearest
from ..files import printable, read_text
from ..models import GPTConfig, TransformerConfig


class RecipeError(UserError):
    """A recipe that is missing or not valid."""


@dataclass(frozen=True)
class PairData:
    """Sentence pairs: their source and batching."""

    dataset: str = "phrasebook"  # "phrasebook", "multi30k", or "file" (--data FILE)
    source_language: str = "en"  # of multi30k: "en", "de" or "fr"
    target_language: str = "fr"
    tokenizer: str = "word"  # or "bpe", "char"
    max_tokens: int = 2048  # target tokens per batch, padding included
    max_length: int = 128  # tokens per side; longer pairs are left out, and longer input is an error

    def __post_init__(self) -> None:
        _check_dataset(self.dataset, ("phrasebook", "multi30k", "file"))
        for language in (self.source_language, self.target_language):
            if language or self.dataset != "file":  # the languages of a file may be unknown
                check_language(language)
        check_range(self, "max_length max_tokens", 2)
        if self.max_tokens < self.max_length:
            raise UserError(
                f"max_tokens = {self.max_tokens} is less than max_length = {self.max_length}.\n"
                f"Raise max_tokens, or lower max_length."
            )


@dataclass(frozen=True)
class TextData:
    """A long text: its source and batching."""

    dataset: str = "tinyshakespeare"  # or "file" (--data FILE)
    tokenizer: str = "char"  # or "word", "bpe"
    batch_size: int = 12  # blocks per batch
    block_size: int = 64  # tokens per block

    def __post_init__(self) -> None:
        _check_dataset(self.dataset, ("tinyshakespeare", "file"))
        check_range(self, "batch_size block_size", 1)


@dataclass(frozen=True)
class TranslationRecipe:
    """A translation model (encoder-decoder). `vocab_size` 0 means all tokens of the training data."""

    task: ClassVar[str] = "translation"
    name: str = ""
    description: str = ""
    data: PairData = field(default_factory=PairData)
    model: TransformerConfig = field(default_factory=lambda: TransformerConfig(vocab_size=0))
    training: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        if self.model.positions == "learned":
            _check_positions("max_length", self.data.max_length, "max_positions", self.model.max_positions)


@dataclass(frozen=True)
class LanguageRecipe:
    """A decoder-only language model. `vocab_size` 0 means all tokens of the training data."""

    task: ClassVar[str] = "language-modelling"
    name: str = ""
    description: str = ""
    data: TextData = field(default_factory=TextData)
    model: GPTConfig = field(default_factory=lambda: GPTConfig(vocab_size=0))
    training: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        _check_positions("block_size", self.data.block_size, "n_positions", self.model.n_positions)


def _check_dataset(dataset: str, known: tuple[str, ...]) -> None:
    if dataset not in known:
        raise UserError(
            f"there is no dataset {dataset!r}.{nearest(dataset, known)}\n"
            f"Choose one of {', '.join(known)} (with --data FILE)."
        )


def _check_positions(length: str, n: int, positions: str, limit: int) -> None:
    if n > limit:
        raise UserError(
            f"{length} = {n} is more than {positions} = {limit}.\nLower {length}, or raise {positions}."
        )


Recipe = TranslationRecipe | LanguageRecipe
TASKS: dict[str, type[TranslationRecipe] | type[LanguageRecipe]] = {
    recipe.task: recipe for recipe in (TranslationRecipe, LanguageRecipe)
}
LIMIT = 2**15  # characters of a recipe
TYPE_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a string in quotes"}


def names() -> list[str]:
    """The names of the package's recipes."""
    return sorted(
        path.name.removesuffix(".toml")
        for path in resources.files(__name__).iterdir()
        if path.name.endswith(".toml")
    )


def load_recipe(name: str) -> Recipe:
    """A recipe of the package by name, or your own by path (`mine.toml`)."""
    if name.endswith(".toml"):
        return parse_recipe(read_text(name, LIMIT), Path(name).stem, printable(name))
    if name not in names():
        raise RecipeError(
            f"there is no recipe {name!r:.80}.{nearest(name, names())}\n"
            f"Choose one of {', '.join(names())}, or pass a file.toml."
        )
    text = resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return parse_recipe(text, name, name)


def with_own_data(recipe: Recipe, name: str) -> Recipe:
    """The recipe for a file of the user's: description and languages are no longer those of its data set."""
    data = dataclasses.replace(recipe.data, dataset="file")
    if isinstance(data, PairData):
        data = dataclasses.replace(data, source_language="", target_language="")
    return dataclasses.replace(recipe, data=data, description=f"{recipe.name}, on {printable(name)}")  # type: ignore


def parse_recipe(text: str, name: str, where: str) -> Recipe:
    """A recipe from TOML. Errors name the unknown key or the value of the wrong type."""
    if len(text) > LIMIT:
        raise RecipeError(f"{where} has {len(text):,} characters, the limit is {LIMIT:,}.\nShorten it.")
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{where} is not valid TOML: {error}.\nFix that line.") from None
    if "task" not in content:
        known = " or ".join(f'"{task}"' for task in TASKS)
        raise RecipeError(f"{where} has no task.\nAdd the line task = {known}.")
    task = content.pop("task")
    if not isinstance(task, str) or task not in TASKS:
        raise RecipeError(f"{where}: unknown task {_shown(task)}.\nChoose one of {', '.join(TASKS)}.")
    return _build(TASKS[task], {"name": name, **content}, where)


def _build(cls: type, content: dict[str, Any], where: str) -> Any:
    """A dataclass from a table, with keys and types checked."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: hints[f.name] for f in dataclasses.fields(cls)}
    if "vocab_size" in fields:
        content = {"vocab_size": 0, **content}
    values = {}
    for key, value in content.items():
        if key not in fields:
            raise RecipeError(
                f"{where}: unknown key {_shown(key)}.{nearest(key, fields)}\nValid keys: {', '.join(fields)}."
            )
        values[key] = _value(value, fields[key], key, where)
    try:
        return cls(**values)
    except UserError as error:
        raise RecipeError(f"{where}: {error}") from None


def _value(value: Any, kind: Any, key: str, where: str) -> Any:
    """The value of a key, checked for its type."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise RecipeError(
                f"{where}: {key} = {_shown(value)} is not a table.\nWrite its keys below the line [{key}]."
            )
        return _build(typing.cast(type, kind), value, f"{where} [{key}]")
    if typing.get_origin(kind) is tuple:
        length = len(typing.get_args(kind))
        if isinstance(value, list) and len(value) == length and all(_fits(v, float) for v in value):
            return tuple(float(v) for v in value)
        raise RecipeError(
            f"{where}: {key} = {_shown(value)} is not {length} numbers.\nWrite, for example, [0.9, 0.98]."
        )
    if type(value) is int and not _fits(value, int):
        raise RecipeError(f"{where}: {key} is out of range.\nChoose an integer of 64 bits.")
    if isinstance(value, str) and printable(value) != value:
        raise RecipeError(f"{where}: {key} = {_shown(value)} has control characters.\nRemove them.")
    if not _fits(value, kind):
        expected = " or ".join(
            TYPE_NAMES[option] for option in typing.get_args(kind) or (kind,) if option in TYPE_NAMES
        )
        raise RecipeError(f"{where}: {key} = {_shown(value)} is not {expected}.\nWrite {key} as {expected}.")
    return float(value) if kind is float else value


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, types.UnionType):
        return any(_fits(value, option) for option in typing.get_args(kind))
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int) and not -(2**63) <= value < 2**63:  # as TOML's integers
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _shown(value: Any) -> str:
    """The value for an error: not more than a line of it."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to print an integer of more than 4300 digits
        return "a huge number"


def to_toml(recipe: Recipe) -> str:
    """The recipe as a TOML file that `load_recipe` reads back."""
    import tomli_w

    content = {"task": recipe.task, **_without_none(dataclasses.asdict(recipe))}
    return tomli_w.dumps({k: v for k, v in content.items() if k != "name"})


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in table.items() if v is not None}
