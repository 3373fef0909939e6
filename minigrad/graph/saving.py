"""Saving pictures to files; the suffix determines the format."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..core.errors import DependencyError, OptionError
from ..io import write_atomically
from .dot import to_dot
from .folding import Folding
from .page import to_html
from .svg import to_svg

TEXTS = {".svg": to_svg, ".html": to_html, ".dot": to_dot, ".gv": to_dot}
DRAWN = (".png", ".pdf")  # drawn by Graphviz from the .dot text


def save(folding: Folding, path: str | Path, color: str = "family") -> None:
    """Save a picture to `path`, in the format of its suffix."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise OptionError(f"path must be a file name, got {path!r}.\nPass, for example, graph.html.")
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in TEXTS:
        write_atomically(path, TEXTS[suffix](folding, color).encode())
    elif suffix in DRAWN:
        write_atomically(path, _render(to_dot(folding, color), path))
    else:
        raise OptionError(
            f"a graph can be saved as {', '.join((*TEXTS, *DRAWN))}, got {path.name!r}.\n"
            f"Pass, for example, graph.html."
        )


def _render(dot: str, path: Path) -> bytes:
    """Return the picture that Graphviz draws; without Graphviz, write the .dot text and raise an error."""
    try:
        import graphviz
    except ImportError:
        missing = "the package graphviz (pip install graphviz)"
    else:
        if shutil.which("dot"):
            return graphviz.Source(dot).pipe(format=path.suffix.lower()[1:])
        missing = "Graphviz's program dot (apt install graphviz, brew install graphviz, or graphviz.org)"
    text = path.with_suffix(".dot")
    write_atomically(text, dot.encode())
    raise DependencyError(
        f"{path.suffix} needs {missing}, which is not installed; {text} was written instead.\n"
        f"Install it, or save the graph as .svg or .html."
    )
