"""torch.nn.parameter's name for where Parameter is."""

from .module import Parameter

__all__ = ["Parameter"]
