"""Text generation."""

from .search import generate

__all__ = ["generate"]
