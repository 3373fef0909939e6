"""Names in the text of all pages, such as `nn.Linear`, become links to their entries in the reference."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes

from .names import by_name

NAME = re.compile(r"([\w.]+)(\(.*\))?", re.DOTALL)


def link(app: Any, doctree: nodes.document) -> None:
    for node in list(doctree.findall(nodes.literal)):
        found = NAME.fullmatch(node.astext())
        target = by_name().get(found[1]) if found else None
        if target is None or inside_link(node):
            continue
        reference = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True
        )
        reference["refdoc"] = app.env.docname
        node.replace_self(reference)
        reference += node


def inside_link(node: nodes.Node) -> bool:
    """Whether a name is a link already, a heading, or in the entry's own signature."""
    while (node := node.parent) is not None:
        if isinstance(node, nodes.reference | nodes.title | addnodes.pending_xref | addnodes.desc_signature):
            return True
    return False


def annotated(app: Any, env: Any, node: Any, contents: nodes.Node) -> nodes.Node | None:
    """A type in a signature that has no entry, such as NumPy's: its name without a link."""
    return contents if node.get("refdomain") == "py" and node["reftype"] == "class" else None


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", link)
    app.connect("missing-reference", annotated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
