"""See a computation: `trace` it, fold it, draw it. `minigrad.debug` looks into what is traced."""

from ..core.modes import named_scope
from .graph import Graph
from .kept_graphs import keep
from .notebooks import bind
from .trace import trace

bind()  # what a notebook shows of tensors and modules
