"""`minitransformer recipes`: list the recipes."""

from __future__ import annotations

import tyro

from .train import listing


def run(argv: list[str]) -> None:
    def recipes() -> None:
        """List the recipes that come with the package."""

    tyro.cli(recipes, args=argv, prog="minitransformer recipes")
    print(listing())
