"""Files of the repository that pages link to, as pages of the site: their text, highlighted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.osutil import relative_uri

from .pages import ROOT, originals

LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    ".toml": "toml",
    ".js": "javascript",
    ".cu": "cuda",
    ".ipynb": "json",
}


def link(app: Any, doctree: nodes.document) -> None:
    """Resolve links to files that are not pages."""
    docname = app.env.docname
    folder = originals()[docname].parent if docname in originals() else ROOT
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node["reftype"] != "myst" or node.get("refdomain"):
            continue
        target = (folder / node["reftarget"].partition("#")[0]).resolve()
        if node["reftarget"].startswith("#") or not target.is_relative_to(ROOT) or not target.exists():
            continue
        app.linked_sources.add(target)
        uri = relative_uri(f"{docname}.html", f"{name_of(target)}.html")
        node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))


def pages(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all files that are linked, and of those in folders that are linked."""
    waiting = sorted(app.linked_sources)
    seen = set(waiting)
    while waiting:
        path = waiting.pop(0)
        if path.is_dir():
            inside = [file for file in sorted(path.iterdir()) if file.is_file() and file.suffix in LANGUAGES]
            body = listing(path, inside)
            waiting += [file for file in inside if file not in seen]
            seen.update(inside)
        else:
            body = app.builder.highlighter.highlight_block(
                path.read_text(encoding="utf-8"), LANGUAGES.get(path.suffix, "text")
            )
        title = path.relative_to(ROOT).as_posix()
        yield name_of(path), {"title": title, "body": f"<h1>{escape(title)}</h1>{body}"}, "page.html"


def listing(folder: Path, files: list[Path]) -> str:
    """The files of a folder, each with what it is about."""
    rows = [
        f'<dt><a href="{folder.name}/{file.name}.html">{file.name}</a></dt><dd>{escape(summary(file))}</dd>'
        for file in files
    ]
    return f"<dl>{''.join(rows)}</dl>"


def summary(file: Path) -> str:
    """The first line of a file's docstring."""
    if file.suffix != ".py":
        return ""
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def name_of(path: Path) -> str:
    return f"source/{path.relative_to(ROOT).as_posix()}"


def setup(app: Any) -> dict[str, bool]:
    app.linked_sources = set()
    app.connect("doctree-read", link)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
