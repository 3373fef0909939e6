"""What goes with training: data in batches."""

from . import checkpoint, data
