"""Trace, fold and draw computation graphs. `minigrad.debug` analyzes them."""

from ..core.modes import named_scope
from .graph import Graph
from .kept_graphs import keep
from .notebooks import bind
from .trace import trace

bind()  # HTML reprs of tensors and modules in notebooks
