"""Images and their classes, as ViT learns them (Dosovitskiy et al. 2021). Training images are warped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigrad import no_grad

from ..data.batching import IGNORE
from ..data.datasets import DataError
from ..data.digits import WARPS, Images, digits, read_images, warp_images
from ..data.masking import row_generator
from ..data.splits import Sources, Splits, example_line, own_pairs
from ..errors import UserError, check_range
from .base import Rows, Trained, check_dataset, register_task
from .examples import VALIDATION, Batch, ExampleTask
from .scores import accuracy, macro_f1

Example = tuple[np.ndarray, int]


@dataclass(frozen=True)
class ImageData:
    """Images with a label each: their source and batching."""

    dataset: str = "digits"  # scikit-learn's, 8 x 8 pixels; or "file" (--data FILE.npz)
    batch_size: int = 64  # images per batch
    shift: float = 0.5  # training images are moved by up to so many pixels,
    rotation: float = 12.0  # turned by up to so many degrees,
    scale: float = 0.1  # and made larger or smaller by a factor of up to 1 + scale

    def __post_init__(self) -> None:
        check_dataset(self.dataset, ("digits", "file"))
        check_range(self, "batch_size", 1)
        check_range(self, "shift rotation scale", 0)


@register_task
class ImageClassification(ExampleTask):
    """A class for each image."""

    name, Data, unit, noun = "image-classification", ImageData, "images", "image classifier"
    model_types = ("vit",)
    metrics: ClassVar[dict[str, str]] = {"macro_f1": "macro F1"}

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        if sources.data is None:
            return Splits({name: _examples(split) for name, split in digits().items()})
        splits = own_pairs(sources, lambda path: cls.read_file(data, path), cls.unit, example_line)
        shapes = {image.shape for split in splits.values() for image, _ in split}
        if len(shapes) > 1:
            raise DataError(f"the splits have images of shapes {shapes}.\nPass images of one shape.")
        return splits

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> ExampleTask:
        shape, model = splits["train"][0][0].shape, recipe.model
        channels, size = getattr(model, "num_channels", shape[0]), getattr(model, "image_size", shape[1])
        if shape != (channels, size, size):
            raise UserError(
                f"images of shape {shape}, expected {(channels, size, size)}: channels, height, width.\n"
                f"Pass square images with --num-channels {shape[0]} --image-size {shape[1]}."
            )
        return super().build(recipe, tokenizer, splits, labels)

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Example]:
        return _examples(read_images(path))

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        """The numbers up to the largest label of the training split."""
        number, images = 1 + max(label for _, label in splits["train"]), len(splits["train"])
        if number > images:
            raise DataError(
                f"the largest label is {number - 1}: that makes {number:,} classes, of {images:,} training "
                f"images.\nNumber the classes from 0."
            )
        return [str(i) for i in range(number)]

    def collate(self, examples: Sequence[Example], step: int) -> Batch:
        images = np.stack([image for image, _ in examples])
        if step < VALIDATION:
            generators = [row_generator(self.seed, WARPS, step, row) for row in range(len(images))]
            images = warp_images(images, generators, self.data.shift, self.data.rotation, self.data.scale)
        known = len(self.label_names)
        return Batch(images, np.array([label if label < known else IGNORE for _, label in examples]))

    @no_grad()
    def predict(self, model: Any, examples: Sequence[Example]) -> list[tuple[str, str, str]]:
        predictions = [
            i for batch in self.batches(examples) for i in self.logits(model, batch).numpy().argmax(-1)
        ]
        return [
            (f"image {n}", str(e[1]), str(i))
            for n, (e, i) in enumerate(zip(examples, predictions, strict=True))
        ]

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        scores, rows = super().evaluate(run, examples, **decoding)
        _, expected, predictions = zip(*rows[1:], strict=True)
        compared = {"accuracy": accuracy(predictions, expected), "macro_f1": macro_f1(predictions, expected)}
        return {**compared, "loss": scores["loss"], "n": scores["n"]}, rows


def _examples(found: Images) -> list[Example]:
    return list(zip(found.images, found.labels.tolist(), strict=True))
