"""Text and JSON files. Error messages name the file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from minigrad.io import write_atomically

from .errors import UserError


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, without a byte-order mark and with \\n as line ends."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}).\nSave the file as UTF-8.") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}.\nCheck the path.") from None


def read_json(path: str | Path) -> Any:
    """The content of a JSON file of a run."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        message = f"{path} is not valid JSON: {error}.\nRestore the file, or start over with --overwrite."
        raise UserError(message) from None


def to_json(content: Any, indent: int | None = None) -> str:
    """Valid JSON: infinity and NaN become null."""
    return json.dumps(_finite(content), indent=indent, ensure_ascii=False, allow_nan=False)


def write_json(path: str | Path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_atomically(path, (to_json(content, indent=1) + "\n").encode())


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    return None if isinstance(content, float) and not math.isfinite(content) else content
