"""Check gradients against finite differences, element by element.

    mg.gradcheck(mg.softmax, [x, 0])                      # a report, or a GradcheckError with a verdict
    mg.gradcheck_sweep(mg.softmax, [x, 0]).save("e.png")  # the error as a function of the step
    python -m minigrad gradcheck                          # checks every op at orders 1 and 2

`finite_differences` computes slopes, `comparing` finds elements that differ, `verdicts` names the mistake,
and `report` prints it. `sweep` varies the step, and `every_op` checks every op on its samples.
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
