"""Reads a user's file: rows of cells, and the columns that a task needs.

A file in the task's plain format, with tabs between columns and no header, is read without further settings.
Other tables need column names that are in ROLES. If these are ambiguous, an error shows the first rows, and
names the flag that decides: --columns, --header, --format or --skip-bad-rows, each of which is also a key of
[data].
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from ..errors import UserError, check_choice, counted
from ..files import check_is_text, one_line, read_bytes, shell_command

LIMIT = 2**28  # maximum bytes of a user's file
SUFFIXES = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".conllu": "conllu", ".conll": "conll", ".bio": "conll", ".iob": "conll", ".iob2": "conll",
}  # fmt: skip
KINDS = {
    "plain": "plain text", "tsv": "TSV", "csv": "CSV", "jsonl": "JSON lines", "json": "JSON",
    "conll": "CoNLL", "conllu": "CoNLL-U", "trec": "TREC's format", "fasttext": "fastText's format",
}  # fmt: skip
FORMATS = ("auto", *KINDS)

# The column names of each role, besides the role's own name. "answers.text" is the key `text` in the object
# `answers`.
ALIASES = {
    "text": """sentence content review review_text tweet comment message body document article headline title
        phrase question query description name names line input""",
    "label": """labels class category class_index sentiment polarity emotion intent target topic rating stars
        score gold gold_label tag output""",
    "source": """src source_text input input_text prompt instruction question query article document text
        dialogue dialog conversation context sentence1 text1 question1 premise anchor original""",
    "target": """tgt trg target_text output output_text completion response summary highlights abstract answer
        reply reference sentence2 text2 question2 hypothesis positive translation paraphrase corrected""",
    "question": "query question_text",
    "context": "passage paragraph document text article",
    "answer": "answers answers.text answer_text answer.text",
    "start": "answer_start answers.answer_start answer.answer_start",
    "word": "words token tokens form",
    "tag": "tags ner_tags ner labels pos_tags upos pos",
    "turns": "messages utterances conversations dialog dialogue",
}
ROLES = {role: (role, *names.split()) for role, names in ALIASES.items()}
IDS = ("", "#", "id", "idx", "index", "guid", "qid", "pair_id", "sentence_id", "uid", "uuid", "unnamed:_0")
JUDGEMENTS = ("label", "gold_label", "is_duplicate", "score", "similarity", "quality", "relatedness")
CODES = """af ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id is it
    ja ka kk km kn ko ku la lt lv mk ml mn mr ms mt my nb ne nl nn no pa pl ps pt ro ru sk sl so sq sr sv sw
    ta te th tl tr uk ur uz vi xh yi zh zu english french german spanish italian portuguese dutch russian
    polish czech chinese japanese korean arabic turkish swedish finnish danish norwegian greek hebrew hindi
    hungarian romanian ukrainian latin français deutsch español italiano"""
LANGUAGES = {*CODES.split()}
LABEL_FIRST = {  # format -> the pattern of a line, and the names of its groups
    "trec": (r"(([A-Z]{2,}):\w+) +(.+)", ["fine", "label", "text"]),
    "fasttext": (r"__label__(\S+)\s+((?!.*__label__).+)", ["label", "text"]),
}
CONLLU = ["id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"]
SPACES = str.maketrans("\n\r\t", "   ")
BOT = ("assistant", "bot", "gpt", "model", "agent", "chatbot", "wizard")
USER = ("user", "human", "customer", "apprentice", "client", "prompter")


class DataError(UserError):
    """The error for data that is missing or invalid."""


class BadRow(Exception):
    """The exception for a row that cannot be used. The message is the reason."""


@dataclass(frozen=True)
class FileFormat:
    """How a user's file is read: the keys of [data] that every task with text has.

    The format "plain" is the task's own, in which every line is data. "auto" chooses by the file's extension.
    """

    format: str = "auto"  # format of --data: "auto", "plain", or one of those in docs/your-data.md
    header: bool | None = None  # whether the first line of --data is a header (--header, --no-header)
    columns: str = ""  # columns of --data to read, by name or number, such as "text" or "2,1"
    skip_bad_rows: bool = False  # leave out rows of --data that cannot be used

    def __post_init__(self) -> None:
        check_choice("format", self.format, FORMATS)

    @property
    def chosen(self) -> list[str]:
        """The columns that the user chose, as names or numbers; empty if none were chosen."""
        return [] if self.is_plain or not self.columns else list(map(str.strip, self.columns.split(",")))

    @property
    def is_plain(self) -> bool:
        return self.format == "plain"

    def kind(self, path: str | Path, default: str) -> str:
        """The format of a file: `format`, or for "auto" the format of the file's extension, or `default`."""
        return self.format if self.format != "auto" else SUFFIXES.get(Path(path).suffix.lower(), default)


