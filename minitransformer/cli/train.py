"""`minitransformer train RECIPE`: train from scratch, resume a run, or repeat one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console

import minigrad as mg
from minigrad import CaptureError, MinigradError, nn
from minigrad.core import random
from minigrad.core.devices import check_device

from .. import recipes
from ..data.splits import Sources, Splits, checksums
from ..errors import UserError, counted
from ..files import check_name, one_line, our_command, printable
from ..layers.lora import add_lora
from ..recipes import Recipe
from ..recipes.expectations import check_names
from ..runs.folder import (
    Record,
    RunError,
    begin,
    check_folder,
    check_same_run,
    continue_run,
    new_record,
    read_config,
    read_record,
    read_tokenizer,
)
from ..runs.init_from import Source, initialize
from ..runs.live import LiveRun
from ..runs.machine import describe_machine, describe_versions, rounding_differences
from ..runs.memory_needed import check_memory
from ..runs.original import Original
from ..runs.run import Run, build_model, check_labels, check_same_data, load_splits
from ..tasks import Task, task_class
from ..text.tokenizer import Tokenizer, TokenizerError
from ..training.checkpoint import Checkpoints
from ..training.config import TrainConfig
from ..training.diagnostics import Diagnostics
from ..training.freezing import trained_line
from ..training.ranks import Ranks, code_sha256, join
from ..training.storage import CHECKPOINTS, EVENTS, METRICS, README, lock
from ..training.tensorboard import TensorBoard
from ..training.trainer import Trainer
from . import pictures
from .evaluate import compare_with_recipe, evaluate, report
from .readme import write_readme
from .recipe_flags import (
    RecipeOptions,
    check_recipe_is_named,
    read_options,
    read_settings,
    taken_settings,
    with_model_of,
    with_settings,
)
from .wording import command as command_of
from .wording import describe_splits

# ---------------------------------------------------------------- the command


@dataclass(frozen=True)
class Options(RecipeOptions):
    """The options of `train` that are not keys of a recipe."""

    validation_data: Path | None = None
    """Your own validation data; by default, a tenth of --data is held out."""
    test_data: Path | None = None
    """Your own test data; by default, another tenth of --data is held out."""
    run_dir: Path | None = None
    """The run folder (default: runs/RECIPE)."""
    init_from: Path | None = None
    """A run to start from: its tokenizer, and its weights whose name and shape match."""
    resume: bool = False
    """Continue from the run's last checkpoint."""
    overwrite: bool = False
    """Delete the existing run and start over."""
    device: str = "cpu"
    """cpu, cuda (or cuda:1), or auto, a GPU if there is one."""
    capture: bool = False
    """On a GPU, capture a training step once, and replay it without Python."""
    diagnostics: bool = False
    """Log and plot gradients, updates, attention entropy and dead units of each layer."""
    tensorboard: bool = False
    """Also write TensorBoard files, to RUN/tensorboard (needs the extra `tensorboard`)."""

    @property
    def sources(self) -> Sources:
        """The paths of the user's data."""
        return Sources(self.data, self.validation_data, self.test_data, self.data_dir)


@dataclass(frozen=True)
class StoredRun:
    """The files of a run to resume: record, config and tokenizer."""

    record: Record
    recipe: Recipe
    tokenizer: Tokenizer | None


@dataclass(frozen=True)
class Training:
    """A parsed command line and, with `--resume`, the run to continue."""

    name: str  # a recipe's name, or the path of a recipe file or a run
    command: str
    named: Recipe  # the recipe with that name, before flags change it
    original: Original | None  # the run to repeat, if `name` is a run
    options: Options
    folder: Path
    recipe: Recipe
    sources: Sources
    settings: dict[str, Any] = field(default_factory=dict)  # the values that flags give to the recipe's keys
    resumed: StoredRun | None = None
    ranks: Ranks = field(default_factory=Ranks)
    device: str = "cpu"


USAGE = "usage: minitransformer train RECIPE|file.toml|RUN [options]   (train RECIPE --help lists them)"


