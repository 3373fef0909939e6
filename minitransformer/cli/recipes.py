"""`minitransformer recipes`: list the recipes."""

from __future__ import annotations

from .parsing import parse
from .recipe_flags import listing


def run(argv: list[str]) -> None:
    def recipes() -> None:
        """List the recipes that come with the package."""

    parse(recipes, argv, "minitransformer recipes")
    print(listing())
