"""Utilities for training: data loading and checkpointing (torch.utils)."""

from . import checkpoint, data