def run(argv: list[str]) -> None:
    ranks = join(requested_device(argv))
    with ranks.print_on_rank_0():
        training = read_command(argv)
        options, folder = training.options, training.folder
    training = replace(training, ranks=ranks, device=check_device(options.device))
    with ExitStack() as stack:
        if ranks.rank == 0:
            pictures.check()
            check_folder(folder, options.resume, options.overwrite)
            if folder.exists():  # a new folder is created only when everything else is valid
                lock_folder(folder, options, stack)
        ranks.barrier()  # no other training writes to the folder from here on
        if options.resume:
            with ranks.print_on_rank_0():
                training = read_run(training)  # once more, since the folder was not locked before
        finished = train(training, stack)
        if not finished:
            raise SystemExit(1)


def lock_folder(folder: Path, options: Options, stack: ExitStack) -> None:
    """Lock the folder until the stack is closed, and check it again."""
    stack.enter_context(lock(folder))
    check_folder(folder, options.resume, options.overwrite)  # it may have changed meanwhile


def requested_device(argv: list[str]) -> str:
    """Return the --device of a command line ("cpu", "cuda" or "cuda:1"), to join the ranks before parsing.

    Return "cpu" if the command line is invalid: the error is raised by the parsing, once for all ranks.
    """
    try:
        device = read_options(Options(), argv[1:], "minitransformer train")[0].device
        return device if device.startswith("cuda:") else check_device(device).partition(":")[0]
    except (UserError, MinigradError):
        return "cpu"


def read_command(argv: list[str]) -> Training:
    """Parse a command line. Its flags change the recipe or, with --resume, the run's settings."""
    check_recipe_is_named(argv, USAGE)
    prog = f"minitransformer train {argv[0]}"
    original = Original.read(argv[0])
    start = original.recipe if original else recipes.load_recipe(argv[0])
    if original is None:
        check_names(start.expect, task_class(start.task).known_metrics())
    options, words = read_options(Options(), argv[1:], prog)
    if options.run_dir is not None:
        folder = options.run_dir
    elif original is not None and options.resume:
        folder = original.folder
    else:
        folder = Path("runs") / check_name(start.name, "name")
    sources = options.sources if original is None else original.sources(options.sources)
    command = our_command(["train", *argv])
    training = Training(argv[0], command, start, original, options, folder, start, sources)
    training = read_run(training) if options.resume else with_base(training, None)
    about = f"{start.description}\n\nEach key of the recipe is a flag; its value is the default."
    settings = read_settings(training.recipe, words, prog, options, about)
    check_no_tokenizer(options, settings)
    return replace(training, settings=settings, recipe=with_settings(training.recipe, settings))


def read_run(training: Training) -> Training:
    """Return `training` with the settings and data of the run in its folder, if there is one.

    Raise a RunError if the folder has a run of another recipe.
    """
    folder = training.folder
    record = read_record(folder)
    if record is None:
        return with_base(training, None)
    if record.recipe != training.named.name:
        raise RunError(
            f"{folder} is a run of {record.recipe}, not of {training.named.name}.\n"
            f"Pass its recipe, or another --run-dir DIR."
        )
    training = replace(training, sources=record.sources.updated(training.options.sources))
    if not record.begun:
        return with_base(training, None)
    stored = StoredRun(record, read_config(folder, record), read_tokenizer(folder, record))
    return with_base(replace(training, resumed=stored), stored.recipe)


def with_base(training: Training, recipe: Recipe | None) -> Training:
    """Return `training` with its base recipe, and the settings of flags that are already parsed.

    The base is `recipe`, that of a run to resume; None stands for the named recipe, with the data of --data.
    --model-type, --preset and --init-from change its model.
    """
    options, data = training.options, training.sources.data
    if recipe is None:
        recipe = training.named
        if data is not None and training.original is None:
            recipe = recipes.with_own_data(recipe, data.name)
    recipe = recipes.with_model(recipe, options.model_type, options.preset)
    if options.init_from is not None and not options.resume and not options.preset:
        recipe = with_model_of(recipe, options.init_from)
    return replace(training, recipe=with_settings(recipe, training.settings))


