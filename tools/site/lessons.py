"""The lessons, executed as the notebooks that readers download.

A lesson is executed again when it or the library has changed; its results are kept in build/lessons. An error
in a cell fails the build. The page of a graph is replaced by its picture, which leads to the page.
"""

from __future__ import annotations

import copy
import hashlib
import html
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError

from minitransformer.claims.running import THREADS
from minitransformer.cli.lesson import as_notebook

from .pages import FILES, LESSONS, PAGES, ROOT

EXECUTED = ROOT / "build" / "lessons"
PROCESSES = 2
SECONDS = 120  # for a cell


def build(stored: bool) -> None:
    """Write the executed lessons to PAGES, and what they lead to, notebooks and graphs, to FILES."""
    lessons = sorted(LESSONS.glob("[0-9]*.py"))
    live = FILES / "live"
    for folder in (PAGES / "lessons", FILES / "notebooks", live):
        folder.mkdir(parents=True)
    for script in lessons:
        nbformat.write(notebook(script), FILES / "notebooks" / f"{script.stem}.ipynb")
    for script, executed in zip(lessons, execute_all(lessons, stored), strict=True):
        for cell in executed.cells:
            if cell.cell_type == "code":
                cell.outputs = list(static(cell.outputs, f"{script.stem}-{cell.id}", live))
        executed.cells[0].source = with_links(executed.cells[0].source, script)
        nbformat.write(executed, PAGES / "lessons" / f"{script.stem}.ipynb")


def notebook(script: Path) -> nbformat.NotebookNode:
    """A lesson as a notebook; the cells after its first one write the files that it imports."""
    made = nbformat.from_dict(as_notebook(script))
    text = script.read_text(encoding="utf-8")
    beside = [*sorted(LESSONS.glob("[a-z]*.py")), *sorted(LESSONS.parent.glob("*.py"))]
    files = [file for file in beside if re.search(rf"^(from|import) {file.stem}\b", text, re.MULTILINE)]
    cells = [
        nbformat.v4.new_code_cell(f"%%writefile {file.name}\n{file.read_text(encoding='utf-8')}")
        for file in files
    ]
    for cell in cells:
        cell.metadata = {"tags": ["remove-cell"], "jupyter": {"source_hidden": True}}
    made.cells[1:2] = cells  # instead of the folder of the lessons
    for i, cell in enumerate(made.cells):
        cell.id = f"cell-{i}"  # the same in each build
    return made


# ---------------------------------------------------------------- executing


def execute_all(lessons: list[Path], stored: bool) -> list[nbformat.NotebookNode]:
    """The executed lessons. They run two at a time, each on one thread, since some measure times."""
    with ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(lambda script: (stored and last(script)) or execute(script), lessons))


def last(script: Path) -> nbformat.NotebookNode | None:
    """A lesson as it was last executed."""
    found = sorted(EXECUTED.glob(f"{script.stem}-*.ipynb"))
    return nbformat.read(found[-1], 4) if found else None


def execute(script: Path) -> nbformat.NotebookNode:
    """A lesson with its outputs, executed once more if a cell does not end.

    A kernel sometimes misses a request, and waits for it forever.
    """
    kept = EXECUTED / f"{script.stem}-{state(notebook(script))}.ipynb"
    if kept.exists():
        return nbformat.read(kept, 4)
    try:
        made = executed_once(script)
    except CellTimeoutError:
        made = executed_once(script)
    EXECUTED.mkdir(parents=True, exist_ok=True)
    for old in EXECUTED.glob(f"{script.stem}-*.ipynb"):
        old.unlink()
    nbformat.write(made, kept)
    return made


def executed_once(script: Path) -> nbformat.NotebookNode:
    """A lesson with its outputs, executed in an empty folder on one thread."""
    made = notebook(script)
    environment = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        quiet = ["--log-level=ERROR"]
        client = NotebookClient(
            made, timeout=SECONDS, resources={"metadata": {"path": folder}}, extra_arguments=quiet
        )
        client.execute(env=environment)
    return made


def state(made: nbformat.NotebookNode) -> str:
    """A hash of a lesson and of the library that it uses."""
    parts = [cell.source.encode() for cell in made.cells]
    for package in ("minigrad", "minitransformer"):
        files = [file for file in sorted((ROOT / package).rglob("*.*")) if file.parent.name != "__pycache__"]
        parts += [file.read_bytes() for file in files if file.is_file()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


# ---------------------------------------------------------------- what the site shows of it


def static(outputs: list, name: str, folder: Path) -> Iterator[Any]:
    """Outputs that need no kernel; the page of a graph is a file of its own in the folder."""
    for i, output in enumerate(outputs):
        if "<iframe" in output.get("data", {}).get("text/html", ""):
            yield graph(output, folder / f"{name}-{i}.html")
        else:
            yield output


def graph(output: Any, page: Path) -> Any:
    """The picture of a graph, and a link to its page, which is written to a file."""
    text = re.search(r'<iframe .*?srcdoc="(.*?)"', output.data["text/html"], re.DOTALL)[1]
    page.write_text(html.unescape(text), encoding="utf-8")
    shown = copy.deepcopy(output)
    picture = re.search(r'<img alt=".*?" src="data:image/svg[^>]*>', output.data["text/html"])[0]
    address = f"../live/{page.name}"
    links = f'<p><a href="{address}">{picture}</a>\n<a href="{address}">The page alone</a></p>'
    shown.data = {"text/html": links}
    return shown


def with_links(opening: str, script: Path) -> str:
    """The first cell of a lesson, with links to the notebook and the script."""
    links = (
        f"[Download as a notebook](../notebooks/{script.stem}.ipynb), which needs the library "
        f"([install](../start.md#install)) · [the script]({script.name})"
    )
    title, _, rest = opening.partition("\n")
    return f"{title}\n\n{links}\n{rest}"