AUTO = FileFormat()


class Examples(list[Any]):
    """The examples of a file. `notes` are lines that say how it was read, and warn about likely mistakes."""

    def __init__(self, examples: Iterable[Any] = (), notes: Iterable[str] = ()) -> None:
        super().__init__(examples)
        self.notes = list(notes)


Row = tuple[str, Any]  # the row's place ("mine.tsv, line 3"), and its cells, or a BadRow


@dataclass
class Table:
    """A file as rows of cells. `names` are the names of its columns, from a header or from JSON, if any."""

    path: Path
    how: FileFormat
    roles: Sequence[str]  # the columns that the task needs, such as "text" and "label"
    kind: str
    rows: list[Row] = field(default_factory=list)
    names: list[str] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def form(self) -> str:
        return "<TAB>".join(self.roles)

    @property
    def cells(self) -> list[list[Any]]:
        """The cells of each row that is not a BadRow."""
        return [cells for _, cells in self.rows if isinstance(cells, list)]

    @property
    def width(self) -> int:
        """The number of columns: of the header, or else of most rows, but at least one for each role."""
        least = len(self.roles)
        widths = Counter(len(_without_empty_end(cells, least)) for cells in self.cells)
        return len(self.names) if self.names else max([least, *(n for n, _ in widths.most_common(1))])


def _without_empty_end(cells: list[Any], least: int) -> list[Any]:
    """The cells without empty cells at the end, but at least the first `least`."""
    while len(cells) > least and not str(cells[-1]).strip():
        cells = cells[:-1]
    return cells


# ---------------------------------------------------------------- from bytes to rows


def read_utf8(path: str | Path) -> str:
    r"""Read a UTF-8 text file, without a byte-order mark and with \n as line ends."""
    content = read_bytes(path, LIMIT)
    check_is_text(path, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        name = Path(path).name
        number = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}, line {number}: not UTF-8.\nSave the file as UTF-8; if Windows wrote it: "
            f"{shell_command(['iconv', '-f', 'WINDOWS-1252', '-t', 'UTF-8', Path(name)])} > utf8-{name}"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: str | Path) -> list[tuple[str, str]]:
    """Read the lines of a UTF-8 file, each with its place for errors, such as "mine.tsv, line 3"."""
    lines = read_utf8(path).removesuffix("\n").split("\n")
    return [(f"{path}, line {number}", line) for number, line in enumerate(lines, 1)]


def read_table(path: str | Path, how: FileFormat, *roles: str) -> Table:
    """Read a file as a table. It is TSV if neither `how` nor the file's extension names a format."""
    kind = how.kind(path, "tsv")
    table = Table(Path(path), how, roles, KINDS[kind])
    if kind == "csv":
        _read_csv(table)
    elif kind in ("json", "jsonl"):
        found = [(where, _attempt(_flatten, each)) for where, each in _objects(path, kind)]
        table.names = list(dict.fromkeys(name for _, row in found if isinstance(row, dict) for name in row))
        cells_of = lambda row: [row.get(name, "") for name in table.names or ()]
        table.rows = [(where, cells_of(row) if isinstance(row, dict) else row) for where, row in found]
    elif kind in LABEL_FIRST:
        pattern, table.names = LABEL_FIRST[kind]
        for where, line in read_lines(path):
            match = re.fullmatch(pattern, line.strip())
            cells = list(match.groups()) if match else BadRow(f"not {table.kind}: {line[:60]!r}")
            table.rows += [(where, cells)] if line.strip() else []
    elif kind in ("plain", "tsv"):
        table.rows = [(where, line.split("\t")) for where, line in read_lines(path) if line.strip()]
        if how.format == "auto":
            _check_quotes(table)
    else:
        raise format_error(table)
    return table


def format_error(table: Table) -> DataError:
    """The error for a file in a format that the task does not read."""
    return DataError(
        f"{table.path} is {table.kind}, which this task does not read.\n"
        f"Write {table.form} on each line; --format plain reads every line unchanged."
    )


