"""`torch.nn.parameter`: another import path of Parameter."""

from .module import Parameter

__all__ = ["Parameter"]
