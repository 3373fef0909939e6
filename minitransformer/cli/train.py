"""`minitransformer train RECIPE`: train from scratch, or go on with a run."""

from __future__ import annotations

import sys
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from .. import recipes
from ..data.phrasebook import DOCUMENT_SENTENCES
from ..errors import UserError
from ..recipes import LanguageRecipe, Recipe
from ..tokenizers import Tokenizer
from ..training import run as runs
from ..training.curves import draw_curves
from ..training.trainer import Trainer
from .evaluate import evaluate, report
from .generate import continuation
from .translate import translations


@dataclass(frozen=True)
class Options:
    """Where data comes from and where the run goes."""

    data: Path | None = None
    """Your own data instead of the recipe's: source<TAB>target a line, or for a language model a text file."""
    data_dir: Path | None = None
    """The folder of a public data set, instead of fetching it."""
    run_dir: Path | None = None
    """The run folder; runs/RECIPE if not given."""
    resume: bool = False
    """Go on from the run's last checkpoint."""
    overwrite: bool = False
    """Delete the run that is there and begin anew."""
    device: str = "cpu"
    """Where to compute; this version knows cpu."""


USAGE = "usage: minitransformer train RECIPE|file.toml [options]   (minitransformer train RECIPE --help lists them)"


def run(argv: list[str]) -> None:
    if not argv or argv[0].startswith("-"):
        print(f"{USAGE}\n\n{listing()}", file=sys.stdout if argv[:1] in (["-h"], ["--help"]) else sys.stderr)
        raise SystemExit(0 if argv[:1] in (["-h"], ["--help"]) else 2)
    recipe = recipes.load_recipe(argv[0])
    folder = _given_folder(argv[1:]) or Path("runs") / recipe.name
    if "--resume" in argv and (folder / "config.toml").is_file():
        recipe = replace(
            runs.read_config(folder), name=recipe.name
        )  # flags change what was run, not the recipe
    recipe, options = parse(recipe, argv[1:])
    train(recipe, options, folder)


def parse(recipe: Recipe, argv: list[str]) -> tuple[Recipe, Options]:
    """Every key of the recipe as a flag, and the options."""
    parts = {"data": recipe.data, "model": recipe.model, "training": recipe.training, "options": Options()}
    fields = [(name, Annotated[type(part), tyro.conf.arg(name="")], part) for name, part in parts.items()]
    bundle: Any = make_dataclass("Train", fields, frozen=True)
    description = f"{recipe.description}\n\nEach key of the recipe is a flag; its value there is the default."
    given = tyro.cli(bundle, args=argv, prog=f"minitransformer train {recipe.name}", description=description)
    return replace(recipe, data=given.data, model=given.model, training=given.training), given.options


def train(recipe: Recipe, options: Options, folder: Path) -> None:
    """Data, tokenizer, model, training, and what came of it."""
    console = Console(stderr=True)
    if options.device not in ("cpu", "auto"):
        raise UserError(
            f"unknown device {options.device!r}: this version computes on the CPU.\nLeave --device out."
        )
    runs.prepare(folder, options.resume, options.overwrite)
    splits = runs.load_splits(recipe, options.data, options.data_dir)
    started = options.resume and (folder / "tokenizer.json").is_file()
    if started:
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        runs.check_same_data(folder, recipe, splits)
    else:
        tokenizer = runs.train_tokenizer(recipe, splits)
    task, dropped = runs.build_task(recipe, tokenizer, splits)
    runs.seed(recipe)
    model = runs.build_model(recipe, tokenizer)
    trainer = Trainer(model, task, recipe.training, folder, console)
    runs.write_run(folder, recipe, tokenizer, splits)
    if options.resume:
        went_on = trainer.resume()
        console.print(
            f"going on from step {trainer.step}" if went_on else "no checkpoint yet: starting at step 0",
            highlight=False,
        )
    if dropped:
        console.print(
            f"left out {dropped} training pairs longer than {recipe.data.max_length} tokens", highlight=False
        )  # type: ignore[union-attr]
    console.print(
        f"{model.num_parameters():,} parameters, {tokenizer.vocab_size:,} tokens, {recipe.training.steps:,} steps",
        highlight=False,
    )
    finished = trainer.train()
    curves = draw_curves(folder)
    if not finished:
        console.print(
            f"stopped after step {trainer.step}; everything is saved. Go on with --resume --run-dir {folder}",
            highlight=False,
        )
        return
    conclude(folder, splits, trainer.seconds, console)
    console.print(f"curves:      {curves}\ncheckpoints: {folder / 'checkpoints'}", highlight=False)


def conclude(folder: Path, splits: dict[str, Any], seconds: float, console: Console) -> None:
    """Score the best checkpoint, write predictions and metrics, and show a few results."""
    run = runs.Run(folder)
    console.print(
        f"trained in {seconds:.0f} s; the best checkpoint is {run.checkpoint.name}", highlight=False
    )
    scores = evaluate(run, splits)
    runs.write_json(folder / "metrics.json", scores)
    report(scores, console)
    if isinstance(run.recipe, LanguageRecipe):
        print(continuation(run, "\n", 300, temperature=0.8, top_k=None, seed=0))
        return
    examples = (
        [s for s, _ in DOCUMENT_SENTENCES]
        if run.recipe.data.dataset == "phrasebook"
        else [s for s, _ in splits["test"][:5]]
    )
    for source, target in zip(examples, translations(run, examples), strict=True):
        print(f"{source} -> {target}")


def _given_folder(argv: list[str]) -> Path | None:
    """The value of --run-dir, needed before the flags are parsed, since a run that goes on has its own defaults."""
    for i, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in ("--run-dir", "--run_dir"):
            return Path(value) if equals else Path(argv[i + 1]) if i + 1 < len(argv) else None
    return None


def listing() -> str:
    """The recipes, a line each."""
    return "\n".join(f"  {name:<22} {recipes.load_recipe(name).description}" for name in recipes.names())
