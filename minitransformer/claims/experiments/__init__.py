"""The experiments, one file a subject. Importing this package registers them."""

from . import heads, layers, positions, recurrence, scale, training  # noqa: F401
