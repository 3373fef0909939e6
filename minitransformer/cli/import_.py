"""`minitransformer import FOLDER --run-dir RUN`: make a run of a pretrained model."""

from __future__ import annotations

import warnings
from pathlib import Path

from ..files import one_line, our_command
from ..pretrained import PretrainedWarning
from ..runs.imported import import_run
from ..runs.run import Run
from .lines import warn_line
from .parsing import parse
from .wording import command as command_of
from .wording import needed_prompt


def run(argv: list[str]) -> None:
    def import_(
        folder: Path,
        *,
        run_dir: Path | None = None,
        quantize: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Make a run of a pretrained model, for verbs such as generate, translate and explain.

        Args:
            folder: A folder in the Hugging Face format: config.json, model.safetensors, tokenizer files.
            run_dir: The run folder (default: runs/FOLDER).
            quantize: Store matrices as 8-bit integers, in a quarter of the memory; they cannot be trained.
            overwrite: Delete the existing run and replace it.
        """
        target = Path("runs") / folder.resolve().name if run_dir is None else run_dir
        command = our_command(["import", *argv])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PretrainedWarning)
            recipe = import_run(folder, target, command, overwrite, 8 if quantize else 32)
        for each in caught:
            warn_line(str(each.message))
        imported = Run(target)
        print(one_line(f"{imported!r}"))
        prompt = needed_prompt(imported.record, imported.tokenizer)
        print(f"use it with: {command_of(recipe, target, [], imported.record.suggested, prompt)}")

    parse(import_, argv, "minitransformer import")
