"""Tokenizers: what takes long."""