def _check_quotes(table: Table) -> None:
    """Raise a DataError if TSV has cells in quotes in all rows, or a quoted cell with doubled quotes."""
    is_quoted = lambda cell: len(cell) > 1 and cell[0] == cell[-1] == '"'
    all_rows = len(table.rows) > 1 and all(any(map(is_quoted, cells)) for cells in table.cells)
    for where, cells in table.rows:
        if all_rows or any(re.fullmatch('"(.*"")+.*"', cell) for cell in cells):
            raise DataError(
                f"{where} has a cell in quotes as in CSV: {_show(cells)}.\n"
                f"Pass --format csv if quotes enclose cells, or --format tsv if they are part of the text."
            )


def _read_csv(table: Table) -> None:
    """Read CSV. The separator is declared by a line `sep=;`, or is the most frequent in the first line."""
    text = read_utf8(table.path)
    declared = re.match("sep=(.)\n", text, re.IGNORECASE)
    first = re.sub('"[^"]*"', "", text.partition("\n")[0])
    separator = declared[1] if declared else max(",;\t", key=first.count)
    table.kind += {";": " with semicolons", "\t": " with tabs"}.get(separator, "")
    csv.field_size_limit(LIMIT)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    start = 1
    try:
        for cells in reader:
            if any(map(str.strip, cells)) and not (declared and start == 1):
                table.rows.append((f"{table.path}, line {start}", cells))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{table.path}, line {start}: not valid CSV: {error}.\n"
            f"Fix the quotes; if they are text and columns have tabs between them, pass --format tsv."
        ) from None


def _objects(path: str | Path, kind: str) -> list[Row]:
    """Read the objects of JSON lines, of a JSON list, or of the list `data` in a JSON object."""
    lines = [(where, line) for where, line in read_lines(path) if line.strip()]
    if kind == "jsonl" or (len(lines) > 1 and isinstance(_attempt(_parse, lines[0][1]), dict)):
        return [(where, _attempt(_parse, line)) for where, line in lines]
    content = _attempt(_parse, read_utf8(path))
    if isinstance(content, BadRow):
        raise DataError(f"{path}: {content}.\nWrite a list of objects, or one object on each line.")
    content = content["data"] if isinstance(content, dict) and "data" in content else content
    content = content if isinstance(content, list) else [content]
    rows = [(f"{path}, object {number}", each) for number, each in enumerate(content, 1)]
    if not any(isinstance(each, dict) and "paragraphs" in each for each in content):
        return rows
    try:  # SQuAD (Rajpurkar et al. 2016)
        rows = [(where, each) for where, article in rows for each in article["paragraphs"]]
        return [(where, {"context": x["context"], **each}) for where, x in rows for each in x["qas"]]
    except (KeyError, TypeError):
        raise DataError(
            f"{path} is not in SQuAD's form.\n"
            'Write {"paragraphs": [{"context": "...", "qas": [{"question": "...", "answers": [...]}]}]}.'
        ) from None


def _attempt(read: Callable[[Any], Any], value: Any) -> Any:
    """Return `read(value)`, or the BadRow that it raises. A value that is a BadRow is returned."""
    try:
        return value if isinstance(value, BadRow) else read(value)
    except BadRow as problem:
        return problem


def _parse(text: str) -> Any:
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode()  # a lone surrogate is not a character
    except (ValueError, RecursionError) as error:
        raise BadRow(f"not valid JSON: {error}") from None
    return content


def _flatten(content: Any) -> dict[str, Any]:
    """The fields of a JSON object, as texts or lists. The names of inner fields are joined by dots."""
    if not isinstance(content, dict):
        raise BadRow(f"expected an object, found {json.dumps(content)[:60]}")
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": each for key, each in _flatten(value).items()}
        else:
            flat[name] = value if isinstance(value, list) else cell_text(value)
    return flat


def cell_text(value: Any) -> str:
    """Convert a JSON value to text: null and NaN become "", and 1.0 becomes "1"."""
    if value is None or value != value:
        return ""
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return value if isinstance(value, str) else json.dumps(value)


# ---------------------------------------------------------------- the columns of a task


