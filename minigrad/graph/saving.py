"""Pictures as files; the suffix says the format."""

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
    """Write a picture to `path`, in the format of its suffix."""
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise OptionError(f"path must be a file name, got {path!r}.\nUse graph.html, for example.")
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in TEXTS:
        write_atomically(path, TEXTS[suffix](folding, color).encode())
    elif suffix in DRAWN:
        write_atomically(path, _drawn(to_dot(folding, color), path))
    else:
        raise OptionError(
            f"a graph can be saved as {', '.join((*TEXTS, *DRAWN))}, got {path.name!r}.\n"
            f"Use graph.html, for example."
        )


def _drawn(dot: str, path: Path) -> bytes:
    """The picture that Graphviz draws; without Graphviz the text is written, and an error says what to do."""
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
        f"{path.suffix} needs {missing}, which is not installed; {text} has the text to draw.\n"
        f"Install it, or save the graph as .svg or .html, which need nothing else."
    )
