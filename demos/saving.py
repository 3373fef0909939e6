"""Shared by demos: saves graphs, and prints user errors."""

import sys
from collections.abc import Callable
from pathlib import Path

import minigrad as mg
from minitransformer.cli.parsing import parse
from minitransformer.errors import UserError


def save(graph: mg.graph.Graph, output: Path) -> None:
    """Save a graph and print where it is."""
    graph.save(output)
    ops = sum(vertex.kind == "op" for vertex in graph.vertices)
    print(f"{output}: {ops} operations, {output.stat().st_size / 1024:.0f} KiB")


def run(main: Callable[..., None]) -> None:
    """Run a demo as a command; user errors are printed, with exit code 2."""
    try:
        parse(main)
    except (mg.MinigradError, UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
