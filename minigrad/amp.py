"""Mixed precision under the names of torch.amp."""

from .core.precision import autocast
from .optim.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
