"""Reads and writes models and tokenizers in the formats of the Hugging Face hub."""

from .errors import PretrainedError, PretrainedWarning
from .loading import load_pretrained
from .saving import save_pretrained
from .tokenizers import load_tokenizer

__all__ = ["PretrainedError", "PretrainedWarning", "load_pretrained", "load_tokenizer", "save_pretrained"]
