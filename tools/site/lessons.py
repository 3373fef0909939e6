"""The lessons as notebooks: those that readers download, and those that myst-nb executes for the site."""

from __future__ import annotations

import json
import shutil

from minitransformer.cli.lesson import as_notebook

from .pages import BUILD, FILES, LESSONS, PAGES, rewrite

EXECUTED = BUILD.parent / "lessons"  # myst-nb keeps their results there
LINKS = """

[Download as a notebook](../notebooks/{0}.ipynb), which needs the library
([install](../../docs/start.md#install)) · [the script]({0}.py)
"""


def write(stored: bool) -> None:
    """Write the lessons to PAGES, and their notebooks to FILES; `stored` keeps the results of last time."""
    if not stored:
        shutil.rmtree(EXECUTED, ignore_errors=True)
    for folder in (PAGES / "lessons", FILES / "notebooks"):
        folder.mkdir(parents=True)
    for script in sorted(LESSONS.glob("[0-9]*.py")):
        made = as_notebook(script)
        (FILES / "notebooks" / f"{script.stem}.ipynb").write_text(json.dumps(made), encoding="utf-8")
        opening, start, *_ = made["cells"]
        title, _, rest = opening["source"].partition("\n")
        opening["source"] = title + LINKS.format(script.stem) + rest
        start["metadata"]["tags"] = ["remove-cell"]  # it says where the lessons are
        for cell in made["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = rewrite(script, f"lessons/{script.stem}", cell["source"])
        (PAGES / "lessons" / f"{script.stem}.ipynb").write_text(json.dumps(made), encoding="utf-8")