def normal_name(name: str) -> str:
    """Normalize the name of a column, as in ALIASES: "#1 String" becomes "1_string"."""
    name = name.strip()
    return name if name == "#" else re.sub(r"[\s-]+", "_", name.lstrip("# ").lower())


def match_roles(names: Sequence[str], roles: Sequence[str]) -> list[list[int]]:
    """The columns whose names match each role: one, or none or several if the names do not decide."""
    normal = [normal_name(name) for name in names]
    found: list[list[int]] = []
    for role in roles:
        free = [i for i in range(len(names)) if [i] not in found]
        exact = [i for i in free if normal[i] == role]
        found.append(exact or [i for i in free if normal[i] in ROLES.get(role, ())])
    if list(roles) == ["source", "target"] and found == [[], []]:
        languages = [name.removeprefix("translation.").split("_")[0] in LANGUAGES for name in normal]
        both = [i for i, name in enumerate(normal) if languages[i] and name not in IDS]
        return [[i] for i in both] if len(both) == 2 else found
    return found


def select(table: Table, optional: str = "") -> list[Row]:
    """Select the cells of the table's roles from each row, in order, and of an `optional` role at the end.

    The last cell is None if no column has the optional role. Adds notes to the table that say which columns
    are read, and show a first row that may be a header.
    """
    if not table.cells:
        return table.rows
    columns = _find_columns(table)
    more = match_roles(table.names or (), [optional])[0][:1] if optional else []
    width = len(table.roles) if table.how.is_plain else table.width
    _describe(table, dict(zip([*table.roles, optional], [*columns, more], strict=True)))

    def choose(cells: list[Any]) -> list[Any]:
        cells = _without_empty_end(cells, width)
        if len(cells) != width:
            has_tabs = not (table.names or table.how.chosen)
            expected = table.form if has_tabs else counted(width, "column")
            number = "no tab" if has_tabs and len(cells) == 1 else counted(len(cells), "column")
            raise BadRow(f"expected {expected}, found {number}: {_show(cells)}")
        values = [_join([cells[i] for i in found]) for found in columns]
        for role, value in zip(table.roles, values, strict=True):
            if not value:
                raise BadRow(f"the {role} is missing or empty: {_show(cells)}")
        if table.names and table.names == [str(cell).strip() for cell in cells]:
            raise BadRow(f"repeats the header: {_show(cells)}")
        return [*values, *([cells[more[0]] if more else None] if optional else [])]

    return [(where, _attempt(choose, cells)) for where, cells in table.rows]


def _join(cells: Sequence[Any]) -> Any:
    """Join the texts of cells; a single list is returned. Empty if the cells are blank.

    Line ends and tabs become spaces, so that the positions of characters do not change.
    """
    if len(cells) == 1 and isinstance(cells[0], list):
        return cells[0]
    texts = [str(cell).translate(SPACES) for cell in cells if str(cell).strip()]
    return texts[0] if len(texts) == 1 else " ".join(map(str.strip, texts))


def _show(cells: Sequence[Any]) -> str:
    return repr(" | ".join(str(cell).strip() for cell in cells)[:80])


def _describe(table: Table, read: dict[str, list[int]]) -> None:
    """Add notes to the table: which columns are read, and a first row that may be a header."""
    shown = [name or f"column {i}" for i, name in enumerate(table.names or [""] * table.width, 1)]
    named = {role: "+".join(shown[i] for i in found) for role, found in read.items() if found}
    if table.names or table.how.chosen:
        listed = ", ".join(x if normal_name(name) == x else f"{name} as {x}" for x, name in named.items())
        used = [i for found in read.values() for i in found]
        ignored = [name for i, name in enumerate(shown) if i not in used and table.names]
        rest = f"; not read: {', '.join(ignored[:10])}{', ...' if ignored[10:] else ''}" if ignored else ""
        table.notes.append(one_line(f"{table.path.name}: {table.kind}: {listed}{rest}"))
    if table.names is None and table.how.header is None and not table.how.is_plain:
        first = dict(enumerate(table.cells[0]))
        cells = (f"{role} {' '.join(first.get(i, '') for i in read[role])!r:.50}" for role in named)
        row = f"{table.path.name}: the first row has {', '.join(cells)}"
        table.notes.append(f"{row}; if it is a header, pass --header")


