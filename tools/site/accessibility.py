"""What the theme and the table writer leave out for readers who listen to a page."""

from __future__ import annotations

from typing import Any

BODY = (
    ('<th class="head"><p></p></th>', "<td></td>"),  # an empty heading heads nothing
    ('<dl>\n<dd><em class="sig-param">', '<dl role="presentation">\n<dd><em class="sig-param">'),  # no terms
)
SIDEBAR = (('role="heading"', 'role="heading" aria-level="2"'),)


def complete(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    for key, changes in (("body", BODY), ("furo_navigation_tree", SIDEBAR)):
        for old, new in changes:
            context[key] = context.get(key, "").replace(old, new)


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", complete, priority=600)  # after the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
