"""Tokens that were added to a vocabulary, such as the <|im_start|> of a chat, which are never split.

They are in tokenizer.json, in added_tokens_decoder of tokenizer_config.json, or in old folders in
added_tokens.json. Here they have the format of tokenizer.json. `Tokenizer.encode` treats those that are
special tokens as ordinary text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from pathlib import Path
from typing import Any

from .errors import PretrainedError
from .settings import read_optional
from .tokenizer_classes import NAMES, content_of

FLAGS = {"special": False, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
Token = dict[str, Any]


def added_tokens(folder: Path, own: Any, settings: Mapping[str, Any]) -> list[Token]:
    """The added tokens of a folder, in the order of their ids. `own` are those of tokenizer.json."""
    older = {} if "added_tokens_decoder" in settings else read_optional(folder / "added_tokens.json")
    try:
        special = _special(settings)
        flags = {True: {"special": True}, False: {"normalized": True}}
        found = {i: {"content": token, **flags[token in special]} for token, i in older.items()}
        found |= settings.get("added_tokens_decoder") or {}
        tokens = {token["content"]: token for token in own or []}
        for i, token in found.items():
            known = {key: token[key] for key in ("content", *FLAGS) if key in token}
            tokens.setdefault(token["content"], {**FLAGS, **known, "id": int(i)})
        return sorted(tokens.values(), key=lambda token: index(token["id"]))
    except (TypeError, ValueError, AttributeError, LookupError):
        raise PretrainedError(
            f"the added tokens of {folder} are not objects with an id and a content.\n"
            f"Download its tokenizer files again."
        ) from None


def _special(settings: Mapping[str, Any]) -> set[str]:
    """The names of the special tokens in tokenizer_config.json."""
    more = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or []
    named = [settings[name] for name in NAMES.values() if settings.get(name)]
    return {content_of(token) for token in (*named, *(more.values() if isinstance(more, dict) else more))}


def check_marks(tokens: Iterable[Token], name: str, where: str) -> None:
    """Raise a PretrainedError for an added token that cannot be recognized in a text with SentencePiece."""
    for token in tokens:
        flags = [flag for flag in ("lstrip", "rstrip", "single_word") if token[flag]]
        if not token["special"] and (flags or name == "MarianTokenizer"):
            raise PretrainedError(
                f"{where}: the added token {token['content']!r:.60} "
                f"{'has ' + ', '.join(flags) if flags else 'is not special'}, which is not supported.\n"
                f"Choose a model without this token."
            )


def entries(ids: Mapping[str, int], marks: Iterable[str]) -> dict[str, Token]:
    """The added_tokens_decoder of tokens and their ids. Tokens that are not in `marks` are special."""
    marks = set(marks)
    return {str(i): {**FLAGS, "content": token, "special": token not in marks} for token, i in ids.items()}