def ask(table: Table, problem: str) -> DataError:
    """The error for a file that can be read in several ways. It shows the first rows and suggests flags."""
    lines = [f"{table.path} {problem}:"]
    names = table.names or range(1, table.width + 1)
    for where, cells in table.rows[:3]:
        if isinstance(cells, list):
            shown = (f"{name}={str(cell)[:30]!r}" for name, cell in zip(names, cells, strict=False))
            lines.append(f"  {where.removeprefix(f'{table.path}, ')}: {' | '.join(shown)}"[:200])
    these = f"which {'is' if len(table.roles) == 1 else 'are'} {' and '.join(table.roles)}"
    fix = f"Say {these}, such as --columns {_suggest(table)} (+ joins several)"
    if table.names is None or table.kind.endswith("header"):
        fix += ", and pass --header if the first row names the columns, or --no-header"
    whole = "; --format plain reads whole lines" if len(table.roles) == 1 else ""
    return DataError("\n".join([*map(one_line, lines), f"{fix}{whole}."]))


def _suggest(table: Table) -> str:
    """An example value for --columns: the columns that match the roles, or other columns in their order."""
    if table.names is None:
        first = 1 + (table.width > len(table.roles) and all(x[0].strip().isdecimal() for x in table.cells))
        last = table.width if table.roles[-1] == "tag" else first + len(table.roles) - 1
        return ",".join(map(str, [*range(first, first + len(table.roles) - 1), last]))
    found = match_roles(table.names, table.roles)
    rest = (x for i, x in enumerate(table.names) if [i] not in found and normal_name(x) not in IDS)
    chosen = ["+".join(table.names[i] for i in x) or next(rest, "NAME") for x in found]
    return one_line(shell_command([",".join(chosen)]))


def _find_columns(table: Table) -> list[list[int]]:
    """The columns of each role, whose texts are joined. Raise a DataError if the columns are ambiguous."""
    _take_header(table)
    n = len(table.roles)
    chosen = table.how.chosen
    if chosen and (len(chosen) != n or len(set(chosen)) < n):
        raise ask(table, f"needs {counted(n, 'different column')}, got --columns {table.how.columns}")
    if chosen:
        return [_columns_of(table, name) for name in chosen]
    if table.names is not None:
        found = match_roles(table.names, table.roles)
        for role, columns in zip(table.roles, found, strict=True):
            if len(columns) != 1:
                names = ", ".join(table.names)[:200]
                raise ask(table, f"does not say which column is the {role}; there are {names}")
        return found
    if table.width > n and not table.how.is_plain:
        raise ask(table, f"has {table.width} columns, expected {table.form}")
    if n > 1 and all(len(cells) == 1 for cells in table.cells):
        raise DataError(
            f"{table.rows[0][0]}: expected {table.form}, found no tab: {_show(table.cells[0])}.\nPut a tab "
            f"between the columns, or pass --format csv, jsonl, trec or fasttext; of parallel files: "
            f"paste {table.path.name} OTHER > pairs.tsv"
        )
    return [[i] for i in range(n)]


def _take_header(table: Table) -> None:
    """Use the first row as column names if it is a header. Raise a DataError if that is unclear."""
    how = table.how
    if table.names is not None or how.is_plain or how.header is False:
        return
    first, *others = table.cells
    by_name = bool(how.chosen) and not all(re.fullmatch(r"[\d+]+", name) for name in how.chosen)
    is_short = all(len(cell.split()) <= 3 for cell in first)
    if how.header or by_name or (is_short and all(match_roles(first, table.roles))):
        table.names = list(map(str.strip, _without_empty_end(first, 1)))
        table.rows = table.rows[1:]
        table.kind += " with a header"
        return
    reasons = ["most CSV files do"] if table.kind.startswith("CSV") else []
    common = {*IDS, *JUDGEMENTS, *(name for role in table.roles for name in ROLES.get(role, ()))} - {""}
    for cell in first if others and is_short else []:
        reasons += [f"{cell!r} is a common name of a column"] if normal_name(cell) in common else []
    place = how.chosen[-1] if how.chosen else str(len(table.roles))
    if table.roles[-1] == "label" and len(others) > 3 and place.isdecimal():
        label, *rest = [cells[int(place) - 1] for cells in table.cells if int(place) <= len(cells)] or [""]
        counts = Counter(rest)
        if label not in counts and min(counts.values(), default=0) > 1:
            reasons.append(
                f"the labels are {', '.join(sorted(counts)[:10])}, but the first row has {label!r}"
            )
    if reasons:
        raise ask(table, f"may start with a header, because {reasons[-1]}")


