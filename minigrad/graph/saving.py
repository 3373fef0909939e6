"""Functions that save pictures to files. The suffix determines the format."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.errors import OptionError
from ..io import write_atomically
from . import drawing, svg
from .folding import Folding
from .page import to_html

SUFFIXES = (".svg", ".html", ".dot", ".gv", ".png", ".pdf")


def to_svg(folding: Folding, color: str = "family", across: bool = False) -> str:
    """Return the drawing as an SVG document, drawn by Graphviz if it is installed, otherwise by svg.py."""
    if drawing.find_engine() is None:
        return svg.to_svg(folding, color)
    return drawing.to_graphviz(folding, color, across).pipe(format="svg", encoding="utf-8", quiet=True)


def save(folding: Folding, path: str | Path, color: str = "family", across: bool = False) -> None:
    """Save a picture to `path`, in the format of its suffix. Raise an OptionError for an unknown suffix."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise OptionError(f"path must be a file name, got {path!r}.\nPass, for example, graph.html.")
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".svg":
        content = to_svg(folding, color, across).encode()
    elif suffix == ".html":
        content = to_html(folding, color).encode()
    elif suffix in (".dot", ".gv"):
        content = drawing.to_graphviz(folding, color, across).source.encode()
    elif suffix in SUFFIXES:
        content = drawing.render(folding, color, across, suffix[1:])
    else:
        raise OptionError(
            f"a graph can be saved as {', '.join(SUFFIXES)}, got {path.name!r}.\n"
            f"Pass, for example, graph.html."
        )
    write_atomically(path, content)
