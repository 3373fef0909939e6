"""See a computation: `trace` it, fold it, draw it. `minigrad.debug` looks into what is traced."""

from ..core.modes import named_scope
from .graph import Graph
from .keeping import keep
from .trace import trace
