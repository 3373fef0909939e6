"""Errors and warnings for files from outside."""

from ..errors import UserError


class PretrainedError(UserError):
    """Raised for a folder that does not hold a pretrained model, or one that cannot be represented."""


class PretrainedWarning(UserWarning):
    """Weights, settings and tokens of a folder that are not used, or weights that no file has."""
