"""Saving pictures to files; the suffix determines the format."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.errors import OptionError
from ..io import write_atomically
from .dot import to_dot
from .folding import Folding
from .page import to_html
from .raster import render
from .svg import to_svg

TEXTS = {".svg": to_svg, ".html": to_html, ".dot": to_dot, ".gv": to_dot}
DRAWN = (".png", ".pdf")  # the drawing of the .svg


def save(folding: Folding, path: str | Path, color: str = "family") -> None:
    """Save a picture to `path`, in the format of its suffix."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise OptionError(f"path must be a file name, got {path!r}.\nPass, for example, graph.html.")
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in TEXTS:
        write_atomically(path, TEXTS[suffix](folding, color).encode())
    elif suffix in DRAWN:
        write_atomically(path, render(to_svg(folding, color), suffix[1:]))
    else:
        raise OptionError(
            f"a graph can be saved as {', '.join((*TEXTS, *DRAWN))}, got {path.name!r}.\n"
            f"Pass, for example, graph.html."
        )