def check_no_tokenizer(options: Options, settings: dict[str, Any]) -> None:
    """Raise a UserError for flags of a new tokenizer with --init-from, which has a tokenizer."""
    if options.init_from is None or options.resume:
        return
    for name in ("tokenizer", "vocab_size"):
        if name in settings:
            raise UserError(
                f"--{name.replace('_', '-')} {settings[name]} has no effect with --init-from: the run has "
                f"the tokenizer of {options.init_from}.\nLeave one of the two out."
            )


@dataclass(frozen=True)
class TrainingSetup:
    """The data, task and model of a training run, which are built before its folder is changed."""

    recipe: Recipe
    splits: Splits
    tokenizer: Tokenizer | None
    labels: list[str]
    task: Task
    model: nn.Module
    record: Record
    data_sha256: dict[str, str]  # the checksum of each split
    lines: list[str]  # lines to print about the data and the initial weights


def train(training: Training, stack: ExitStack) -> bool:
    """Train and evaluate. Return False if a signal stopped the training.

    With --overwrite, the old run is deleted only once the new one can start.
    """
    on_rank_0 = training.ranks.rank == 0
    console = Console(stderr=True, highlight=False, markup=False, quiet=not on_rank_0, soft_wrap=True)
    setup = prepare(training)
    if training.ranks.size > 1:  # a checksum of all code takes a moment
        training.ranks.check_same(what_ranks_share(training, setup))
    trainer = start(training, setup, console, stack)
    announce(training, setup, trainer, console)
    finished = trainer.train()
    if on_rank_0:
        finish(training, setup, trainer, finished, console)
    return finished


def prepare(training: Training) -> TrainingSetup:
    """Read the data, and build the task and the model."""
    recipe = training.recipe
    resumed = training.resumed
    kind = task_class(recipe.task)

    # the data, which must not have changed if a run is resumed or repeated
    splits = load_splits(recipe, sources=training.sources)
    notes = splits.notes  # notes on how the files were read
    if resumed is not None:
        check_same_data(training.folder, resumed.record, splits)
        check_same_run(resumed.recipe, recipe, training.folder)
    elif training.original is not None:
        training.original.check_data(splits)
    checked = checksums(splits)

    check_adapters(recipe.training)

    # the tokenizer, and the splits without examples that cannot be used
    source = initial_run(training)  # the run named by --init-from
    recipe, tokenizer = choose_tokenizer(training, splits, source)
    labels = kind.labels(recipe.data, splits) if resumed is None else resumed.record.labels
    check_memory(recipe, tokenizer, labels, training.device)
    reading = kind.reading(splits)
    splits = kind.filter(recipe.data, tokenizer, splits)
    is_new = resumed is None and training.original is None  # other runs were checked when they started
    warnings = check_labels(recipe, splits, training.sources, strict=is_new)

    # the task, and the model with its initial weights
    task = build_task(recipe, tokenizer, splits, labels, source)
    random.manual_seed(recipe.training.seed)
    model = build_model(recipe, tokenizer, labels).to(training.device)
    inherited = [] if source is None else [*settings_lines(training, source), *initialize(model, source)]
    settings = recipe.training
    if settings.lora_rank:
        add_lora(model, settings.lora_rank, settings.lora_alpha, settings.lora_targets)

    # the lines to print, and the record, which is written to run.json
    warnings = [*kind.warnings(recipe.data, tokenizer, splits), *warnings]
    lines = [one_line(line) for line in [*notes, describe_splits(kind, splits), *warnings]]
    init_from = source.to_json() if source else None
    record = resumed.record if resumed else new_record(
        recipe, tokenizer, checked, training.sources, labels, init_from, training.command, lines,
        training.device, training.ranks.size, reading, kind.short_inputs(recipe.data, tokenizer, splits),
    )  # fmt: skip
    task.live = LiveRun(
        training.folder, recipe, kind, tokenizer, labels, model, splits, record.generation
    )  # fmt: skip
    return TrainingSetup(
        recipe, splits, tokenizer, labels, task, model, record, checked, [*lines, *inherited]
    )


