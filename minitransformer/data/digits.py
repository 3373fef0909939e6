"""Images: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, or the images in a user's files."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from ..files import read_bytes
from .batching import generator
from .rows import LIMIT, DataError

T = TypeVar("T")
LEVELS = 16  # the largest pixel of the digits; white in a picture is larger
PIXELS = 2**24  # maximum pixels of an image, which take 2**28 bytes as floats of four channels
IMAGES, WARPS = 9, 10  # numbers of random streams
PICTURES = {b"\x89PNG": "Png", b"\xff\xd8\xff": "Jpeg"}  # first bytes of a file -> Pillow's format name
NPY = b"\x93NUMPY"
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # weights of red, green and blue (ITU-R BT.601)


class PixelRange(NamedTuple):
    """The range of a file's pixels, before integers are divided.

    The range of the training images determines how other files are read.
    """

    integer_pixels: bool
    largest_pixel: float
    smallest_pixel: float = 0.0

    @property
    def has_negatives(self) -> bool:
        """Whether some pixels are negative."""
        return self.smallest_pixel < 0

    def divisor(self) -> float:
        """The divisor of integer pixels, if this is the range of the training images."""
        return max(self.largest_pixel, 1.0) if self.integer_pixels else 1.0

    def of_pictures(self) -> PixelRange:
        """The range with which picture files, whose white is 255, are read, if this is the training images'.

        It is this range if it can be a picture's. Otherwise it is 0 to 255, so that white becomes 1.
        """
        return self if LEVELS < self.largest_pixel <= 255 else PixelRange(True, 255.0)

    def problem(self, trained: PixelRange) -> str:
        """A message if these pixels do not fit the training images, otherwise an empty string."""
        if self.integer_pixels and self.largest_pixel > trained.largest_pixel:
            kind = "integers" if trained.integer_pixels else "floats"
            return (
                f"has integer pixels up to {self.largest_pixel:g}, but the training images have {kind} up to "
                f"{trained.largest_pixel:g}"
            )
        learned = trained.largest_pixel / trained.divisor()
        if not self.integer_pixels and self.largest_pixel > learned + abs(learned):  # not an outlier
            return f"has floats up to {self.largest_pixel:g}, the model was trained on up to {learned:g}"
        return ""

    def sign_problem(self, trained: PixelRange) -> str:
        """A message if only these pixels or only the training images have negatives, otherwise ""."""
        if self.has_negatives == trained.has_negatives:
            return ""
        unit = 1 if self.integer_pixels else trained.divisor()
        return (
            f"has pixels from {self.smallest_pixel:g} to {self.largest_pixel:g}, the model was trained on "
            f"pixels from {trained.smallest_pixel / unit:g} to {trained.largest_pixel / unit:g}"
        )


class Images(NamedTuple):
    """Images, and the class index of each."""

    images: Float[np.ndarray, "N C H W"]
    labels: Int[np.ndarray, " N"]
    pixels: PixelRange | None = None  # the pixel range of the file


DIGITS = PixelRange(True, 16.0)


def digits() -> dict[str, Images]:
    """The splits of the digits, with pixels from 0 to 1: 397 random ones for tests, 100 for validation."""
    try:
        found = import_module("sklearn.datasets").load_digits()
    except ModuleNotFoundError:
        raise DataError(
            "the digits come with scikit-learn, which is not installed.\n"
            "Run `pip install 'minitransformer[digits]'`, or train on other images with --data FILE."
        ) from None
    images = found.images[:, None].astype(np.float32) / DIGITS.divisor()
    return split_images(images, found.target.astype(np.int64), test=397, validation=100)


def split_images(
    images: Float[np.ndarray, "N C H W"], labels: Int[np.ndarray, " N"], test: int, validation: int
) -> dict[str, Images]:
    """Split images at random, with a fixed seed. `test` and `validation` are numbers of images."""
    order = generator(0, IMAGES, len(images)).permutation(len(images))
    parts = {
        "test": order[:test],
        "validation": order[test:][:validation],
        "train": order[test + validation :],
    }
    return {
        name: Images(images[parts[name]], labels[parts[name]]) for name in ("train", "validation", "test")
    }


def read_images(path: str | Path, trained: PixelRange | None = None) -> Images:
    """Read the arrays `images`, (N, H, W) or (N, H, W, C), and `labels` (N,) of an .npz file.

    Integer pixels are divided by the largest pixel of the training images or, without `trained`, of the file.
    Integers larger than the training images' raise a DataError. Floats are not changed.
    """
    where = str(path)
    images, labels = load_images(path)
    pixels, found = _pixels(images, f"{where}: images", ("N", "H", "W"), trained)
    if trained is not None:
        check_range(where, found, trained, found.integer_pixels)
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    return Images(np.ascontiguousarray(pixels), labels, found)


def load_images(path: str | Path) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
    """Read the arrays `images` and `labels` of an .npz file, without changing pixels.

    For Keras' mnist.npz, these are the training images.
    """
    where = str(path)
    content = read_bytes(path, LIMIT)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            arrays = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
            is_keras = "x_train" in arrays
            names = ("x_train", "y_train") if is_keras else ("images", "labels")
            if missing := [name for name in names if name not in arrays]:
                raise ValueError(f"no array {missing[0]}, found {', '.join(arrays) or 'none'}")
            if (size := sum(arrays[name].file_size for name in names)) > LIMIT:
                raise ValueError(f"it has {size:,} bytes, the limit is {LIMIT:,}")
            images, labels = (read_array(archive.read(arrays[name])) for name in names)
    except Exception as error:  # the errors of zipfile and NumPy's parser are not documented
        raise DataError(
            f"{where} is not an .npz file with the arrays images and labels: {error!s:.200}.\n"
            f"Write it with numpy.savez(file, images=..., labels=...)."
        ) from None
    if is_keras:
        said = "x_train and y_train are read, x_test and y_test are not: save these as images and labels"
        print(f"{where}: {said} of a file for --test-data", file=sys.stderr)
    if not images.ndim or not images.size:
        raise DataError(f"{where}: images have the shape {images.shape}.\nSave at least one image.")
    integers = labels.shape == images.shape[:1] and labels.dtype.kind in "ui"
    if not integers or labels.min() < 0 or int(labels.max()) >= 2**63:
        raise DataError(
            f"{where}: labels must be integers from 0 to 2**63 - 1 of shape {images.shape[:1]}, one for each "
            f"image, got {labels.dtype} {labels.shape}.\nSave one label for each image."
        )
    return images, labels.astype(np.int64)


def read_image(
    path: str | Path, channels: int, trained: PixelRange | None = None
) -> Float[np.ndarray, "C H W"]:
    """Read the image of a .png or .jpg file, or of an .npy file of shape (H, W) or (H, W, C).

    Integer pixels are divided by the largest pixel of the training images or, without `trained`, of the
    image. A picture's pixels are divided by 255 if the training images have a range that pictures do not
    have. Integers more than twice as large as the training images' raise a DataError. Colours become grey if
    `channels` is 1.
    """
    where = str(path)
    content, kind = image_content(path)
    if kind and trained is not None and trained.has_negatives:
        raise DataError(
            f"{where} cannot be read: the run was trained on pixels from {trained.smallest_pixel:g} to "
            f"{trained.largest_pixel:g}, and how a picture's 0 to 255 become those is not known.\n"
            f"Pass an .npy file, prepared as the training images were."
        )

    def load() -> np.ndarray:
        if kind is None:
            return read_array(content)
        return picture_array(open_image(content, kind, where), channels)

    image = decoded(where, load)
    if kind:
        trained = (trained or PixelRange(True, 255.0)).of_pictures()
    pixels, found = _pixels(image, f"{where}: an image", ("H", "W"), trained)
    if trained is not None:
        has_unit = trained.integer_pixels or kind is not None
        is_brighter = has_unit and found.largest_pixel <= 2 * trained.largest_pixel
        check_range(where, found, trained, found.integer_pixels and not is_brighter)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if channels == 1 and pixels.shape[-1] in (3, 4):  # a fourth channel is opacity
        pixels = pixels[..., :3] @ LUMA[:, None]
    return np.ascontiguousarray(pixels[..., : max(channels, 3)].transpose(2, 0, 1))


def image_content(path: str | Path) -> tuple[bytes, str | None]:
    """Read an image file. Return its content, and Pillow's name of the format, or None for an .npy file.

    The format is detected from the first bytes, not from the file's name.
    """
    content = read_bytes(path, LIMIT)
    kind = next((kind for start, kind in PICTURES.items() if content.startswith(start)), None)
    if kind is None and not content.startswith(NPY):
        raise DataError(f"{path} is not an image that can be read.\nPass a .png, .jpg or .npy file.")
    return content, kind


def decoded(where: str, load: Callable[[], T]) -> T:
    """Return the result of `load`, which decodes an image file. Its exceptions become DataErrors."""
    try:
        return load()
    except DataError:
        raise
    except Exception as error:  # the errors of Pillow and NumPy's parser are not documented
        raise DataError(
            f"{where} is not an image: {error!s:.200}.\n"
            f"Pass a .png or .jpg file, or an array (H, W) or (H, W, C) that numpy.save wrote."
        ) from None


def open_image(content: bytes, kind: str, where: str) -> Any:
    """Open a "Png" or "Jpeg" file with Pillow, and turn it upright. Raise a DataError if it is too large.

    A small file can contain a huge image, so the limit is PIXELS.
    """
    reader = getattr(import_module(f"PIL.{kind}ImagePlugin"), f"{kind}ImageFile")
    image = reader(io.BytesIO(content))
    if image.width * image.height > PIXELS:
        raise DataError(
            f"{where} has {image.width:,} x {image.height:,} pixels, the limit is {PIXELS:,} in all.\n"
            f"Make it smaller."
        )
    if image.mode.startswith("I"):
        raise DataError(
            f"{where} has 16 bits in a pixel, which are not read.\n"
            f"Save it with 8 bits, or as an .npy file of floats scaled like the training images."
        )
    return import_module("PIL.ImageOps").exif_transpose(image)


def picture_array(image: Any, channels: int) -> np.ndarray:
    """The pixels of Pillow's image, in grey, RGB or RGBA, for a model with this many channels."""
    is_grey = channels == 1 and image.mode in ("1", "L", "LA")
    return np.asarray(image.convert("L" if is_grey else "RGBA" if channels == 4 else "RGB"))


