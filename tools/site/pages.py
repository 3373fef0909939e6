"""What the site consists of, in reading order; copies of all pages, where Sphinx reads them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # as the files that links lead to
DOCS = ROOT / "docs"
LESSONS = ROOT / "demos" / "lessons"
BUILD = ROOT / "build" / "site"
PAGES = BUILD / "pages"  # what Sphinx reads
FILES = BUILD / "files"  # what is copied to the site as it is

# caption in the sidebar: its pages (tools.site.api and tools.site.ops write those of api and ops)
CHAPTERS = {
    "Begin": ("start", "questions", "sharp-bits"),
    "Learn": ("course", "documents", "a-training-step", "glossary"),
    "minigrad": ("tensors", "your-own-op", "graphs", "pytorch"),
    "minitransformer": ("models", "training", "your-data", "generation", "looking-inside", "visualizers"),
    "What was measured": ("results", "claims", "speed"),
    "Reference": ("gallery", "api", "ops", "contributing", "changelog"),
}
# pages below another in the sidebar
BELOW = {
    "start": tuple(f"how-to/{name}" for name in (
        "gpt-on-your-text", "translator-for-your-language", "classifier-and-tagger", "fine-tune",
        "find-a-nan", "see-a-gradient", "compare-two-ideas", "teach-a-class",
    )),
    "course": tuple(f"lessons/{script.stem}" for script in sorted(LESSONS.glob("[0-9]*.py"))),
}  # fmt: skip

LINK = re.compile(r"(\[[\w/-]+\.md)?\]\(([^)\s]+)\)")  # with its text, if that is the name of a page
CODE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)


def gather() -> None:
    """Copy all Markdown pages to PAGES, with the links and the tables of contents that Sphinx needs."""
    shutil.copytree(DOCS, PAGES)
    for name, file in originals().items():
        if file.suffix == ".md":
            text = rewrite(file, name, file.read_text(encoding="utf-8"))
            (PAGES / f"{name}.md").write_text(text, encoding="utf-8")


def originals() -> dict[str, Path]:
    """The file that each page is made from."""
    pages = {file.relative_to(DOCS).with_suffix("").as_posix(): file for file in DOCS.rglob("*.md")}
    pages |= {name: LESSONS / Path(name).with_suffix(".py").name for name in BELOW["course"]}
    return pages | {name: ROOT / f"{name.upper()}.md" for name in ("contributing", "changelog")}


def rewrite(file: Path, name: str, text: str) -> str:
    """A page for Sphinx: with links to where pages lie on the site, and with tables of contents."""
    pages = {original: page for page, original in originals().items()}

    def changed(link: re.Match[str]) -> str:
        target, hash_, anchor = link[2].partition("#")
        page = pages.get((file.parent / target).resolve()) if target else None
        if page is None:
            return link[0]
        extension = ".ipynb" if page.startswith("lessons/") else ".md"
        to = Path(os.path.relpath(f"{page}{extension}", Path(name).parent)).as_posix()
        return f"{'[' if link[1] else ''}]({to}{hash_}{anchor})"  # without a text, the title is shown

    parts = CODE.split(text)  # code is at odd places
    parts[::2] = [LINK.sub(changed, part) for part in parts[::2]]
    return "".join(parts) + contents(name)


def contents(name: str) -> str:
    """The tables of contents of a page, which only the sidebar shows."""
    tables = CHAPTERS if name == "index" else {"": BELOW[name]} if name in BELOW else {}
    text = ""
    for caption, pages in tables.items():
        lines = [":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages]
        text += "\n".join(["", "```{toctree}", *lines, "```", ""])
    return text
