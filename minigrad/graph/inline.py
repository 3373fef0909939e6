"""A page in a notebook, shown as an interactive frame over a static picture.

The frame is sandboxed, so its script cannot access the notebook's page. GitHub and untrusted notebooks remove
frames, and show the picture.
"""

from __future__ import annotations

import base64
import html


class InlinePage:
    """A notebook output that shows `page`, an HTML document, or, where that is removed, `picture`, an SVG.

    `title` is for screen readers; `height` is in pixels.
    """

    def __init__(self, page: str, picture: str = "", title: str = "", height: int = 640) -> None:
        self.page = page
        self.picture = picture
        self.title = title
        self.height = height

    def _repr_html_(self) -> str:
        title = html.escape(self.title)
        image = ""
        if self.picture:
            data = base64.b64encode(self.picture.encode()).decode()
            image = f'<img alt="{title}" src="data:image/svg+xml;base64,{data}" style="max-width: 100%">'
        return (
            f'<div style="position: relative; height: {self.height}px; overflow: auto">{image}'
            f'<iframe title="{title}" sandbox="allow-scripts" srcdoc="{html.escape(self.page)}" '
            f'style="position: absolute; inset: 0; width: 100%; height: 100%; box-sizing: border-box; '
            f'border: 1px solid #d7dee6; background: #ffffff"></iframe></div>'
        )
