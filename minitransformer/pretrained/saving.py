"""Writes a model as a folder of the Hugging Face hub, which `transformers` reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.core.devices import on_cpu
from minigrad.io import save_file, temporary_name

from ..data.image_processor import ImageProcessor
from ..errors import UserError
from ..files import write_json
from ..layers.quantized import check_not_quantized
from ..models.protocol import model_class
from .errors import PretrainedError
from .family import ACTIVATION_KEYS, FAMILIES, Family, Settings, family
from .generation import write_generation
from .images import write_processor
from .loading import widths_of
from .names import find
from .pooling import write_pooling
from .tokenizers import save_tokenizer
from .weights import WEIGHTS, listed


def save_pretrained(
    model: Any,
    folder: str | Path,
    tokenizer: Any = None,
    labels: Sequence[str] = (),
    max_length: int | None = None,
    generation: Mapping[str, Any] | None = None,
    image_processor: ImageProcessor | None = None,
) -> None:
    """Write config.json and model.safetensors, and the tokenizer's files, to a new folder.

    `transformers` reads the folder with from_pretrained, and computes the same logits. `labels` are the names
    of a classifier's classes. `max_length` is the maximum number of tokens that a sentence encoder reads.
    `generation` has the options for generation_config.json; by default, the model's `generation_options`.
    `image_processor` describes how a ViT's images are prepared.

    Raises a PretrainedError if no class of transformers computes the same as the model.

        save_pretrained(model, "my-gpt2")
    """
    folder = Path(folder)
    generation = getattr(model, "generation_options", None) if generation is None else generation
    check_not_quantized(model, "written for transformers")
    model, kind, settings = expressed(model)
    if labels:
        settings |= {
            "id2label": {str(i): label for i, label in enumerate(labels)},
            "label2id": {label: i for i, label in enumerate(labels)},
        }
    tensors = their_tensors(model, kind, model.state_dict())
    if settings["architectures"] == [kind.body]:
        tensors = {name.removeprefix(kind.prefix): array for name, array in tensors.items()}
    dtype = str(next(iter(tensors.values())).dtype)
    with new_folder(folder) as partial:
        write_json(partial / "config.json", {"model_type": kind.model_type, **settings, "dtype": dtype})
        save_file(tensors, partial / WEIGHTS, metadata={"format": "pt"})
        if getattr(model.config, "head", "") == "similarity":
            write_pooling(partial, model.config, max_length)
        if generation:
            write_generation(partial, settings, generation)
        if image_processor is not None:
            write_processor(partial, image_processor)
        if tokenizer is not None:
            save_tokenizer(tokenizer, partial, model)


def family_of(model: Any) -> tuple[Family, Settings]:
    """The family that can express a model, and the content of its config.json."""
    return expressed(model)[1:]


def expressed(model: Any) -> tuple[Any, Family, Settings]:
    """The model as prepared by the family that can express it, the family, and the content of config.json.

    Raises a PretrainedError if no family can express the model.
    """
    ours = getattr(model, "model_type", type(model).__name__)
    problems = []
    for name in FAMILIES:
        kind = family({"model_type": name})
        if kind.ours != ours:
            continue
        prepared = kind.prepare(model)
        try:
            settings = kind.write_config(prepared.config)
            again = model_class(ours).config_class(**kind.read_config(settings))
        except UserError as error:
            problems.append(str(error).splitlines()[0])
            continue
        different = [
            f"{field.name} = {getattr(prepared.config, field.name)!r}"
            for field in fields(again)
            if _value(kind, again, field.name) != _value(kind, prepared.config, field.name)
        ]
        if not different:
            same = {key: "gelu_new" for key in ACTIVATION_KEYS if settings.get(key) == "gelu_tanh"}
            return prepared, kind, settings | same  # transformers has no gelu_tanh
        problems.append(f"a {name} there cannot have {', '.join(different)}")
    problem = "; ".join(problems) or f"transformers has no class for a model of type {ours}"
    raise PretrainedError(
        f"this model cannot be written for transformers: {problem}.\n"
        f"Save it with minigrad's save_file instead."
    )


def _value(kind: Family, config: Any, name: str) -> Any:
    """The value of a setting, or the value that None stands for."""
    value = getattr(config, name)
    return kind.implied(config).get(name) if value is None else value


def their_tensors(model: Any, kind: Family, own: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Convert tensors of a model, such as weights or gradients, to the family's names and shapes."""
    table = kind.names(model.config)
    found: dict[str, np.ndarray] = {}
    unnamed = []
    for name, tensor in own.items():
        if (source := find(table, name)) is None:
            unnamed.append(name)
            continue
        array = np.asarray(on_cpu(tensor.array))
        shapes = source.their_shapes(array.shape, model.config, widths_of(model, name))
        found |= dict(zip(source.names, source.to_theirs(array, shapes), strict=True))
    if unnamed:
        raise PretrainedError(
            f"a {kind.model_type} of transformers has no place for {listed(unnamed)}.\n"
            f"Remove them, such as adapters by merging them, before the model is written."
        )
    return found


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A context with a temporary folder that becomes `folder` at the end, so that it is never incomplete.

    Raises a PretrainedError if `folder` exists and is not empty. If there is an error, nothing is left.
    """
    folder = folder.absolute()
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise PretrainedError(f"{folder} already exists.\nChoose the name of a new folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(temporary_name(folder.name))
    partial.mkdir()
    try:
        yield partial
        if folder.is_dir():
            folder.rmdir()
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
