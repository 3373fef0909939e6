"""Data sets: a user's file, Multi30k, tiny Shakespeare.

Public data sets are downloaded to a cache folder, or read from `--data-dir`.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from minigrad.io import write_atomically

from ..errors import counted
from ..files import read_bytes, sha256
from . import downloads
from .columns import JUDGEMENTS, normal_name, select_columns
from .tables import (
    AUTO,
    KINDS,
    TABLES,
    DataError,
    Examples,
    FileFormat,
    Table,
    detect_format,
    format_error,
    read_lines,
    read_table,
    read_utf8,
)
from .turns import dialogue_pairs, turns_column

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare"
LANGUAGES = ("en", "de", "fr")
SPLITS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}

# of the decompressed files
SHA256 = {
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "input.txt": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
}


# ---------------------------------------------------------------- a user's file


def read_pairs(path: str | Path, how: FileFormat = AUTO, same_meaning: bool = False) -> Examples:
    """The pairs of a file with `source<TAB>target` on each line, or of another format.

    Blank lines are skipped. In JSON objects with a list of messages, each reply is a target, and all turns
    before it are its source. With `same_meaning`, a column that says which pairs mean the same is an error.
    """
    names = ("source", "target")
    if how.is_plain:
        rows = _plain_fields(path, names)
    else:
        table = read_table(path, how, "tsv", _expected(names))
        if (column := turns_column(table, how.chosen)) is not None:
            return dialogue_pairs(table, column)
        rows = _table_rows(table, names, how)
        if same_meaning and not how.chosen:
            check_no_similarity_column(table)
    _check_any(path, rows, names)
    return Examples([(source, target) for _, (source, target) in rows], rows.notes)


def check_no_similarity_column(table: Table) -> None:
    """Raise a DataError for a column that says whether, or how much, the texts of a pair mean the same."""
    found = [name for name in table.names or () if normal_name(name) in JUDGEMENTS]
    if found:
        raise DataError(
            f"{table.file}: the column {found[0]} says which pairs mean the same, but all must.\n"
            f"Remove the other pairs, then name the columns, such as --columns sentence1,sentence2."
        )


def read_prefixed(path: str | Path, how: FileFormat = AUTO) -> Examples:
    """The pairs of a file with `prefix: source<TAB>target` on each line, or of another format."""
    rows = read_fields(path, "prefix: source", "target", how=how)
    pairs = []
    for where, (source, target) in rows:
        prefix, _, text = source.partition(":")
        if not prefix.strip() or not text.strip():
            raise DataError(
                f"{where}: expected a prefix before the source, such as 'negate: ', found {source[:60]!r}.\n"
                f"Write a prefix that names the task before it, or use the task translation."
            )
        pairs.append((source, target))
    return Examples(pairs, rows.notes)


def read_fields(path: str | Path, *names: str, how: FileFormat = AUTO) -> Examples:
    """The fields of a file, separated by tabs, and the place of each example. Blank lines are skipped.

    CSV, JSON lines and other tables are also read, and a header names the columns: see `tables`.
    """
    if how.is_plain:
        rows = _plain_fields(path, names)
    else:
        rows = _table_rows(read_table(path, how, "tsv", _expected(names)), names, how)
    _check_any(path, rows, names)
    return rows


def _expected(names: Sequence[str]) -> str:
    return f"{'<TAB>'.join(names)} on each line"


def _table_rows(table: Table, names: Sequence[str], how: FileFormat) -> Examples:
    """The cells of a table for these names, the last words of which are roles."""
    rows = select_columns(table, names, [name.rpartition(" ")[2] for name in names], how)
    return Examples([(where, [cell.strip() for cell in cells]) for where, cells in rows], table.notes)


def _check_any(path: str | Path, rows: Sequence[object], names: Sequence[str]) -> None:
    if not rows:
        what = "sentence pairs" if list(names) == ["source", "target"] else "examples"
        raise DataError(f"{path} has no {what}.\nWrite {_expected(names)}.")


def _plain_fields(path: str | Path, names: Sequence[str]) -> Examples:
    expected = "<TAB>".join(names)
    rows = Examples()
    for where, line in read_lines(path):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != len(names) or not all(fields):
            tabs = len(fields) - 1
            found = {0: "no tab", len(names) - 1: "an empty side"}.get(tabs, counted(tabs, "tab"))
            raise DataError(
                f"{where}: expected {expected}, found {found}: {line[:60]!r}.\n"
                f"Fix the line, or remove it; --format auto reads other formats."
            )
        rows.append((where, fields))
    return rows


TEXT_NAMES = ("text", "texts", "sentence", "sentences", "name", "names", "content", "review", "tweet")


def read_texts(path: str | Path, how: FileFormat = AUTO) -> Examples:
    """The lines of a file, including blank ones; or one text per row of a table (CSV, JSON lines, ...)."""
    return _texts(path, [line for _, line in read_lines(path)], how)


def _texts(path: str | Path, lines: list[str], how: FileFormat) -> Examples:
    kind = how.format
    if kind == "auto":
        kind = detect_format(path, lines, "tsv" if how.chosen else "plain")
    if kind == "plain":
        return lines_of_text(path, lines, how)
    if kind not in TABLES:
        raise format_error(str(path), KINDS[kind], "a text on each line")
    table = read_table(path, FileFormat(kind, how.header, how.columns), kind, "a text on each line")
    rows = select_columns(table, ["text"], ["text"], how)
    return Examples([text for _, (text,) in rows], table.notes)


def lines_of_text(path: str | Path, lines: list[str], how: FileFormat) -> Examples:
    """The lines without the header, if there is one; a DataError if the first line may be a header."""
    file = Path(path).name
    filled = [i for i, line in enumerate(lines) if line.strip()]
    if how.is_plain or len(filled) < 2:
        return Examples(lines)
    first = lines[filled[0]].strip()
    if how.header:
        return Examples(lines[filled[0] + 1 :], [f"{file}: without its header, {first[:60]}"])
    if how.header is None and normal_name(first) in TEXT_NAMES:
        raise DataError(
            f"{path}, line {filled[0] + 1} may be a header: {first}.\n"
            f"Pass --header if it is one, or --no-header if it is text."
        )
    tabs = {lines[i].count("\t") for i in filled}
    notes = []
    if len(tabs) == 1 and min(tabs) > 0:
        notes.append(
            f"warning: {file}: every line has {counted(min(tabs), 'tab')}, read as text; "
            f"if these are columns, --columns 1 reads the first"
        )
    return Examples(lines, notes)


def read_long_text(path: str | Path, how: FileFormat = AUTO) -> str:
    """The text of a UTF-8 file of at least 100 characters."""
    return read_noted_text(path, how)[0]


def read_noted_text(path: str | Path, how: FileFormat = AUTO) -> tuple[str, list[str]]:
    """`read_long_text`, and notes on how the file was read. Each text of a table is a line."""
    whole = read_utf8(path)
    lines = whole.removesuffix("\n").split("\n")
    found = _texts(path, lines, how)
    text = whole if found == lines else "".join(f"{line}\n" for line in found)
    if len(text) < 100:
        length = counted(len(text), "character")
        raise DataError(f"{path} has {length}, expected at least 100.\nPass a longer text.")
    return text, found.notes


# ---------------------------------------------------------------- public data sets


def multi30k(source: str, target: str, data_dir: Path | None = None) -> dict[str, list[tuple[str, str]]]:
    """Image captions in English, German and French (Elliott et al. 2016): 29,000 / 1,014 / 1,000 pairs."""
    for language in (source, target):
        check_language(language)
        if language not in LANGUAGES and data_dir is None:
            raise DataError(
                f"Multi30k has no language {language!r}.\n"
                f"Choose from {', '.join(LANGUAGES)}, or pass a folder that contains it with --data-dir DIR."
            )
    pairs = {}
    for split, stem in SPLITS.items():
        sides = [_lines(_text(f"{stem}.{language}", MULTI30K, data_dir)) for language in (source, target)]
        if len(sides[0]) != len(sides[1]):
            raise DataError(
                f"{stem}: {counted(len(sides[0]), 'line')} of {source}, {len(sides[1]):,} of {target}.\n"
                f"Download both files from the same source."
            )
        pairs[split] = list(zip(*sides, strict=True))
    return pairs


def check_language(name: str) -> None:
    """Raise a DataError unless the name of a language can be part of a file name: "en", "pt-BR"."""
    if not re.fullmatch("[A-Za-z-]{1,35}", name):
        raise DataError(f"{name!r:.60} is not a language.\nUse letters and hyphens, such as en or pt-BR.")


def _lines(text: str) -> list[str]:
    """The lines between line feeds; str.splitlines also splits at characters that sentences contain."""
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


def tinyshakespeare(data_dir: Path | None = None) -> dict[str, str]:
    """1.1 million characters of Shakespeare; the first nine tenths are the training split."""
    text = _text("input.txt", SHAKESPEARE, data_dir)
    cut = int(len(text) * 0.9)
    return {"train": text[:cut], "validation": text[cut:]}


def sha256_of(texts: Iterable[str]) -> str:
    """The checksum of texts, each followed by a line feed."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8") + b"\n")
    return digest.hexdigest()