def check_adapters(training: TrainConfig) -> None:
    """Raise a UserError if settings of LoRA adapters are passed without --lora-rank."""
    for each in fields(training):
        value = getattr(training, each.name)
        if not training.lora_rank and each.name.startswith("lora_") and value != each.default:
            flag = f"--{each.name.replace('_', '-')}"
            raise UserError(
                f"{flag} {value} has no effect without adapters.\nAdd --lora-rank 8, or leave {flag} out."
            )


def what_ranks_share(training: Training, setup: TrainingSetup) -> dict[str, Any]:
    """The values that must be equal on all ranks, by name: settings, data, run folder, versions, kernels."""
    recipe = setup.recipe
    device = training.device
    found: dict[str, Any] = {"task": recipe.task, "model_type": recipe.model_type, "recipe": recipe.name}
    for part in ("data", "model", "training"):
        found |= {f"{part}.{name}": value for name, value in asdict(getattr(recipe, part)).items()}
    found |= {f"the checksum of the {name} split": known for name, known in setup.data_sha256.items()}
    found["the checksum of the tokenizer"] = setup.record.tokenizer_sha256
    found["the list of labels"] = setup.labels
    found["the run of --init-from"] = setup.record.init_from
    if training.resumed is not None:
        found["the run that is resumed"] = setup.record.id
    found["the run folder"] = os.path.realpath(training.folder)
    found |= {f"the version of {name}": version for name, version in describe_versions(device).items()}
    machine = describe_machine(device)
    found |= {name: machine[name] for name in ("kernels", "processor", "byteorder", "device")}
    return found | {"the checksum of our code": code_sha256()}


def choose_tokenizer(
    training: Training, splits: Splits, source: Source | None
) -> tuple[Recipe, Tokenizer | None]:
    """Return the recipe, with the kind of the tokenizer, and the tokenizer.

    It is the tokenizer of the run to resume, to start from or to repeat; otherwise, a new one is trained.
    """
    recipe, original = training.recipe, training.original
    if training.resumed is not None:
        return recipe, training.resumed.tokenizer
    if source is not None and source.tokenizer is not None and hasattr(recipe.data, "tokenizer"):
        data = replace(recipe.data, tokenizer=source.tokenizer.kind)
        return replace(recipe, data=data), source.tokenizer
    known = None if original is None else original.tokenizer(recipe)
    if known is not None:
        return recipe, known
    return recipe, task_class(recipe.task).train_tokenizer(recipe.data, recipe.vocab_size, splits)


def settings_lines(training: Training, source: Source) -> list[str]:
    """A list with a line about the settings taken from the run of --init-from; [] if none changed."""
    if training.options.preset:  # the preset has the settings
        return []
    taken = taken_settings(training.named, training.recipe, source.folder)
    return [f"settings from {source.folder}: {taken}"] if taken else []


def build_task(
    recipe: Recipe, tokenizer: Tokenizer | None, splits: Splits, labels: list[str], source: Source | None
) -> Task:
    """Build the task. Raise a UserError if the tokenizer of --init-from lacks a token that it needs."""
    try:
        return task_class(recipe.task).build(recipe, tokenizer, splits, labels)
    except TokenizerError as error:
        if source is None:
            raise
        problem = str(error).splitlines()[0].replace("this tokenizer", f"the tokenizer of {source.folder}")
        raise UserError(f"{problem}\nPass --init-from a run whose task has it, or leave it out.") from None


def step_runner(options: Options, device: str, console: Console) -> Callable[[Any], Any] | None:
    """The trainer's `step_runner`: `capture_step` with --capture on a GPU, otherwise None."""
    if options.capture and device == "cpu":
        console.print("--capture has no effect on a CPU")
    return capture_step if options.capture and device != "cpu" else None


