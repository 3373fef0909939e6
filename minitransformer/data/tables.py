"""The formats of a user's file: detects the format, and reads the rows as a table.

A table has rows of cells, from a file with tabs (TSV) or commas (CSV), or of JSON objects; TREC's and
fastText's lines, which start with the label, are tables too. `columns` selects what a task reads. If a file
can be read in two ways, an error names the flag that decides: --format, --header or --columns, each a key of
[data].
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import UserError, check_choice
from ..files import check_is_text, read_bytes

LIMIT = 2**28  # bytes of a user's file
FORMATS = ("auto", "plain", "tsv", "csv", "jsonl", "json", "conll", "conllu", "trec", "fasttext")


class DataError(UserError):
    """Raised for data that is missing or invalid."""


@dataclass(frozen=True)
class FileFormat:
    """How a user's file is read: the keys of [data] that every task with text has.

    "plain" is the task's own form, in which every line is data; "auto" looks at the file.
    """

    format: str = "auto"
    header: bool | None = None
    columns: str = ""

    def __post_init__(self) -> None:
        check_choice("format", self.format, FORMATS)
        if self.columns and not all(self.chosen):
            raise UserError(
                f"columns = {self.columns!r} has an empty name.\n"
                f"Write names or numbers, from 1, with commas between them, such as --columns 1,2."
            )

    @classmethod
    def of(cls, data: Any) -> FileFormat:
        """The format in a [data] section, with defaults for missing keys."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: getattr(data, name) for name in names if hasattr(data, name)})

    @property
    def chosen(self) -> list[str]:
        """The columns that the user chose."""
        return [name.strip() for name in self.columns.split(",")] if self.columns else []

    @property
    def is_plain(self) -> bool:
        return self.format == "plain"


AUTO = FileFormat()


class Examples(list[Any]):
    """The examples of a file, and `notes`: lines on how it was read, and on what looks wrong."""

    def __init__(self, examples: Iterable[Any] = (), notes: Iterable[str] = ()) -> None:
        super().__init__(examples)
        self.notes = list(notes)


@dataclass
class Table:
    """Rows of cells, each with its place ("mine.tsv, line 3"). `names` are those of a header, if any."""

    file: str
    kind: str  # what it is, for messages
    rows: list[tuple[str, list[Any]]]
    names: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def is_csv(self) -> bool:
        return self.kind.startswith("CSV")

    @property
    def is_delimited(self) -> bool:
        """Whether lines are split into cells, so that a header is a line."""
        return self.is_csv or self.kind == "TSV"


# ---------------------------------------------------------------- bytes and lines


def read_content(path: str | Path) -> bytes:
    """The bytes of a text file without a byte-order mark; a DataError for a compressed or binary one."""
    content = read_bytes(path, LIMIT)
    check_is_text(path, content)
    return content.removeprefix(b"\xef\xbb\xbf")


def read_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """The place of each line of a UTF-8 file, for errors ("mine.tsv, line 3"), and the line."""
    for number, raw in enumerate(read_content(path).splitlines(), 1):
        where = f"{path}, line {number}"
        try:
            yield where, raw.decode("utf-8")
        except UnicodeDecodeError:
            raise utf8_error(where, path) from None


def read_utf8(path: str | Path) -> str:
    r"""The text of a UTF-8 file, with \n as line ends."""
    try:
        text = read_content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise utf8_error(f"{path}, byte {error.start}", path) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def utf8_error(where: str, path: str | Path) -> DataError:
    name = Path(path).name
    return DataError(
        f"{where}: not UTF-8.\n"
        f"Save the file as UTF-8; if it is Latin-1: iconv -f LATIN1 -t UTF-8 {name} > utf8-{name}"
    )


# ---------------------------------------------------------------- which format

SUFFIXES = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".conllu": "conllu", ".conll": "conll", ".bio": "conll", ".iob": "conll", ".iob2": "conll",
}  # fmt: skip
KINDS = {
    "tsv": "TSV", "csv": "CSV", "jsonl": "JSON lines", "json": "JSON", "conll": "CoNLL", "conllu": "CoNLL-U",
    "trec": "TREC's format", "fasttext": "fastText's format",
}  # fmt: skip
_CONLLU_ID = re.compile(r"\d+([-.]\d+)?")
_TREC = re.compile(r"([A-Z]{2,}):(\w+) +(.+)")
_FASTTEXT = re.compile(r"__label__(\S+)\s+(.+)")


def detect_format(path: str | Path, lines: Sequence[str], default: str) -> str:
    """The format of a file, by its lines and its extension; `default` if these do not show another."""
    suffix = SUFFIXES.get(Path(path).suffix.lower(), "")
    filled = [line for line in lines if line.strip()]
    if not filled:
        return suffix or default
    if looks_like_conllu(filled):
        return "conllu"
    first = filled[0].lstrip()
    if first.startswith("{") and (suffix == "jsonl" or _looks_like_json(first)):
        return "json" if suffix == "json" and len(filled) == 1 else "jsonl"
    if first[:1] in ("[", "{") and (suffix == "json" or _looks_like_json("\n".join(filled))):
        return "json"
    if all("\t" not in line for line in filled):
        if all(_TREC.fullmatch(line.strip()) for line in filled):
            return "trec"
        if all(_FASTTEXT.fullmatch(line.strip()) for line in filled):
            return "fasttext"
    return suffix or default


