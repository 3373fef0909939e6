"""Mixed precision under the names of torch.amp."""

from .core.precision import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
