"""Trace, fold and draw computation graphs. `minigrad.debug` analyzes them."""

from ..core.modes import named_scope
from .graph import Graph
from .kept_graphs import keep
from .trace import trace