def _columns_of(table: Table, name: str) -> list[int]:
    """The columns that a user chose by a name or a number, or by several joined with +."""
    names = table.names or []
    for known in (names, [normal_name(x) for x in names], [x.rpartition(".")[2] for x in names]):
        found = [i for i, each in enumerate(known) if each in (name, normal_name(name))]
        if len(found) == 1:
            return found
    if name.isdecimal() and 1 <= int(name) <= table.width:
        return [int(name) - 1]
    if "+" in name.strip("+"):
        return [i for part in name.split("+") for i in _columns_of(table, part.strip())]
    raise ask(table, f"has {'two columns' if name in names else 'no column'} {name!r}")


# ---------------------------------------------------------------- from rows to examples


def convert(table: Table, rows: Iterable[Row], make: Callable[..., Any]) -> Examples:
    """Make an example of each row with `make(where, cells)`, and keep the table's notes.

    Rows that cannot be used raise one DataError for all, or are left out with --skip-bad-rows. Raises a
    DataError if no examples are left.
    """
    found, bad = Examples(notes=table.notes), []
    for where, cells in rows:
        made = _attempt(partial(make, where), cells)
        if isinstance(made, BadRow):
            bad.append(f"{where}: {made}")
        else:
            found.append(made)
    if len(bad) == 1 and not table.how.skip_bad_rows:
        raise DataError(f"{bad[0]}.\nFix the row, or leave it out with --skip-bad-rows.")
    if bad and not table.how.skip_bad_rows:
        shown = [f"  {line}" for line in bad[:10]] + [f"  and {len(bad) - 10:,} more"] * (len(bad) > 10)
        first = f"{table.path}: {len(bad):,} of {len(found) + len(bad):,} rows cannot be used:"
        raise DataError("\n".join([first, *shown, "Fix them, or leave them out with --skip-bad-rows."]))
    if not found:
        raise DataError(f"{table.path} has no examples.\nWrite {table.form} on each line.")
    if bad:
        verb = "is" if len(bad) == 1 else "are"
        left_out = f"{counted(len(bad), 'row')} {verb} left out"
        found.notes.append(f"warning: {table.path.name}: {left_out}; {bad[0]}")
    return found


def texts_of(cells: Sequence[Any]) -> list[str]:
    """The texts of cells, without surrounding spaces. Raise a BadRow if a cell is a list."""
    if lists := [cell for cell in cells if not isinstance(cell, str)]:
        raise BadRow(f"expected a text, found a list: {lists[0]!r:.60}")
    return [cell.strip() for cell in cells]


def read_rows(path: str | Path, how: FileFormat, *roles: str, make: Callable[..., Any]) -> Examples:
    """Read a file, and make an example of each row with `make(where, cells)`, with the cells of `roles`."""
    table = read_table(path, how, *roles)
    return convert(table, select(table), make)


def read_pairs(path: str | Path, how: FileFormat = AUTO, same_meaning: bool = False) -> Examples:
    """Read the pairs of a file with `source<TAB>target` on each line, or of another format.

    Blank lines are skipped. In JSON objects with a list of messages, each reply is a target, and all turns
    before it are its source. If `same_meaning` is True, all pairs must mean the same: a column of judgements
    raises a DataError.
    """
    table = read_table(path, how, "source", "target")
    for i, name in enumerate(table.names or ()):
        is_list = any(isinstance(cells[i], list) for cells in table.cells)
        if is_list and ([name] == how.chosen if how.chosen else normal_name(name) in ROLES["turns"]):
            return _read_dialogues(table, name, i)
    rows = select(table)
    judged = [name for name in table.names or () if normal_name(name) in JUDGEMENTS]
    if same_meaning and judged and not how.chosen:
        raise DataError(
            f"{table.path.name}: the column {judged[0]} says which pairs mean the same, but all must.\n"
            f"Remove the other pairs, then name the columns, such as --columns sentence1,sentence2."
        )
    return convert(table, rows, lambda _, cells: tuple(texts_of(cells)))