def looks_like_conllu(lines: Sequence[str]) -> bool:
    """Whether the lines, except comments, have CoNLL-U's ten columns."""
    words = [line.split("\t") for line in lines if not line.startswith("#")][:50]
    return bool(words) and all(
        len(columns) == 10 and _CONLLU_ID.fullmatch(columns[0].strip()) for columns in words
    )


def _looks_like_json(text: str) -> bool:
    """Whether a text looks like a JSON object, or a list of objects."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    items = content if isinstance(content, list) else [content]
    return bool(items) and all(isinstance(item, dict) for item in items)


def format_error(file: str, kind: str, expected: str) -> DataError:
    """The error for a format that the task does not read."""
    return DataError(
        f"{file} is {kind}, which this task does not read.\n"
        f"Write {expected}; --format plain reads every line unchanged."
    )


# ---------------------------------------------------------------- tables

TABLES = ("tsv", "csv", "jsonl", "json", "trec", "fasttext")


def read_table(path: str | Path, how: FileFormat, default: str, expected: str, strip: bool = True) -> Table:
    """The table of a file. `default` is its format if none is detected; `expected` is for errors.

    Without `strip`, cells of CSV keep the spaces around them, so that positions in them are correct.
    """
    lines = list(read_lines(path))
    kind = detect_format(path, [line for _, line in lines], default) if how.format == "auto" else how.format
    if kind not in TABLES:
        raise format_error(str(path), KINDS[kind], expected)
    file = Path(path).name
    match kind:
        case "jsonl" | "json":
            return Table(file, KINDS[kind], *_json_rows(path, lines, kind))
        case "csv":
            rows, name = _csv_rows(path, strip)
            return Table(file, name, rows)
        case "trec" | "fasttext":
            return Table(file, KINDS[kind], *_labels_first(lines, kind))
    rows = [(where, [cell.strip() for cell in line.split("\t")]) for where, line in lines if line.strip()]
    return Table(file, "TSV", rows, notes=_quoted_columns(file, rows))


def _quoted_columns(file: str, rows: Sequence[tuple[str, list[str]]]) -> list[str]:
    """Warnings about a TSV file in which all cells of a column are in quotes."""
    widths = {len(cells) for _, cells in rows}
    if len(widths) != 1 or len(rows) < 2:
        return []
    quoted = [
        str(number)
        for number, column in enumerate(zip(*(cells for _, cells in rows), strict=True), 1)
        if all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in column)
    ]
    if not quoted:
        return [
            f"warning: {file}: {where.rpartition(', ')[2]} has a cell in quotes as in CSV, which are read "
            f"as text; --format csv removes them"
            for where, cells in rows
            if any(re.fullmatch('"(.*"")+.*"', cell) for cell in cells)
        ][:1]
    columns = f"column{'' if len(quoted) == 1 else 's'} {', '.join(quoted)}"
    return [
        f"warning: {file}: all of {columns} is in quotes, which are read as text; --format csv removes them"
    ]


def _csv_rows(path: str | Path, strip: bool = True) -> tuple[list[tuple[str, list[str]]], str]:
    """The rows of a CSV file, whose cells may be in quotes, and the separator: , ; or a tab."""
    text = read_utf8(path)
    found = {delimiter: _split_csv(text, delimiter) for delimiter in (",", ";", "\t")}
    best = max(found, key=lambda delimiter: _regularity([cells for _, cells in found[delimiter][0]]))
    rows, problem = found[best]
    if problem:
        number, error = problem
        raise DataError(
            f"{path}, line {number}: not valid CSV: {error}.\n"
            f"Fix the quotes; if they are text and columns have tabs between them, pass --format tsv."
        )
    name = {",": "CSV", ";": "CSV with semicolons", "\t": "CSV with tabs"}[best]
    clean = [(f"{path}, line {n}", list(map(without_line_ends, cells))) for n, cells in rows]
    if strip:
        clean = [(where, list(map(str.strip, cells))) for where, cells in clean]
    return [(where, cells) for where, cells in clean if any(map(str.strip, cells))], name


def _split_csv(text: str, delimiter: str) -> tuple[list[tuple[int, list[str]]], tuple[int, str] | None]:
    """The first line's number and the cells of each row; and the line and the text of an error, if any."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows = []
    start = 1
    try:
        with _long_cells():
            for cells in reader:
                rows.append((start, cells))
                start = reader.line_num + 1
    except csv.Error as error:
        return rows, (start, str(error))
    return rows, None


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let csv read cells of any length; its limit of 131,072 characters applies to the whole process."""
    before = csv.field_size_limit(LIMIT)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _regularity(rows: Sequence[Sequence[str]]) -> tuple[float, int]:
    """How many rows have the most common number of cells (0 if that is one cell), and that number."""
    counts = Counter(len(cells) for cells in rows if cells)
    if not counts:
        return 0.0, 0
    width, n = counts.most_common(1)[0]
    return (n / counts.total() if width > 1 else 0.0), width


def without_line_ends(text: str) -> str:
    """The text with each line end and tab replaced by a space, so that positions do not change."""
    return re.sub(r"[\n\r\t]", " ", text)


def _labels_first(
    lines: Iterable[tuple[str, str]], kind: str
) -> tuple[list[tuple[str, list[Any]]], list[str]]:
    """Rows of lines that start with a label, and the names of their columns."""
    pattern, names = (_TREC, ["label", "fine", "text"]) if kind == "trec" else (_FASTTEXT, ["label", "text"])
    rows = []
    for where, line in lines:
        if not line.strip():
            continue
        match = pattern.fullmatch(line.strip())
        if match is None:
            shape = "LABEL:fine text" if kind == "trec" else "__label__NAME text"
            raise DataError(f"{where}: expected {shape}, found {line[:60]!r}.\nFix the line, or remove it.")
        cells = list(match.groups())
        if kind == "fasttext" and "__label__" in cells[1]:
            raise DataError(f"{where}: two labels: {line[:60]!r}.\nWrite one label for each text.")
        rows.append((where, [cells[0], f"{cells[0]}:{cells[1]}", cells[2]] if kind == "trec" else cells))
    return rows, names


def _json_rows(
    path: str | Path, lines: Sequence[tuple[str, str]], kind: str
) -> tuple[list[tuple[str, list[Any]]], list[str]]:
    """Rows of JSON objects, and the names of their fields; those of nested objects have a dot."""
    found = list(_objects(path, lines, kind))
    names = list(dict.fromkeys(name for _, record in found for name in record))
    return [(where, [record.get(name, "") for name in names]) for where, record in found], names


def _objects(
    path: str | Path, lines: Sequence[tuple[str, str]], kind: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    how = "Write one object on each line, or a list of objects"
    if kind == "jsonl":
        for where, line in lines:
            if line.strip():
                yield where, _flatten(_parse_json(where, line, how), where, how)
        return
    where = str(path)
    content = _parse_json(where, "\n".join(line for _, line in lines), how)
    if isinstance(content, dict) and isinstance(content.get("data"), list):
        content = content["data"]
    if not isinstance(content, list):
        raise DataError(f"{where}: expected a list of objects.\n{how}.")
    if any(isinstance(x, dict) and "paragraphs" in x for x in content):
        content = list(_squad_rows(content, where))
    for number, record in enumerate(content, 1):
        place = f"{where}, object {number}"
        yield place, _flatten(record, place, how)


def _parse_json(where: str, text: str, how: str) -> Any:
    try:
        content = json.loads(text)
        if "\\ud" in text.lower():  # a lone surrogate is not a character
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except json.JSONDecodeError as error:
        at = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise DataError(f"{where}: not valid JSON at {at}: {error.msg}.\n{how}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not valid JSON: {error}.\n{how}.") from None


def _squad_rows(articles: Sequence[Any], where: str) -> Iterator[dict[str, Any]]:
    """The questions of SQuAD's nested JSON (Rajpurkar et al. 2016), each with its context."""
    for number, article in enumerate(articles, 1):
        place = f"{where}, object {number}"
        for paragraph in _squad_list(_squad_object(article, place), "paragraphs", place):
            for question in _squad_list(_squad_object(paragraph, place), "qas", place):
                yield {"context": paragraph.get("context"), **_squad_object(question, place)}


SQUAD = (
    'Write SQuAD\'s form: {"paragraphs": [{"context": "...", '
    '"qas": [{"question": "...", "answers": [...]}]}]}'
)


def _squad_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object, found {json.dumps(value)[:60]}.\n{SQUAD}.")
    return value


def _squad_list(record: dict[str, Any], name: str, where: str) -> list[Any]:
    """The list of a field, which may be empty."""
    value = record.get(name)
    if not isinstance(value, list):
        raise DataError(f"{where}: expected a list as {name}, found {json.dumps(value)[:60]}.\n{SQUAD}.")
    return value


def _flatten(record: Any, where: str, how: str) -> dict[str, Any]:
    """The fields of an object: texts, numbers as texts, and lists."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected an object, found {json.dumps(record)[:60]}.\n{how}.")
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": each for inner, each in _flatten(value, where, how).items()}
        elif isinstance(value, list):
            flat[name] = value
        else:
            flat[name] = cell_text(value)
    return flat


def cell_text(value: Any) -> str:
    """A JSON value as text; null and NaN are empty, and 1.0 is 1."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value)
