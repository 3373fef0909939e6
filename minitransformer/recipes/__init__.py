"""Recipes: model, data and training in a TOML file. Each key is also a flag of `train`."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, get_origin

from ..base_config import Config, annotations_of, check_fields
from ..errors import UserError, check_choice, did_you_mean, truncated_repr
from ..files import check_name, printable, read_text
from ..models.presets import preset
from ..models.protocol import MODELS, model_class
from ..tasks import TASKS, Task, task_class
from ..training.config import TrainConfig
from .expectations import NEUTRAL, Expectations, read_expectations, to_table


class RecipeError(UserError):
    """Raised for a recipe that is missing or invalid."""


@dataclass(frozen=True)
class Recipe(Config):
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


LIMIT = 2**15  # bytes of a recipe
KEYS = ("task", "name", "description", "data", "model", "training", "expect")
FOR_FILES = {  # the suffix of a data file -> the recipe to train on it, and what that gives
    ".txt": ("shakespeare-char-cpu", "a GPT that continues your text"),
    ".tsv": ("phrasebook", "a translator of your pairs"),
    ".csv": ("bert-classify", "a classifier of your texts"),
    ".jsonl": ("bert-classify", "a classifier of your texts"),
    ".conll": ("bert-tag", "a tagger"),
    ".conllu": ("bert-tag", "a tagger"),
}


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
    description = f"{recipe.name}, on {printable(name)}"  # a path may not be UTF-8
    data = task.own_data(recipe.data)
    if data == recipe.data:
        return dataclasses.replace(recipe, description=description)
    own: dict[str, Any] = {}
    if recipe.name in names():  # a user's recipe file keeps its settings
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
    for name in ("head", "num_labels"):  # the task needs them
        if hasattr(recipe.model, name) and name in config_class.__dataclass_fields__:
            settings[name] = getattr(recipe.model, name)
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
    neutral = {name: getattr(recipe.training, name) for name in NEUTRAL}
    same = (data, model, dataclasses.replace(training, **neutral)) == (
        recipe.data,
        recipe.model,
        recipe.training,
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
    """Parse a recipe in TOML; a RecipeError names the file and section of a mistake."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{where} is not valid TOML: {error}.\nFix that line.") from None
    if "task" not in content:
        names = ", ".join(sorted(TASKS))
        raise RecipeError(f'{where} has no task.\nAdd the line task = "NAME", with one of {names}.')

    def section(key: str, read: Callable[[dict[str, Any]], Any]) -> Any:
        table = content.pop(key, {})
        if not isinstance(table, dict):
            raise RecipeError(
                f"{where}: {key} = {truncated_repr(table)} is not a table.\n"
                f"Write its keys below the line [{key}]."
            )
        with _errors_in(f"{where} [{key}]"):
            return read(table)

    with _errors_in(where):
        task = task_class(content["task"])
        for key in content:
            check_choice("key", key, KEYS)
    model = section("model", lambda table: _read_model(task, table))
    data = section("data", lambda table: _read(task.Data, table))
    training = section("training", lambda table: _read(TrainConfig, table))
    expect = section("expect", read_expectations)
    with _errors_in(where):
        recipe = Recipe(**{"name": name, **content, **model}, data=data, training=training, expect=expect)
        check_name(recipe.name, "name")
    return recipe


@contextmanager
def _errors_in(where: str) -> Iterator[None]:
    """A context whose errors name the file, and the section."""
    try:
        yield
    except UserError as error:
        raise RecipeError(f"{where}: {error}") from None


def _read_model(task: type[Task], table: dict[str, Any]) -> dict[str, Any]:
    """The model type and the model's configuration."""
    chosen = (str(table.pop(key, "")) for key in ("model_type", "preset"))
    model_type, settings = _model_type(task, *chosen)
    return {"model_type": model_type, "model": _read(model_class(model_type).config_class, settings | table)}


def _read(cls: Any, table: Mapping[str, Any]) -> Any:
    """A dataclass from a table of TOML, which has no tuples, and whose 1 is an integer."""
    check_fields(cls, table)  # also one that is not a Config, of a user's task or model
    return cls(**{key: _convert(value, annotations_of(cls)[key]) for key, value in table.items()})


def _convert(value: Any, annotation: Any) -> Any:
    if get_origin(annotation) is tuple:
        return tuple(value)
    is_float = annotation is float and type(value) is int and abs(value) < 2**63
    return float(value) if is_float else value


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
