"""Image classification with ViT (Dosovitskiy et al. 2021). Training images are augmented by warping."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ..data.batching import IGNORE, Batch
from ..data.digits import (
    DIGITS,
    WARPS,
    Images,
    PixelRange,
    digits,
    read_image,
    read_images,
    warp_images,
)
from ..data.image_processor import own_processor
from ..data.labels import check_labels
from ..data.masking import row_generator
from ..data.rows import DataError
from ..data.splits import Sources, Splits, example_line, user_splits
from ..errors import UserError, check_range, counted
from .base import VALIDATION, Task, Trained, register_task
from .inputs import check_texts
from .predictions import Prediction, unique_names
from .scores import accuracy, macro_f1
from .settings import DataSettings

Example = tuple[np.ndarray, int]


@dataclass(frozen=True)
class ImageData(DataSettings):
    """The source, the batching and the augmentation of labelled images."""

    dataset: str = "digits"  # scikit-learn's, 8 x 8 pixels; or "file" (--data FILE.npz)
    batch_size: int = 64  # images per batch
    shift: float = 0.5  # the largest shift of a training image, in pixels
    rotation: float = 12.0  # the largest rotation, in degrees
    scale: float = 0.1  # the factor of scaling is between 1 / (1 + scale) and 1 + scale

    datasets: ClassVar[tuple[str, ...]] = ("digits", "file")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "batch_size", 1)
        check_range(self, "shift rotation scale", 0)


@register_task
class ImageClassification(Task):
    """A class for each image."""

    # ------------------------------------------------------------ the data

    name = "image-classification"
    Data = ImageData
    unit = "images"

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        if sources.data is None:
            found = {name: _examples(split) for name, split in digits().items()}
            return Splits(found, reading=DIGITS._asdict())
        training = read_images(sources.data)

        def read(path: Path) -> list[Example]:
            return _examples(training if path == sources.data else read_images(path, training.pixels))

        splits = user_splits(sources, read, cls.unit, example_line)
        assert training.pixels is not None
        splits.reading = training.pixels._asdict()
        shapes = {image.shape for split in splits.values() for image, _ in split}
        if len(shapes) > 1:
            raise DataError(f"the splits have images of shapes {shapes}.\nPass images of one shape.")
        return splits

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[Example]:
        return _examples(read_images(path))

    @classmethod
    def read_test_file(cls, run: Trained, path: Path) -> list[Example]:
        processor = own_processor(run.reading)
        found = processor.read_images(path) if processor else read_images(path, trained_pixels(run))
        examples = _examples(found)
        numbers = list(map(str, range(len(run.labels))))
        check_labels(str(path), cls.labels_in(examples), numbers)
        return examples

    @classmethod
    def reading(cls, splits: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pixel range of the training images."""
        return dict(getattr(splits, "reading", {}))

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        """Return the numbers from 0 to the largest label of the training split, as strings."""
        number = 1 + max(label for _, label in splits["train"])
        images = len(splits["train"])
        if number > images:
            raise DataError(
                f"the largest label is {number - 1}: that makes {number:,} classes, but there "
                f"{'is' if images == 1 else 'are'} {counted(images, 'training image')}.\n"
                f"Number the classes from 0."
            )
        return [str(i) for i in range(number)]

    @classmethod
    def labels_in(cls, examples: Sequence[Example]) -> list[str]:
        return [str(label) for _, label in examples]

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        return [["test:0"]] if splits.get("test") else []

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> Self:
        shape = splits["train"][0][0].shape
        if shape != (expected := expected_shape(recipe.model, shape)):
            raise UserError(
                f"the images have shape {shape}, but the model reads {expected}: channels, height, width.\n"
                + how_to_fit(shape, expected, getattr(recipe.model, "patch_size", 1))
            )
        return super().build(recipe, tokenizer, splits, labels)

    def unknown_targets(self, example: Example) -> int:
        return int(example[1] >= len(self.label_names))

    def encode(self, example: Example) -> dict[str, Any]:
        image, label = example
        return {"input": image, "target": label if label < len(self.label_names) else IGNORE}

    def collate(self, examples: Sequence[Example], step: int) -> Batch:
        batch = super().collate(examples, step)
        if step < VALIDATION:
            data = self.data
            drawn = [row_generator(self.seed, WARPS, step, row) for row in range(len(examples))]
            batch["input"] = warp_images(batch["input"], drawn, data.shift, data.rotation, data.scale)
        return batch

    # ------------------------------------------------------------ the objective

    model_types = ("vit",)

    # ------------------------------------------------------------ the scores

    metrics = (accuracy, macro_f1)

    def decode(self, logits: np.ndarray, example: Example) -> str:
        return label_name(int(logits.argmax()), self.label_names)

    def expected(self, example: Example) -> str:
        return label_name(example[1], self.label_names)

    # ------------------------------------------------------------ predicting

    inputs = ("the path of an image, or test:NUMBER",)

    @classmethod
    def read(cls, run: Trained, texts: Sequence[str]) -> Example:
        """Read an image, with its class or IGNORE if unknown. `test:3` is image 3 of the run's test split."""
        check_texts(run, texts, cls.inputs)
        name = texts[0].strip()
        processor = own_processor(run.reading)  # only an imported run has one
        if held_out := re.fullmatch(r"test:(\d{1,18})", name):
            if processor:
                raise UserError(
                    f"{run.folder} is an imported run, which has no data set.\n"
                    f"Pass an image file, such as cat.png."
                )
            examples = test_images(run)
            number = int(held_out[1])
            if number >= len(examples):
                raise UserError(
                    f"{name}: the test split has {counted(len(examples), 'image')}.\n"
                    + (
                        f"Choose one from test:0 to test:{len(examples) - 1}."
                        if len(examples) > 1
                        else "Choose test:0."
                    )
                )
            return examples[number]
        if not Path(name).exists():
            or_test = "" if processor else ", or test:0, the first image of the test split"
            raise UserError(f"there is no image {name[:60]!r}.\nPass a .png, .jpg or .npy file{or_test}.")
        if processor:
            image = processor.read_image(name)
        else:
            image = read_image(name, getattr(run.recipe.model, "num_channels", 1), trained_pixels(run))
        if image.shape != (expected := expected_shape(run.recipe.model, image.shape)):
            raise UserError(
                f"{name} has shape {image.shape}, but this run reads {expected}: channels, height, width.\n"
                f"Convert the image to {size_text(expected)}."
            )
        return image, IGNORE

    def with_answer(self, example: Example, answer: str) -> Example:
        image, label = example
        return image, unique_names(self.label_names).index(answer) if label == IGNORE else label

    def prediction(self, logits: np.ndarray, example: Example, top: int) -> Prediction:
        found = super().prediction(logits, example, top)
        label = self.expected(example)
        if not label:
            return found
        return Prediction(f"{found.text} (labelled {label})", {**found.values, "label": label})


