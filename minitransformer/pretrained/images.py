"""preprocessor_config.json: how a model's images are prepared."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from ..data.image_processor import BILINEAR, ImageProcessor
from ..files import printable, write_json
from .errors import PretrainedError
from .settings import read_optional

FILE = "preprocessor_config.json"
FILTERS = range(6)  # Pillow's: nearest, Lanczos, bilinear, bicubic, box, Hamming
OTHER_STEPS = ("do_center_crop", "do_pad", "do_grayscale", "do_convert_annotations")


def read_processor(folder: Path, config: Any) -> ImageProcessor:
    """The steps of preprocessor_config.json; what it leaves out is as in ViTImageProcessor."""
    content = read_optional(folder / FILE)
    size = content.get("size", config.image_size)
    size = (size, size) if isinstance(size, int) else size
    if isinstance(size, dict) and size.keys() >= {"height", "width"}:
        size = (size["height"], size["width"])
    expected = (config.image_size, config.image_size)
    if not content.get("do_resize", True):
        size = None
    elif size != expected:
        raise _error(folder, f"size = {size!r:.60}", f"the model's images are {expected[0]} x {expected[1]}")
    if other := [name for name in OTHER_STEPS if content.get(name)]:
        raise _error(folder, f"{other[0]} = true", "only resizing, rescaling and normalizing are supported")
    if (resample := content.get("resample", BILINEAR)) not in FILTERS:
        raise _error(folder, f"resample = {resample!r:.60}", "filters are numbers from 0 to 5")
    factor = content.get("rescale_factor", 1 / 255) if content.get("do_rescale", True) else 1.0
    means, stds = (content.get(name, 0.5) for name in ("image_mean", "image_std"))
    if not content.get("do_normalize", True):
        means, stds = 0.0, 1.0
    if (channels := config.num_channels) not in (1, 3):
        raise PretrainedError(
            f"{printable(folder)} reads images of {channels} channels; files can have 1 or 3."
            f"\nUse the model in Python, with load_pretrained."
        )
    return ImageProcessor(
        size,
        resample,
        _numbers(folder, "rescale_factor", factor, 1)[0],
        _numbers(folder, "image_mean", means, channels),
        _numbers(folder, "image_std", stds, channels),
    )


def _numbers(folder: Path, name: str, value: Any, count: int) -> list[float]:
    """A setting with a number for each channel, or one for all."""
    found = value if isinstance(value, list) else [value] * count
    is_right = all(type(x) in (int, float) and isfinite(x) and (x > 0 or name == "image_mean") for x in found)
    if not is_right or len(found) != count:
        what = "a positive number" if count == 1 else f"{count} numbers, one for each channel"
        raise _error(folder, f"{name} = {value!r:.60}", f"it must be {what}")
    return [float(x) for x in found]


def _error(folder: Path, found: str, problem: str) -> PretrainedError:
    return PretrainedError(
        f"{printable(folder / FILE)} has {printable(found)}: {problem}.\nCorrect the file."
    )


def write_processor(folder: Path, processor: ImageProcessor) -> None:
    """Write preprocessor_config.json, with which AutoImageProcessor prepares images in the same way."""
    steps = asdict(processor)
    size = steps.pop("size")
    if size is not None:
        steps["size"] = dict(zip(("height", "width"), size, strict=True))
    on = {"do_resize": size is not None, "do_rescale": True, "do_normalize": True}
    write_json(folder / FILE, {"image_processor_type": "ViTImageProcessor", **on, **steps})
