"""Reads and writes preprocessor_config.json, which describes how a model's images are prepared."""

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
FILTERS = range(6)  # Pillow's filters: nearest, Lanczos, bilinear, bicubic, box, Hamming
STEPS = ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb")
TYPES = ("ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil", "ViTFeatureExtractor")


def read_processor(folder: Path, config: Any) -> ImageProcessor:
    """Read preprocessor_config.json. Settings that it lacks have the defaults of ViTImageProcessor.

    If there is no such file, a PretrainedWarning names the assumed settings.
    """
    side, channels = config.image_size, config.num_channels
    if channels not in (1, 3):
        raise PretrainedError(
            f"{folder} reads images of {channels} channels; files can have 1 or 3."
            f"\nUse the model in Python, with load_pretrained."
        )
    content = read_optional(folder / FILE)
    on = {name: content.get(name, True) for name in STEPS}

    def refuse(name: str, expected: str) -> None:
        found = f"{name} = {content.get(name)!r:.60}"
        raise PretrainedError(f"{folder / FILE} has {found}: {expected}.\nCorrect the file.")

    def numbers(name: str, value: Any, count: int) -> list[float]:
        """The setting `name` as a list of `count` numbers. A single number is repeated."""
        value = content.get(name, value)
        found = value if isinstance(value, list) else [value] * count
        is_right = all(type(x) in (int, float) and abs(x) < 1e9 and (x > 0 or "mean" in name) for x in found)
        if not is_right or len(found) != count:
            above = "" if "mean" in name else " above 0"
            refuse(name, f"it must be {'a number' if count == 1 else f'{count} numbers'}{above}")
        return [float(x) for x in found]

    for name in ("image_processor_type", "feature_extractor_type"):
        if content.get(name, TYPES[0]) not in TYPES:
            refuse(name, f"only {TYPES[0]} is supported")
    for name, value in content.items():
        if name.startswith("do_") and not (isinstance(value, bool | None) if name in STEPS else not value):
            refuse(name, f"only {', '.join(STEPS)} can be true")
    size = content.get("size", side)
    sides = [size.get("height"), size.get("width")] if isinstance(size, dict) else [size, size]
    if on["do_resize"] and sides != [side, side]:
        refuse("size", f"the model's images have {{'height': {side}, 'width': {side}}}")
    resample = content.get("resample", BILINEAR)
    if type(resample) is not int or resample not in FILTERS:
        refuse("resample", "filters are numbers from 0 to 5")
    processor = ImageProcessor(
        (side, side) if on["do_resize"] else None,
        resample,
        numbers("rescale_factor", 1 / 255, 1)[0] if on["do_rescale"] else 1.0,
        numbers("image_mean", 0.5, channels) if on["do_normalize"] else [0.0] * channels,
        numbers("image_std", 0.5, channels) if on["do_normalize"] else [1.0] * channels,
    )
    if not (folder / FILE).is_file():
        values = ", ".join(f"{name} {value}" for name, value in asdict(processor).items())
        warnings.warn(f"{folder} has no {FILE}, assumed: {values}", PretrainedWarning, stacklevel=2)
    return processor


def write_processor(folder: Path, processor: ImageProcessor) -> None:
    """Write preprocessor_config.json, with which transformers prepares images in the same way."""
    steps = asdict(processor)
    size = steps.pop("size")
    if size is not None:
        steps["size"] = dict(zip(("height", "width"), size, strict=True))
    on = {"do_resize": size is not None, "do_rescale": True, "do_normalize": True}
    write_json(folder / FILE, {"image_processor_type": "ViTImageProcessor", **on, **steps})
