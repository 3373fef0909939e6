"""Text to token ids and back: words, byte-pair encoding or characters.

Training, splitting and the file format are those of Hugging Face's `tokenizers`. One tokenizer serves both
languages of a translation model, as the paper's joint vocabulary (section 5.1).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tokenizers as hf
from jaxtyping import Int
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from minigrad.io import write_atomically

from .errors import UserError
from .files import read_text

PAD, UNK, START, END = SPECIAL_TOKENS = ("<PAD>", "<UNK>", "<START>", "<END>")

# A word, with inner hyphens and the apostrophe of an elision (t'aime is t' aime); a French punctuation mark
# after a no-break space; or any other mark.
_WORD = r"[\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)*'?|\u00A0[?!:;]|[^\s\p{L}\p{N}_]"
_CHARACTER = r"[\s\S]"


class TokenizerError(UserError):
    """A text that cannot be tokenized, or a file that is not a tokenizer."""


class Tokenizer:
    """Encodes and decodes text. `<PAD>`, `<UNK>`, `<START>` and `<END>` are the ids 0 to 3.

    A plain character vocabulary has no special tokens. `encode` adds none, and `decode` skips them. Word
    tokens decode to the same text if it has standard spacing: one space between words, none before a mark or
    after an elision's apostrophe, but one before a French ? ! : ;.
    """

    def __init__(self, backend: hf.Tokenizer) -> None:
        self._backend = backend
        self._backend.encode_special_tokens = True  # "<END>" in a text is ordinary text
        self.token_to_id: dict[str, int] = backend.get_vocab()
        self.id_to_token: dict[int, str] = {i: token for token, i in self.token_to_id.items()}
        self.kind = _kind(backend)
        self.pad_id, self.unk_id, self.start_id, self.end_id = (
            self.token_to_id.get(t) for t in SPECIAL_TOKENS
        )
        self._special = {self.token_to_id[t] for t in SPECIAL_TOKENS if t in self.token_to_id}

    # ------------------------------------------------------------ training

    @classmethod
    def train_word(
        cls, texts: Iterable[str], min_frequency: int = 1, vocab_size: int | None = None
    ) -> Tokenizer:
        """Words that occur at least `min_frequency` times, most frequent first, up to `vocab_size` tokens."""
        backend = hf.Tokenizer(models.WordLevel(unk_token=UNK))
        french = [normalizers.Replace(f" {mark}", f"\u00a0{mark}") for mark in "?!:;"]
        backend.normalizer = normalizers.Sequence(
            [normalizers.NFC(), normalizers.Replace("\u2019", "'"), *french]
        )
        backend.pre_tokenizer = pre_tokenizers.Split(hf.Regex(_WORD), "removed", invert=True)
        trainer = trainers.WordLevelTrainer(
            vocab_size=vocab_size or 10**9,
            min_frequency=min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            show_progress=False,
        )
        backend.train_from_iterator(texts, trainer)
        return cls(backend)

    @classmethod
    def train_bpe(cls, texts: Iterable[str], vocab_size: int) -> Tokenizer:
        """Byte-pair encoding (Sennrich et al. 2016); "▁" starts a word, punctuation is split off."""
        backend = hf.Tokenizer(models.BPE(unk_token=UNK))
        backend.normalizer = normalizers.NFC()
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation("isolated")]
        )
        backend.decoder = decoders.Metaspace()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS), show_progress=False
        )
        backend.train_from_iterator(texts, trainer)
        return cls(backend)

    @classmethod
    def train_char(cls, texts: Iterable[str], special_tokens: bool = False) -> Tokenizer:
        """Every character, sorted by code point; special tokens are optional."""
        tokens = [*(SPECIAL_TOKENS if special_tokens else ()), *sorted(set().union(*texts))]
        backend = hf.Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)}, unk_token=UNK))
        backend.pre_tokenizer = pre_tokenizers.Split(hf.Regex(_CHARACTER), "isolated")
        return cls(backend)

    # ------------------------------------------------------------ encoding and decoding

    @property
    def vocab_size(self) -> int:
        return len(self.token_to_id)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text; unknown tokens are `<UNK>`."""
        if self.kind == "char":
            return self._encode_characters(text)
        return self._encoding(text).ids

    def encode_array(self, text: str) -> Int[np.ndarray, " n"]:
        """`encode` as an array."""
        return np.array(self.encode(text), dtype=np.int64)

    def _encoding(self, text: str) -> hf.Encoding:
        try:
            return self._backend.encode(text, add_special_tokens=False)
        except TypeError:  # half a surrogate pair, or bytes of another encoding
            raise TokenizerError(f"{text!r:.60} is not valid text.\nPass text in UTF-8.") from None

    def _encode_characters(self, text: str) -> list[int]:
        if self.unk_id is not None:
            return [self.token_to_id.get(c, self.unk_id) for c in text]
        try:
            return [self.token_to_id[c] for c in text]
        except KeyError as error:
            known = "".join(sorted(self.token_to_id)).strip()
            raise TokenizerError(
                f"the character {error.args[0]!r} is not in the vocabulary.\nUse only: {known}"
            ) from None

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, as strings of the vocabulary."""
        return [self.id_to_token[i] for i in self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; special tokens are skipped."""
        ids = [int(i) for i in ids if int(i) not in self._special]
        tokens = [self.id_to_token[i] for i in ids]
        if self.kind == "char":
            return "".join(tokens)
        if self.kind == "bpe":
            return self._backend.decode(ids)
        text = re.sub(r" ([.,?!:;)…])", r"\1", " ".join(tokens))
        return re.sub(r"(['(]) ", r"\1", text).replace(" \u00a0", " ").replace("\u00a0", " ")

    def unknown_words(self, text: str) -> list[str]:
        """The distinct words of a text that are not in the vocabulary, in order."""
        if self.kind == "char":
            return [c for c in dict.fromkeys(text) if c not in self.token_to_id]
        text = unicodedata.normalize("NFC", text)
        encoding = self._encoding(text)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return list(dict.fromkeys(text[a:b].strip() for i, (a, b) in spans if i == self.unk_id))

    # ------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json atomically."""
        write_atomically(path, self._backend.to_str(pretty=True).encode())

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Load a tokenizer that `save` wrote."""
        content = read_text(path)
        try:
            return cls(hf.Tokenizer.from_str(content))
        except Exception as error:  # the library raises nothing narrower
            message = f"{path} is not a minitransformer tokenizer: {error}.\nUse the tokenizer.json of a run."
            raise TokenizerError(message) from None


def _kind(backend: hf.Tokenizer) -> str:
    """ "word", "bpe" or "char", according to the pre-tokenizer."""
    content = json.loads(backend.to_str())
    splitter = content["pre_tokenizer"] or {}
    kinds = {_WORD: "word", _CHARACTER: "char"}
    kind = "bpe" if content["model"]["type"] == "BPE" else kinds.get(splitter.get("pattern", {}).get("Regex"))
    if kind is None or (kind == "bpe" and not set(SPECIAL_TOKENS) <= backend.get_vocab().keys()):
        raise ValueError("it was written by another program")
    return kind
