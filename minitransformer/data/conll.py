"""Tagged words, one per line: CoNLL's formats, CoNLL-U, and JSON lines with lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import counted, did_you_mean
from .columns import is_name, normal_name, select_columns
from .tables import (
    KINDS,
    DataError,
    Examples,
    FileFormat,
    cell_text,
    detect_format,
    format_error,
    looks_like_conllu,
    read_lines,
    read_table,
)

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # of CoNLL-U
EXPECTED = "word<TAB>tag on each line, a blank line between sentences"
WORD_NAMES = {"word", "words", "token", "tokens", "form", "text"}
TAG_NAMES = {"tag", "tags", "ner", "ner_tag", "ner_tags", "pos", "upos", "label", "labels", "chunk", "entity"}


class Word(NamedTuple):
    """A word, its tag, and their place in the file."""

    where: str
    word: str
    tag: str


def read_words(path: str | Path, how: FileFormat) -> Examples:
    """The sentences of a file: lists of words with their tags."""
    if how.is_plain:
        return _plain(path)
    lines = list(read_lines(path))
    kind = how.format
    if kind == "auto":
        kind = detect_format(path, [line for _, line in lines], "conll")
        if kind == "conllu" and not looks_like_conllu([line for _, line in lines if line.strip()]):
            kind = "conll"
    match kind:
        case "conllu":
            return _conllu(path, lines, how)
        case "json" | "jsonl":
            return _lists(path, how)
        case "conll" | "tsv":
            return _conll(path, lines, how)
    raise format_error(str(path), KINDS[kind], EXPECTED)


def _plain(path: str | Path) -> Examples:
    """Each line's first and last column, separated by tabs or spaces."""
    sentences: list[list[Word]] = [[]]
    for where, line in read_lines(path):
        columns = line.split()
        if not columns:
            sentences.append([])
        elif len(columns) == 1:
            raise _missing_tag(where, line)
        elif columns[0] != "-DOCSTART-":
            sentences[-1].append(Word(where, columns[0], columns[-1]))
    return Examples(sentence for sentence in sentences if sentence)


def _missing_tag(where: str, line: str) -> DataError:
    return DataError(f"{where}: expected word<TAB>tag, found {line[:60]!r}.\nFix the line, or remove it.")


# ---------------------------------------------------------------- CoNLL


def _conll(path: str | Path, lines: Sequence[tuple[str, str]], how: FileFormat) -> Examples:
    """Columns separated by tabs, or by spaces: the first is the word and the last its tag, unless columns
    are chosen. Comments and -DOCSTART- are skipped."""
    file = Path(path).name
    data = [line for _, line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))]
    tabs = bool(data) and all("\t" in line for line in data)
    split = _split_at_tabs if tabs else str.split
    widths = Counter(len(split(line)) for line in data)
    width = widths.most_common(1)[0][0] if widths else 0
    if width == 1:
        where, line = next((w, line) for w, line in lines if line in data)
        raise DataError(f"{where}: expected word<TAB>tag, found {line[:60]!r}.\n{_one_column(data)}")
    sentences: list[list[Word]] = [[]]
    comments = 0
    ragged = ""
    header = _conll_header(lines, split, how)
    columns = _numbers(file, how, width)
    names = next((split(line) for where, line in lines if where == header), None)
    for where, line in lines:
        cells = split(line)
        if not line.strip():
            sentences.append([])
        elif where == header:
            continue
        elif cells == names:
            raise DataError(
                f"{where} repeats the header: {line[:60]!r}.\nRemove it; were several files concatenated?"
            )
        elif cells[0] == "-DOCSTART-":
            sentences.append([])
        elif line.startswith("#") and not sentences[-1] and _is_comment(line, cells, width, tabs):
            comments += 1
        else:
            word, tag = _word_and_tag(where, line, cells, columns)
            if tabs and any(map(str.isspace, word)):
                raise DataError(
                    f"{where}: a word contains a space: {word[:60]!r}.\n"
                    f"Write each word on its own line, with its tag."
                )
            if len(cells) > width and not how.chosen:
                raise DataError(
                    f"{where} has {counted(len(cells), 'column')}, most have {width}: {line[:60]!r}.\n"
                    f"Write each word on its own line; if these are columns, name two: --columns 1,{width}."
                )
            if len(cells) != width and not ragged:
                ragged = f"{where.rpartition(', ')[2]} has {counted(len(cells), 'column')}, most have {width}"
            sentences[-1].append(Word(where, word, tag))
    notes = []
    if comments or header or width > 2 or how.chosen:
        read = f"column {columns[0] + 1} as word, {columns[1] + 1 if columns[1] >= 0 else width} as tag"
        left = [f"{counted(comments, 'comment')}" if comments else "", "the header" if header else ""]
        rest = f"; not read: {' and '.join(filter(None, left))}" if any(left) else ""
        notes.append(f"{file}: CoNLL, {counted(width, 'column')}: {read}{rest}")
    if ragged:
        notes.append(f"warning: {file}: {ragged}; is a column missing?")
    return Examples((sentence for sentence in sentences if sentence), notes)


def _split_at_tabs(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.split("\t")]
    while len(cells) > 2 and not cells[-1]:  # tabs at the end of a line
        cells.pop()
    return cells


def _one_column(lines: Sequence[str]) -> str:
    if all("," in line for line in lines):
        return "Put a tab between the columns, instead of commas."
    return f"Write {EXPECTED}."


def _is_comment(line: str, cells: Sequence[str], width: int, tabs: bool) -> bool:
    """Whether a line that starts with # before the first word of a sentence is a comment."""
    return len(cells) != width or (tabs and "\t" not in line)


