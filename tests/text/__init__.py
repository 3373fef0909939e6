"""Tokenizers, and how texts are read."""
