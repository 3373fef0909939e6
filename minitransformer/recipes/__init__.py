"""Recipes: model, data and training in a TOML file. Each key is also a flag of `train`."""

from __future__ import annotations

import dataclasses
import reprlib
import tomllib
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from ..base_config import fits
from ..errors import UserError, did_you_mean
from ..files import check_name, printable, read_text
from ..models.presets import preset
from ..models.protocol import MODELS, model_class
from ..tasks import TASKS, Task, task_class
from ..training.config import TrainConfig
from .expectations import NEUTRAL, Expectations, read_expectations, to_table


class RecipeError(UserError):
    """Raised for a recipe that is missing or invalid."""


@dataclass(frozen=True)
class Recipe:
    """A task with its data, a model and a training. `vocab_size` 0 means all tokens of the training data.

    Parts that are left out get the defaults of the task and of its first model type. A recipe from a file has
    a name, which is also the default name of the run folder, and therefore must not be a path.
    """

    task: str
    name: str = ""
    description: str = ""
    data: Any = None
    model: Any = None
    training: TrainConfig = field(default_factory=TrainConfig)
    model_type: str = ""
    expect: Expectations = field(default_factory=dict)  # the ranges of its scores, as measured

    def __post_init__(self) -> None:
        if self.name:
            check_name(self.name, "name")
        task = task_class(self.task)
        model_type = self.model_type or self._type_of(self.model)
        task.check_model(model_type)
        config_class = model_class(model_type).config_class
        model = config_class(**_without_vocabulary(config_class)) if self.model is None else self.model
        if type(model) is not config_class:
            raise UserError(
                f"{model_type} needs a {config_class.__name__}, got {type(model).__name__}.\n"
                f"Pass one, or another model_type."
            )
        for name, value in (
            ("data", task.Data() if self.data is None else self.data),
            ("model", model),
            ("model_type", model_type),
        ):
            object.__setattr__(self, name, value)
        task.check(self.data, self.model)

    @property
    def vocab_size(self) -> int:
        """The size of the model's vocabulary; 0 for all tokens of the training data, or no vocabulary."""
        return getattr(self.model, "vocab_size", 0)

    def _type_of(self, model: Any) -> str:
        """The model type of a config; without one, the task's first model type."""
        types = task_class(self.task).model_types
        if model is None:
            return types[0]
        registered = [name for name in (*types, *MODELS) if name in MODELS]
        for name in registered:
            if model_class(name).config_class is type(model):
                return name
        raise UserError(
            f"{type(model).__name__} is not a registered model's config.\n"
            f"Register the model with register_model."
        )


def _without_vocabulary(config_class: type) -> dict[str, Any]:
    """The setting vocab_size = 0, for models with a vocabulary."""
    return {"vocab_size": 0} if "vocab_size" in config_class.__dataclass_fields__ else {}  # type: ignore[attr-defined]


LIMIT = 2**15  # characters of a recipe
FOR_FILES = {  # the suffix of a data file -> the recipe to train on it, and what that gives
    ".txt": ("shakespeare-char-cpu", "a GPT that continues your text"),
    ".tsv": ("phrasebook", "a translator of your pairs"),
    ".csv": ("bert-classify", "a classifier of your texts"),
    ".jsonl": ("bert-classify", "a classifier of your texts"),
    ".conll": ("bert-tag", "a tagger"),
    ".conllu": ("bert-tag", "a tagger"),
}
TYPE_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a string in quotes"}


def names() -> list[str]:
    """List the names of the package's recipes."""
    return sorted(
        path.name.removesuffix(".toml")
        for path in resources.files(__name__).iterdir()
        if path.name.endswith(".toml")
    )


def load_recipe(name: str) -> Recipe:
    """Load a recipe of the package by name, or your own by path (`mine.toml`)."""
    if name.endswith(".toml"):
        return parse_recipe(read_text(name, LIMIT), Path(name).stem, name)
    if (suffix := Path(name).suffix.lower()) in FOR_FILES:
        recipe, gives = FOR_FILES[suffix]
        raise RecipeError(
            f"{name} is a data file, not a recipe.\n"
            f"Train {gives} with `minitransformer train {recipe} --data {name}`; "
            f"docs/your-data.md lists other recipes."
        )
    if name not in names():
        raise RecipeError(
            f"there is no recipe {name!r:.80}.{did_you_mean(name, names())}\n"
            f"Choose one of {', '.join(names())}, or pass a file.toml."
        )
    text = resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return parse_recipe(text, name, name)


