"""Images: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, or an .npz file of one's own."""

from __future__ import annotations

import io
import zipfile
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..files import printable, read_bytes
from .batching import generator
from .datasets import LIMIT, DataError

IMAGES, SHIFTS = 9, 10  # random streams


class Images(NamedTuple):
    """Images and the number of each one's class."""

    images: Float[np.ndarray, "N C H W"]
    labels: Int[np.ndarray, " N"]


def digits() -> dict[str, Images]:
    """The digits, pixels from 0 to 1; 397 random ones are the test split, 100 are for validation."""
    try:
        found = import_module("sklearn.datasets").load_digits()
    except ModuleNotFoundError:
        raise DataError(
            "the digits come with scikit-learn, which is not installed.\n"
            "Install it with `pip install 'minitransformer[digits]'`, or pass other images with --data FILE."
        ) from None
    images = found.images[:, None].astype(np.float32) / 16
    return split_images(images, found.target.astype(np.int64), test=397, validation=100)


def split_images(
    images: Float[np.ndarray, "N C H W"], labels: Int[np.ndarray, " N"], test: int, validation: int
) -> dict[str, Images]:
    """Random splits, always the same."""
    order = generator(0, IMAGES, len(images)).permutation(len(images))
    parts = {
        "test": order[:test],
        "validation": order[test:][:validation],
        "train": order[test + validation :],
    }
    return {
        name: Images(images[parts[name]], labels[parts[name]]) for name in ("train", "validation", "test")
    }


def read_images(path: str | Path) -> Images:
    """The arrays `images`, (N, H, W) or (N, H, W, C), and `labels` (N,) of an .npz file.

    Integer pixels are divided by the largest one.
    """
    where = printable(path)
    try:
        with np.load(io.BytesIO(read_bytes(path, LIMIT)), allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("images", "labels")}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{where} is not an .npz file with the arrays images and labels: {error}.\n"
            f"Write it with numpy.savez(file, images=..., labels=...)."
        ) from None
    images, labels = arrays["images"], arrays["labels"]
    if images.ndim not in (3, 4) or images.dtype.kind not in "uif" or not images.size:
        raise DataError(
            f"{where}: images must be numbers of shape (N, H, W) or (N, H, W, C), got {images.dtype} "
            f"{images.shape}.\nSave them so."
        )
    if labels.shape != images.shape[:1] or labels.dtype.kind not in "ui" or labels.min() < 0:
        raise DataError(
            f"{where}: labels must be integers >= 0 of shape ({len(images)},), one for each image, got "
            f"{labels.dtype} {labels.shape}.\nSave one label for each image."
        )
    pixels = images.astype(np.float32)
    if not np.isfinite(pixels).all():
        raise DataError(f"{where}: images has pixels that are infinite or NaN.\nReplace them.")
    if images.dtype.kind in "ui":
        pixels /= max(float(pixels.max()), 1.0)
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    return Images(np.ascontiguousarray(pixels), labels.astype(np.int64))


def shift_images(
    images: Float[np.ndarray, "N C H W"], most: int, random: np.random.Generator
) -> Float[np.ndarray, "N C H W"]:
    """Each image shifted by up to `most` pixels along both axes; what comes in is 0."""
    n, _, height, width = images.shape
    padded = np.pad(images, [(0, 0), (0, 0), (most, most), (most, most)])
    rows, columns = random.integers(0, 2 * most + 1, (2, n))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    return np.ascontiguousarray(windows[np.arange(n), :, rows, columns])
