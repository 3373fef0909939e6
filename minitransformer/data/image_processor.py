"""Prepares images for a pretrained model: they are resized, rescaled and normalized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..base_config import Config
from ..errors import counted
from .digits import (
    Images,
    PixelRange,
    decoded,
    image_content,
    load_images,
    open_image,
    read_array,
)
from .rows import LIMIT, DataError

PROCESSOR = "image_processor"  # the key in the `reading` of an imported run
BILINEAR = 2  # Pillow's number of the filter


@dataclass(frozen=True)
class ImageProcessor(Config):
    """How images become the input of a model, with the settings and steps of transformers' ViTImageProcessor.

    Pixels are integers from 0 to 255. Pillow resizes the image, which rounds them. They are multiplied by
    `rescale_factor`, and then normalized by the mean and the standard deviation of each channel.
    """

    size: tuple[int, int] | None  # height and width; None: images already have the model's size
    resample: int  # Pillow's number of a filter, such as BILINEAR
    rescale_factor: float
    image_mean: list[float]
    image_std: list[float]

    def read_image(self, path: str | Path) -> Float[np.ndarray, "C H W"]:
        """Read and prepare the image of a .png, .jpg or .npy file (uint8, of shape (H, W) or (H, W, C))."""
        where = str(path)
        content, kind = image_content(path)

        def load() -> Any:
            if kind is None:
                return _opened(read_array(content))
            return open_image(content, kind, where).convert("RGB")

        return self.prepare(decoded(where, load))

    def read_images(self, path: str | Path) -> Images:
        """Read and prepare the images of an .npz file with `labels` (N,).

        `images` are uint8, (N, H, W) or (N, H, W, C).
        """
        images, labels = load_images(path)
        try:
            opened = list(map(_opened, images))
        except ValueError as error:
            raise DataError(f"{path}: {error}.\nSave such arrays.") from None
        height, width = self.size or images.shape[1:3]
        if len(images) * len(self.image_mean) * height * width * 4 > LIMIT:
            raise DataError(
                f"{path} has {counted(len(images), 'image')}, which are more than {LIMIT:,} bytes "
                f"when they are resized.\nSplit it into smaller files."
            )
        return Images(np.stack(list(map(self.prepare, opened))), labels)

    def prepare(self, image: Any) -> Float[np.ndarray, "C H W"]:
        """Convert Pillow's image to the input of the model."""
        image = image.convert("RGB" if len(self.image_mean) == 3 else "L")
        if self.size is not None:
            height, width = self.size
            image = image.resize((width, height), self.resample)
        pixels = np.asarray(image, np.float32).reshape(image.height, image.width, -1)
        pixels = pixels * np.float32(self.rescale_factor)
        normal = (pixels - np.array(self.image_mean, np.float32)) / np.array(self.image_std, np.float32)
        return np.ascontiguousarray(normal.transpose(2, 0, 1))


def _opened(array: np.ndarray) -> Any:
    """Convert an array to Pillow's image. Raise a ValueError if it is not an image of uint8."""
    channels = array.shape[2:]
    is_image = array.ndim in (2, 3) and channels in ((), (1,), (3,), (4,)) and array.size > 0
    if array.dtype != np.uint8 or not is_image:
        raise ValueError(
            f"an image must be uint8, from 0 to 255, of shape (H, W) or (H, W, 3), got {array.dtype} "
            f"{array.shape}"
        )
    return import_module("PIL.Image").fromarray(array[..., 0] if channels == (1,) else array)


def own_processor(reading: Mapping[str, Any]) -> ImageProcessor | None:
    """The image processor that came with an imported model, from a run's `reading`; None if there is none."""
    return ImageProcessor(**reading[PROCESSOR]) if PROCESSOR in reading else None


def image_processor(reading: Mapping[str, Any], config: Any) -> ImageProcessor | None:
    """An image processor that reads files as a run with this `reading` does; None if none can."""
    if not reading or PROCESSOR in reading:
        return own_processor(reading)
    size, channels = config.image_size, config.num_channels
    trained = PixelRange(**reading)
    if channels not in (1, 3) or trained.has_negatives:
        return None
    factor = 1 / trained.of_pictures().divisor()
    return ImageProcessor((size, size), BILINEAR, factor, [0.0] * channels, [1.0] * channels)
