"""The experiments, one file a subject. Importing this package registers them."""

from . import scale  # noqa: F401
