"""`minitransformer train RECIPE`: train from scratch, or continue a run."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from tyro.conf import OmitArgPrefixes, arg

from minigrad import MinigradError, random
from minigrad.devices import check_device

from .. import recipes
from ..data.phrasebook import DOCUMENT_SENTENCES
from ..errors import UserError
from ..recipes import LanguageRecipe, Recipe
from ..tokenizers import Tokenizer
from ..training import run as runs
from ..training.curves import draw_curves
from ..training.ranks import Ranks, join
from ..training.tasks import Translation
from ..training.trainer import Trainer
from .arguments import DataFolder, Device, Flag
from .evaluate import evaluate, report
from .generate import continuation
from .translate import translations


@dataclass(frozen=True)
class Options:
    """Data, run folder and device."""

    data: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Your own data: source<TAB>target on each line, or any text for a language model."""
    data_dir: DataFolder = None
    run_dir: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/RECIPE)")] = None
    """The run folder."""
    resume: Flag = False
    """Continue from the run's last checkpoint."""
    overwrite: Flag = False
    """Delete the existing run and start over."""
    device: Device = "cpu"
    capture: Flag = False
    """On a GPU: record the step once, and replay it without Python."""


USAGE = "usage: minitransformer train RECIPE|file.toml [options]   (train RECIPE --help lists them)"


def run(argv: list[str]) -> None:
    ranks = join(requested_device(argv))
    with ranks.print_on_rank_0():
        recipe, options, folder = read_command(argv)
    train(recipe, options, folder, ranks)


def requested_device(argv: list[str]) -> str:
    """The --device of a command line ("cpu", "cuda" or "cuda:1"), needed to join the ranks before parsing.

    "cpu" if the device is not available: `train` raises the error, once for all ranks.
    """
    flags = [word for word in " ".join(argv).replace("--device ", "--device=").split() if "--device=" in word]
    device = flags[-1].partition("=")[2] if flags else "cpu"
    if device.startswith("cuda:"):
        return device
    try:
        return check_device(device).partition(":")[0]
    except MinigradError:
        return "cpu"


def read_command(argv: list[str]) -> tuple[Recipe, Options, Path]:
    """Recipe, options and run folder of a command line."""
    if not argv or argv[0].startswith("-"):
        print(f"{USAGE}\n\n{listing()}", file=sys.stdout if argv[:1] in (["-h"], ["--help"]) else sys.stderr)
        raise SystemExit(0 if argv[:1] in (["-h"], ["--help"]) else 2)
    defaults = recipes.load_recipe(argv[0])
    recipe, options = parse(defaults, argv[1:])
    folder = options.run_dir or Path("runs") / defaults.name
    if options.resume:  # flags change the run's settings, not the recipe's
        recipe, options = parse(runs.recipe_of_run(folder, defaults), argv[1:])
    return recipe, options, folder


def parse(recipe: Recipe, argv: list[str]) -> tuple[Recipe, Options]:
    """The recipe with flags applied to its keys, and the options."""
    parts = {"run": Options(), "data": recipe.data, "model": recipe.model, "training": recipe.training}
    bundle: Any = make_dataclass(
        "Train", [(name, type(part), part) for name, part in parts.items()], frozen=True
    )
    description = f"{recipe.description}\n\nEach key of the recipe is a flag; its value is the default."
    prog = f"minitransformer train {recipe.name}"
    args = tyro.cli(bundle, args=argv, prog=prog, description=description, config=(OmitArgPrefixes,))
    data = args.data if args.run.data is None else replace(args.data, dataset="file")
    return replace(recipe, data=data, model=args.model, training=args.training), args.run