def with_own_data(recipe: Recipe, name: str) -> Recipe:
    """The recipe for the user's file, without what is specific to its own data set."""
    task = task_class(recipe.task)
    description = f"{recipe.name}, on {printable(name)}"
    data = task.own_data(recipe.data)
    if data == recipe.data:
        return dataclasses.replace(recipe, description=description)
    own: dict[str, Any] = {}
    if recipe.name in names():  # a recipe file of the user keeps its settings
        package = load_recipe(recipe.name).training
        same = lambda key: getattr(recipe.training, key) == getattr(package, key)
        own = {key: value for key, value in task.own_training.items() if same(key)}
    training = dataclasses.replace(recipe.training, **own)
    return dataclasses.replace(recipe, data=data, training=training, description=description, expect={})


SIZES = {  # a size -> its names in the configurations of the model types
    "vocabulary": "vocab_size",
    "width": "d_model n_embd embedding_dim hidden_size",
    "heads": "num_heads n_head num_attention_heads encoder_attention_heads decoder_attention_heads",
    "head width": "d_kv",
    "inner width": "d_ff n_inner intermediate_size encoder_ffn_dim decoder_ffn_dim",
    "layers": "num_encoder_layers encoder_layers num_layers n_layer num_hidden_layers",
    "decoder layers": "num_decoder_layers decoder_layers",
    "positions": "n_positions max_positions max_position_embeddings",
}


def with_model(recipe: Recipe, model_type: str | None, preset_name: str | None) -> Recipe:
    """The recipe with a preset, or with another model type of the same sizes."""
    if not preset_name and model_type in (None, recipe.model_type):
        return recipe
    model_type, settings = _model_type(task_class(recipe.task), model_type or "", preset_name or "")
    config_class = model_class(model_type).config_class
    if not preset_name:
        settings |= sizes_of(recipe.model, config_class)
    is_own = recipe.description.startswith(f"{recipe.name}, on ")  # by `with_own_data`
    other = f", with {preset_name or model_type}"
    description = (recipe.description if is_own else recipe.name).removesuffix(other) + other
    return dataclasses.replace(
        recipe, model=config_class(**settings), model_type=model_type, description=description, expect={}
    )


def sizes_of(model: Any, config_class: type) -> dict[str, Any]:
    """The sizes of a model's configuration, by their names in another class of configurations."""
    found: dict[str, Any] = {}
    for size, names in SIZES.items():
        values = [getattr(model, name, None) for name in names.split()]
        found[size] = next((value for value in values if value is not None), None)
    if width := found["width"]:  # what a recurrent model does not have
        found["heads"] = found["heads"] or next(n for n in (4, 2, 1) if width % n == 0)
        found["head width"] = width // found["heads"]
        found["inner width"] = found["inner width"] or 4 * width
    found["decoder layers"] = found["decoder layers"] or found["layers"]
    named = {name: found[size] for size, names in SIZES.items() for name in names.split()}
    fields: Any = config_class.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: value for name, value in named.items() if name in fields and value is not None}


def with_settings(recipe: Recipe, data: Any, model: Any, training: TrainConfig) -> Recipe:
    """The recipe with these settings, without `expect` if they change the result."""
    for part in (data, model, training):
        for name, value in dataclasses.asdict(part).items():
            if isinstance(value, str) and printable(value) != value:
                raise UserError(
                    f"{name} = {_shown(value)} has control characters, or bytes that are not text.\n"
                    f"Remove them."
                )
    neutral = {name: getattr(training, name) for name in NEUTRAL if hasattr(training, name)}
    same = (recipe.data, recipe.model, dataclasses.replace(recipe.training, **neutral)) == (
        data,
        model,
        training,
    )
    expect = recipe.expect if same else {}
    return dataclasses.replace(recipe, data=data, model=model, training=training, expect=expect)


def _model_type(task: type[Task], model_type: str, preset_name: str) -> tuple[str, dict[str, Any]]:
    """The model type, and the settings of the preset if there is one."""
    settings = {}
    if preset_name:
        config = preset(preset_name)
        settings = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
        of_preset = [name for name in MODELS if model_class(name).config_class is type(config)]
        if model_type and model_type not in of_preset:
            raise UserError(
                f"the preset {preset_name!r} is a {' or '.join(of_preset)}, not a {model_type}.\n"
                f"Leave model_type or preset out."
            )
        model_type = model_type or of_preset[0]
    model_type = model_type or task.model_types[0]
    config_class = model_class(model_type).config_class
    task.check_model(model_type)
    return model_type, {**settings, **_without_vocabulary(config_class)}


