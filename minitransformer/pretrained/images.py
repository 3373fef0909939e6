"""preprocessor_config.json: how a model's images are prepared."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..data.image_processor import BILINEAR, ImageProcessor
from ..files import write_json
from .errors import PretrainedError, PretrainedWarning
from .settings import read_optional

FILE = "preprocessor_config.json"
LARGEST = 1e9
FILTERS = range(6)  # Pillow's: nearest, Lanczos, bilinear, bicubic, box, Hamming
STEPS = ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb")
TYPES = ("ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil", "ViTFeatureExtractor")


def read_processor(folder: Path, config: Any) -> ImageProcessor:
    """The steps of preprocessor_config.json; what it leaves out is as in ViTImageProcessor.

    A PretrainedWarning names what is assumed if there is no such file.
    """
    content = read_optional(folder / FILE)
    kind = content.get("image_processor_type", content.get("feature_extractor_type", TYPES[0]))
    if kind not in TYPES:
        raise _error(folder, f"the type {kind!r:.60}", f"only {TYPES[0]} is supported")
    size = content.get("size", config.image_size)
    size = (size, size) if isinstance(size, int) else size
    if isinstance(size, dict) and size.keys() >= {"height", "width"}:
        size = (size["height"], size["width"])
    expected = (config.image_size, config.image_size)
    if not content.get("do_resize", True):
        size = None
    elif size != expected or not all(type(n) is int for n in size):
        raise _error(
            folder,
            f"size = {size!r:.60}",
            f"the model's images have {{'height': {expected[0]}, 'width': {expected[1]}}}",
        )
    if wrong := [name for name in STEPS if not isinstance(content.get(name, True), bool | None)]:
        raise _error(folder, f"{wrong[0]} = {content[wrong[0]]!r:.60}", "it must be true or false")
    if other := [name for name in content if name.startswith("do_") and name not in STEPS and content[name]]:
        raise _error(folder, f"{other[0]} = true", "only resizing, rescaling and normalizing are supported")
    resample = content.get("resample", BILINEAR)
    if type(resample) is not int or resample not in FILTERS:
        raise _error(folder, f"resample = {resample!r:.60}", "filters are numbers from 0 to 5")
    factor = content.get("rescale_factor", 1 / 255) if content.get("do_rescale", True) else 1.0
    means, stds = (content.get(name, 0.5) for name in ("image_mean", "image_std"))
    if not content.get("do_normalize", True):
        means, stds = 0.0, 1.0
    if (channels := config.num_channels) not in (1, 3):
        raise PretrainedError(
            f"{folder} reads images of {channels} channels; files can have 1 or 3."
            f"\nUse the model in Python, with load_pretrained."
        )
    processor = ImageProcessor(
        size,
        resample,
        _numbers(folder, "rescale_factor", factor, 1)[0],
        _numbers(folder, "image_mean", means, channels),
        _numbers(folder, "image_std", stds, channels),
    )
    if not (folder / FILE).is_file():
        values = ", ".join(f"{name} {value}" for name, value in asdict(processor).items())
        warnings.warn(f"{folder} has no {FILE}, assumed: {values}", PretrainedWarning, stacklevel=2)
    return processor


def _numbers(folder: Path, name: str, value: Any, count: int) -> list[float]:
    """A setting with a number for each channel, or one for all."""
    found = value if isinstance(value, list) else [value] * count
    low = -LARGEST if name == "image_mean" else 0
    is_right = all(type(x) in (int, float) and low < x < LARGEST for x in found)
    if not is_right or len(found) != count:
        what = "one number" if count == 1 else f"{count} numbers, one for each channel"
        what += "" if low else ", above 0"
        raise _error(folder, f"{name} = {value!r:.60}", f"it must be {what}")
    return [float(x) for x in found]


def _error(folder: Path, found: str, problem: str) -> PretrainedError:
    return PretrainedError(f"{folder / FILE} has {found}: {problem}.\nCorrect the file.")


def write_processor(folder: Path, processor: ImageProcessor) -> None:
    """Write preprocessor_config.json, with which AutoImageProcessor prepares images in the same way."""
    steps = asdict(processor)
    size = steps.pop("size")
    if size is not None:
        steps["size"] = dict(zip(("height", "width"), size, strict=True))
    on = {"do_resize": size is not None, "do_rescale": True, "do_normalize": True}
    write_json(folder / FILE, {"image_processor_type": "ViTImageProcessor", **on, **steps})
