"""Instruments: where a NaN was made, what memory a step takes, what it changed, where two devices differ.

They are also where PyTorch's users and those of graphs look for them: `mg.graph.why_nan(loss)`.
"""

from .. import graph
from .comparison import Difference, diff
from .ledger import Ledger, memory
from .nans import NanReport, why_nan
from .shadow import Shadow, shadow

vars(graph).update(
    Difference=Difference, Ledger=Ledger, NanReport=NanReport, diff=diff, memory=memory, why_nan=why_nan
)
