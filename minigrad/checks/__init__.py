"""Check gradients against finite differences, element by element.

    mg.gradcheck(mg.softmax, [x, 0])                      # a report, or a GradcheckError with a verdict
    mg.gradcheck_sweep(mg.softmax, [x, 0]).save("e.png")  # the error as a function of the step
    python -m minigrad gradcheck                          # every op, both orders

`finite_differences` measures, `comparing` finds what differs, `verdicts` names the mistake, `report` prints
it; `sweep` varies the step, and `every_op` checks every op on its own samples.
"""

from .check import gradcheck
from .report import GradcheckError, GradcheckReport, InputErrors, Kink
from .sweep import Sweep, gradcheck_sweep

__all__ = [
    "GradcheckError",
    "GradcheckReport",
    "InputErrors",
    "Kink",
    "Sweep",
    "gradcheck",
    "gradcheck_sweep",
]
