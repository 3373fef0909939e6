"""`minitransformer explain RUN TEXT`: a page that walks a sentence through a model."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..errors import UserError
from ..explain import explain, explain_documents
from ..explain.page import check_name
from ..files import check_can_write
from ..runs.run import Run
from .parsing import parse


def run(argv: list[str]) -> None:
    def write(
        run: Path | None = None,
        text: str | None = None,
        target: str | None = None,
        *,
        output: Path = Path("explain.html"),
        overwrite: bool = False,
        checkpoint: str = "best",
        preset: Literal["documents"] | None = None,
    ) -> None:
        """Write a page that walks a sentence through a model, stage by stage, and the gradients back.

        The page contains the model: you can type other sentences there, or switch parts off.

        Args:
            run: The run folder.
            text: The sentence or, for a language model, the start of a text; by default, a short one. For a
                ViT, an image file, or "test:3", image 3 of the test split.
            target: The target of the loss: a translation, a sentence of similar meaning, or a class; by
                default, what the model predicts, or the class of the image. Language models take none.
            output: The page (.html).
            overwrite: Replace an existing file.
            preset: "documents" shows, instead of a run, the example that "Transformer Network" computes by
                hand (ten words, vectors of width 4), with its printed numbers beside ours.
        """
        check_name(output)
        check_can_write(output, overwrite)
        if run is None and preset is None:
            raise UserError(
                "expected a run folder or a preset, got nothing.\nPass runs/phrasebook, for example."
            )
        if run is not None and preset is not None:
            raise UserError("got a run and a preset.\nPass a run or --preset, not both.")
        found = explain_documents() if run is None else explain(Run(run, checkpoint), text, target)
        found.save(output)
        print(f"{output}: {output.stat().st_size / 1e6:.1f} MB; open it in a browser")

    parse(write, argv, "minitransformer explain")
