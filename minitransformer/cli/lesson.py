"""`minitransformer lesson [NUMBER]`: a lesson of the course in the terminal, or as a notebook."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.syntax import Syntax
from rich.table import Table

from minigrad.io import write_atomically

from ..errors import UserError
from .parsing import parse
from .subprocesses import run_python

PACKAGE = Path(__file__).parents[1]
IN_WHEEL = PACKAGE / "demos" / "lessons"
FOLDER = IN_WHEEL if IN_WHEEL.is_dir() else PACKAGE.parent / "demos" / "lessons"
PAUSE = re.compile(r"(?=^## )|^</?details>.*\n?", re.MULTILINE)  # before sections and answers


def run(argv: list[str]) -> None:
    def lesson(
        number: int | None = None, *, code: bool = False, notebook: bool = False, seed: int = 0
    ) -> None:
        """List the lessons, or read and run one.

        Text and the results of the lesson's code alternate; in a terminal, press Enter for the next section.
        Pictures are written to runs/lessons.

        Args:
            number: The number of the lesson, such as 1.
            code: Show the code, too.
            notebook: Write the lesson as a notebook, and open it if JupyterLab is installed.
            seed: The seed of the lesson's random numbers.
        """
        if number is None:
            Console(highlight=False).print(table())
            print("Begin with: minitransformer lesson 1")
            return
        if number not in lessons():
            raise UserError(f"there is no lesson {number}.\nChoose one of 1 to {len(lessons())}.")
        if seed < 0:
            raise UserError(f"--seed {seed} is negative.\nChoose 0 or more.")
        file = lessons()[number]
        if notebook:
            open_notebook(file, seed)
        else:
            read_and_run(file, code, seed)

    parse(lesson, argv, "minitransformer lesson")


def lessons() -> dict[int, Path]:
    """The files of the lessons, by number."""
    return {int(file.name[:2]): file for file in sorted(FOLDER.glob("[0-9]*.py"))}


def table() -> Table:
    """A table of the lessons: number, title, and minutes to read."""
    shown = Table("", "lesson", "minutes", box=None, padding=(0, 2, 0, 0))
    for number, file in lessons().items():
        title = cells(file)[0][1].partition("\n")[0].partition(". ")[2]
        shown.add_row(str(number), title, f"{minutes(file):.0f}")
    return shown


def cells(file: Path) -> list[tuple[str, str, int]]:
    """The cells of a lesson: kind ("markdown" or "code"), text, and number of lines before it.

    Markdown has no comment signs.
    """
    text = file.read_text(encoding="utf-8")
    found = []
    for match in re.finditer(r"^# %%(.*)\n((?:(?!# %%).*\n)*)", text, re.MULTILINE):
        line = text.count("\n", 0, match.start(2))
        if match[1]:
            found.append(("markdown", re.sub(r"^# ?", "", match[2], flags=re.MULTILINE).strip(), line))
        else:
            found.append(("code", match[2].rstrip(), line))
    return found


def minutes(file: Path) -> float:
    """The minutes to read a lesson, at 200 words or 12 lines of code a minute."""
    words = sum(len(text.split()) for kind, text, _ in cells(file) if kind == "markdown")
    lines = [line for kind, text, _ in cells(file) if kind == "code" for line in text.splitlines()]
    return words / 200 + sum(bool(line.strip()) for line in lines) / 12


def read_and_run(file: Path, with_code: bool, seed: int) -> None:
    """Print a lesson's text, run its code, and show what each cell prints below it."""
    console = Console(highlight=False)
    console.width = min(console.width, 100)
    sys.path.insert(0, str(file.parent))
    sys.argv = [file.name]
    helper: Any = import_module("lesson")
    helper.SEED = seed
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for kind, text, line in cells(file):
        if kind == "markdown":
            for part, is_last in parts(text):
                console.print(Markdown(part))
                print()
                if not is_last and sys.stdin.isatty() and sys.stdout.isatty():
                    with suppress(EOFError):
                        input("[Enter goes on] ")
            continue
        if with_code:
            console.print(Syntax(text.strip(), "python", background_color="default"))
        exec(compile("\n" * line + text, str(file), "exec"), namespace)
        print()


def parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield (part, is_last) for the parts of a text between which the reader pauses."""
    found = [part for part in PAUSE.split(text) if part.strip()]
    for i, part in enumerate(found, 1):
        yield part.strip(), i == len(found)


def open_notebook(file: Path, seed: int) -> None:
    """Write a lesson as a notebook to the current folder, and open it in JupyterLab."""
    target = Path(f"{file.stem}.ipynb")
    if target.exists():
        print(f"{target} exists; it was not changed.")
    else:
        write_atomically(target, json.dumps(as_notebook(file, seed), indent=1).encode())
        print(f"wrote {target}")
    if find_spec("jupyterlab") is None:
        print(f"To open it: pip install jupyterlab && jupyter lab {target}")
    elif sys.stdin.isatty():
        run_python(["-m", "jupyterlab", str(target)])


def as_notebook(file: Path, seed: int = 0) -> dict[str, Any]:
    """Return a lesson in the notebook format. An added cell makes modules beside the lesson importable."""
    start = "import sys\n\nfrom minitransformer.cli.lesson import FOLDER\n\nsys.path.insert(0, str(FOLDER))"
    if seed:
        start += f"\n\nimport lesson\n\nlesson.SEED = {seed}"
    first = ("code", start, 0)
    opening, *others = cells(file)
    made = []
    for i, (kind, text, _) in enumerate([opening, first, *others]):
        cell = {"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": text.strip()}
        made.append(cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
