"""Utilities for training with the names of torch.utils: data loading and checkpointing."""

from . import checkpoint, data