def capture_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that captures and replays a step. Its CaptureErrors name the flag to leave out."""
    run_step = mg.capture(step)

    def run(*arguments: Any) -> Any:
        try:
            return run_step(*arguments)
        except CaptureError as error:
            raise CaptureError(f"{error}\nOr leave --capture out.") from error

    return run


def start(training: Training, setup: TrainingSetup, console: Console, stack: ExitStack) -> Trainer:
    """Create the trainer. Start a new run in its folder, or resume the run that is there."""
    options = training.options
    folder = training.folder
    ranks = training.ranks
    on_rank_0 = ranks.rank == 0
    callbacks = callbacks_of(options, folder) if on_rank_0 else []
    trainer = Trainer(
        setup.model, setup.task, setup.recipe.training, folder, console, ranks,
        step_runner(options, training.device, console), setup.record.identity, callbacks,
    )  # fmt: skip
    trainer.check_monitor()  # before anything is written or deleted
    ranks.barrier()  # all ranks have read the folder
    if training.resumed is not None:
        resume(trainer, training, training.resumed)
        return trainer
    if on_rank_0:
        lock_folder(folder, options, stack)
        begin(folder, setup.record, setup.recipe, setup.tokenizer)
    ranks.barrier()  # the old run is deleted
    if options.resume:
        console.print("no checkpoint yet: starting at step 0")
    return trainer


def callbacks_of(options: Options, folder: Path) -> list[Any]:
    """The callbacks of the flags. Diagnostics come first, since TensorBoard writes what they log."""
    found: list[Any] = [Diagnostics()] if options.diagnostics else []
    return [*found, TensorBoard(folder / EVENTS)] if options.tensorboard else found


def announce(training: Training, setup: TrainingSetup, trainer: Trainer, console: Console) -> None:
    """Print what is about to be trained, and write the first README.md of the run."""
    ranks = training.ranks
    tokenizer = setup.tokenizer
    for line in setup.lines:
        console.print(line)
    if training.original is not None and training.resumed is None and ranks.rank == 0:
        environment_changes(training, training.original.folder, training.original.record)
    if ranks.rank == 0:
        update_readme(training.folder, console)
    sizes = counted(setup.model.num_parameters(), "parameter")
    sizes += "" if tokenizer is None else f", {counted(tokenizer.vocab_size, 'token')}"
    sizes += f", {counted(len(setup.labels), 'label')}" if setup.labels else ""
    placement = f", {ranks.size} ranks" if ranks.size > 1 else ""
    placement += "" if training.device == "cpu" else f" on {training.device}"
    epochs = setup.recipe.training.epochs
    length = counted(trainer.config.steps, "step") + (f" ({counted(epochs, 'epoch')})" if epochs else "")
    console.print(f"{sizes}, {length}{placement}")
    if line := trained_line(setup.model):
        console.print(line)


def finish(
    training: Training, setup: TrainingSetup, trainer: Trainer, finished: bool, console: Console
) -> None:
    """Draw the curves; evaluate a finished run, or print how to resume a stopped one."""
    folder = training.folder
    if not finished:
        pictures.draw(folder, console)
        update_readme(folder, console)
        command = _resume_command(training)
        console.print(f"the run is saved. Continue with: {command}")
        return
    run = Run(folder, device=training.device)
    console.print(f"trained in {trainer.seconds:.0f} s; the best checkpoint is {run.checkpoint.name}")
    scores = evaluate(run, setup.splits)
    pictures.draw(folder, console)
    update_readme(folder, console)  # before results are printed, which may fail
    print_results(run, setup.splits, scores)
    for line in pictures.picture_lines(folder):
        console.print(line)
    console.print(f"checkpoints: {folder / CHECKPOINTS}")
    command = command_of(setup.recipe, folder, setup.record.examples, setup.record.suggested)
    console.print(f"use it with: {command}")


def update_readme(folder: Path, console: Console) -> None:
    """Write the README.md of the run. Print a warning if that fails."""
    try:
        if not write_readme(folder):
            console.print(f"{folder / README} was edited, and is not replaced")
    except OSError as error:
        console.print(f"warning: cannot write {folder / README}: {error.strerror}")


def initial_run(training: Training) -> Source | None:
    """Return the run that initial weights come from; None without one, or if a checkpoint is resumed.

    Raise a RunError for --init-from with --resume, or if that run has changed since.
    """
    options, resumed = training.options, training.resumed
    if resumed is None:
        if options.init_from is None:
            return training.original.initial_run() if training.original else None
        return Source.read(options.init_from)
    if options.init_from is not None:
        raise RunError(
            f"{training.folder} has already started; --init-from has no effect.\n"
            f"Leave it out, or start over with --overwrite."
        )
    if not resumed.record.init_from or Checkpoints(training.folder / CHECKPOINTS).names():
        return None
    source = Source.read(Path(resumed.record.init_from["folder"]))
    if source.to_json() != resumed.record.init_from:
        raise RunError(
            f"{training.folder} has no checkpoint yet, and {source.folder}, its --init-from, has changed.\n"
            f"Start over with --overwrite."
        )
    return source


def resume(trainer: Trainer, training: Training, resumed: StoredRun) -> None:
    """Load the last checkpoint, and record settings that change from here on in the run folder."""
    recipe = training.recipe
    folder = training.folder
    steps = trainer.config.steps
    longer = "--epochs" if recipe.training.epochs else "--steps"
    found = trainer.resume()
    if not found and (folder / METRICS).exists():
        raise RunError(
            f"{folder} has {METRICS}, the scores of a trained model, but no checkpoint.\n"
            f"Restore its folder checkpoints, or start over with --overwrite."
        )
    if trainer.step > steps:
        raise UserError(
            f"{folder} is at step {trainer.step}, more than --steps {steps}.\n"
            f"Raise {longer}, or start over with --overwrite."
        )
    if trainer.step == steps and recipe.training != resumed.recipe.training:
        raise UserError(
            f"{folder} is finished, at step {steps} of {steps}: other settings would change nothing.\n"
            f"Raise {longer} too, or start over with --overwrite."
        )
    trainer.console.print(
        f"continuing from step {trainer.step} with the settings of {folder / 'config.toml'}"
        if found
        else "no checkpoint yet: starting at step 0"
    )
    if training.ranks.rank == 0:
        settings = resumed.recipe, recipe, training.sources
        is_done = trainer.step == steps
        environment = {} if is_done else environment_changes(training, folder, resumed.record)
        for line in continue_run(folder, resumed.record, *settings, trainer.step, environment):
            trainer.console.print(one_line(line))


def environment_changes(training: Training, folder: Path, record: Record) -> dict[str, list[Any]]:
    """Return the differences from the run's versions and machine that change rounding, and warn of them."""
    device = training.device
    now = {**describe_versions(device), **describe_machine(device, training.ranks.size)}
    if changed := rounding_differences(record.environment, now):
        listed = ", ".join(f"{name} {old} (now {new})" for name, (old, new) in changed.items())
        problem = f"{folder} was trained with {listed}: the weights will differ in rounding"
        print(one_line(f"warning: {problem}"), file=sys.stderr)
    return changed


def _resume_command(training: Training) -> str:
    """The command that resumes a run. The run's folder has its data and settings."""
    options = training.options
    words: list[object] = ["train", training.name, "--resume", "--run-dir", training.folder]
    words += ["--device", options.device] if options.device != "cpu" else []
    words += ["--capture"] if options.capture else []
    words += ["--diagnostics"] if options.diagnostics else []
    words += ["--tensorboard"] if options.tensorboard else []
    return our_command(words)


def print_results(run: Run, splits: dict[str, Any], scores: dict[str, Any]) -> None:
    """Print the scores, and a few examples."""
    report(scores, run.task)
    for line in compare_with_recipe(run, scores):
        print(one_line(line))
    for line in run.task.samples(run, splits):
        print(printable(line))
