"""`minitransformer card RECIPE`: what a training will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, arg

from minigrad.memory import format_bytes

from .. import recipes
from ..data.splits import Sources
from ..files import printable, to_json
from ..inspection.card import Card, make_card
from ..recipes import Recipe
from ..tasks import task_class
from ..training import run as runs
from ..training.memory import check_memory
from .arguments import DataFolder, Flag
from .parsing import parse as parse_arguments
from .train import last_flag, listing

USAGE = "usage: minitransformer card RECIPE|file.toml [options]   (card RECIPE --help lists them)"


@dataclass(frozen=True)
class Options:
    """Data and output."""

    data: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Your own data, as for `train`."""
    data_dir: DataFolder = None
    model_type: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Another type of model for the task, with its default settings: its keys are flags then."""
    preset: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """A model by name, such as gpt2 or paper-base."""
    json: Flag = False
    """Print one JSON object instead of a table."""


def run(argv: list[str]) -> None:
    if not argv or argv[0].startswith("-"):
        asked = argv[:1] in (["-h"], ["--help"])
        print(f"{USAGE}\n\n{listing()}", file=sys.stdout if asked else sys.stderr)
        raise SystemExit(0 if asked else 2)
    recipe, options = read_command(argv)
    card = card_of(recipe, Sources(options.data, data_dir=options.data_dir))
    print(to_json(content(card)) if options.json else printable("\n".join(lines(card))))


def read_command(argv: list[str]) -> tuple[Recipe, Options]:
    """The recipe, with the flags of a command line applied to its keys, and the options."""
    recipe = recipes.load_recipe(argv[0])
    found, options = parse(recipe, argv[1:])
    if options.data is not None:
        return parse(recipes.with_own_data(recipe, options.data.name), argv[1:])
    return found, options


def parse(recipe: Recipe, argv: list[str]) -> tuple[Recipe, Options]:
    """The recipe with flags applied to its keys, as `train` takes them, and the options."""
    chosen = [last_flag(argv, name) for name in ("model-type", "preset")]
    if any(chosen):
        recipe = recipes.with_model(recipe, *chosen)
    parts = {"options": Options(), "data": recipe.data, "model": recipe.model, "training": recipe.training}
    fields = [(name, type(part), part) for name, part in parts.items()]
    bundle: Any = make_dataclass("Card", fields, frozen=True)
    prog = f"minitransformer card {recipe.name}"
    about = "What a training will take: parameters, FLOPs, memory and time, from a few steps of it."
    args = parse_arguments(bundle, argv, prog, description=about, config=(OmitArgPrefixes,))
    return replace(recipe, data=args.data, model=args.model, training=args.training), args.options


def card_of(recipe: Recipe, sources: Sources, clock: Callable[[], float] = time.perf_counter) -> Card:
    """The card of a recipe, of its own data or of files. `clock` is what steps are timed by."""
    splits = runs.load_splits(recipe, sources=sources)
    tokenizer = runs.train_tokenizer(recipe, splits)
    labels = task_class(recipe.task).labels(recipe.data, splits)
    check_memory(recipe, tokenizer, labels)
    splits = runs.filter_splits(recipe, tokenizer, splits)
    return make_card(recipe, tokenizer, labels, runs.build_task(recipe, tokenizer, splits, labels), clock)


def content(card: Card) -> dict[str, Any]:
    """The card as JSON values."""
    parts = {part.name: part.parameters for part in card.parts}
    derived = {name: getattr(card, name) for name in ("parameters", "memory", "tokens_per_parameter")}
    return {**asdict(card), **derived, "parts": parts}


def lines(card: Card) -> list[str]:
    """The card as a table."""
    width = max(len(part.name) for part in card.parts)
    table = [
        f"  {part.name:<{width}} {part.parameters:>12,} {part.parameters / card.parameters:>7.1%}"
        for part in sorted(card.parts, key=lambda part: -part.parameters)
    ]
    tokens, flops, size = card.steps * card.tokens_per_step, card.flops_per_step, format_bytes
    measured = "measured" if card.measured_rows >= 0.9 else f"from {card.measured_rows:.2%} of a batch"
    return [
        f"{card.recipe}: {card.parameters:,} parameters",
        *table,
        f"training  {card.steps:,} steps of {card.tokens_per_step:,.0f} targets on average: "
        f"{quantity(tokens)} in all, {card.tokens_per_parameter:.2g} for each parameter",
        f"compute   {quantity(flops)}FLOPs a step, {quantity(card.steps * flops)}FLOPs in all "
        f"(backward counts twice forward)",
        f"memory    {size(card.memory)} at the peak: process and data {size(card.process)}, "
        f"weights, gradients, moments {size(card.state)}, activations {size(card.activations)}, "
        f"copies to save and load {size(card.copies)}",
        f"time      {duration(card.steps * card.seconds_per_step)}: {card.seconds_per_step:.3g} s a step on "
        f"this machine, {measured}; {quantity(flops / card.seconds_per_step)}FLOP/s",
    ]


def quantity(n: float) -> str:
    """`3.42 M`."""
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n:.3g} "


def duration(seconds: float) -> str:
    """`90 s`, `12 minutes`, `3.5 hours`, `4.1 days`."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.0f} s"
