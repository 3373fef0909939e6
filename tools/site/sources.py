"""Links that Markdown does not have: files of the repository, highlighted, and names of the reference."""

from __future__ import annotations

import builtins
import inspect
import posixpath
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.util.nodes import make_refnode
from sphinx.util.osutil import relative_uri

from minigrad.core.op import info_of

from .api import reference
from .pages import FILES, ROOT, originals

FILE = re.compile(r"(minigrad|minitransformer|demos|tests|tools|benchmarks|docs)/[\w./-]+")
NAME = re.compile(r"([A-Za-z][\w.]+)(\(.*\))?", re.DOTALL)
SHORT = {
    "mg": "minigrad",
    "Tensor": "minigrad.Tensor",
    "nn": "minigrad.nn",
    "F": "minigrad.nn.functional",
    "optim": "minigrad.optim",
}
LANGUAGES = {".py": "python", ".pyi": "python", ".toml": "toml", ".js": "javascript", ".cu": "cuda"}
SIDEBARS: dict[int, str] = {}
LINKED: set[Path] = set()  # the files and folders that get a page


def link_files(app: Any, doctree: nodes.document) -> None:
    """Resolve links to files of the site and of the repository; file names in the text become links."""
    page = app.env.docname
    original = originals().get(page, ROOT / page)
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node["reftype"] == "class" and hasattr(builtins, node["reftarget"]):
            node.replace_self(nodes.Text(node["reftarget"]))  # it is not minigrad.bool
            continue
        name, _, line = node["reftarget"].partition("#")
        if node["reftype"] != "myst" or node.get("refdomain") or not name:
            continue
        copied = posixpath.normpath(posixpath.join(posixpath.dirname(page), name))
        file = (ROOT / name[1:] if name.startswith("/") else original.parent / name).resolve()
        if (FILES / copied).exists():
            uri = relative_uri(f"{page}.html", copied)
        elif file.exists() and file.is_relative_to(ROOT):
            uri = relative_uri(f"{page}.html", source(file, page)) + (f"#{line}" if line else "")
        else:
            continue
        node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))
    for node in list(doctree.findall(nodes.literal)):
        text = node.astext()
        if isinstance(node.parent, nodes.reference):
            continue
        if FILE.fullmatch(text) and (ROOT / text).exists() and not text.endswith(".gz"):
            wrap(
                node, nodes.reference("", "", refuri=relative_uri(f"{page}.html", source(ROOT / text, page)))
            )
        elif text.startswith("by-hand.html#"):  # a place in the live page
            wrap(node, nodes.reference("", "", refuri=relative_uri(f"{page}.html", f"live/{text}")))


def link_names(app: Any, doctree: nodes.document, page: str) -> None:
    """Names in the text, such as `nn.Linear`, become links to their entries in the reference."""
    known = app.env.domains.python_domain.objects
    for node in list(doctree.findall(nodes.literal)):
        if (found := NAME.fullmatch(node.astext())) and not is_linked(node):
            first, dot, rest = found[1].partition(".")
            name = f"{SHORT.get(first, first)}.{rest}" if dot else f"minitransformer.{first}"
            name = reference().aliases.get(name, name)
            if name in known and known[name].docname != page:
                target = known[name]
                wrap(node, make_refnode(app.builder, page, target.docname, target.node_id, []))


def is_linked(node: nodes.Node) -> bool:
    while (node := node.parent) is not None:
        if isinstance(node, nodes.reference | nodes.title | addnodes.desc_signature):
            return True
    return False


def wrap(node: nodes.Node, reference: nodes.reference) -> None:
    node.replace_self(reference)
    reference += node


def type_of_signature(app: Any, env: Any, node: Any, contents: nodes.Node) -> nodes.Node | None:
    """A type in a signature that has no entry, such as NumPy's: its name without a link."""
    return contents if node.get("refdomain") == "py" and node["reftype"] in ("class", "obj") else None


def linkcode_resolve(domain: str, info: dict[str, str]) -> str | None:
    """The place in the source of an object of the reference, for sphinx.ext.linkcode."""
    thing = resolve_name(info["module"])
    for name in info["fullname"].split("."):
        thing = inspect.unwrap(getattr(thing, name, None))
    thing = op.source if (op := info_of(thing)) else getattr(thing, "fget", None) or thing
    try:
        file, line = Path(inspect.getsourcefile(thing) or ""), inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return None
    return f"../{source(file, '')}#line-{line}" if file.is_relative_to(ROOT) else None


def source(file: Path, linking: str) -> str:
    """The page of a file: the one that is made from it, or, for that one's own links, one with its text."""
    for page, original in originals().items():
        if file == original and page != linking:
            return f"{page}.html"
    LINKED.add(file)
    return f"source/{file.relative_to(ROOT).as_posix()}.html"


def pages(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all files that are linked, and of those in folders that are linked."""
    for folder in [path for path in LINKED if path.is_dir()]:
        LINKED.update(file for file in folder.iterdir() if file.suffix in LANGUAGES)
    for path in sorted(LINKED):
        if path.is_dir():
            inside = sorted(file.name for file in path.iterdir() if file in LINKED)
            links = (f'<li><a href="{path.name}/{name}.html">{name}</a></li>' for name in inside)
            body = f"<ul>{''.join(links)}</ul>"
        else:
            body = app.builder.highlighter.highlight_block(
                path.read_text(encoding="utf-8"), LANGUAGES.get(path.suffix, "text"), linespans="line"
            )
        title = path.relative_to(ROOT).as_posix()
        yield f"source/{title}", {"title": title, "body": f"<h1>{escape(title)}</h1>{body}"}, "page.html"


def share_contents(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Make the sidebar once for all these pages in folders of the same depth: it takes most of their time."""
    if page.startswith("source/"):
        make, depth = context["toctree"], page.count("/")
        context["toctree"] = lambda **options: (
            SIDEBARS.get(depth) or SIDEBARS.setdefault(depth, make(**options))
        )
