"""Loads the tokenizer of a run, which was trained for the run or belongs to a pretrained model."""

from __future__ import annotations

from pathlib import Path

from ..errors import UserError
from ..files import read_json
from .pretrained_tokenizer import PretrainedTokenizer
from .sentencepiece_tokenizer import SentencePieceTokenizer
from .tokenizer import Tokenizer, TokenizerError


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Load a tokenizer from a run's tokenizer.json. Raise a TokenizerError if it is not valid."""
    try:
        content = read_json(path, {})
    except UserError as error:
        raise TokenizerError(str(error)) from None
    keys = content.keys() if isinstance(content, dict) else ()
    if "pretrained" in keys:
        return PretrainedTokenizer.from_json(content, str(path))
    if "sentencepiece" in keys:
        return SentencePieceTokenizer.from_json(content, str(path))
    return Tokenizer.load(path)
