"""The tokenizer of a run: trained with it, or that of a pretrained model."""

from __future__ import annotations

from pathlib import Path

from ..errors import UserError
from ..files import read_json
from .pretrained_tokenizer import PretrainedTokenizer
from .sentencepiece_tokenizer import SentencePieceTokenizer
from .tokenizer import Tokenizer, TokenizerError


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer in a run's tokenizer.json."""
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