def read_prefixed(path: str | Path, how: FileFormat = AUTO) -> Examples:
    """Read the pairs of a file with `prefix: source<TAB>target` on each line, or of another format."""

    def pair(_: str, cells: list[Any]) -> tuple[str, str]:
        source, target = texts_of(cells)
        prefix, _, text = source.partition(":")
        if not prefix.strip() or not text.strip():
            raise BadRow(f"expected a prefix before the source, such as 'negate: ', found {source[:60]!r}")
        return source, target

    return read_rows(path, how, "source", "target", make=pair)


def read_texts(path: str | Path, how: FileFormat = AUTO) -> Examples:
    """Read the lines of a file, including blank ones, or the texts of a table (CSV, JSON lines, ...)."""
    if how.kind(path, "tsv" if how.chosen else "plain") != "plain":
        return read_rows(path, how, "text", make=lambda _, cells: (texts_of(cells), cells[0])[1])
    lines = [line for _, line in read_lines(path)]
    name = Path(path).name
    if how.header:
        return Examples(lines[1:], [f"{name}: without its header, {lines[0].strip()[:60]}"])
    warning, tabs = "", {line.count("\t") for line in lines if line.strip()}
    if how.header is None and normal_name(lines[0]) in ROLES["text"]:
        warning = f"its first line, {lines[0]!r:.60}, is read as text; if it is a header, pass --header"
    elif len(tabs) == 1 and tabs != {0}:
        warning = "its tabs are read as text; if these are columns, --columns 1 reads the first"
    is_clear = how.is_plain or not warning
    return Examples(lines, [] if is_clear else [f"warning: {name}: {warning}"])


def read_noted_text(path: str | Path, how: FileFormat = AUTO) -> tuple[str, list[str]]:
    """Read a file as one text, with a line for each row of a table. Return notes on how it was read, too.

    Raises a DataError if the text has fewer than 100 characters.
    """
    found = read_texts(path, how)
    whole = read_utf8(path)
    text = whole if found == whole.removesuffix("\n").split("\n") else "".join(f"{x}\n" for x in found)
    if len(text) < 100:
        length = counted(len(text), "character")
        raise DataError(f"{path} has {length}, expected at least 100.\nPass a longer text.")
    return text, found.notes


# ---------------------------------------------------------------- dialogues


def history(turns: Sequence[tuple[str, str]]) -> str:
    """Join the turns (user, bot) of a dialogue to a source. An empty reply, such as the last, is left out."""
    return " ".join(f"user: {said} bot: {reply}" if reply else f"user: {said}" for said, reply in turns)


def _read_dialogues(table: Table, name: str, column: int) -> Examples:
    """The pairs of dialogues: each reply is a target, and all turns before it are its source."""
    counts: Counter[str] = Counter()

    def pairs(_: str, cells: list[Any]) -> list[tuple[str, str]]:
        turns = cells[column] or []
        if not isinstance(turns, list):
            raise BadRow(f"expected a list of turns in {name}, found {turns!r:.60}")
        said = list(map(_turn, turns))
        first = next((i for i, (speaker, _) in enumerate(said) if speaker != "system"), len(said))
        exchanges = _exchanges([(x or ("user", "bot")[i % 2], y) for i, (x, y) in enumerate(said[first:])])
        counts["messages of the system that are not read"] += first
        counts["objects without a reply, which are left out"] += not exchanges
        return [(history([*exchanges[:n], (x, "")]), reply) for n, (x, reply) in enumerate(exchanges)]

    found = convert(table, table.rows, pairs)
    file = table.path.name
    if not any(found):
        raise DataError(f"{file} has no replies.\nWrite at least two turns in {name}.")
    notes = [
        f"{file}: {table.kind}: each reply in {name}, with the turns before it",
        f"warning: {file}: replies of one dialogue can be in several splits; --validation-data and "
        f"--test-data keep them apart",
        *(f"warning: {file}: {what}: {count:,}" for what, count in counts.items() if count),
    ]
    return Examples([pair for each in found for pair in each], found.notes + notes)


def _turn(turn: Any) -> tuple[str, str]:
    """The speaker of a turn, or "" if it has none, and its text."""
    turn = {"text": turn} if isinstance(turn, str) else turn
    values = {key.lower(): value for key, value in turn.items()} if isinstance(turn, dict) else {}
    who = [values[key] for key in ("role", "from", "speaker", "name") if key in values]
    said = [values[key] for key in ("content", "value", "text", "utterance", "message") if key in values]
    if not (said and isinstance(said[0], str) and said[0].strip()):
        raise BadRow(f"a turn without text: {turn!r:.60}")
    return str(who[0]).lower() if who else "", said[0].translate(SPACES).strip()


