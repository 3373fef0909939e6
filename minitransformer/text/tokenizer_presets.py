"""The layouts of a tokenizer: how a text is split into words, byte pairs or characters.

"word" and "bpe" normalize some spaces and punctuation marks. "spaced word" and "byte bpe" are lossless: a
token includes the space before it. A space is put before the text, so that its first word is like any other.
"wordpiece" is BERT's: the longest known piece of a word first, `##` before a piece that does not start a
word. "unigram" is SentencePiece's: the likeliest pieces, and bytes where no piece fits.

Objectives add their own special tokens ([MASK], <extra_id_0>) after the four that every vocabulary has.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers

PAD, UNK, START, END = SPECIAL_TOKENS = ("<PAD>", "<UNK>", "<START>", "<END>")
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]  # of "unigram"
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
CLS, SEP, MASK = BERT_TOKENS = ("[CLS]", "[SEP]", "[MASK]")  # Devlin et al. 2018, 3.1
_ADDED_TOKEN = re.compile(r"\[[A-Z]+\]|<[A-Z]+>|<extra_id_\d+>")
LOSSLESS = ("spaced word", "byte bpe")
SPACES = (" ", "▁", "Ġ")  # the space before a word, in the tokens of each layout

# A word, with inner hyphens and the apostrophe of an elision (t'aime is t' aime); a French punctuation mark
# after a no-break space; or any other mark.
_WORD = r"[\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)*'?|\u00A0[?!:;]|[^\s\p{L}\p{N}_]"

# The same, with the space before it. Thai, Lao, Burmese, Khmer, Japanese and Chinese have no spaces between
# words; for these, a token is one character with its accents.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_LETTERS = rf"[\p{{L}}\p{{N}}\p{{M}}_\u200c\u200d&&[^{UNSPACED}]]+"  # the joiners are part of Persian words
_SPACED_WORD = rf" ?(?:{_LETTERS}(?:-{_LETTERS})*(?:['’](?=\p{{L}}))?|\S\p{{M}}*)|\s"
_UNSPACED_TEXT = re.compile(f"[{UNSPACED}]{{2}}")

# Letters, digits or punctuation marks, with the space before them; byte pairs are merged within these. They
# are short, as training time grows with the square of their length.
_SPACED_RUN = r" ?[\p{L}\p{M}\u200c\u200d]{1,64}| ?\p{N}{1,64}| ?[^\s\p{L}\p{M}\p{N}]{1,64}|\s{1,64}(?!\S)|\s"


def _split(pattern: str, behavior: str, invert: bool = False) -> Any:
    return pre_tokenizers.Split(hf.Regex(pattern), behavior, invert)


_FRENCH = [normalizers.Replace(f" {mark}", f"\u00a0{mark}") for mark in "?!:;"]
_BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
_PARTS: dict[str, dict[str, Any]] = {
    "word": {
        "normalizer": normalizers.Sequence(
            [normalizers.NFC(), normalizers.Replace("\u2019", "'"), *_FRENCH],
        ),
        "pre_tokenizer": _split(_WORD, "removed", invert=True),
    },
    "spaced word": {
        "normalizer": normalizers.Prepend(" "),
        "pre_tokenizer": _split(_SPACED_WORD, "isolated"),
    },
    "bpe": {
        "normalizer": normalizers.NFC(),
        "pre_tokenizer": pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation("isolated")]
        ),
        "decoder": decoders.Metaspace(),
    },
    "byte bpe": {
        "normalizer": normalizers.Prepend(" "),
        "pre_tokenizer": pre_tokenizers.Sequence([_split(_SPACED_RUN, "isolated"), _BYTE_LEVEL]),
        "decoder": decoders.ByteLevel(),
    },
    "wordpiece": {
        "normalizer": normalizers.NFC(),
        "pre_tokenizer": pre_tokenizers.BertPreTokenizer(),
        "decoder": decoders.WordPiece(),
    },
    "unigram": {
        "normalizer": normalizers.NFC(),
        "pre_tokenizer": pre_tokenizers.Metaspace(),
        "decoder": decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        ),
    },
    "char": {"pre_tokenizer": _split(r"[\s\S]", "isolated")},
}


def sentinels(count: int) -> list[str]:
    """T5's tokens for the spans of a text: <extra_id_0>, <extra_id_1>, ... (Raffel et al. 2020, 3.1.4)."""
    return [f"<extra_id_{i}>" for i in range(count)]


