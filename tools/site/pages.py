"""What the site consists of, in reading order; copies of all pages, where Sphinx reads them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # as the files that links lead to
DOCS = ROOT / "docs"
LESSONS = ROOT / "demos" / "lessons"
BUILD = ROOT / "build" / "site"
PAGES = BUILD / "pages"  # what Sphinx reads
FILES = BUILD / "files"  # what is copied to the site as it is
ADDRESS = os.environ.get("SITE_ADDRESS", "")  # of the published site, with a slash at its end; for previews

# caption in the sidebar: its pages (tools.site.api and tools.site.ops write api and ops)
CHAPTERS = {
    "Begin": ("start", "course", "teach", "documents"),
    "minigrad": ("tensors", "a-training-step", "graphs", "pytorch"),
    "minitransformer": ("models", "training", "your-data", "pretrained", "generation", "looking-inside"),
    "Both": ("your-own", "speed", "results", "claims"),
    "Reference": ("api", "ops", "contributing", "changelog"),
}
# pages below another in the sidebar
BELOW = {"course": tuple(f"lessons/{script.stem}" for script in sorted(LESSONS.glob("[0-9]*.py")))}
# pages that only links lead to
UNLISTED = ("readme", "security", "code_of_conduct")

FRONT = """---
myst:
  html_meta:
    description: An autograd engine on NumPy that you can read, and a Transformer trained with it.
    property=og:title: minigrad and minitransformer
    property=og:description: Play with a Transformer in the browser, and look at each of its numbers.
    property=og:image: {address}_images/explain-still.webp
---

"""

LINK = re.compile(r"(\[[\w/-]+\.md)?\]\(([^)\s]+)\)")  # with its text, if that is the name of a page
CODE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)


def gather() -> None:
    """Copy all Markdown pages to PAGES, with the links and the tables of contents that Sphinx needs."""
    shutil.copytree(DOCS, PAGES)
    for name, file in originals().items():
        if file.suffix == ".md":
            text = rewrite(file, name, file.read_text(encoding="utf-8"))
            (PAGES / f"{name}.md").write_text(text, encoding="utf-8")


@cache
def originals() -> dict[str, Path]:
    """The file that each page is made from."""
    pages = {file.relative_to(DOCS).with_suffix("").as_posix(): file for file in DOCS.rglob("*.md")}
    pages |= {name: LESSONS / Path(name).with_suffix(".py").name for name in BELOW["course"]}
    pages |= {name: ROOT / f"{name.upper()}.md" for name in ("contributing", "changelog", *UNLISTED)}
    return pages | {"ops": ROOT / "tools" / "reference.py"}  # it writes most of the page


def rewrite(file: Path, name: str, text: str) -> str:
    """A page for Sphinx: with links to where pages lie on the site, and with tables of contents."""
    pages = {original: page for page, original in originals().items()}

    def changed(link: re.Match[str]) -> str:
        target, hash_, anchor = link[2].partition("#")
        linked = (file.parent / target).resolve()
        page = pages.get(linked) if target else None
        if page not in (None, name):  # a page's link to the file that it is made from shows its text
            copied = f"{page}{'.ipynb' if page.startswith('lessons/') else '.md'}"
        elif linked.is_file() and linked.is_relative_to(DOCS):
            copied = linked.relative_to(DOCS)  # a picture
        else:
            return link[0]
        to = Path(os.path.relpath(copied, Path(name).parent)).as_posix()
        return f"{'[' if link[1] else ''}]({to}{hash_}{anchor})"  # if there is no text, the title is shown

    parts = CODE.split(text)  # code is at odd places
    parts[::2] = [LINK.sub(changed, part) for part in parts[::2]]
    front = (
        FRONT.format(address=ADDRESS)
        if name == "index"
        else "---\norphan: true\n---\n\n"
        if name in UNLISTED
        else ""
    )
    tables = CHAPTERS if name == "index" else {"": BELOW[name]} if name in BELOW else {}
    return front + "".join(parts) + "".join(contents(*table) for table in tables.items())


def contents(caption: str, pages: Iterable[str]) -> str:
    """A table of contents that only the sidebar shows."""
    lines = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```"]
    return "\n".join(["", *lines, ""])