def _exchanges(turns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of what the user said and the reply. The user speaks first, and adjacent turns are joined."""
    speakers = list(dict.fromkeys(speaker for speaker, _ in turns))
    if len(speakers) > 2:
        raise BadRow(f"expected 2 speakers, found {len(speakers)}: {', '.join(speakers)[:60]}")
    if set(speakers[:1]) & set(BOT) or set(speakers[1:]) & set(USER):
        raise BadRow(f"the dialogue starts with a reply: {turns[0][1][:60]!r}")
    joined = [" ".join(text for _, text in group) for _, group in groupby(turns, itemgetter(0))]
    return list(zip(joined[::2], joined[1::2], strict=False))


# ---------------------------------------------------------------- tagged words


def read_words(path: str | Path, how: FileFormat) -> Examples:
    """Read the sentences of a file with tagged words, as lists of (place, word, tag)."""
    kind = how.kind(path, "conll").replace("tsv", "conll")
    if kind in ("json", "jsonl"):
        return read_rows(path, how, "word", "tag", make=_pair_lists)
    table = Table(Path(path), how, ["word", "tag"], KINDS[kind])
    if kind not in ("plain", "conll", "conllu"):
        raise format_error(table)
    sentence_of = _read_word_lines(table, kind)
    if kind == "conllu":
        table.names = CONLLU
        table.how = how if how.chosen else replace(how, columns="form,upos")
    elif kind == "conll" and table.width > 2 and not how.chosen and how.kind(path, "") == "conll":
        if not all(cells[0].isdecimal() for cells in table.cells):
            table.how = replace(how, columns=f"1,{table.width}")
    elif how.format == "auto" and table.width == len(CONLLU) and not re.search(r"\d", how.columns):
        raise ask(table, "may be CoNLL-U, which has ten columns (--format conllu)")

    def word(cells: list[str]) -> tuple[str, str]:
        if kind != "conllu" and len(cells[0].split()) > 1:
            raise BadRow(f"a word contains a space: {cells[0][:60]!r}; write each word on its own line")
        return "".join(cells[0].split()), cells[1].strip()

    found = [(where, _attempt(word, cells)) for where, cells in select(table)]
    rows: list[Row] = []
    for _, group in groupby(found, lambda row: sentence_of[row[0]]):
        words = list(group)
        bad = [row for row in words if isinstance(row[1], BadRow)]
        rows += bad or [(words[0][0], [(where, *pair) for where, pair in words])]
    return convert(table, rows, lambda _, words: words)


def _read_word_lines(table: Table, kind: str) -> dict[str, int]:
    """Read lines of words into the table. Return the index of the sentence of each line, by the line's place.

    Lines are split at tabs if all of them have tabs, otherwise at spaces.
    """
    lines = read_lines(table.path)
    data = [line for _, line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))]
    tabs = kind == "conllu" or (kind != "plain" and bool(data) and all("\t" in line for line in data))
    split = (lambda line: line.rstrip().split("\t")) if tabs else str.split
    width = replace(table, rows=[("", split(line)) for line in data]).width
    sentence, latest = 0, -1
    sentence_of: dict[str, int] = {}
    for where, line in lines:
        cells = split(line)
        if not line.strip() or line.startswith("-DOCSTART-"):
            sentence += 1
        elif kind == "conllu" and re.match(r"#|\d+[-.]", line):  # 1-2 is a range of words, 1.1 an empty word
            continue
        elif kind == "plain" or not line.startswith("#") or len(cells) == width or sentence == latest:
            table.rows.append((where, [cells[0], *cells[1:][-1:]] if kind == "plain" else cells))
            sentence_of[where] = latest = sentence
    return sentence_of


def _pair_lists(where: str, cells: Sequence[Any]) -> list[tuple[str, str, str]]:
    """The words of a JSON object's list, each with its place and its tag."""
    words, tags = ([cell_text(x).strip() for x in x] if isinstance(x, list) else [""] for x in cells)
    if len(words) != len(tags) or not all(words + tags):
        raise BadRow(f"expected a list of words and one of as many tags, found {_show(cells)}")
    return [(where, "".join(word.split()), tag) for word, tag in zip(words, tags, strict=True)]
