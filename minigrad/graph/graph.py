"""The class Graph: a traced computation, with methods to fold and draw it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .data import Computation
from .fitting import fit
from .folding import Fold, Folding, open_all, open_path, to_depth
from .labels import summary

if TYPE_CHECKING:
    import graphviz


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Computation):
    """A traced computation. It is immutable and holds no tensors.

    fold() and expand() return new graphs with the same data and other groups open.
    """

    folded: Fold | None = None  # None: as many groups are open as fit on a screen

    def __repr__(self) -> str:
        title = f' "{self.title}"' if self.title else ""
        return f"<Graph{title}: {summary(self)}>"

    def fold(self, depth: int) -> Graph:
        """Return the graph with modules open down to `depth`. With 0, the outermost modules are closed."""
        return replace(self, folded=to_depth(self, depth))

    def expand(self, path: str | None = None) -> Graph:
        """Return the graph with the module at `path`, such as "encoder.layers.0", opened as well.

        Without a `path`, all modules are opened. Raise an OptionError for an unknown path.
        """
        if path is None:
            return replace(self, folded=open_all(self))
        return replace(self, folded=open_path(self, self.folding.fold, path))

    @cached_property
    def folding(self) -> Folding:
        return Folding(self, self.folded or fit(self))

    # the drawing code is imported when first needed

    def to_graphviz(self, color: str = "family", across: bool = False) -> graphviz.Digraph:
        """Return a drawing of the package graphviz, which a notebook displays.

        `color` is "family" (of the op), "gradient", "bytes" or "flops"; `across` draws from left to right.
        """
        from .drawing import to_graphviz

        return to_graphviz(self.folding, color, across)

    def to_svg(self, color: str = "family", across: bool = False) -> str:
        """Return an SVG document, drawn by Graphviz if it is installed.

        `across` draws from left to right; this needs Graphviz.
        """
        from .saving import to_svg

        return to_svg(self.folding, color, across)

    def to_dot(self, color: str = "family", across: bool = False) -> str:
        """Return the drawing in Graphviz's DOT language."""
        return self.to_graphviz(color, across).source

    def to_html(self, color: str = "family") -> str:
        """Return a self-contained page to fold groups, inspect numbers, and step through backward."""
        from .page import to_html

        return to_html(self.folding, color)

    def save(self, path: str | Path, color: str = "family", across: bool = False) -> None:
        """Save a picture as .svg, .png (two pixels per unit), .pdf or .dot, or the page as .html.

        `across` draws from left to right; this needs Graphviz.
        """
        from .saving import save

        save(self.folding, path, color, across)

    # notebooks and their exports call the following methods

    def _repr_html_(self) -> str:
        from .inline import InlinePage
        from .page import picture

        title = self.title or "Computation graph"
        return InlinePage(self.to_html(), picture(self.folding), title)._repr_html_()

    def _repr_svg_(self) -> str:
        return self.to_svg()
