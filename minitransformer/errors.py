"""Mistakes that a user can mend. The first line says what is wrong, the second what to do."""


class UserError(ValueError):
    """A mistake that is explained without a traceback (exit code 2)."""