def make_backend(
    layout: str,
    vocab: Any = None,
    merges: Sequence[tuple[str, str]] = (),
    added: Sequence[str] = (),
) -> hf.Tokenizer:
    """A tokenizer of the tokenizers library with a layout, and with a vocabulary or to be trained.

    The vocabulary is {token: id}; of "unigram", it is a list of (piece, log-probability) by id. `added` are
    the special tokens that follow SPECIAL_TOKENS.
    """
    if layout.endswith("bpe"):
        unknown = UNK if layout == "bpe" else None
        backend = hf.Tokenizer(models.BPE(vocab or {}, list(merges), unk_token=unknown))
    elif layout == "unigram":
        pieces = vocab or [(token, 0.0) for token in SPECIAL_TOKENS]
        backend = hf.Tokenizer(models.Unigram(pieces, SPECIAL_TOKENS.index(UNK), byte_fallback=True))
    elif layout == "wordpiece":
        backend = hf.Tokenizer(models.WordPiece(vocab or {}, unk_token=UNK))
    else:
        backend = hf.Tokenizer(models.WordLevel(vocab or {}, unk_token=UNK))
    for name, part in _PARTS[layout].items():
        setattr(backend, name, part)
    if vocab and layout != "char":
        backend.add_special_tokens([*SPECIAL_TOKENS, *added])
    return backend


def join_words(words: Iterable[str]) -> str:
    """Words in standard spacing.

    One space between words, none before a mark or after an elision's apostrophe, one before a French ? ! : ;.
    """
    text = re.sub(r" ([.,?!:;)…])", r"\1", " ".join(words))
    return re.sub(r"(['(]) ", r"\1", text).replace(" \u00a0", " ").replace("\u00a0", " ")


def has_standard_spacing(text: str) -> bool:
    """Whether `join_words` restores the text from its words. It cannot if words have no spaces between
    them."""
    parts = _PARTS["word"]
    pieces = parts["pre_tokenizer"].pre_tokenize_str(parts["normalizer"].normalize_str(text))
    return join_words(piece for piece, _ in pieces) == text and not _UNSPACED_TEXT.search(text)


# ---------------------------------------------------------------- checking a file


def rebuild(content: dict[str, Any]) -> tuple[str, hf.Tokenizer]:
    """The layout and the tokenizer of a file's content, which must be what the tokenizers library writes for
    it.

    The library never reads the file: it gets a vocabulary and merges that have been checked. Anything wrong
    is a ValueError.
    """
    model = dict(content["model"])
    vocab, merges = model.pop("vocab", None), model.pop("merges", [])
    empty = {layout: json.loads(make_backend(layout).to_str()) for layout in _PARTS}
    found = [
        layout
        for layout, ours in empty.items()
        if {**content, "model": {**ours["model"], **model}, "added_tokens": []} == ours
    ]
    if not found:
        raise ValueError("it was written by another program")
    added = _added_tokens(content.get("added_tokens"), vocab if found[0] == "char" else None)
    if found[0] == "unigram":
        backend = make_backend(found[0], _checked_pieces(vocab, added), added=added)
    else:
        vocab = _checked_vocabulary(vocab, found[0], added)
        backend = make_backend(found[0], vocab, _checked_merges(merges, vocab), added)
    if content.get("added_tokens") != json.loads(backend.to_str())["added_tokens"]:
        raise ValueError(f"its added tokens are not {', '.join([*SPECIAL_TOKENS, *added])}")
    return found[0], backend


