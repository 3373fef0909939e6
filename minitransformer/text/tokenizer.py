"""Text to token ids and back: words, byte-pair encoding or characters.

Training, splitting and the file format are those of Hugging Face's `tokenizers`. One tokenizer serves both
languages of a translation model, as the paper's joint vocabulary (section 5.1).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers as hf
from jaxtyping import Int
from tokenizers import trainers

from minigrad.io import write_atomically

from ..errors import UserError, check_integer
from ..files import JSON_LIMIT, printable, read_json
from .tokenizer_presets import (
    BYTES,
    LOSSLESS,
    SPACES,
    SPECIAL_TOKENS,
    has_standard_spacing,
    join_words,
    make_backend,
    rebuild,
)


class TokenizerError(UserError):
    """A text that cannot be tokenized, or a file that is not a tokenizer."""


class Tokenizer:
    """Encodes and decodes text. `<PAD>`, `<UNK>`, `<START>` and `<END>` are the ids 0 to 3.

    A plain character vocabulary has no special tokens. `encode` adds none, and `decode` skips them. Those
    of an objective ([MASK]) follow, in the order of `added`; `special_id` has their ids. How texts are split
    is the `layout`, see layouts.py.
    """

    def __init__(self, layout: str, backend: hf.Tokenizer) -> None:
        self.layout = layout  # such as "spaced word"
        self.kind = layout.split()[-1]  # "word", "bpe", "wordpiece" or "char"
        self._backend = backend
        self._backend.encode_special_tokens = True  # "<END>" in a text is ordinary text
        self.token_to_id: dict[str, int] = backend.get_vocab()
        self.id_to_token: dict[int, str] = {i: token for token, i in self.token_to_id.items()}
        self.pad_id, self.unk_id, self.start_id, self.end_id = (
            self.token_to_id.get(t) for t in SPECIAL_TOKENS
        )
        specials = {*SPECIAL_TOKENS, *(t.content for t in backend.get_added_tokens_decoder().values())}
        if self.kind == "char":  # whose backend has none
            specials |= {t for t in self.token_to_id if len(t) > 1}
        self._special = {self.token_to_id[t] for t in specials if t in self.token_to_id}

    # ------------------------------------------------------------ training

    @classmethod
    def train_word(
        cls,
        texts: Iterable[str],
        min_frequency: int = 1,
        vocab_size: int | None = None,
        held_out: Iterable[str] = (),
        added: Sequence[str] = (),
    ) -> Tokenizer:
        """Words that occur at least `min_frequency` times, most frequent first, up to `vocab_size` tokens.

        If a text, or one of `held_out`, has other than standard spacing, tokens hold their spaces.
        """
        special = [*SPECIAL_TOKENS, *added]
        check_integer("vocab_size", vocab_size or len(special), len(special))
        texts = _strings(texts)
        layout = "word" if all(map(has_standard_spacing, (*texts, *held_out))) else "spaced word"
        trainer = trainers.WordLevelTrainer(
            vocab_size=min(vocab_size or 10**9, 10**9),
            min_frequency=min(min_frequency, 10**9),
            special_tokens=special,
            show_progress=False,
        )
        return cls._trained(layout, texts, trainer)

    @classmethod
    def train_wordpiece(cls, texts: Iterable[str], vocab_size: int, added: Sequence[str] = ()) -> Tokenizer:
        """Pieces of words, as BERT has them (Wu et al. 2016; Devlin et al. 2018, 3): "play", "##ing".

        Spaces are not kept: `decode` puts one between words and none before a mark.
        """
        special = [*SPECIAL_TOKENS, *added]
        check_integer("vocab_size", vocab_size, len(special))
        trainer = trainers.WordPieceTrainer(
            vocab_size=min(vocab_size, 10**6), special_tokens=special, show_progress=False
        )
        return cls._trained("wordpiece", _strings(texts), trainer)

    @classmethod
    def train_bpe(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        held_out: Iterable[str] = (),
        added: Sequence[str] = (),
    ) -> Tokenizer:
        """Byte-pair encoding (Sennrich et al. 2016); "▁" starts a word, punctuation is split off.

        If this does not give back a text, or one of `held_out`: pairs of bytes, which give back any text.
        """
        check_integer("vocab_size", vocab_size, 1)
        texts = _strings(texts)
        options: dict[str, Any] = {
            # at most one for each character and each merge; the trainer reserves memory for as many
            "vocab_size": min(vocab_size, 1000 + 8 * sum(len(text) + 1 for text in texts)),
            "special_tokens": [*SPECIAL_TOKENS, *added],
            "show_progress": False,
        }
        # a longer word is trained on in parts, as training time grows with the square of its length
        # and no token goes over the end of a line
        lines = [line for text in texts for line in re.split(r"[^\S ]+", text)]
        short = [re.sub("[^ ]{1000}(?=[^ ])", r"\g<0> ", line) for line in lines]
        spaces = sorted({c for text in texts for c in text if c.isspace() and c != " "})
        plain = cls._trained("bpe", short, trainers.BpeTrainer(**options, initial_alphabet=spaces))
        if all(plain.decode(plain.encode(text)) == text for text in (*texts, *held_out)):
            return plain
        if vocab_size < (least := len(SPECIAL_TOKENS) + len(added) + len(BYTES)):
            raise TokenizerError(
                f"vocab_size = {vocab_size} is too small for these texts, which need a token for each byte.\n"
                f"Choose at least {least}, or pass --tokenizer word."
            )
        trainer = trainers.BpeTrainer(**options, initial_alphabet=BYTES)
        return cls._trained("byte bpe", texts, trainer)

    @classmethod
    def train_char(
        cls, texts: Iterable[str], special_tokens: bool = False, added: Sequence[str] = ()
    ) -> Tokenizer:
        """Every character, sorted by code point; special tokens are optional."""
        special = [*SPECIAL_TOKENS, *added] if special_tokens or added else []
        tokens = [*special, *sorted(set().union(*_strings(texts)))]
        return cls("char", make_backend("char", {t: i for i, t in enumerate(tokens)}))

    @classmethod
    def _trained(cls, layout: str, texts: list[str], trainer: Any) -> Tokenizer:
        backend = make_backend(layout)
        backend.train_from_iterator(texts, trainer)
        return cls(layout, backend)

    # ------------------------------------------------------------ encoding and decoding

    @property
    def vocab_size(self) -> int:
        return len(self.token_to_id)

    def special_id(self, token: str) -> int:
        """The id of a special token, such as [MASK]; a TokenizerError if the vocabulary has none."""
        i = self.token_to_id.get(token)
        if i not in self._special:
            raise TokenizerError(
                f"this tokenizer has no special token {token}.\n"
                f"Train one with it, or start from a run whose task has it."
            )
        return i

    @property
    def first_ordinary_id(self) -> int:
        """The number of special tokens: they come first."""
        return len(self._special)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text; unknown tokens are `<UNK>`."""
        if self.kind == "char":
            return self._encode_characters(text)
        return self._encoding(text).ids

    def encode_with_offsets(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """The token ids of a text, each with where the token begins and ends there."""
        if self.kind == "char":
            return [(token, (i, i + 1)) for i, token in enumerate(self._encode_characters(text))]
        encoding = self._encoding(text)
        return list(zip(encoding.ids, encoding.offsets, strict=True))

    def encode_marked(self, parts: Sequence[str]) -> list[int]:
        """The ids of a text in parts, of which each second one is a special token such as [MASK].

        What is between is split as if a word were in the place of each special token: a mark after it has no
        space before it, as in the texts of the training data.
        """
        if len(parts) == 1:
            return self.encode(parts[0])
        if self.kind == "char":
            return [
                i
                for k, part in enumerate(parts)
                for i in ([self.special_id(part)] if k % 2 else self._encode_characters(part))
            ]
        marks = iter([self.special_id(part) for part in parts[1::2]])
        letter = stand_in("".join(parts[::2]))
        inside = self._split(letter)[-1].strip(" ▁Ġ")  # as words have it: in byte pairs, its bytes
        ids: list[int] = []
        for word in self._split(letter.join(parts[::2])):
            first, *others = word.split(inside)
            ids += self._tokens_beside(first) if others else self._tokens_of(first)
            for other in others:
                ids += [next(marks), *self._tokens_beside(other)]
        return ids

    def _split(self, text: str) -> list[str]:
        """The words of a text, of which each is tokenized by itself."""
        if not text:
            return []
        normal = self._backend.normalizer.normalize_str(text)
        return [word for word, _ in self._backend.pre_tokenizer.pre_tokenize_str(normal)]

    def _tokens_beside(self, part: str) -> list[int]:
        """The ids of the part of a word that is beside a special token: the space before it and, where words
        have one at their end, the apostrophe after it belong to the word in its place."""
        if part in ("", *SPACES) or (self.kind == "word" and part in ("'", "’")):
            return []
        if self.kind == "word":
            words = self._backend.pre_tokenizer.pre_tokenize_str(part)
            return [i for word, _ in words for i in self._tokens_of(word)]
        return self._tokens_of(part)

    def _tokens_of(self, word: str) -> list[int]:
        return [token.id for token in self._backend.model.tokenize(word)]

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
            known = "".join(sorted(self.token_to_id))
            raise TokenizerError(
                f"the character {error.args[0]!r} is not in the vocabulary.\nUse only: {known!r}"
            ) from None

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, as strings of the vocabulary."""
        return [self.id_to_token[i] for i in self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; special tokens are skipped."""
        ids = [int(i) for i in ids if int(i) not in self._special]
        if unknown := [i for i in ids if i not in self.id_to_token]:
            raise TokenizerError(
                f"there is no token {unknown[0]}: the vocabulary has {self.vocab_size}, from 0.\n"
                f"Decode ids that this tokenizer made."
            )
        if self.kind in ("bpe", "wordpiece"):
            text = self._backend.decode(ids)
        else:
            tokens = [self.id_to_token[i] for i in ids]
            text = join_words(tokens) if self.layout == "word" else "".join(tokens)
        return text.removeprefix(" ") if self.layout in LOSSLESS else text

    def lost(self, texts: Iterable[str]) -> list[str]:
        """The texts that do not come back from `encode` and `decode`."""
        return [text for text in texts if self.decode(self.encode(text)) != text]

    def unknown_words(self, text: str) -> list[str]:
        """The distinct words of a text that are not in the vocabulary, in order."""
        if self.kind == "char":
            return [c for c in dict.fromkeys(text) if c not in self.token_to_id]
        if self.layout not in LOSSLESS:
            text = unicodedata.normalize("NFC", text)
        encoding = self._encoding(text)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        unknown = (text[a:b] for i, (a, b) in spans if i == self.unk_id)
        return list(dict.fromkeys(word.strip() or word for word in unknown))

    # ------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json atomically."""
        write_atomically(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The content of tokenizer.json; a TokenizerError if it is larger than `load` takes."""
        content = self._backend.to_str(pretty=True).encode()
        if len(content) > JSON_LIMIT:
            problem = f"a tokenizer of {self.vocab_size:,} tokens has {len(content):,} bytes, the limit is"
            raise TokenizerError(f"{problem} {JSON_LIMIT:,}.\nLower --vocab-size.")
        return content

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Load a tokenizer that `save` wrote.

        The library is given the vocabulary and the merges after a check, and never the file.
        """
        try:
            content = read_json(path, {"model": dict})
        except UserError as error:
            raise TokenizerError(str(error)) from None
        try:
            return cls(*rebuild(content))
        except ValueError as error:
            problem = f"{printable(path)} is not a minitransformer tokenizer: {error}"
            raise TokenizerError(f"{problem}.\nUse the tokenizer.json of a run.") from None


def stand_in(text: str) -> str:
    """A letter that the text does not have, of a script (Vai) that is rare."""
    return next((letter for letter in map(chr, range(0xA500, 0xA60C)) if letter not in text), "\ua500")


def _strings(texts: Iterable[str]) -> list[str]:
    """The texts as a list, each of them a string."""
    found = [texts] if isinstance(texts, str) else list(texts)
    for text in found:
        if not isinstance(text, str):
            raise TokenizerError(f"a text is a string, got {text!r:.60}.\nPass a list of strings.")
    return found