def parse_recipe(text: str, name: str, where: str) -> Recipe:
    """Parse a recipe in TOML; a RecipeError names an unknown key, or a value of the wrong type."""
    if len(text) > LIMIT:
        raise RecipeError(f"{where} has {len(text):,} characters; the limit is {LIMIT:,}.\nShorten it.")
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{where} is not valid TOML: {error}.\nFix that line.") from None
    if "task" not in content:
        raise RecipeError(
            f'{where} has no task.\nAdd the line task = "NAME", with one of {", ".join(sorted(TASKS))}.'
        )
    task = content.pop("task")
    if not isinstance(task, str) or task not in TASKS:
        close = did_you_mean(task, TASKS) if isinstance(task, str) else ""
        raise RecipeError(f"{where}: unknown task {_shown(task)}.{close}\nChoose one of {', '.join(TASKS)}.")
    model = content.pop("model", {})
    chosen = {key: model.pop(key, "") for key in ("model_type", "preset")} if isinstance(model, dict) else {}
    for key, value in chosen.items():
        _value(value, str, key, f"{where} [model]")
    try:
        model_type, settings = _model_type(TASKS[task], *chosen.values()) if chosen else ("", {})
    except UserError as error:
        raise RecipeError(f"{where} [model]: {error}") from None
    types = {
        "name": str,
        "description": str,
        "data": TASKS[task].Data,
        "model": model_class(model_type or TASKS[task].model_types[0]).config_class,
        "training": TrainConfig,
    }
    expect = content.pop("expect", {})
    if not isinstance(expect, dict):
        raise RecipeError(
            f"{where}: expect = {_shown(expect)} is not a table.\nWrite its ranges below [expect]."
        )
    try:
        expectations = read_expectations(expect)
    except UserError as error:
        raise RecipeError(f"{where} [expect]: {error}") from None
    content = {"name": name, **content, "model": {**settings, **model} if chosen else model}
    if content["name"] == "":
        raise RecipeError(f"{where}: name is empty.\nGive it a name, or leave that line out.")
    build = lambda **parts: Recipe(task, **parts, model_type=model_type, expect=expectations)
    return _build(build, types, content, where)


def _build(cls: Callable[..., Any], fields: dict[str, Any], content: dict[str, Any], where: str) -> Any:
    """Create a dataclass from a table, checking keys and types."""
    values = {}
    for key, value in content.items():
        if key not in fields:
            raise RecipeError(
                f"{where}: unknown key {_shown(key)}.{did_you_mean(key, fields)}\n"
                f"Valid keys: {', '.join(fields)}."
            )
        values[key] = _value(value, fields[key], key, where)
    try:
        return cls(**values)
    except UserError as error:
        raise RecipeError(f"{where}: {error}") from None


def _value(value: Any, kind: Any, key: str, where: str) -> Any:
    """The value of a key; a RecipeError if it has the wrong type."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise RecipeError(
                f"{where}: {key} = {_shown(value)} is not a table.\nWrite its keys below the line [{key}]."
            )
        hints = typing.get_type_hints(kind)
        fields = {f.name: hints[f.name] for f in dataclasses.fields(kind)}
        return _build(typing.cast(type, kind), fields, value, f"{where} [{key}]")
    if typing.get_origin(kind) is tuple:
        length = len(typing.get_args(kind))
        if isinstance(value, list) and len(value) == length and all(_fits(v, float) for v in value):
            return tuple(float(v) for v in value)
        raise RecipeError(
            f"{where}: {key} = {_shown(value)} is not {length} numbers.\nWrite, for example, [0.9, 0.98]."
        )
    if type(value) is int and not _fits(value, int):
        raise RecipeError(f"{where}: {key} is out of range.\nChoose an integer of 64 bits.")
    if not _fits(value, kind):
        expected = " or ".join(
            TYPE_NAMES[option] for option in typing.get_args(kind) or (kind,) if option in TYPE_NAMES
        )
        raise RecipeError(f"{where}: {key} = {_shown(value)} is not {expected}.\nWrite {key} as {expected}.")
    return float(value) if kind is float else value


def _fits(value: Any, kind: Any) -> bool:
    is_huge = isinstance(value, int) and not -(2**63) <= value < 2**63  # for TOML's integers
    return fits(value, kind) and not is_huge


def _shown(value: Any) -> str:
    """The truncated repr of a value, for error messages."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to print an integer of more than 4300 digits
        return "a huge number"


def to_toml(recipe: Recipe) -> str:
    """Serialize a recipe to TOML that `load_recipe` reads."""
    import tomli_w

    content = _without_none(dataclasses.asdict(recipe))
    content["model"] = {"model_type": content.pop("model_type"), **content["model"]}
    if expect := to_table(content.pop("expect")):
        content["expect"] = expect
    return tomli_w.dumps({k: v for k, v in content.items() if k != "name"})


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in table.items() if v is not None}
