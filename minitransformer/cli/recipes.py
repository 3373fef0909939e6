"""`minitransformer recipes`: list the recipes."""

from __future__ import annotations

from .parsing import run_command
from .recipe_flags import listing


def run(argv: list[str]) -> None:
    def recipes() -> None:
        """List the recipes that come with the package."""

    run_command(recipes, argv, "minitransformer recipes")
    print(listing())