def cache_folder() -> Path:
    """The folder of downloaded data: MINITRANSFORMER_CACHE, or ~/.cache/minitransformer."""
    try:
        return Path(os.environ.get("MINITRANSFORMER_CACHE") or Path.home() / ".cache" / "minitransformer")
    except RuntimeError:
        raise DataError(
            "there is no folder for downloaded data: this user has no home directory.\n"
            "Name one in the environment variable MINITRANSFORMER_CACHE."
        ) from None


def _text(name: str, base_url: str, data_dir: Path | None) -> str:
    """The text of a public file, from `data_dir`, the cache or the network."""
    if data_dir is not None:
        return _from_folder(Path(data_dir), name)
    cached = cache_folder() / name
    if (content := _verified_content(cached)) is None:
        with _writable(cached.parent), downloads.downloading(cached):
            if (
                content := _verified_content(cached)
            ) is None:  # another process may have downloaded it meanwhile
                content = _download(name, base_url)
                write_atomically(cached, content)
    return content.decode("utf-8")


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """A context in which the cache is written; a DataError if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(
            f"cannot store downloaded data in {folder}: {error.strerror}.\n"
            f"Name another folder in the environment variable MINITRANSFORMER_CACHE."
        ) from None


def _verified_content(cached: Path) -> bytes | None:
    """The content of a file of the cache, or None if there is none or its checksum is wrong."""
    content = read_bytes(cached, downloads.LIMIT) if cached.is_file() else b""
    return content if sha256(content) == SHA256.get(cached.name) else None


def _from_folder(folder: Path, name: str) -> str:
    for path in (folder / f"{name}.gz", folder / name):
        if os.path.exists(path):
            content = read_bytes(path, downloads.LIMIT)
            try:
                if path.suffix == ".gz":
                    content = downloads.decompress(content, downloads.LIMIT)
                return content.decode("utf-8")
            except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
                raise DataError(f"{path} is damaged: {error}.\nDownload it again.") from None
    raise DataError(
        f"{folder} has no file {name} or {name}.gz.\nPass the folder that contains it with --data-dir DIR."
    )


def _download(name: str, base_url: str) -> bytes:
    """Download a file and check its checksum."""
    if name not in SHA256:
        raise DataError(f"unknown public file {name}.\nPass a folder that contains it with --data-dir DIR.")
    compressed = base_url == MULTI30K
    url = f"{base_url}/{name}.gz" if compressed else f"{base_url}/{name}"
    content = downloads.download(url, name, compressed)
    checksum = sha256(content)
    if checksum != SHA256[name]:
        raise DataError(
            f"{url} has changed: expected sha256 {SHA256[name]}, got {checksum}.\n"
            f"Pass the folder of an original copy with --data-dir DIR."
        )
    return content
