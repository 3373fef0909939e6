"""Errors and warnings for files from outside."""

from ..errors import UserError


class PretrainedError(UserError):
    """Raised for a folder that does not hold a pretrained model, or one that cannot be represented."""


class PretrainedWarning(UserWarning):
    """Weights of a file that are not used, or weights and settings of the model that no file has."""
