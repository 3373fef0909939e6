"""See a computation."""

from ..autograd import named_scope
from .graph import Graph
from .trace import trace
