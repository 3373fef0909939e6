"""Files of the repository that pages link to, as pages of the site: their text, highlighted."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.osutil import relative_uri

from .pages import FILES, ROOT, originals

NAME = re.compile(r"(minigrad|minitransformer|demos|tests|tools|benchmarks|docs)/[\w./-]*")

LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    ".toml": "toml",
    ".js": "javascript",
    ".cu": "cuda",
    ".ipynb": "json",
}


def link(app: Any, doctree: nodes.document) -> None:
    """Resolve links to files of the site and of the repository; file names in the text become links."""
    page = app.env.docname
    original = originals().get(page)  # a page of the reference has none: its links are absolute
    for node in list(doctree.findall(addnodes.pending_xref)):
        name, _, line = node["reftarget"].partition("#")
        if node["reftype"] != "myst" or node.get("refdomain") or not name:
            continue
        copied = posixpath.normpath(posixpath.join(posixpath.dirname(page), name))
        if (FILES / copied).exists():
            to = copied
        elif (file := linked_file(original, name)).exists() and file.is_relative_to(ROOT):
            to = f"{source(app, file, page)}.html" + (f"#{line}" if line.startswith("line-") else "")
        else:
            continue
        uri = relative_uri(f"{page}.html", to)
        node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))
    for node in list(doctree.findall(nodes.literal)):
        file = ROOT / node.astext()
        is_name = NAME.fullmatch(node.astext()) and file.exists() and file.suffix != ".gz"
        if is_name and not isinstance(node.parent, nodes.reference):
            reference = nodes.reference(
                "", "", refuri=relative_uri(f"{page}.html", f"{source(app, file, page)}.html")
            )
            node.replace_self(reference)
            reference += node


def linked_file(original: Path | None, link: str) -> Path:
    return (original.parent / link if original else ROOT / link.lstrip("/")).resolve()


def source(app: Any, file: Path, linking: str) -> str:
    """The page of a file: the one that is made from it, or, for that one's own links, one with its text."""
    for page, original in originals().items():
        if file == original and page != linking:
            return page
    app.linked_sources.add(file)
    return name_of(file)


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
                path.read_text(encoding="utf-8"), LANGUAGES.get(path.suffix, "text"), linespans="line"
            )
        title = path.relative_to(ROOT).as_posix()
        yield name_of(path), {"title": title, "body": f"<h1>{escape(title)}</h1>{body}"}, "page.html"


def share_contents(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Make the sidebar once for all these pages in folders of the same depth: it takes most of their time."""
    if page.startswith("source/"):
        make, depth = context["toctree"], page.count("/")
        context["toctree"] = lambda **options: (
            app.sidebars.get(depth) or app.sidebars.setdefault(depth, make(**options))
        )


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
    app.sidebars = {}
    app.connect("html-collect-pages", pages)
    app.connect("html-page-context", share_contents, priority=400)  # before the theme uses them
    return {"parallel_read_safe": False, "parallel_write_safe": True}
