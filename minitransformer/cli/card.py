"""`minitransformer card RECIPE`: the parameters, FLOPs, memory and time of a training run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from minigrad.ops.allocation import format_bytes

from .. import recipes
from ..data.splits import Sources
from ..errors import counted
from ..files import to_json
from ..recipes import Recipe
from ..runs.card import Card, make_card
from ..runs.memory_needed import check_memory
from ..runs.run import load_splits
from ..tasks import task_class
from . import pictures
from .layout import FIXED, print_lines, wrap, wrap_list
from .recipe_flags import (
    RecipeOptions,
    check_recipe_is_named,
    read_options,
    read_settings,
    with_settings,
)

USAGE = "usage: minitransformer card RECIPE|file.toml [options]   (card RECIPE --help lists them)"
ABOUT = "Estimate the parameters, FLOPs, memory and time of a training run from a few of its steps."


@dataclass(frozen=True)
class Options(RecipeOptions):
    """The options of `card` that are not keys of a recipe."""

    json: bool = False
    """Print one JSON object instead of a table."""


def run(argv: list[str]) -> None:
    check_recipe_is_named(argv, USAGE)
    recipe, options = read_command(argv)
    card = card_of(recipe, Sources(options.data, data_dir=options.data_dir))
    if options.json:
        print(to_json(card_values(card)))
    else:
        print_lines(card_lines(card))


def read_command(argv: list[str]) -> tuple[Recipe, Options]:
    """Parse a command line. Return the recipe with the settings that flags change, and the options."""
    prog = f"minitransformer card {argv[0]}"
    options, words = read_options(Options(), argv[1:], prog)
    recipe = recipes.load_recipe(argv[0])
    if options.data is not None:
        recipe = recipes.with_own_data(recipe, options.data.name)
    recipe = recipes.with_model(recipe, options.model_type, options.preset)
    return with_settings(recipe, read_settings(recipe, words, prog, options, ABOUT)), options


def card_of(recipe: Recipe, sources: Sources, clock: Callable[[], float] = time.perf_counter) -> Card:
    """Make the card of a recipe. `clock` returns the time in seconds, to time the steps."""
    splits = load_splits(recipe, sources=sources)
    kind = task_class(recipe.task)
    tokenizer = kind.train_tokenizer(recipe.data, recipe.vocab_size, splits)
    labels = kind.labels(recipe.data, splits)
    check_memory(recipe, tokenizer, labels)
    splits = kind.filter(recipe.data, tokenizer, splits)
    task = kind.build(recipe, tokenizer, splits, labels)
    return make_card(recipe, tokenizer, labels, task, clock, pictures.load)


def card_values(card: Card) -> dict[str, Any]:
    """The card's values by name, for JSON."""
    parts = {part.name: part.parameters for part in card.parts}
    derived = {name: getattr(card, name) for name in ("parameters", "memory", "tokens_per_parameter")}
    return {**asdict(card), **derived, "parts": parts}


def card_lines(card: Card) -> list[str]:
    """Format the card as lines of text."""
    width = max(len(part.name) for part in card.parts)
    table = [
        f"  {part.name:<{width}} {part.parameters:>12,} {part.parameters / card.parameters:>7.1%}"
        for part in sorted(card.parts, key=lambda part: -part.parameters)
    ]
    tokens = card.steps * card.tokens_per_step
    flops = card.flops_per_step
    size = lambda n: format_bytes(n).replace(" ", FIXED)
    measured = "measured" if card.measured_rows >= 0.9 else f"from {card.measured_rows:.2%} of a batch"
    costs = {
        "training": f"{counted(card.steps, 'step')} of {card.tokens_per_step:,.0f} targets on average: "
        f"{quantity(tokens)} in total, {card.tokens_per_parameter:.2g} per parameter",
        "compute": f"{quantity(flops)}FLOPs per step, {quantity(card.steps * flops)}FLOPs in total "
        f"(backward counts twice forward)",
        "memory": f"{size(card.memory)} at the peak: process and data {size(card.process)}, "
        f"weights, gradients, moments {size(card.state)}, activations {size(card.activations)}, "
        f"copies to save and load {size(card.copies)}",
        "time": f"{duration(card.steps * card.seconds_per_step)}: "
        f"{card.seconds_per_step:.3g}{FIXED}s per step on this machine, {measured}; "
        f"{quantity(flops / card.seconds_per_step)}FLOP/s",
    }
    title = wrap(f"{card.recipe}: {counted(card.parameters, 'parameter')}", 2)
    return [*title, *table, *wrap_list(costs.items())]


def quantity(n: float) -> str:
    """Format a number with a metric prefix: `3.42 M`."""
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= size:
            return f"{n / size:.3g}{FIXED}{unit}"
    return f"{n:.3g}{FIXED}"


def duration(seconds: float) -> str:
    """Format a time in a readable unit: `90 s`, `12 minutes`, `3.5 hours`, `4.1 days`."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.0f} s"
