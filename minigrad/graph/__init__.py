"""Functions that trace, fold and draw computation graphs. `minigrad.debug` analyzes them."""

from importlib import import_module
from typing import Any

from ..core.modes import named_scope
from .graph import Graph
from .kept_graphs import keep
from .trace import trace

INSTRUMENTS = ("Ledger", "NanReport", "memory", "why_nan")


def __getattr__(name: str) -> Any:
    if name in INSTRUMENTS:  # loaded late: debug imports this package
        return getattr(import_module(__name__.replace("graph", "debug")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
