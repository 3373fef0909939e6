"""See a computation."""

from ..autograd import named_scope
from .differences import Difference, diff
from .graph import Graph
from .ledger import Ledger, memory
from .nans import NanReport, why_nan
from .trace import trace
