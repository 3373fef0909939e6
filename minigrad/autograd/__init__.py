"""The tape: every operation records a Node; walking the nodes backward gives every gradient.

Read `nodes` (what is recorded) and `walk` (the whole of reverse mode, in one loop) first. `replay` is how a
gradient is differentiated again; `checkpointing` and `anomaly` are what one does when memory is short and
when a number is not one.
"""

from .anomaly import detect_anomaly, set_detect_anomaly, watch
from .checkpointing import checkpoint
from .gradients import backward, grad
from .hooks import Handle, retain
from .modes import (
    BACKWARD,
    Scope,
    enable_grad,
    grad_mode,
    is_grad_enabled,
    named_scope,
    no_grad,
    set_grad_enabled,
)
from .nodes import Node, Output, alive, creation, is_edge, maker, mutate, refuse_freed, refuse_in_graph
from .replay import refuse_changed
from .walk import propagate, unbroadcast
