"""Models: each one file, composed from the same layers."""

from .gpt import GPT
from .transformer import Transformer

__all__ = ["GPT", "Transformer"]
