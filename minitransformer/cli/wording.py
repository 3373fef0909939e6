"""The command line's words for tasks and their runs, and the command that uses a run.

Tasks of the package are in WORDINGS. A user's task inherits the words of its base class, but may define a
`noun` and a `verb`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..data.splits import Splits
from ..errors import UserError, counted_units
from ..files import our_command
from ..recipes import Recipe
from ..runs.folder import Record
from ..tasks import Task, task_class
from ..tasks.base import Trained
from ..text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Wording:
    """Words for a task."""

    noun: str = "model"  # what a trained model is called
    scored: str = ""  # what the score `n` counts, in the plural, if not the task's `unit`


WORDINGS = {
    "translation": Wording("translation model"),
    "causal-translation": Wording("decoder-only translation model"),
    "text-to-text": Wording("text-to-text model"),
    "denoising": Wording("denoising model"),
    "language-modelling": Wording("language model", scored="tokens"),
    "masked-language-modelling": Wording("masked language model"),
    "classification": Wording("text classifier"),
    "tagging": Wording("tagger"),
    "question-answering": Wording("question answerer"),
    "similarity": Wording("similarity model"),
    "image-classification": Wording("image classifier"),
}


def wording_of(task: type[Task]) -> Wording:
    """Return the words for a task, or those for its nearest base class in WORDINGS."""
    names = [vars(kind).get("name") for kind in task.__mro__]
    found = next((WORDINGS[name] for name in names if name in WORDINGS), Wording())
    return replace(found, noun=getattr(task, "noun", found.noun))


def verb_of(task: type[Task]) -> str:
    """The command line's verb that uses a trained model of a task."""
    if verb := getattr(task, "verb", ""):
        return verb
    if hasattr(task, "translate"):
        return "translate"
    if hasattr(task, "generate"):
        return "generate"
    return "predict" if hasattr(task, "read") else "evaluate"


def command(
    recipe: Recipe,
    folder: Path,
    inputs: Sequence[Sequence[str]] = (),
    suggested: Mapping[str, Any] | None = None,
    prompt: str = "",
) -> str:
    """Return the shell command that uses a run, with the first of `inputs`, and options of `generate`.

    `prompt` is for a language model that has no default prompt, see `needed_prompt`.
    """
    verb = verb_of(task_class(recipe.task))
    if verb == "translate" and getattr(recipe.data, "dataset", "") == "dialogues":
        return our_command(["chat", folder])
    texts = inputs[0] if verb in ("translate", "predict") and inputs else ()
    options = {**(suggested or {})}
    sampling = ["--do-sample"] if options.pop("do_sample", False) and verb != "generate" else []
    prompts = ["--prompt", prompt] if prompt and verb == "generate" else []
    return our_command([verb, folder, *texts, *prompts, *sampling, *flags(options)])


def needed_prompt(record: Record, tokenizer: Tokenizer | None) -> str:
    """Return a prompt for an imported model that has no start token to begin with; "" for other models."""
    if not record.imported or tokenizer is None or tokenizer.prefix or tokenizer.start_id is not None:
        return ""
    return "a"


def flags(options: Mapping[str, Any]) -> list[str]:
    """Format options as flags, such as ["--num-beams", "4"]."""
    found: list[str] = []
    for name, value in options.items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        found += [f"--{name.replace('_', '-')}", shown]
    return found


def unsupported_error(run: Trained, action: str) -> UserError:
    """Return the error for a run that cannot do `action`. It names the command that uses the run."""
    noun = wording_of(run.task).noun
    article = "an" if noun[0] in "aeiou" else "a"
    return UserError(
        f"{run.folder} is {article} {noun}, which cannot {action}.\nUse `{command(run.recipe, run.folder)}`."
    )


def describe_splits(task: type[Task], splits: Splits) -> str:
    """Format how many examples each split has, and how many were dropped for which reason."""
    counts = ", ".join(f"{len(split):,} {name}" for name, split in splits.items())
    dropped = ", ".join(counted_units(n, reason) for reason, n in splits.dropped.items() if n)
    return f"{task.unit}: {counts}" + (f"; dropped: {dropped}" if dropped else "")
