"""What the site consists of, in reading order; copies of all pages, where Sphinx reads them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

# caption in the sidebar: its pages; a page that is not written yet is left out
CHAPTERS = {
    "Begin": ("start", "questions", "sharp-bits"),
    "Learn": ("course", "documents", "a-training-step", "glossary"),
    "minigrad": ("tensors", "your-own-op", "graphs", "pytorch"),
    "minitransformer": ("models", "training", "your-data", "generation", "looking-inside", "visualizers"),
    "What was measured": ("results", "claims", "speed"),
    "Reference": ("gallery", "api", "ops", "contributing"),
}
# pages below another in the sidebar
BELOW = {
    "start": tuple(f"how-to/{name}" for name in (
        "gpt-on-your-text", "translator-for-your-language", "classifier-and-tagger", "fine-tune",
        "find-a-nan", "see-a-gradient", "compare-two-ideas", "teach-a-class",
    )),
}  # fmt: skip

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)


def gather(target: Path) -> None:
    """Copy all pages to a folder, with links between them and the tables of contents that Sphinx needs."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target)
    for name, file in originals().items():
        page = target / f"{name}.md"
        page.write_text(rewrite(name, file.read_text(encoding="utf-8")), encoding="utf-8")


def originals() -> dict[str, Path]:
    """The file that each page is made from."""
    pages = {file.relative_to(DOCS).with_suffix("").as_posix(): file for file in DOCS.rglob("*.md")}
    return pages | {"contributing": ROOT / "CONTRIBUTING.md"}


def rewrite(name: str, text: str) -> str:
    """A page for Sphinx: with links to where pages lie on the site, and with tables of contents."""
    pages = {file: name for name, file in originals().items()}

    def changed(link: re.Match[str]) -> str:
        target, hash_, anchor = link[1].partition("#")
        page = pages.get((originals()[name].parent / target).resolve()) if target else None
        if page is None:
            return link[0]
        return f"]({os.path.relpath(f'{page}.md', Path(name).parent)}{hash_}{anchor})".replace(os.sep, "/")

    parts = CODE.split(text)  # code is at odd places
    parts[::2] = [LINK.sub(changed, part) for part in parts[::2]]
    return "".join(parts) + contents(name)


def contents(name: str) -> str:
    """The tables of contents of a page, which only the sidebar shows."""
    tables = CHAPTERS if name == "index" else {"": BELOW[name]} if name in BELOW else {}
    written = originals()
    text = ""
    for caption, pages in tables.items():
        lines = [":hidden:", *([f":caption: {caption}"] if caption else []), ""]
        lines += [page for page in pages if page in written]
        text += "\n".join(["", "```{toctree}", *lines, "```", ""])
    return text
