"""Is a derivative right? Held against finite differences, element by element; and if not, what is wrong?

    mg.gradcheck(mg.softmax, [x, 0])                      # a report, or a GradcheckError with a verdict
    mg.gradcheck_sweep(mg.softmax, [x, 0]).save("e.png")  # the error against the step
    python -m minigrad gradcheck                          # every op, both orders

`differences` measures, `comparing` finds what differs, `verdicts` reads the mistake in it, `report` says it;
`sweep` varies the step, and `records` tries every op on its own samples.
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
