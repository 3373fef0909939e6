"""Text: tokenizers, and how a text is split into words."""
