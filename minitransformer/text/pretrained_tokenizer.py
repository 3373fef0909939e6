"""Tokenizers of pretrained models: any tokenizer.json of Hugging Face's `tokenizers`.

Their normalizer, pre-tokenizer and post-processor are kept. Special tokens are found by their roles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers as hf

from ..errors import check_integer
from .tokenizer import MOST_TOKENS, Tokenizer, TokenizerError, backend_of, problem_in
from .tokenizer_presets import CLS, END, MASK, PAD, SEP, START, UNK

ROLES = ("pad", "unk", "start", "end", "cls", "sep", "mask")
ROLE_OF = {
    PAD: "pad",
    UNK: "unk",
    START: "start",
    END: "end",
    CLS: "cls",
    SEP: "sep",
    MASK: "mask",
    "<MASK>": "mask",
}
KINDS = {"BPE": "bpe", "WordPiece": "wordpiece", "Unigram": "unigram", "WordLevel": "word"}


class PretrainedTokenizer(Tokenizer):
    """Encodes and decodes text like the tokenizer of a pretrained model.

    `roles` maps roles to tokens: {"pad": "<pad>", "end": "</s>", ...}. `vocab_size` is the number of rows of
    the model's embedding, which may exceed the number of tokens. As with `Tokenizer`, `encode` adds no
    special tokens, and treats special tokens in a text as ordinary text.
    """

    def __init__(
        self, backend: hf.Tokenizer, roles: Mapping[str, str], vocab_size: int | None = None
    ) -> None:
        self.layout = "pretrained"
        self.kind = KINDS.get(type(backend.model).__name__, "")
        self._backend = backend
        self._backend.encode_special_tokens = True
        added = backend.get_added_tokens_decoder().items()
        special = {i for i, token in added if token.special}
        self._describe(backend.get_vocab(), roles, vocab_size, special)
        encoding = self._encoding("a", add_special_tokens=True)
        self.prefix = encoding.ids[: [*encoding.special_tokens_mask, 0].index(0)]

    def _describe(
        self, vocab: dict[str, int], roles: Mapping[str, str], vocab_size: int | None, special: set[int]
    ) -> None:
        """Set the attributes of the vocabulary: tokens, roles and ids."""
        self.token_to_id = vocab
        self.id_to_token = {i: token for token, i in vocab.items()}
        self.roles = {role: roles[role] for role in ROLES if role in roles}
        self._vocab_size = self._checked_size(vocab_size)
        self._unused = set(range(self._vocab_size)) - self.id_to_token.keys()
        self.id_to_token |= {i: f"<unused {i}>" for i in self._unused}
        ids = {role: self.token_to_id[token] for role, token in self.roles.items()}
        self.pad_id, self.unk_id, self.start_id, self.end_id = map(ids.get, ROLES[:4])
        self._special = special | set(ids.values())

    def _checked_size(self, size: int | None) -> int:
        """The size of the model's vocabulary. Raise a TokenizerError if the tokenizer has ids beyond it."""
        least = max(self.id_to_token, default=-1) + 1
        size = least if size is None else size
        check_integer("vocab_size", size, 1)
        if size > MOST_TOKENS:
            raise TokenizerError(
                f"the model has {size:.3g} tokens, the limit is {MOST_TOKENS:,}.\nDownload its files again."
            )
        if size < least:
            raise TokenizerError(
                f"the tokenizer has ids up to {least - 1:,}, but the model only {size:,} tokens.\n"
                f"Download the tokenizer and the weights of one model."
            )
        return size

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @property
    def first_ordinary_id(self) -> int:
        """The smallest id that is not a special token's."""
        return next(i for i in range(self.vocab_size + 1) if i not in self._special)

    @property
    def special_tokens(self) -> list[str]:
        """The special tokens, the longest first."""
        return sorted((self.id_to_token[i] for i in self._special), key=len, reverse=True)

    def special_id(self, token: str) -> int:
        """The id of a special token. Tokens of `ROLE_OF`, such as [CLS], are found by their role."""
        return super().special_id(self.roles.get(ROLE_OF.get(token, ""), token))

    def encode_with_special_tokens(self, text: str) -> list[int]:
        """The ids of a text, with the special tokens that the model was trained with before and after it."""
        return self._encoding(text, add_special_tokens=True).ids

    def _encoding(self, text: str, add_special_tokens: bool = False) -> hf.Encoding:
        try:
            return self._backend.encode(text, add_special_tokens=add_special_tokens)
        except TypeError:
            return super()._encoding(text)  # raises the error
        except BaseException as error:
            problem = problem_in(error)
            if "unk" in problem.lower():  # the vocabulary lacks a token for unknown text
                raise TokenizerError(
                    f"{text!r:.60} has a word or character that is not in the vocabulary, which has no token "
                    f"for unknown ones.\nUse other words."
                ) from None
            raise TokenizerError(
                f"{text!r:.60} cannot be tokenized: {problem}.\nDownload the tokenizer again."
            ) from None

    def encode_marked(self, parts: Sequence[str]) -> list[int]:
        """The ids of a text in parts, of which every second is a special token such as [MASK]."""
        if len(parts) == 1:
            return self.encode(parts[0])
        marks = [self.special_id(part) for part in parts[1::2]]
        special = [self.id_to_token[i] for i in self._special]
        if any(token in part for part in parts[::2] for token in special):  # these are ordinary text
            first, *others = map(self.encode, parts[::2])
            return first + [i for mark, ids in zip(marks, others, strict=True) for i in (mark, *ids)]
        names = [self.id_to_token[marks[k // 2]] if k % 2 else part for k, part in enumerate(parts)]
        self._backend.encode_special_tokens = False
        try:
            return self._encoding("".join(names)).ids
        finally:
            self._backend.encode_special_tokens = True

    def decode(self, ids: Any) -> str:
        ids = [int(i) for i in ids]
        if wrong := [i for i in ids if not 0 <= i < self.vocab_size]:
            raise TokenizerError(
                f"token id {wrong[0]} is out of range: the vocabulary has ids 0 to {self.vocab_size - 1}.\n"
                f"Decode ids from this tokenizer."
            )
        return self._text_of([i for i in ids if i not in self._unused and i not in self._special])

    def _text_of(self, ids: list[int]) -> str:
        """The text of ids that are not special tokens."""
        return self._backend.decode(ids)

    def unknown_words(self, text: str) -> list[str]:
        if self.unk_id is None:
            return []
        return list(
            dict.fromkeys(text[a:b] for i, (a, b) in self.encode_with_offsets(text) if i == self.unk_id)
        )

    # ------------------------------------------------------------ files

    def to_bytes(self) -> bytes:
        """The content of a run's tokenizer.json: the original tokenizer, with `roles` and `vocab_size`."""
        about = {"roles": self.roles, "vocab_size": self.vocab_size}
        content = {"pretrained": about, "tokenizer": json.loads(self._backend.to_str())}
        return self._checked_content(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str) -> PretrainedTokenizer:
        """The tokenizer whose `to_bytes` gave this content. `where` names the file in errors."""
        about = content["pretrained"]
        return cls(backend_of(content["tokenizer"], where), about["roles"], about["vocab_size"])
