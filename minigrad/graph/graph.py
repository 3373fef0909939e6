"""Graph: a computation that was traced, what of it is folded, and its pictures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from .data import Computation
from .folding import Fold, Folding, everything_open, fitting, opened_at, to_depth
from .labels import summary


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Computation):
    """A computation that was traced. It refers to no tensor and does not change.

    fold() and expand() return new graphs that share all but what is drawn open.
    """

    folded: Fold | None = None  # None: as many groups open as fit on a page

    def __repr__(self) -> str:
        title = f' "{self.title}"' if self.title else ""
        return f"<Graph{title}: {summary(self)}>"

    def fold(self, depth: int) -> Graph:
        """With modules open down to `depth` only: 0 shows the outermost closed. Stacks show a member."""
        return replace(self, folded=to_depth(self, depth))

    def expand(self, path: str | None = None) -> Graph:
        """With the module at `path` open as well ("encoder.layers.0"); without a path, everything open."""
        if path is None:
            return replace(self, folded=everything_open(self))
        return replace(self, folded=opened_at(self, self.folding.fold, path))

    @cached_property
    def folding(self) -> Folding:
        return Folding(self, self.folded or fitting(self))

    # what draws is imported when it is first needed

    def to_svg(self, color: str = "family") -> str:
        """An SVG document; boxes are coloured by "family" (of the op), "gradient", "bytes" or "flops"."""
        from .svg import to_svg

        return to_svg(self.folding, color)

    def to_dot(self, color: str = "family") -> str:
        """The graph in Graphviz's language."""
        from .dot import to_dot

        return to_dot(self.folding, color)

    def to_html(self, color: str = "family") -> str:
        """A self-contained page: fold and unfold, look at every number, walk backward step by step."""
        from .page import to_html

        return to_html(self.folding, color)

    def save(self, path: str | Path, color: str = "family") -> None:
        """Write the picture: .svg or .html (no other program needed), .dot, or .png and .pdf (by Graphviz).

        DependencyError: .png or .pdf without Graphviz's `dot`; the .dot text is written in any case.
        """
        from .saving import save

        save(self.folding, path, color)

    # what notebooks and their exports show

    def _repr_html_(self) -> str:
        from .inline import InlinePage
        from .page import picture

        title = self.title or "Computation graph"
        return InlinePage(self.to_html(), picture(self.folding), title)._repr_html_()

    def _repr_svg_(self) -> str:
        return self.to_svg()