def read_array(content: bytes) -> np.ndarray:
    """Parse the content of an .npy file, without unpickling objects."""
    return np.load(io.BytesIO(content), allow_pickle=False)


def check_range(where: str, found: PixelRange, trained: PixelRange, is_refused: bool) -> None:
    """Print a warning if a file's pixels do not fit the training images.

    If `is_refused` is True, pixels that are too large raise a DataError instead.
    """
    problem = found.problem(trained)
    sign_problem = found.sign_problem(trained)
    if problem and is_refused:
        divided = f", whose pixels are divided by {trained.divisor():g}" if trained.integer_pixels else ""
        raise DataError(f"{where} {problem}.\nSave floats scaled like the training images{divided}.")
    for line in filter(None, (problem, sign_problem)):
        print(f"warning: {where} {line}", file=sys.stderr)


def _pixels(
    array: np.ndarray, what: str, axes: tuple[str, ...], trained: PixelRange | None
) -> tuple[np.ndarray, PixelRange]:
    """Convert an array of pixels to floats, and return it with the range that it had.

    Integers are divided as in the training images or, without `trained`, by their largest value. Raises a
    DataError unless the array has these axes, and optionally an axis of channels.
    """
    if array.ndim - len(axes) not in (0, 1) or array.dtype.kind not in "uif" or not array.size:
        shapes = f"({', '.join(axes)}) or ({', '.join(axes)}, C)"
        raise DataError(
            f"{what} must be numbers of shape {shapes}, got {array.dtype} {array.shape}.\nSave such an array."
        )
    pixels = array.astype(np.float32)
    if not np.isfinite(pixels).all():
        raise DataError(f"{what} must be finite, got pixels that are infinite or NaN.\nReplace them.")
    found = PixelRange(array.dtype.kind in "ui", float(pixels.max()), float(pixels.min()))
    if found.integer_pixels and found.largest_pixel > 255:
        raise DataError(
            f"{what} must have integer pixels of 8 bits, got some up to {found.largest_pixel:g}.\n"
            f"Save floats, such as pixels / {65535 if found.largest_pixel > 4095 else 4095}."
        )
    if found.integer_pixels:
        pixels /= (trained or found).divisor()
    return pixels, found


