"""Reads the JSON files of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import read_json
from .errors import PretrainedError


def read_settings(folder: Path) -> dict[str, Any]:
    """Read config.json. Raise a PretrainedError if the folder does not exist or has no complete model."""
    if folder.is_file():
        raise PretrainedError(
            f"{folder} is a file.\n"
            f"Pass the folder with the model's config.json, model.safetensors and tokenizer files."
        )
    if not folder.is_dir():
        raise PretrainedError(
            f"there is no folder {folder}.\n"
            f"Download the model's config.json, model.safetensors and tokenizer files into one."
        )
    if (folder / "adapter_config.json").is_file():
        raise PretrainedError(
            f"{folder} has adapters without their model.\n"
            f"Merge them with peft: model.merge_and_unload().save_pretrained(FOLDER)."
        )
    if not (folder / "config.json").is_file():
        raise PretrainedError(f"{folder} has no config.json.\nDownload it from where the weights come from.")
    return read_object(folder / "config.json")


def read_optional(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file; {} if there is no such file."""
    return read_object(path) if path.is_file() else {}


def read_object(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file. Raise a PretrainedError if the content is not an object."""
    content = read_any(path)
    if not isinstance(content, dict):
        raise PretrainedError(f"{path} is not an object of settings.\nDownload it again.")
    return content


def read_any(path: Path) -> Any:
    """Read a JSON file. Raise a PretrainedError if it cannot be read."""
    try:
        return read_json(path)
    except UserError as error:
        raise PretrainedError(f"{str(error).splitlines()[0]}\nDownload it again.") from None