def expected_shape(model: Any, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The image shape (C, H, W) in a model's settings; what they do not specify is taken from `shape`."""
    size = getattr(model, "image_size", None)
    height, width = (size, size) if size else shape[1:]
    return getattr(model, "num_channels", shape[0]), height, width


def how_to_fit(shape: tuple[int, ...], expected: tuple[int, ...], patch_size: int) -> str:
    """The advice of an error message about training images that have not the shape the model reads."""
    channels, height, width = shape
    convert = f"Convert the images to {size_text(expected)}"
    if height != width:
        return f"{convert}."
    flags = [f"--num-channels {channels}"] if channels != expected[0] else []
    if height != expected[1]:
        flags += [f"--image-size {height}"]
        patch = max(size for size in range(1, patch_size + 1) if height % size == 0)
        flags += [f"--patch-size {patch}"] if patch != patch_size else []
    return (
        f"{convert}, or change the model with {' '.join(flags)}; --init-from leaves out weights of "
        f"another shape."
    )


def size_text(shape: tuple[int, ...]) -> str:
    """Describe an image shape (C, H, W): "28 x 28 pixels, 1 channel"."""
    return f"{shape[1]} x {shape[2]} pixels, {counted(shape[0], 'channel')}"


@lru_cache(1)
def test_images(run: Any) -> list[Example]:
    """The images of a run's test split."""
    return run.splits()["test"]


def trained_pixels(run: Trained) -> PixelRange | None:
    """The pixel range that the run was trained on; None if unknown."""
    return PixelRange(**run.reading) if run.reading else None


def label_name(label: int, names: Sequence[str]) -> str:
    """The name of a class; its number if the model does not have the class; "" if `label` is IGNORE."""
    if label == IGNORE:
        return ""
    return unique_names(names)[label] if label < len(names) else str(label)


def _examples(found: Images) -> list[Example]:
    return list(zip(found.images, found.labels.tolist(), strict=True))
