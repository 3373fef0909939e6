"""Mixed precision under the names of torch.amp."""

from .precision import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
