"""Another import path of Parameter, as in torch.nn.parameter."""

from .module import Parameter

__all__ = ["Parameter"]
