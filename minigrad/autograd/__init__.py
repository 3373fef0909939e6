"""Reverse mode: a walk back over the recorded nodes gives the gradient of every leaf.

Read `minigrad/nodes.py` (what is recorded) and `backward` (the walk back) first. `replay` is how a gradient
is differentiated again; `checkpointing` trades time for memory.
"""

from ..checks import check_all
from ..modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .checkpointing import checkpoint
from .grad import grad
from .hooks import Handle, register_hook, retain_grad
from .several import Variable, backward

check_all(globals(), ["backward", "checkpoint", "grad"])
