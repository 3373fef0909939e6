"""The layouts of a tokenizer: how a text is split into words, byte pairs or characters.

"word" and "bpe" normalize some spaces and punctuation marks. "spaced word" and "byte bpe" are lossless: a
token includes the space before it, and a space is put before the text, so that its first word is like any
other. "wordpiece" is BERT's: a word is split into the longest known pieces from left to right, with `##`
before a piece that does not start a word. "unigram" is SentencePiece's: a word is split into the most
probable pieces, with bytes for unknown characters.

Objectives add special tokens, such as [MASK] or <extra_id_0>, after the four of SPECIAL_TOKENS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers

PAD, UNK, START, END = SPECIAL_TOKENS = ("<PAD>", "<UNK>", "<START>", "<END>")
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]  # the byte pieces of "unigram"
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
CLS, SEP, MASK = BERT_TOKENS = ("[CLS]", "[SEP]", "[MASK]")  # Devlin et al. 2018, 3.1
LOSSLESS = ("spaced word", "byte bpe")
SPACES = (" ", "▁", "Ġ")  # the space before a word, in the tokens of each layout

# A word, including inner hyphens and the apostrophe of an elision (t'aime is split into t' and aime); a
# French punctuation mark with the no-break space before it; or any other mark.
_WORD = r"[\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)*'?|\u00A0[?!:;]|[^\s\p{L}\p{N}_]"

# A word or mark with the space before it. Thai, Lao, Burmese, Khmer, Japanese and Chinese have no spaces
# between words; for these, a token is one character with its combining marks.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_LETTERS = rf"[\p{{L}}\p{{N}}\p{{M}}_\u200c\u200d&&[^{UNSPACED}]]+"  # the joiners are part of Persian words
_SPACED_WORD = rf" ?(?:{_LETTERS}(?:-{_LETTERS})*(?:['’](?=\p{{L}}))?|\S\p{{M}}*)|\s"
_UNSPACED_TEXT = re.compile(f"[{UNSPACED}]{{2}}")

# A run of letters, digits or punctuation marks, with the space before it. Byte pairs are merged only within a
# run. Runs are short, as training time grows with the square of their length.
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
    """Make a tokenizer of the tokenizers library with this layout. Without a vocabulary, it must be trained.

    The vocabulary is {token: id}, or for "unigram" a list of (piece, log-probability) by id. `added` are the
    special tokens that follow SPECIAL_TOKENS.
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
    """Join words with standard spacing.

    There is one space between words, none before a punctuation mark or after an elision's apostrophe, and one
    before a French ? ! : ;.
    """
    text = re.sub(r" ([.,?!:;)…])", r"\1", " ".join(words))
    return re.sub(r"(['(]) ", r"\1", text).replace(" \u00a0", " ").replace("\u00a0", " ")


def has_standard_spacing(text: str) -> bool:
    """Whether `join_words` restores the text from its words. False for scripts without spaces."""
    parts = _PARTS["word"]
    pieces = parts["pre_tokenizer"].pre_tokenize_str(parts["normalizer"].normalize_str(text))
    return join_words(piece for piece, _ in pieces) == text and not _UNSPACED_TEXT.search(text)


def layout_of(content: dict[str, Any]) -> str | None:
    """The layout of a tokenizer.json that `Tokenizer.save` wrote, or None if another program wrote it."""
    for layout in _PARTS:
        ours = json.loads(make_backend(layout).to_str())
        parts = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
        same_model = content["model"].get("type") == ours["model"]["type"]
        if same_model and all(content.get(part) == ours[part] for part in parts):
            return layout
    return None