def _added_tokens(entries: Any, characters: Any) -> list[str]:
    """The special tokens after the first four; with `characters`, only those longer than one character."""
    tokens: list[Any] = []
    if isinstance(characters, dict):
        tokens = [token for token in characters if len(token) > 1]
    elif isinstance(entries, list):
        tokens = [entry.get("content") if isinstance(entry, dict) else None for entry in entries]
    added = [token for token in tokens if token not in SPECIAL_TOKENS]
    return [token for token in added if isinstance(token, str) and _ADDED_TOKEN.fullmatch(token)]


def _checked_vocabulary(vocab: Any, layout: str, added: list[str]) -> dict[str, int]:
    if not isinstance(vocab, dict) or any(type(i) is not int for i in vocab.values()):
        raise ValueError("its vocabulary is not an object of token ids")
    if sorted(vocab.values()) != list(range(len(vocab))):
        raise ValueError(f"the ids of its {len(vocab)} tokens are not 0 to {len(vocab) - 1}")
    special = [vocab.get(token) for token in SPECIAL_TOKENS]
    by_hand = layout in ("char", "word") and special == [None] * 4
    if special != [0, 1, 2, 3] and not by_hand:
        raise ValueError(f"the ids of {', '.join(SPECIAL_TOKENS)} are {special}, not 0 to 3")
    if [vocab.get(token) for token in added] != list(range(4, 4 + len(added))):
        raise ValueError(f"the ids of {', '.join(added)} are not 4 to {3 + len(added)}")
    lengths = {len(token) for token in vocab if token not in (*SPECIAL_TOKENS, *added)}
    if 0 in lengths or (layout == "char" and lengths - {1}):
        raise ValueError("it has a token of the wrong length")
    if layout == "byte bpe" and not vocab.keys() >= set(BYTES):
        raise ValueError("it does not have a token for each byte")
    "".join(vocab).encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
    return vocab


def _checked_pieces(pieces: Any, added: list[str]) -> list[tuple[str, float]]:
    """The pieces of "unigram" with their log-probabilities, in the order of their ids."""
    are_pairs = isinstance(pieces, list) and all(isinstance(each, list) and len(each) == 2 for each in pieces)
    if not are_pairs or not all(isinstance(p, str) and isinstance(x, int | float) for p, x in pieces):
        raise ValueError("its vocabulary is not a list of pieces with their log-probabilities")
    names = [piece for piece, _ in pieces]
    if len(set(names)) < len(names) or "" in names:
        raise ValueError("a piece of its vocabulary is empty, or repeated")
    if names[: 4 + len(added)] != [*SPECIAL_TOKENS, *added]:
        raise ValueError(f"its first tokens are not {', '.join([*SPECIAL_TOKENS, *added])}")
    if not set(names) >= set(BYTE_PIECES):
        raise ValueError("it does not have a token for each byte")
    "".join(names).encode()  # a lone surrogate is a UnicodeEncodeError, which is a ValueError
    return [(piece, float(score)) for piece, score in pieces]


def _checked_merges(merges: Any, vocab: dict[str, int]) -> list[tuple[str, str]]:
    """The merges as pairs; older files have "a b" instead of ["a", "b"]."""
    if not isinstance(merges, list):
        raise ValueError("its merges are not a list")
    pairs: dict[tuple[str, str], None] = {}
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(token, str) for token in pair)):
            raise ValueError(f"the merge {reprlib.repr(merge)} is not a pair of tokens")
        if not {*pair, "".join(pair)} <= vocab.keys() or tuple(pair) in pairs:
            raise ValueError(f"the merge {reprlib.repr(merge)} is repeated, or its tokens are unknown")
        pairs[pair[0], pair[1]] = None
    return list(pairs)
