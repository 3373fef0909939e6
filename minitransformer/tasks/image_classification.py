"""Images and their classes, as ViT learns them (Dosovitskiy et al. 2021); training images are shifted at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float, Int

from minigrad import Tensor, no_grad

from ..data.batching import BatchStream, ShuffledBatches, generator
from ..data.datasets import DataError
from ..data.digits import SHIFTS, Images, digits, read_images, shift_images, split_images
from ..data.splits import Sources, Splits
from ..errors import UserError, check_range
from .base import Rows, Task, Trained, check_dataset, register_task
from .scores import accuracy, macro_f1


@dataclass(frozen=True)
class ImageData:
    """Images with a label each: their source and batching."""

    dataset: str = "digits"  # scikit-learn's, 8 x 8 pixels; or "file" (--data FILE.npz)
    batch_size: int = 64  # images per batch
    shift: int = 1  # training images are moved by up to so many pixels

    def __post_init__(self) -> None:
        check_dataset(self.dataset, ("digits", "file"))
        check_range(self, "batch_size", 1)
        check_range(self, "shift", 0)


@dataclass(frozen=True)
class ImageBatch:
    """Images and the class of each."""

    images: Float[Any, "B C H W"]
    target: Int[Any, " B"]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: slice) -> ImageBatch:
        return ImageBatch(self.images[rows], self.target[rows])

    @property
    def n_tokens(self) -> int:
        return len(self.target)


class ImageList(Images):
    """Images that are counted, and listed for checksums, one by one."""

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(self.images, self.labels.tolist(), strict=True))


@register_task
class ImageClassification(Task):
    """A class for each image."""

    name, Data, unit, noun = "image-classification", ImageData, "images", "image classifier"
    model_types = ("vit",)
    metrics: ClassVar[dict[str, str]] = {"macro_f1": "macro F1"}

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        if sources.data is None:
            splits = digits()
        else:
            found = read_images(sources.data)
            held = {
                name: read_images(path)
                for name, path in (("validation", sources.validation_data), ("test", sources.test_data))
                if path is not None
            }
            tenth = min(len(found.labels) // 10, 1000)
            if not tenth:
                raise DataError(
                    f"{sources.data} has {len(found.labels)} images, too few to train on.\nPass more."
                )
            splits = {**split_images(*found, test=tenth, validation=tenth), **held}
        shapes = {split.images.shape[1:] for split in splits.values()}
        if len(shapes) > 1:
            raise DataError(f"images of different shapes: {shapes}.\nPass splits of the same shape.")
        return Splits({name: ImageList(*split) for name, split in splits.items()})

    @classmethod
    def read_file(cls, data: Any, path: Path) -> ImageList:
        return ImageList(*read_images(path))

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        return [str(i) for i in range(1 + max(int(split.labels.max()) for split in splits.values()))]

    def __init__(self, train: Images, validation: Images, data: Any, seed: int) -> None:
        self.train, self.validation, self.data, self.seed = train, validation, data, seed
        self.stream = BatchStream(ShuffledBatches(len(train.labels), data.batch_size, seed))

    @classmethod
    def build(
        cls, recipe: Any, tokenizer: Any, splits: Mapping[str, Any], labels: Sequence[str] = ()
    ) -> ImageClassification:
        return cls(splits["train"], splits["validation"], recipe.data, recipe.training.seed)

    @property
    def largest_batch(self) -> int:
        return min(self.data.batch_size, len(self.train.labels))

    def next_batch(self) -> ImageBatch:
        rows = next(self.stream)
        images, target = self.train.images[rows], self.train.labels[rows]
        if self.data.shift:
            state = self.stream.state()
            random = generator(self.seed, SHIFTS, state["epoch"] * 2**32 + state["batch"])
            images = shift_images(images, self.data.shift, random)
        return ImageBatch(images, target)

    def batches(self, examples: Images) -> Iterator[ImageBatch]:
        for start in range(0, len(examples.labels), 256):
            rows = slice(start, start + 256)
            yield ImageBatch(examples.images[rows], examples.labels[rows])

    def logits(self, model: Any, batch: ImageBatch) -> Tensor:
        return model(batch.images)

    def state(self) -> dict[str, Any]:
        return self.stream.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.stream.restore(state)

    @classmethod
    @no_grad()
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        task = cls(examples, examples, run.recipe.data, 0)
        predicted = [
            str(i)
            for batch in task.batches(examples)
            for i in task.logits(run.model, batch).numpy().argmax(-1)
        ]
        expected = [str(i) for i in examples.labels.tolist()]
        scores = {"accuracy": accuracy(predicted, expected), "macro_f1": macro_f1(predicted, expected)}
        scores |= {"loss": task.score(run.model, examples)["loss"], "n": len(expected)}
        rows = [(str(i), e, p) for i, (e, p) in enumerate(zip(expected, predicted, strict=True))]
        return scores, [("image", "reference", "prediction"), *rows]

    @classmethod
    def example(
        cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]
    ) -> tuple[ImageClassification, str]:
        """The first validation image."""
        if texts:
            raise UserError(f"{run.folder} reads images, not texts.\nLeave the text out.")
        found = validation()
        first = Images(found.images[:1], found.labels[:1])
        return cls(first, first, replace(run.recipe.data, shift=0), 0), f"an image of class {first.labels[0]}"