def _numbers(file: str, how: FileFormat, width: int) -> tuple[int, int]:
    """The columns of word and tag."""
    if not how.chosen:
        return 0, -1
    if len(how.chosen) != 2 or not all(name.isdecimal() for name in how.chosen):
        raise DataError(
            f"{file}: expected two column numbers for CoNLL, got --columns {how.columns}.\n"
            f"Name those of word and tag, such as --columns 1,{width}."
        )
    numbers = [int(name) for name in how.chosen]
    if outside := [n for n in numbers if not 1 <= n <= width]:
        raise DataError(
            f"{file} has {counted(width, 'column')}, there is no column {outside[0]}.\nCount from 1."
        )
    return numbers[0] - 1, numbers[1] - 1


def _conll_header(lines: Sequence[tuple[str, str]], split: Any, how: FileFormat) -> str:
    """The place of the header; an empty string if there is none. A DataError if that is unclear."""
    first = next(((where, split(line)) for where, line in lines if line.strip()), None)
    if first is None or how.header is False:
        return ""
    where, cells = first
    if how.header:
        return where
    names = [normal_name(cell) for cell in cells]
    if names[0] in WORD_NAMES and names[-1] in TAG_NAMES:
        return where
    again = sum(split(line)[-1:] == cells[-1:] for _, line in lines) > 1
    if names[0] in WORD_NAMES and all(map(is_name, cells)) and cells[-1] != "O" and not again:
        raise DataError(
            f"{where} may be a header: {' | '.join(cells)[:60]}.\n"
            f"Pass --header if it is one, or --no-header if it is data."
        )
    return ""


def _word_and_tag(where: str, line: str, cells: Sequence[str], columns: tuple[int, int]) -> tuple[str, str]:
    if len(cells) < 2 or max(columns) >= len(cells) or not (cells[columns[0]] and cells[columns[1]]):
        raise _missing_tag(where, line)
    return cells[columns[0]], cells[columns[1]]


# ---------------------------------------------------------------- CoNLL-U


def _conllu(path: str | Path, lines: Sequence[tuple[str, str]], how: FileFormat) -> Examples:
    """The words of CoNLL-U (universaldependencies.org/format.html) with their parts of speech, or with
    another column. Comments, ranges of words (1-2) and empty nodes (1.1) are skipped."""
    file = Path(path).name
    word, tag = _conllu_columns(file, how)
    sentences: list[list[Word]] = [[]]
    left = Counter[str]()
    for where, line in lines:
        cells = line.split("\t")
        if not line.strip():
            sentences.append([])
        elif line.startswith("#"):
            left["comment"] += 1
        elif len(cells) != len(FIELDS):
            raise DataError(
                f"{where}: expected the {len(FIELDS)} columns of CoNLL-U, separated by tabs, found "
                f"{len(cells)}: {line[:60]!r}.\nFix the line, or pass --format conll."
            )
        elif "-" in cells[0]:
            left["range of words"] += 1
        elif "." in cells[0]:
            left["empty node"] += 1
        else:
            # a word of a treebank may contain spaces ("10 000"), and no word has an empty tag
            sentences[-1].append(Word(where, "".join(cells[word].split()), cells[tag].strip() or "_"))
    found = [sentence for sentence in sentences if sentence]
    if found and all(each.tag == "_" for sentence in found for each in sentence):
        others = [name for name in ("upos", "xpos") if name != FIELDS[tag]]
        raise DataError(
            f"{file}: the column {FIELDS[tag]} is empty: all tags are _.\n"
            f"Choose another, such as --columns form,{others[0]}."
        )
    listed = ", ".join(
        f"{n:,} {name if n == 1 else 'ranges of words' if name.startswith('range') else name + 's'}"
        for name, n in left.items()
    )
    rest = f"; not read: {listed}" if listed else ""
    return Examples(found, [f"{file}: CoNLL-U: {FIELDS[word]} as word, {FIELDS[tag]} as tag{rest}"])


def _conllu_columns(file: str, how: FileFormat) -> tuple[int, int]:
    chosen = [name.lower() for name in how.chosen] or ["form", "upos"]
    chosen = [FIELDS[int(n) - 1] if n.isdecimal() and 1 <= int(n) <= len(FIELDS) else n for n in chosen]
    unknown = [name for name in chosen if name not in FIELDS]
    if unknown or len(chosen) != 2:
        problem = f"has no column {unknown[0]!r}" if unknown else "needs two columns, of word and tag"
        close = did_you_mean(unknown[0], FIELDS) if unknown else ""
        raise DataError(
            f"{file}: CoNLL-U {problem}.{close}\n"
            f"Choose from {', '.join(FIELDS)}, such as --columns form,xpos."
        )
    return FIELDS.index(chosen[0]), FIELDS.index(chosen[1])


# ---------------------------------------------------------------- JSON


def _lists(path: str | Path, how: FileFormat) -> Examples:
    """The sentences of JSON objects with a list of words and a list of tags."""
    table = read_table(path, how, "jsonl", EXPECTED)
    sentences = []
    for where, (words, tags) in select_columns(table, ["words", "tags"], ["words", "tags"], how, lists=True):
        if not (isinstance(words, list) and isinstance(tags, list) and len(words) == len(tags)):
            sizes = [f"{len(x)}" if isinstance(x, list) else "no list of" for x in (words, tags)]
            raise DataError(
                f"{where}: {sizes[0]} words and {sizes[1]} tags.\nWrite two lists of the same length."
            )
        pairs = [
            ("".join(cell_text(w).split()), cell_text(t).strip()) for w, t in zip(words, tags, strict=True)
        ]
        if not all(word and tag for word, tag in pairs):
            raise DataError(f"{where}: an empty word or tag.\nFix the line, or remove it.")
        sentences.append([Word(where, word, tag) for word, tag in pairs])
    return Examples((sentence for sentence in sentences if sentence), table.notes)
