"""The columns of a table that a task reads: by the names of a header, by number, or as the user says.

A task needs roles, such as text and label. A header is recognized by common names (ALIASES). If a line may be
a header, or several columns may have a role, an error names the flag that decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..errors import counted, did_you_mean
from ..files import one_line
from .tables import DataError, FileFormat, Table, without_line_ends

# Common names of columns in headers and fields. "answers.text" is `text` in the object `answers`.
ALIASES = {
    "text": """sentence content review review_text tweet tweet_text comment comment_text message sms body
        document article headline title phrase utterance question query description name names line input""",
    "label": """labels class category class_index class_label classification sentiment polarity emotion intent
        target topic rating stars star_rating score y gold gold_label tag output spam coarse_label fine_label
        label_coarse label_fine label_text label_name airline_sentiment toxic""",
    "source": """src source_text src_text input input_text inputs prompt instruction question query article
        document text dialogue dialog conversation context sentence1 sentence_1 text1 text_1 question1 premise
        anchor original""",
    "target": """tgt trg target_text tgt_text trg_text output output_text outputs completion response summary
        highlights abstract answer reply reference sentence2 sentence_2 text2 text_2 question2 hypothesis
        positive translation paraphrase corrected""",
    "question": "query question_text q",
    "context": "passage paragraph document text article story",
    "answer": "answers answers.text answer_text answer.text short_answer",
    "start": "answer_start answers.answer_start answer.answer_start",
    "words": "tokens",
    "tags": "ner_tags ner labels pos_tags upos tag",
}
ROLES = {role: (role, *names.split()) for role, names in ALIASES.items()}
IDS = ("", "#", "id", "idx", "index", "guid", "qid", "pair_id", "sentence_id", "uid", "uuid", "unnamed:_0")
JUDGEMENTS = ("label", "gold_label", "is_duplicate", "score", "similarity", "quality", "relatedness")
CODES = """af ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id is it
    ja ka kk km kn ko ku la lt lv mk ml mn mr ms mt my nb ne nl nn no pa pl ps pt ro ru sk sl so sq sr sv sw
    ta te th tl tr uk ur uz vi xh yi zh zu"""  # ISO 639-1
NAMES = """english french german spanish italian portuguese dutch russian polish czech chinese japanese korean
    arabic turkish swedish finnish danish norwegian greek hebrew hindi hungarian romanian ukrainian latin
    français deutsch español italiano"""
LANGUAGES = {*CODES.split(), *NAMES.split()}
KNOWN = {*NAMES.split(), *IDS, *JUDGEMENTS, *(name for names in ROLES.values() for name in names)}


def normal_name(name: str) -> str:
    """The name of a column as written in ALIASES: "#1 String" is "1_string"."""
    name = name.strip()
    return name if name == "#" else re.sub(r"[\s-]+", "_", name.lstrip("# ").lower())


def is_language(name: str) -> bool:
    """Whether a name is that of a language: "en", "en-US", "translation.en", "French"."""
    return re.split("_", normal_name(name).removeprefix("translation."))[0] in LANGUAGES


def is_name(cell: str) -> bool:
    """Whether a cell could be the name of a column: up to three words, and not a number."""
    words = cell.split()
    return len(words) <= 3 and not is_number(cell) and all(re.fullmatch(r"[\w#.:/()-]+", w) for w in words)


def is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", cell))


def match_roles(names: Sequence[str], roles: Sequence[str]) -> tuple[list[int | None], bool]:
    """The column of each role by name, or None; and whether a role has several columns."""
    normal = [normal_name(name) for name in names]
    found: list[int | None] = []
    several = False
    for role in roles:
        exact = [i for i, name in enumerate(normal) if name == role and i not in found]
        others = [i for i, name in enumerate(normal) if name in ROLES.get(role, (role,)) and i not in found]
        columns = exact or others
        several |= len(columns) > 1
        found.append(columns[0] if len(columns) == 1 else None)
    if list(roles) == ["source", "target"] and found == [None, None] and not several:
        languages = [i for i, name in enumerate(names) if is_language(name)]
        if len(languages) == 3:  # "id" is also the code of Indonesian
            languages = [i for i in languages if normal[i] != "id"]
        if len(languages) == 2:
            return list(languages), False
    return found, several


# ---------------------------------------------------------------- a task's columns


def select_columns(
    table: Table,
    labels: Sequence[str],
    roles: Sequence[str],
    how: FileFormat,
    lists: bool = False,
    optional: Sequence[str] = (),
) -> list[tuple[str, list[Any]]]:
    """The rows with the cells of these roles, in order, followed by those of `optional` roles, or None.

    `labels` are the names of the roles in errors; cells may be `lists`. A note in the table says which
    columns are read, unless all are.
    """
    if not table.rows:
        return []
    take_header(table, labels, roles, how)
    columns = _columns(table, labels, roles, how)
    found = match_roles(table.names or (), optional)[0]
    more = {role: i for role, i in zip(optional, found, strict=True) if i is not None}
    if table.names is not None or how.chosen:
        _check_widths(table)
        table.notes += [
            _describe_columns(table, [*roles, *more], [*columns, *more.values()]),
            *_repeated_ids(table),
        ]
    rows = []
    for where, cells in table.rows:
        values = [_one_line(cells[i]) for i in columns]
        for value, label in zip(values, labels, strict=True):
            if value in ("", []):
                raise DataError(_describe_incomplete(where, cells, labels, label, table))
            if isinstance(value, list) and not lists:
                problem = f"{where}: expected a text as {label}, found a list: {value!r:.60}"
                raise DataError(f"{problem}.\nWrite a text.")
        others = [cells[more[role]] if role in more else None for role in optional]
        rows.append((where, [*values, *others]))
    return rows


def _one_line(value: Any) -> Any:
    """A text with each line end and tab replaced by a space; empty if it has no words."""
    if not isinstance(value, str):
        return value
    return without_line_ends(value) if value.strip() else ""


def _describe_incomplete(
    where: str, cells: Sequence[Any], labels: Sequence[str], label: str, table: Table
) -> str:
    if table.names is None:
        line = "\t".join(map(str, cells))
        problem = f"expected {'<TAB>'.join(labels)}, found an empty side: {line[:60]!r}"
    else:
        problem = f"the {label} is missing or empty: {_show_cells(cells)}"
    return f"{where}: {problem}.\nFix the line, or remove it."


def _show_cells(cells: Sequence[Any]) -> str:
    return " | ".join(str(cell) for cell in cells)[:80]


def _check_widths(table: Table) -> None:
    """Raise a DataError for a row with more or fewer cells than there are columns.

    Empty cells at its end are ignored.
    """
    width = len(table.names or ())
    if table.names is None:
        width = Counter(len(cells) for _, cells in table.rows).most_common(1)[0][0]
    for where, cells in table.rows:
        while len(cells) > width and cells[-1] == "":
            cells.pop()
        if len(cells) != width:
            most = "most lines have" if table.names is None else "the header has"
            hint = "Put cells with commas in quotes" if table.is_csv else "A cell may contain a tab"
            raise DataError(
                f"{where}: {counted(len(cells), 'column')}, {most} {width}: {_show_cells(cells)}.\n"
                f"{hint}; fix the line, or remove it."
            )


def _describe_columns(table: Table, roles: Sequence[str], columns: Sequence[int]) -> str:
    """A note of the columns that are read, and of those that are not."""
    if table.names is None:
        read = ", ".join(f"column {i + 1} as {role}" for i, role in zip(columns, roles, strict=True))
        return f"{table.file}: {table.kind}, {read}"
    shown = [name or f"column {i}" for i, name in enumerate(table.names, 1)]
    read = ", ".join(
        role if normal_name(shown[i]) == role else f"{shown[i]} as {role}"
        for i, role in zip(columns, roles, strict=True)
    )
    ignored = [name for i, name in enumerate(shown) if i not in columns]
    rest = f"; not read: {', '.join(ignored[:10])}{', ...' if len(ignored) > 10 else ''}" if ignored else ""
    return f"{table.file}: {table.kind}{' with a header' if table.is_delimited else ''}: {read}{rest}"


def _repeated_ids(table: Table) -> list[str]:
    """Warnings of ids that occur more than once."""
    notes = []
    for i, name in enumerate(table.names or ()):
        if normal_name(name) in ("id", "guid", "qid", "uid", "uuid"):
            counts = Counter(str(cells[i]) for _, cells in table.rows if cells[i] != "")
            again = [value for value, n in counts.items() if n > 1]
            if again:
                occur = "1 value occurs" if len(again) == 1 else f"{len(again):,} values occur"
                notes.append(
                    f"warning: {table.file}: {occur} more than once in {name}, such as {again[0][:40]}"
                )
    return notes


# ---------------------------------------------------------------- the header


def take_header(table: Table, labels: Sequence[str], roles: Sequence[str], how: FileFormat) -> None:
    """If the first row is a header, make it the names of the columns; a DataError if that is unclear."""
    if table.names is not None:
        return
    where, first = table.rows[0]
    has_header = how.header
    if has_header is None:
        has_header = _is_header(table, labels, roles, how)
    elif has_header and (reason := _reason_for_data(table, roles, how)):
        raise DataError(
            f"{where}: --header takes this line for a header, but {reason}: {_show_cells(first)}.\n"
            f"Leave --header out, or pass --no-header."
        )
    if not has_header:
        return
    table.names = list(map(str.strip, first))
    table.rows = table.rows[1:]
    if again := next((place for place, cells in table.rows if cells == first), ""):
        raise DataError(
            f"{again} repeats the header: {_show_cells(first)}.\nRemove it; were several files concatenated?"
        )
    if not table.rows:
        raise DataError(
            f"{table.file} has only a header: {_show_cells(first)}.\nWrite the examples below it."
        )
    while len(table.names) > 1 and table.names[-1] == "":
        table.names.pop()
    counts = Counter(map(normal_name, filter(None, table.names)))
    repeated = [name for name, n in counts.items() if n > 1]
    if repeated and not how.chosen:
        raise DataError(
            f"{where}: two columns are named {repeated[0]!r}.\nChoose columns by number, such as "
            f"--columns {_numbers(len(roles))}."
        )


def _is_header(table: Table, labels: Sequence[str], roles: Sequence[str], how: FileFormat) -> bool:
    """Whether the first row is a header; a DataError if it may be a header or data."""
    where, first = table.rows[0]
    if how.chosen and not all(name.isdecimal() for name in how.chosen):
        return True  # columns are chosen by name
    columns, _ = match_roles(first, roles)
    if all(map(is_name, first)) and None not in columns:
        return True
    if reason := _reason_for_header(table, roles, how):
        raise DataError(
            f"{where} may be a header: {reason}: {_show_cells(first)}.\n"
            f"Pass --header if it is one, or --no-header if it is data."
        )
    if table.is_csv:
        raise DataError(
            f"{where}: is this line a header or data: {_show_cells(first)}?\n"
            f"Pass --header or --no-header; --columns {_numbers(len(roles))} says which columns are "
            f"{' and '.join(labels)}."
        )
    return False


def _positions(roles: Sequence[str], how: FileFormat) -> list[int]:
    """The columns of the roles, if they are chosen by number or by default."""
    if not how.chosen:
        return list(range(len(roles)))
    return [int(n) - 1 for n in how.chosen] if all(n.isdecimal() for n in how.chosen) else []


def _reason_for_header(table: Table, roles: Sequence[str], how: FileFormat) -> str:
    """Why the first row may be a header; empty if there is no reason."""
    first, *others = [cells for _, cells in table.rows]
    known = [cell for cell in first if cell and normal_name(cell) in KNOWN]
    if known and others and all(map(is_name, first)):
        return f"{known[0]!r} is a common column name"
    numbered = any(list(first) == [str(n + start) for n in range(len(first))] for start in (0, 1))
    if numbered and len(first) > 1 and not any(all(map(is_number, cells)) for cells in others):
        return "its columns are numbered"
    positions = _positions(roles, how)
    if "label" in roles and len(positions) == len(roles):
        labels = _column(table, positions[roles.index("label")])
        counts = Counter(labels[1:])
        if len(others) >= 4 and labels[0] not in counts and min(counts.values()) > 1:
            return f"the labels are {', '.join(sorted(counts)[:10])}, and {labels[0]!r} once"
    for i, cell in enumerate(first):
        values = _column(table, i)[1:]
        if len(values) >= 10 and cell and is_name(cell) and all(map(is_number, values)):
            return f"other lines have numbers in column {i + 1}, it has {cell!r}"
    return ""


def _column(table: Table, i: int) -> list[str]:
    return [cells[i] if len(cells) > i else "" for _, cells in table.rows]


def _reason_for_data(table: Table, roles: Sequence[str], how: FileFormat) -> str:
    """Why the first row cannot be a header; empty if there is no reason."""
    positions = _positions(roles, how)
    if "label" not in roles or len(positions) != len(roles) or len(table.rows[0][1]) != len(roles):
        return ""
    label, *others = _column(table, positions[roles.index("label")])
    return f"{label!r} is the label of {counted(n, 'other line')}" if (n := others.count(label)) else ""


# ---------------------------------------------------------------- the column of each role


def _columns(table: Table, labels: Sequence[str], roles: Sequence[str], how: FileFormat) -> list[int]:
    """The column of each role."""
    if how.chosen:
        if len(how.chosen) != len(roles):
            raise DataError(
                f"--columns {how.columns} names {counted(len(how.chosen), 'column')}, but this task reads "
                f"{' and '.join(labels)}.\nName {len(roles)}, such as --columns {_numbers(len(roles))}."
            )
        if len(set(how.chosen)) < len(how.chosen):
            raise DataError(f"--columns {how.columns} names a column twice.\nName one for each role.")
        return [_column_of(table, name) for name in how.chosen]
    if table.names is None:
        return _columns_in_order(table, labels)
    found, several = match_roles(table.names, roles)
    missing = [k for k, column in enumerate(found) if column is None]
    rest = [i for i in range(len(table.names)) if i not in found]
    if table.is_delimited and not several and len(rest) == len(missing) and len(missing) in (1, len(roles)):
        for k, column in zip(missing, rest, strict=True):  # the remaining ones, in order
            found[k] = column
    if None in found:
        which = "several columns may be" if several else "no column is known to be"
        raise DataError(
            f"{table.file}: {which} the {labels[found.index(None)]}; there are {_names(table)}.\n"
            f"Name those of {' and '.join(labels)}, such as --columns {_suggestion(table, found, roles)}."
        )
    return [column for column in found if column is not None]


def _numbers(n: int) -> str:
    """An example of columns by number."""
    return ",".join(map(str, range(1, n + 1)))


def _names(table: Table) -> str:
    return one_line(", ".join(name or "(no name)" for name in table.names or ()))[:200]


def _suggestion(table: Table, found: Sequence[int | None], roles: Sequence[str]) -> str:
    """An example of columns by name: those that match, or the remaining ones."""
    names = table.names or []
    rest = iter([name for i, name in enumerate(names) if i not in found and normal_name(name) not in IDS])
    chosen: list[str] = []
    for role, column in zip(roles, found, strict=True):
        fitting = [
            name for name in names if normal_name(name) in ROLES.get(role, (role,)) and name not in chosen
        ]
        chosen.append(names[column] if column is not None else fitting[0] if fitting else next(rest, "NAME"))
    return one_line(",".join(chosen))


def _column_of(table: Table, name: str) -> int:
    """The column of a name or a number; for the field of an inner object, its own name is enough."""
    names = table.names or []
    exact = [i for i, known in enumerate(names) if known == name]
    similar = [i for i, known in enumerate(names) if normal_name(known) == normal_name(name)]
    inner = [i for i, known in enumerate(names) if known.rpartition(".")[2] == name]
    for found in (exact, similar, inner):
        if len(found) == 1:
            return found[0]
    width = len(names) or max(len(cells) for _, cells in table.rows)
    if name.isdecimal():
        if 1 <= int(name) <= width:
            return int(name) - 1
        raise DataError(f"{table.file} has {counted(width, 'column')}, no column {name}.\nCount from 1.")
    close = did_you_mean(name, names)
    raise DataError(
        f"{table.file} has no column {name!r}.{close}\n"
        + (f"There are {_names(table)}." if names else "It has no header: name columns by number, from 1.")
    )


def _columns_in_order(table: Table, labels: Sequence[str]) -> list[int]:
    """The first columns of a file without a header; a DataError if it has more."""
    n = len(labels)
    expected = "<TAB>".join(labels)
    for _, cells in table.rows:
        while len(cells) > n and cells[-1] == "":  # tabs at the end of a line
            cells.pop()
    widths = Counter(len(cells) for _, cells in table.rows)
    width, most = widths.most_common(1)[0]
    if width > n and most > widths[n]:
        cells = next(cells for _, cells in table.rows if len(cells) == width)
        first = ", ".join(f"{i}: {cell[:30]!r}" for i, cell in enumerate(cells[:6], 1))
        start = 2 if _counts_up([row[0] for _, row in table.rows]) else 1  # after an index
        numbers = ",".join(map(str, range(start, start + n)))
        raise DataError(
            f"{table.file} has {width} columns, expected {expected} ({first}).\n"
            + ("Say which is" if n == 1 else "Say which are")
            + f" {' and '.join(labels)} by number, such as --columns {numbers}"
            + ("; --format plain reads whole lines." if n == 1 else ".")
        )
    for where, cells in table.rows:
        if len(cells) != n:
            found = "no tab" if len(cells) == 1 else counted(len(cells) - 1, "tab")
            line = "\t".join(cells)
            raise DataError(f"{where}: expected {expected}, found {found}: {line[:60]!r}.\n{_fix(table)}")
    return list(range(n))


def _fix(table: Table) -> str:
    """What to do about a line with too few tabs."""
    if any(len(cells) > 1 for _, cells in table.rows):
        return "Fix the line, or remove it."
    if any(all(delimiter in cells[0] for _, cells in table.rows) for delimiter in ",;"):
        return "Put a tab between the columns, or pass --format csv for commas."
    return f"Put a tab between the columns; of parallel files: paste {table.file} OTHER > pairs.tsv"


def _counts_up(cells: Sequence[str]) -> bool:
    """Whether cells are numbers that increase by one."""
    if len(cells) < 3 or not all(cell.isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))
