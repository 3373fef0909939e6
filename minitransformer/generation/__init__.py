"""From a model to text."""

from .search import generate

__all__ = ["generate"]
