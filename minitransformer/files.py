"""Functions that read and write text and JSON files.

Their errors name the file. A device, a pipe or a huge file raises a UserError instead of being read.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import reprlib
import shlex
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from minigrad.io import write_atomically

from .errors import UserError

# control characters, surrogates, and characters that reverse the direction of a line
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_TYPE_NAMES = {
    int: "an integer", float: "a number", bool: "true or false", str: "a string", list: "a list",
    dict: "an object", type(None): "null",
}  # fmt: skip

LIMIT = 2**28  # bytes; a text that is split into lines takes up to 8 times as much memory
JSON_LIMIT = 2**25  # bytes; parsed JSON takes up to 30 times as much memory


def printable(text: object) -> str:
    r"""The text with control characters escaped, such as \x1b."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))


def one_line(text: object) -> str:
    """The text on one line, with line feeds and control characters escaped: it cannot forge other output."""
    return printable(text).replace("\n", "\\n")


# the words that start the command line; ["python", ...] in a program that calls `main()` itself
COMMAND = ["minitransformer"]


def our_command(words: Iterable[object]) -> str:
    """A shell command that runs the command line with these arguments, as the user started it.

    A program that registers models and calls `main()` is named in place of `minitransformer`.
    """
    return shell_command([*COMMAND, *words])


def shell_command(words: Iterable[object]) -> str:
    """Join words into a shell command, quoted where needed. A Path that starts with "-" is prefixed "./"."""
    is_flag = lambda word: isinstance(word, Path) and str(word).startswith("-")
    return shlex.join(f"./{word}" if is_flag(word) else str(word) for word in words)


def check_name(name: str, what: str) -> str:
    """Return the name. Raise a UserError if it is a path, or not a valid name of a file or folder.

    `what` names the value in the error.
    """
    is_part = PurePosixPath(name).name == name == PureWindowsPath(name).name
    if not is_part or not name.strip(" .") or one_line(name) != name:
        raise UserError(
            f"{what} is {reprlib.repr(name)}, expected a name, not a path.\n"
            f"Use letters, digits, hyphens and dots."
        )
    return name


def read_bytes(path: str | Path, limit: int = LIMIT) -> bytes:
    """Read a regular file. Raise a UserError if it cannot be read or has more than `limit` bytes."""
    try:
        found = os.stat(path)
        is_file = stat.S_ISREG(found.st_mode)
        content = Path(path).read_bytes() if is_file and found.st_size <= limit else b""
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"cannot read {path}: {reason}.\nCheck the path.") from None
    if not is_file:
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise UserError(f"{path} is {kind}.\nPass the path of a file.")
    if found.st_size > limit:
        raise UserError(f"{path} has {found.st_size:,} bytes; the limit is {limit:,}.\nPass a smaller file.")
    return content


UTF_16 = "UTF-16, not UTF-8", "Save the file as UTF-8: iconv -f UTF-16 -t UTF-8 {file} > utf8-{file}"
BINARY = {  # first bytes of files that are not text -> their type, and what to do
    b"\x1f\x8b": ("compressed (gzip)", "Decompress it: gunzip -k {file}"),
    b"BZh": ("compressed (bzip2)", "Decompress it: bunzip2 -k {file}"),
    b"\xfd7zXZ": ("compressed (xz)", "Decompress it: unxz -k {file}"),
    b"(\xb5/\xfd": ("compressed (zstd)", "Decompress it: unzstd {file}"),
    b"PK\x03\x04": ("compressed (zip)", "Unpack it, or if it is a spreadsheet, save it as CSV"),
    b"PAR1": ("a Parquet file", "Write it as JSON lines, such as with pandas: to_json(..., lines=True)"),
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
}


def check_is_text(path: str | Path, content: bytes) -> None:
    """Raise a UserError for content that is not UTF-8 text: compressed or binary files, and UTF-16."""
    for start, (kind, fix) in BINARY.items():
        if content.startswith(start):
            name = shell_command([Path(Path(path).name)])
            raise UserError(f"{path} is {kind}.\n{fix.format(file=name)}.")
    if content[:4096].count(0) > len(content[:4096]) / 8:
        raise UserError(f"{path} is not UTF-8 text: it has many zero bytes.\nSave the file as text in UTF-8.")


def check_can_write(file: Path, overwrite: bool) -> None:
    """Raise a UserError if the folder of `file` is missing, or it exists and must not be replaced."""
    if not file.parent.is_dir():
        raise UserError(f"there is no folder {file.parent}.\nCreate it, or choose another with -o FILE.")
    if file.is_dir():
        raise UserError(f"{file} is a folder.\nPass a file with -o FILE.")
    if file.exists() and not overwrite:
        raise UserError(
            f"{file} already exists.\nReplace it with --overwrite, or choose another with -o FILE."
        )


def sha256(content: bytes) -> str:
    """The SHA-256 checksum of the content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def read_text(path: str | Path, limit: int = LIMIT) -> str:
    """Read a UTF-8 text file, without a byte-order mark and with \\n as line ends."""
    content = read_bytes(path, limit)
    check_is_text(path, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 (byte {error.start}).\nSave the file as UTF-8."
        raise UserError(message) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(
    path: str | Path, fields: Mapping[str, type | tuple[type, ...]] | None = None, limit: int = JSON_LIMIT
) -> Any:
    """Read a JSON file. Numbers must be finite.

    If `fields` is given, the content must be an object with these keys, whose values have the given types.
    """
    text = read_text(path, limit)
    try:
        content = json.loads(text, parse_constant=_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        problem = f"{path} is not valid JSON: {error}"
        raise UserError(f"{problem}.\nRestore the file, or start over with --overwrite.") from None
    problem = _type_problem(content, dict, "the content") if fields else ""
    for key, kind in (fields or {}).items():
        problem = problem or (
            _type_problem(content[key], kind, f"`{key}`") if key in content else f"`{key}` is missing"
        )
    if problem:
        raise UserError(f"{path} is damaged: {problem}.\nRestore the file, or start over with --overwrite.")
    return content


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text:.20} is not a finite number")
    return value


def _type_problem(value: Any, kind: type | tuple[type, ...], name: str) -> str:
    """The error message if a value has the wrong type, otherwise "". An int is accepted as a float."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(value) in kinds or (type(value) is int and float in kinds):
        return ""
    return f"{name} must be {' or '.join(_TYPE_NAMES[k] for k in kinds)}, got {reprlib.repr(value)}"


def to_json(content: Any, indent: int | None = None) -> str:
    """Serialize to valid JSON: NumPy numbers become Python numbers, infinity and NaN become null."""
    text = json.dumps(_finite(content), indent=indent, ensure_ascii=False, allow_nan=False)
    return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)  # surrogates, as in paths


def json_bytes(content: Any) -> bytes:
    """Serialize to the bytes of a JSON file."""
    return (to_json(content, indent=1) + "\n").encode()


def write_json(path: str | Path, content: Any) -> None:
    """Write a JSON file atomically."""
    write_atomically(path, json_bytes(content))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    if isinstance(content, np.generic):
        content = content.item()
    return None if isinstance(content, float) and not math.isfinite(content) else content