def warp_images(
    images: Float[np.ndarray, "N C H W"],
    generators: Sequence[np.random.Generator],
    shift: float = 0.0,
    rotation: float = 0.0,
    scale: float = 0.0,
) -> Float[np.ndarray, "N C H W"]:
    """Shift, rotate and scale each image at random, with its own generator.

    Images are shifted by up to `shift` pixels along both axes, rotated by up to `rotation` degrees, and
    scaled by a factor from 1 / (1 + `scale`) to 1 + `scale`. Values between pixels are interpolated linearly;
    values outside are 0.
    """
    n, _, height, width = images.shape
    turn, grow, *moves = np.transpose([random.uniform(-1, 1, 4) for random in generators])
    angle = np.deg2rad(rotation * turn)
    factor = (1 + scale) ** grow
    move = shift * np.reshape(moves, (2, n, 1, 1))
    y, x = np.mgrid[:height, :width] - np.array([height - 1, width - 1]).reshape(2, 1, 1) / 2
    cos, sin = (factor * np.array([np.cos(angle), np.sin(angle)]))[..., None, None]
    # where the value of each pixel comes from, (N, H, W), in the image padded by two zeros on each side
    rows = np.clip(cos * y - sin * x + (height - 1) / 2 + move[0] + 2, 0, height + 2.999)
    columns = np.clip(sin * y + cos * x + (width - 1) / 2 + move[1] + 2, 0, width + 2.999)
    padded = np.pad(images, [(0, 0), (0, 0), (2, 2), (2, 2)]).transpose(0, 2, 3, 1)
    i = rows.astype(np.int64)
    j = columns.astype(np.int64)
    k = np.arange(n)[:, None, None]
    down = (rows - i)[..., None]
    right = (columns - j)[..., None]
    upper = (1 - right) * padded[k, i, j] + right * padded[k, i, j + 1]
    lower = (1 - right) * padded[k, i + 1, j] + right * padded[k, i + 1, j + 1]
    return ((1 - down) * upper + down * lower).transpose(0, 3, 1, 2).astype(images.dtype)
