"""Images and their classes, as ViT learns them (Dosovitskiy et al. 2021). Training images are warped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from minigrad import no_grad

from ..data.datasets import DataError
from ..data.digits import WARPS, Images, digits, read_images, split_images, warp_images
from ..data.masking import row_generator
from ..data.splits import Sources, Splits
from ..errors import check_range
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
        splits = digits() if sources.data is None else _own_images(sources)
        shapes = {split.images.shape[1:] for split in splits.values()}
        if len(shapes) > 1:
            raise DataError(f"the splits have images of shapes {shapes}.\nPass images of one shape.")
        return Splits({name: _examples(split) for name, split in splits.items()})

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Example]:
        return _examples(read_images(path))

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        return [str(i) for i in range(1 + max(label for split in splits.values() for _, label in split))]

    def collate(self, examples: Sequence[Example], step: int) -> Batch:
        images = np.stack([image for image, _ in examples])
        if step < VALIDATION:
            random = row_generator(self.seed, WARPS, step, 0)
            images = warp_images(images, random, self.data.shift, self.data.rotation, self.data.scale)
        return Batch(images, np.array([label for _, label in examples]))

    @no_grad()
    def predict(self, model: Any, examples: Sequence[Example]) -> list[tuple[str, str, str]]:
        said = [i for batch in self.batches(examples) for i in self.logits(model, batch).numpy().argmax(-1)]
        return [
            (f"image {n}", str(e[1]), str(i)) for n, (e, i) in enumerate(zip(examples, said, strict=True))
        ]

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        scores, rows = super().evaluate(run, examples, **decoding)
        _, expected, said = zip(*rows[1:], strict=True)
        return {"accuracy": accuracy(said, expected), "macro_f1": macro_f1(said, expected), **scores}, rows


def _examples(found: Images) -> list[Example]:
    return list(zip(found.images, found.labels.tolist(), strict=True))


def _own_images(sources: Sources) -> dict[str, Images]:
    """A user's images. Of the splits without a file, each gets a tenth, at most 1,000."""
    assert sources.data is not None
    found = read_images(sources.data)
    files = {"validation": sources.validation_data, "test": sources.test_data}
    tenth = {name: 0 if path else min(len(found.labels) // 10, 1000) for name, path in files.items()}
    if any(path is None and not tenth[name] for name, path in files.items()):
        raise DataError(f"{sources.data} has {len(found.labels)} images, too few to train on.\nPass more.")
    held = {name: read_images(path) for name, path in files.items() if path is not None}
    return {**split_images(found.images, found.labels, **tenth), **held}