def train(recipe: Recipe, options: Options, folder: Path, ranks: Ranks) -> None:
    """Train and evaluate. With --overwrite, the old run is deleted only when the new one can start."""
    on_rank_0 = ranks.rank == 0
    console = Console(stderr=True, highlight=False, markup=False, quiet=not on_rank_0)
    device = check_device(options.device)
    if on_rank_0:
        runs.check_folder(folder, options.resume, options.overwrite)
    splits = runs.load_splits(recipe, options.data, options.data_dir)
    if options.resume and runs.is_run(folder):
        runs.check_same_run(folder, recipe, splits)
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
    else:
        tokenizer = runs.train_tokenizer(recipe, splits)
    task = runs.build_task(recipe, tokenizer, splits)
    random.manual_seed(recipe.training.seed)
    model = runs.build_model(recipe, tokenizer).to(device)
    trainer = Trainer(model, task, recipe.training, folder, console, ranks, options.capture)
    ranks.barrier()  # all ranks have read the folder
    if options.overwrite and on_rank_0:
        runs.clear(folder)
    ranks.barrier()  # the old run is deleted
    if options.resume:
        resumed = trainer.resume()
        if trainer.step > recipe.training.steps:
            raise UserError(
                f"{folder} is at step {trainer.step}, more than --steps {recipe.training.steps}.\n"
                f"Raise --steps, or start over with --overwrite."
            )
        console.print(
            f"continuing from step {trainer.step}" if resumed else "no checkpoint yet: starting at step 0"
        )
    if on_rank_0:
        runs.write_run(folder, recipe, tokenizer, splits)
    left_out = len(splits["train"]) - len(task.train) if isinstance(task, Translation) else 0
    if left_out:
        console.print(f"left out {left_out} training pairs of --max-length tokens or more")
    sizes = f"{model.num_parameters():,} parameters, {tokenizer.vocab_size:,} tokens"
    placement = f", {ranks.size} ranks" if ranks.size > 1 else ""
    placement += "" if device == "cpu" else f" on {device}"
    console.print(f"{sizes}, {recipe.training.steps:,} steps{placement}")
    if options.capture and device == "cpu":
        console.print("--capture has no effect on a CPU")
    finished = trainer.train()
    if not on_rank_0:
        raise SystemExit(0 if finished else 1)
    curves = draw_curves(folder)
    if not finished:
        console.print(
            f"stopped after step {trainer.step}; the run is saved. "
            f"Continue with: {_resume_command(recipe, options, folder)}",
            soft_wrap=True,
        )
        raise SystemExit(1)
    conclude(folder, splits, trainer.seconds, console, device)
    console.print(f"curves:      {curves}\ncheckpoints: {folder / 'checkpoints'}", soft_wrap=True)


def _resume_command(recipe: Recipe, options: Options, folder: Path) -> str:
    """The command that continues a run."""
    words = ["minitransformer", "train", recipe.name, "--resume", "--run-dir", folder]
    for flag, value in (("--data", options.data), ("--data-dir", options.data_dir)):
        words += [flag, value] if value is not None else []
    words += ["--device", options.device] if options.device != "cpu" else []
    words += ["--capture"] if options.capture else []
    return shlex.join(map(str, words))


def conclude(folder: Path, splits: dict[str, Any], seconds: float, console: Console, device: str) -> None:
    """Evaluate the best checkpoint, write predictions and metrics, and print a few results."""
    run = runs.Run(folder, device=device)
    console.print(f"trained in {seconds:.0f} s; the best checkpoint is {run.checkpoint.name}")
    report(evaluate(run, splits), console)
    if isinstance(run.recipe, LanguageRecipe):
        prompt = "\n" if "\n" in run.tokenizer.token_to_id else splits["validation"][:10]
        print(prompt + continuation(run, prompt, 300, temperature=0.8, top_k=None, seed=0))
        return
    if run.recipe.data.dataset == "phrasebook":
        examples = [source for source, _ in DOCUMENT_SENTENCES]
    else:
        short = runs.filter_by_length(splits["test"], run.tokenizer, run.recipe.data.max_length)
        examples = [source for source, _ in short[:5]]
    for source, target in zip(examples, translations(run, examples), strict=True):
        print(f"{source} -> {target}")


def listing() -> str:
    """The recipes, one per line."""
    return "\n".join(f"  {name:<22} {recipes.load_recipe(name).description}" for name in recipes.names())
