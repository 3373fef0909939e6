"""What a SentencePiece .model file contains, read without its library: pieces, settings, and the normalizer.

The file is a protocol buffer: numbered fields, each with a number, text, or fields of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces


@dataclass(frozen=True)
class SentencePieceFile:
    """The pieces (text, score, type) by id, and the settings that say how a text is read."""

    pieces: list[tuple[str, float, int]]
    kind: str
    byte_fallback: bool
    space_is_suffix: bool  # "the▁", not "▁the"
    charsmap: bytes  # of the normalizer: which characters are replaced, as a trie
    adds_prefix: bool  # a space before the text
    removes_spaces: bool  # around the text, and all but one between words
    escapes_spaces: bool  # as "▁"
    denormalizes: bool


def read_sentencepiece(content: bytes) -> SentencePieceFile:
    """The content of a .model file, which must be one that the library reads."""
    pieces = []
    parts: dict[int, dict[int, Any]] = {2: {}, 3: {}, 5: {}}  # trainer, normalizer, denormalizer
    for number, value in fields(content):
        if number == 1:
            piece = dict(fields(value))
            score = struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0
            pieces.append((piece.get(1, b"").decode(), score, piece.get(3, NORMAL)))
        elif number in parts:
            parts[number] = dict(fields(value))
    training, normalizer, denormalizer = parts.values()
    return SentencePieceFile(
        pieces,
        KINDS.get(training.get(3, 1), "unknown"),
        byte_fallback=bool(training.get(35, 0)),
        space_is_suffix=bool(training.get(24, 0)),
        charsmap=normalizer.get(2, b""),
        adds_prefix=bool(normalizer.get(3, 1)),
        removes_spaces=bool(normalizer.get(4, 1)),
        escapes_spaces=bool(normalizer.get(5, 1)),
        denormalizes=bool(denormalizer.get(2)),
    )


def fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: integers, and as bytes all others."""
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(content, at)
            yield tag >> 3, value
        else:
            size, at = _varint(content, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            yield tag >> 3, content[at : at + size]
            at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """An integer of seven bits a byte, the lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        value |= (content[at + shift // 7] & 127) << shift
        if content[at + shift // 7] < 128:
            break
    return value, at + shift // 7 + 1
