"""Tokenizers of words, subwords (byte-pair encoding, WordPiece, unigram) or characters.

Hugging Face's `tokenizers` trains them, splits texts and defines the file format. The two languages of a
translation model share a tokenizer, like the joint vocabulary of the paper (section 5.1).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers as hf
from jaxtyping import Int
from tokenizers import models, trainers

from minigrad.io import write_atomically

from ..errors import UserError, check_integer
from ..files import JSON_LIMIT, read_json
from .tokenizer_presets import (
    BYTE_PIECES,
    BYTES,
    LOSSLESS,
    SPACES,
    SPECIAL_TOKENS,
    UNK,
    has_standard_spacing,
    join_words,
    layout_of,
    make_backend,
)


class TokenizerError(UserError):
    """The error for a text that cannot be tokenized, or a file that is not a tokenizer."""


class Tokenizer:
    """Encodes and decodes text. `<PAD>`, `<UNK>`, `<START>` and `<END>` have the ids 0 to 3.

    The special tokens of an objective, such as [MASK], follow in the order of `added`; `special_id` returns
    their ids. A character vocabulary may have no special tokens. `encode` adds none, and `decode` skips them.
    `layout` says how texts are split (see tokenizer_presets.py).

    >>> from minitransformer import Tokenizer
    >>> tokenizer = Tokenizer.train_word(["the cat sat", "the dog sat"])
    >>> tokenizer.encode("the cat")
    [5, 6]
    >>> tokenizer.decode([5, 6])
    'the cat'
    """

    def __init__(self, layout: str, backend: hf.Tokenizer) -> None:
        self.layout = layout  # such as "spaced word"
        self.kind = layout.split()[-1]  # "word", "bpe", "wordpiece", "unigram" or "char"
        self._backend = backend
        self._backend.encode_special_tokens = True  # "<END>" in a text is ordinary text
        self.token_to_id: dict[str, int] = backend.get_vocab()
        self.id_to_token: dict[int, str] = {i: token for token, i in self.token_to_id.items()}
        self.pad_id, self.unk_id, self.start_id, self.end_id = (
            self.token_to_id.get(t) for t in SPECIAL_TOKENS
        )
        self.prefix: list[int] = []  # special tokens that some pretrained models have before a text
        specials = {*SPECIAL_TOKENS, *(t.content for t in backend.get_added_tokens_decoder().values())}
        if self.kind == "char":  # its backend does not know special tokens
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
        """Train a vocabulary of the words that occur at least `min_frequency` times, most frequent first.

        It has at most `vocab_size` tokens, special tokens included. If decoding would not restore the spaces
        of all `texts` and `held_out`, a token includes the space before its word. Words of `held_out` are not
        added to the vocabulary.
        """
        special = [*SPECIAL_TOKENS, *added]
        check_integer("vocab_size", vocab_size or len(special), len(special))
        texts = _check_strings(texts)
        layout = "word" if all(map(has_standard_spacing, (*texts, *held_out))) else "spaced word"
        trainer = trainers.WordLevelTrainer(
            vocab_size=min(vocab_size or 10**9, 10**9),
            min_frequency=min(min_frequency, 10**9),
            special_tokens=special,
            show_progress=False,
        )
        return cls._train(layout, texts, trainer)

    @classmethod
    def train_wordpiece(cls, texts: Iterable[str], vocab_size: int, added: Sequence[str] = ()) -> Tokenizer:
        """Train WordPiece, as in BERT (Wu et al. 2016; Devlin et al. 2018, section 3): "play", "##ing".

        Spaces are not preserved: `decode` puts one between words, and none before a punctuation mark.
        """
        special = [*SPECIAL_TOKENS, *added]
        check_integer("vocab_size", vocab_size, len(special))
        trainer = trainers.WordPieceTrainer(
            vocab_size=min(vocab_size, 10**6), special_tokens=special, show_progress=False
        )
        return cls._train("wordpiece", _check_strings(texts), trainer)

    @classmethod
    def train_bpe(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        held_out: Iterable[str] = (),
        added: Sequence[str] = (),
    ) -> Tokenizer:
        """Train byte-pair encoding (Sennrich et al. 2016). "▁" starts a word; marks are split from words.

        If a text, or one of `held_out`, does not round-trip, byte-level encoding is used, which restores any
        text.
        """
        check_integer("vocab_size", vocab_size, 1)
        texts = _check_strings(texts)
        options: dict[str, Any] = {
            # an upper bound of characters and merges, as the trainer allocates memory for vocab_size tokens
            "vocab_size": min(vocab_size, 1000 + 8 * sum(len(text) + 1 for text in texts)),
            "special_tokens": [*SPECIAL_TOKENS, *added],
            "show_progress": False,
        }
        # Training time grows with the square of a word's length, so long words are split. No token crosses
        # the end of a line.
        lines = [line for text in texts for line in re.split(r"[^\S ]+", text)]
        short = [re.sub("[^ ]{1000}(?=[^ ])", r"\g<0> ", line) for line in lines]
        spaces = sorted({c for text in texts for c in text if c.isspace() and c != " "})
        plain = cls._train("bpe", short, trainers.BpeTrainer(**options, initial_alphabet=spaces))
        if all(plain.decode(plain.encode(text)) == text for text in (*texts, *held_out)):
            return plain
        if vocab_size < (least := len(SPECIAL_TOKENS) + len(added) + len(BYTES)):
            raise TokenizerError(
                f"vocab_size = {vocab_size} is too small: these texts need a token for each byte.\n"
                f"Choose at least {least}, or pass --tokenizer word."
            )
        trainer = trainers.BpeTrainer(**options, initial_alphabet=BYTES)
        return cls._train("byte bpe", texts, trainer)

    @classmethod
    def train_unigram(cls, texts: Iterable[str], vocab_size: int, added: Sequence[str] = ()) -> Tokenizer:
        """Train a unigram model (Kudo 2018), as in SentencePiece. "▁" starts a word.

        Characters that do not occur in the texts are encoded as bytes, each of which has a token.
        """
        special = [*SPECIAL_TOKENS, *added]
        least = len(special) + len(BYTE_PIECES) + 1
        check_integer("vocab_size", vocab_size, least)
        size = min(vocab_size, 10**6) - len(BYTE_PIECES)
        trainer = trainers.UnigramTrainer(
            vocab_size=size, special_tokens=special, unk_token=UNK, show_progress=False
        )
        trained = make_backend("unigram")
        # the trainer's score of the unknown token is NaN, so it must not occur in a text
        broken = [text.replace(UNK, f"{UNK[:-1]} {UNK[-1]}") for text in _check_strings(texts)]
        trained.train_from_iterator(broken, trainer)
        pieces = json.loads(trained.to_str())["model"]["vocab"]
        lowest = min(score for _, score in pieces) - 10  # bytes are the last resort
        pieces = [*map(tuple, pieces), *((byte, lowest) for byte in BYTE_PIECES)]
        return cls("unigram", make_backend("unigram", pieces, added=added))

    @classmethod
    def from_vocab(cls, vocab: Mapping[str, int] | Sequence[str]) -> Tokenizer:
        """A tokenizer with the given words: {word: id}, or the words in the order of their ids from 0.

        >>> from minitransformer import Tokenizer
        >>> Tokenizer.from_vocab(["I", "love", "you"]).encode("you love I")
        [2, 1, 0]
        """
        ids = dict(vocab) if isinstance(vocab, Mapping) else {word: i for i, word in enumerate(vocab)}
        are_ids = all(type(i) is int for i in ids.values())
        if not are_ids or sorted(ids.values()) != list(range(len(vocab))) or not ids:
            raise TokenizerError(
                f"the ids of {len(vocab)} words must be 0 to {len(vocab) - 1}, each once.\n"
                f"Pass distinct words; special tokens such as <PAD> are words too."
            )
        _check_strings(ids)
        return cls("word", make_backend("word", ids))

    @classmethod
    def train_char(
        cls, texts: Iterable[str], special_tokens: bool = False, added: Sequence[str] = ()
    ) -> Tokenizer:
        """A tokenizer whose tokens are the characters of the texts, sorted by code point.

        It has special tokens only if `special_tokens` is True or `added` has some.
        """
        special = [*SPECIAL_TOKENS, *added] if special_tokens or added else []
        tokens = [*special, *sorted(set().union(*_check_strings(texts)))]
        return cls("char", make_backend("char", {t: i for i, t in enumerate(tokens)}))

    @classmethod
    def _train(cls, layout: str, texts: list[str], trainer: Any) -> Tokenizer:
        backend = make_backend(layout)
        backend.train_from_iterator(texts, trainer)
        return cls(layout, backend)

    # ------------------------------------------------------------ encoding and decoding

    @property
    def vocab_size(self) -> int:
        return len(self.token_to_id)

    def special_id(self, token: str) -> int:
        """Return the id of a special token, such as [MASK]. Raise a TokenizerError if there is none."""
        i = self.token_to_id.get(token)
        if i not in self._special:
            raise TokenizerError(
                f"this tokenizer has no special token {token}.\n"
                f"Train one with it, or start from a run whose task has it."
            )
        return i

    @property
    def first_ordinary_id(self) -> int:
        """The number of special tokens, which have the first ids."""
        return len(self._special)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text. Unknown tokens become `<UNK>`; without it, they raise a TokenizerError."""
        if self.kind == "char":
            return self._encode_characters(text)
        return self._as_text(self._encoding(text).ids)

    def _as_text(self, ids: list[int]) -> list[int]:
        """Replace special tokens with their bytes: in a text, "<END>" is ordinary text.

        Only a unigram model encodes special tokens in a text as such.
        """
        if self.kind != "unigram" or self._special.isdisjoint(ids):
            return ids
        return [each for i in ids for each in (self._bytes_of(i) if i in self._special else [i])]

    def _bytes_of(self, i: int) -> list[int]:
        """The ids of the bytes of a token's text, or of <UNK> if the vocabulary has no tokens for bytes."""
        found = [self.token_to_id.get(BYTE_PIECES[byte]) for byte in self.id_to_token[i].encode()]
        known = [byte for byte in found if byte is not None]
        return known if len(known) == len(found) else [self.unk_id or 0]

    def encode_target(self, text: str) -> list[int]:
        """The ids of a target, such as a translation. Some tokenizers have a separate model for targets."""
        return self.encode(text)

    def encode_with_offsets(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        """The token ids of a text, each with the token's start and end in the text, in characters."""
        if self.kind == "char":
            return [(token, (i, i + 1)) for i, token in enumerate(self._encode_characters(text))]
        encoding = self._encoding(text)
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        return [(each, span) for i, span in pairs for each in self._as_text([i])]

    def encode_marked(self, parts: Sequence[str]) -> list[int]:
        """The ids of a text in parts, of which every second is a special token such as [MASK].

        The other parts are encoded as if each special token were a word: a punctuation mark after it has no
        space before it, as in the training data.
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
        letter = unused_letter("".join(parts[::2]))
        inside = self._split(letter)[-1].strip(" ▁Ġ")  # the letter in tokens, which may be its bytes
        ids: list[int] = []
        for word in self._split(letter.join(parts[::2])):
            first, *others = word.split(inside)
            ids += self._tokens_beside(first) if others else self._ids_of(first)
            for other in others:
                ids += [next(marks), *self._tokens_beside(other)]
        return ids

    def _split(self, text: str) -> list[str]:
        """The words of a text, which are tokenized independently."""
        if not text:
            return []
        normal = self._backend.normalizer.normalize_str(text)
        return [word for word, _ in self._backend.pre_tokenizer.pre_tokenize_str(normal)]

    def _tokens_beside(self, part: str) -> list[int]:
        """The ids of the rest of a word that contains a special token.

        A lone space has none; nor, in word tokenizers, has a lone apostrophe: both belong to the word that
        the special token replaces.
        """
        if part in ("", *SPACES) or (self.kind == "word" and part in ("'", "’")):
            return []
        if self.kind == "word":
            words = self._backend.pre_tokenizer.pre_tokenize_str(part)
            return [i for word, _ in words for i in self._ids_of(word)]
        return self._ids_of(part)

    def _ids_of(self, word: str) -> list[int]:
        return self._as_text([token.id for token in self._backend.model.tokenize(word)])

    def encode_array(self, text: str) -> Int[np.ndarray, " n"]:
        """The token ids of a text as an int64 array."""
        return np.array(self.encode(text), dtype=np.int64)

    def _encoding(self, text: str) -> hf.Encoding:
        try:
            return self._backend.encode(text, add_special_tokens=False)
        except TypeError:  # a lone surrogate, or bytes of another encoding
            raise TokenizerError(f"{text!r:.60} is not valid text.\nPass text in UTF-8.") from None
        except Exception:  # a word is not in the vocabulary, which has no <UNK>
            unknown = [word for word in self._split(text) if word not in self.token_to_id]
            raise TokenizerError(
                f"{', '.join(map(repr, unknown[:5]))}: not in the vocabulary, which has no {UNK}.\n"
                f"Use other words, or give the vocabulary a token {UNK}."
            ) from None

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
        """The tokens of a text, as strings."""
        return [self.id_to_token[i] for i in self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids. Special tokens are skipped; ids out of range raise a TokenizerError."""
        ids = [int(i) for i in ids if int(i) not in self._special]
        if unknown := [i for i in ids if i not in self.id_to_token]:
            raise TokenizerError(
                f"token id {unknown[0]} is out of range: the vocabulary has ids 0 to {self.vocab_size - 1}.\n"
                f"Decode ids from this tokenizer."
            )
        if self.kind in ("bpe", "wordpiece", "unigram"):
            text = self._backend.decode(ids)
        else:
            tokens = [self.id_to_token[i] for i in ids]
            text = join_words(tokens) if self.layout == "word" else "".join(tokens)
        return text.removeprefix(" ") if self.layout in LOSSLESS else text

    def lossy_texts(self, texts: Iterable[str]) -> list[str]:
        """The texts that do not round-trip through `encode` and `decode`."""
        return [text for text in texts if self.decode(self.encode(text)) != text]

    def unknown_words(self, text: str) -> list[str]:
        """The distinct words of a text, or characters, that are not in the vocabulary, in order."""
        if self.kind == "char":
            return [c for c in dict.fromkeys(text) if c not in self.token_to_id]
        if self.layout not in LOSSLESS:
            text = unicodedata.normalize("NFC", text)
        unknown = (text[a:b] for i, (a, b) in self.encode_with_offsets(text) if i == self.unk_id)
        return list(dict.fromkeys(word.strip() or word for word in unknown))

    # ------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json atomically."""
        write_atomically(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of tokenizer.json. Raise a TokenizerError if it is too large for `load`."""
        return self._checked_content(self._backend.to_str(pretty=True).encode())

    def _checked_content(self, content: bytes) -> bytes:
        if len(content) > JSON_LIMIT:
            problem = f"a tokenizer of {self.vocab_size:,} tokens has {len(content):,} bytes, the limit is"
            raise TokenizerError(f"{problem} {JSON_LIMIT:,}.\nLower --vocab-size, or choose another model.")
        return content

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Load a tokenizer that `save` wrote."""
        try:
            content = read_json(path, {"model": dict})
        except UserError as error:
            raise TokenizerError(str(error)) from None
        layout = layout_of(content)
        if layout is None:
            problem = f"{path} is not a minitransformer tokenizer: it was written by another program"
            raise TokenizerError(f"{problem}.\nUse the tokenizer.json of a run.")
        backend = backend_of(content, str(path))
        if layout == "unigram":  # the library's parser changes the last digit of numbers
            pieces = list(map(tuple, content["model"]["vocab"]))
            backend.model = models.Unigram(pieces, content["model"]["unk_id"], byte_fallback=True)
        ids = sorted(backend.get_vocab().values())
        if ids != list(range(len(ids))):
            raise TokenizerError(f"{path} is damaged: its ids are not 0 to {len(ids) - 1}.\nRestore it.")
        return cls(layout, backend)


MOST_TOKENS = 2**24  # larger ids, in a damaged file, would take memory for all ids below


def backend_of(content: Mapping[str, Any], where: str) -> hf.Tokenizer:
    """Make the tokenizer that a tokenizer.json describes. Raise a TokenizerError if it is not valid.

    `where` names the file in errors.
    """
    try:
        backend = hf.Tokenizer.from_str(json.dumps(content))
    except BaseException as error:
        problem = problem_in(error)
        raise TokenizerError(f"{where} is not a tokenizer: {problem}.\nDownload or restore it.") from None
    backend.no_padding()
    backend.no_truncation()
    return backend


def problem_in(error: BaseException) -> str:
    """The first line of an error of the library. Errors that are not the library's are raised again.

    The library's panics do not derive from Exception.
    """
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def unused_letter(text: str) -> str:
    """A letter of a rare script (Vai) that does not occur in the text."""
    return next((letter for letter in map(chr, range(0xA500, 0xA60C)) if letter not in text), "\ua500")


def _check_strings(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list. Raise a TokenizerError if one is not a string."""
    found = [texts] if isinstance(texts, str) else list(texts)
    for text in found:
        if not isinstance(text, str):
            raise TokenizerError(f"expected texts as strings, got {text!r:.60}.\nPass a list of strings.")
    return found
