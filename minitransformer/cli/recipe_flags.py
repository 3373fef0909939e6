"""Command lines on which the keys of a recipe are flags, for `train`, `card` and `sweep`.

They are parsed twice. `read_options` reads the flags that do not depend on the recipe. Some of these choose
another model or data, and so decide which keys the recipe has; `read_settings` then reads the keys' flags.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from .. import recipes
from ..errors import UserError, truncated_repr
from ..recipes import Recipe
from ..runs.folder import read_config
from ..runs.run import record_of
from ..tasks import task_class
from .layout import wrap
from .parsing import Parser, with_values


@dataclass(frozen=True)
class RecipeOptions:
    """Options that are not keys of a recipe, but change its data or model."""

    data: Path | None = None
    """Your own data; docs/your-data.md has each task's format (pairs: source<TAB>target on each line)."""
    data_dir: Path | None = None
    """A folder with the public data set; by default, it is downloaded."""
    model_type: str | None = None
    """Another model type, with the sizes of the recipe; its keys become flags."""
    preset: str | None = None
    """A named model, such as gpt2 or paper-base."""


T = TypeVar("T", bound=RecipeOptions)


def check_recipe_is_named(argv: Sequence[str], usage: str) -> None:
    """Print the usage and the recipes and exit, if the first argument is missing or an option."""
    if not argv or argv[0].startswith("-"):
        is_help = list(argv[:1]) in (["-h"], ["--help"])
        print(f"{usage}\n\n{listing()}", file=sys.stdout if is_help else sys.stderr)
        if argv and not is_help:
            print(missing_recipe(argv[0]), file=sys.stderr)
        raise SystemExit(0 if is_help else 2)


def missing_recipe(word: str) -> str:
    """The message for a command line that does not begin with a recipe."""
    return f"\nerror: expected a recipe, got {truncated_repr(word)}.\nPut it first."


def listing() -> str:
    """List the recipes of each task, with name, model type and description."""
    found = [recipes.load_recipe(name) for name in recipes.names()]
    name_width = max(len(recipe.name) for recipe in found)
    type_width = max(len(recipe.model_type) for recipe in found)
    lines = []
    for task in sorted({recipe.task for recipe in found}):
        lines.append(task)
        for recipe in (each for each in found if each.task == task):
            label = f"  {recipe.name:<{name_width}}  {recipe.model_type:<{type_width}}  "
            lines += wrap(label + recipe.description, len(label))
    return "\n".join(lines)


def read_options(options: T, words: Sequence[str], prog: str) -> tuple[T, list[str]]:
    """Parse words into `options`. Return the changed options and the words of other flags."""
    check_one_file(words)
    parser = Parser(prog, has_help=False)
    parser.add(options)
    given, rest = parser.read_known(words)
    return with_values(options, given), rest


def read_settings(
    recipe: Recipe, words: Sequence[str], prog: str, options: RecipeOptions, about: str
) -> dict[str, Any]:
    """Parse words into values of the recipe's keys. `options` is only listed by --help."""
    parser = Parser(prog, about)
    parser.add(options, "options")
    for part in ("data", "model", "training"):
        parser.add(getattr(recipe, part), part)
    return parser.read(words)


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """Return the recipe with these values of its keys."""
    data, model, training = (
        with_values(part, settings) for part in (recipe.data, recipe.model, recipe.training)
    )
    return recipes.with_settings(recipe, data, model, training)


def with_model_of(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe with the model settings of a run, except those that the task sets.

    `block_size` or `max_length` is lowered to the run's positions. Raise a UserError if the run's model has
    another type.
    """
    source = read_config(folder, record_of(folder))
    task = task_class(recipe.task)
    if source.model_type != recipe.model_type:
        can_train = source.model_type in task.model_types
        fix = f"Add --model-type {source.model_type}" if can_train else "Choose a run of the same type"
        raise UserError(
            f"{folder} has a model of type {source.model_type}, expected {recipe.model_type}.\n"
            f"{fix}, or leave --init-from out."
        )
    kept = {name: getattr(recipe.model, name) for name in OF_TASK if hasattr(recipe.model, name)}
    model = replace(source.model, **kept)
    most = min((getattr(model, name) for name in POSITIONS if hasattr(model, name)), default=None)
    data = recipe.data
    for limit in () if most is None else range(most, max(most - 4, 1), -1):  # some tasks add tokens
        lengths = {name: getattr(data, name) for name in LENGTHS if hasattr(data, name)}
        data = replace(data, **{name: min(length, limit) for name, length in lengths.items()})
        with suppress(UserError):
            task.check(data, model)
            break
    return replace(recipe, model=model, data=data)


def taken_settings(before: Recipe, recipe: Recipe, folder: Path) -> str:
    """Format the settings that `with_model_of` took from a run: "n_embd 768, n_layer 12"."""
    if type(recipe.model) is not type(before.model):
        return f"model_type {recipe.model_type} and its settings"
    taken = with_model_of(before, folder)
    parts = (before.model, taken.model, recipe.model), (before.data, taken.data, recipe.data)
    return ", ".join(
        f"{field.name} {getattr(own, field.name)}"
        for old, new, own in parts
        for field in fields(own)
        if getattr(old, field.name) != getattr(new, field.name) == getattr(own, field.name)
    )


OF_TASK = ("vocab_size", "head", "num_labels")  # model settings that the task sets
POSITIONS = ("n_positions", "max_positions", "max_position_embeddings")
LENGTHS = ("block_size", "max_length")


def check_one_file(argv: Sequence[str]) -> None:
    """Raise a UserError if --data has two files, such as parallel texts."""
    for i, word in enumerate(argv[:-2]):
        if word == "--data" and not any(each.startswith("-") for each in argv[i + 1 : i + 3]):
            first, second = map(shlex.quote, argv[i + 1 : i + 3])
            raise UserError(
                f"--data takes one file, got {first} and {second}.\n"
                f"Join the lines of parallel texts: paste {first} {second} > pairs.tsv. Other splits are for "
                f"--validation-data and --test-data."
            )
