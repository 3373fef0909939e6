"""`minitransformer export RUN FOLDER`: write a run's model for transformers."""

from __future__ import annotations

import sys
from pathlib import Path

from ..data.image_processor import image_processor
from ..pretrained import save_pretrained
from ..pretrained.adapters import save_adapter
from ..runs.run import Run
from .parsing import parse


def run(argv: list[str]) -> None:
    def export(
        run: Path,
        folder: Path,
        *,
        adapter: bool = False,
        checkpoint: str = "best",
    ) -> None:
        """Write the model and the tokenizer of a run to a new folder, in the format of transformers.

        In transformers, from_pretrained(FOLDER) loads both and computes the same logits. A model that
        transformers has no class for is an error.

        Args:
            folder: The folder to write.
            adapter: Write only the adapters of a run trained with --lora-rank, in the format of peft.
        """
        if adapter:
            trained = Run(run, checkpoint, merge=False)
            base = Path(trained.record.init_from.get("folder", "")).name
            save_adapter(trained.model, folder, base)
            print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
            trainable = [name for name, p in trained.model.named_parameters() if p.requires_grad]
            if any(".lora_" not in name for name in trainable):
                print(
                    "warning: the head was trained too, and is not among the adapters; "
                    "without --adapter, the whole model is written",
                    file=sys.stderr,
                )
            return
        trained = Run(run, checkpoint)
        longest = getattr(trained.recipe.data, "max_length", None)
        generation = trained.generation | trained.record.suggested
        is_vit = trained.model.model_type == "vit"
        processor = image_processor(trained.reading, trained.model.config) if is_vit else None
        if is_vit and trained.reading and processor is None:
            print(
                "warning: no preprocessor_config.json is written: it cannot describe how the training images "
                "were prepared; prepare others in the same way",
                file=sys.stderr,
            )
        if processor and not trained.reading.get("integer_pixels", True):
            print(
                f"warning: the training images are floats; preprocessor_config.json multiplies pixels from 0 "
                f"to 255 by {processor.rescale_factor:.6g}, as predict does",
                file=sys.stderr,
            )
        save_pretrained(
            trained.model, folder, trained.tokenizer, trained.labels, longest, generation, processor
        )
        names = ", ".join(sorted(path.name for path in folder.iterdir()))
        print(f"{folder}: {names}")

    parse(export, argv, "minitransformer export")
