"""Errors and warnings for the files of pretrained models."""

from ..errors import UserError


class PretrainedError(UserError):
    """The error for a folder that has no pretrained model, or one that is not supported."""


class PretrainedWarning(UserWarning):
    """The warning about weights, settings and tokens of a folder that are not used, or weights it lacks."""
