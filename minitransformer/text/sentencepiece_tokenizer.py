"""SentencePiece tokenizers (Kudo and Richardson 2018), such as those of T5, Llama and Marian.

The `sentencepiece` library reads their models.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from .pretrained_tokenizer import PretrainedTokenizer
from .tokenizer import TokenizerError

SPACE = "▁"
# appended to a serialized model, this sets normalizer_spec.add_dummy_prefix = false
WITHOUT_PREFIX = b"\x1a\x02\x18\x00"


class SentencePieceTokenizer(PretrainedTokenizer):
    """Encodes text with a SentencePiece model.

    `source` is the content of a .model file, and `target` the content of a second one for targets, if there
    is one. Ids are the model's, or `vocab` maps pieces to ids (Marian's vocab.json). `added` are tokens whose
    ids follow the model's, such as T5's <extra_id_99> to <extra_id_0>. `marks` are tokens that are recognized
    within a text, such as <|im_start|>. `encode_with_special_tokens` puts `prefix` before a text and, if
    `has_end`, the end token after it. A space is put before a text and, if `legacy`, before the text after a
    mark.
    """

    def __init__(
        self,
        source: bytes,
        roles: Mapping[str, str],
        vocab_size: int | None = None,
        target: bytes | None = None,
        vocab: Mapping[str, int] | None = None,
        added: Sequence[str] = (),
        prefix: Sequence[str] = (),
        has_end: bool = True,
        where: str = "the SentencePiece model",
        marks: Sequence[str] = (),
        legacy: bool = False,
    ) -> None:
        self.layout = "sentencepiece"
        self.kind = "unigram"
        self._content = {"source": source, **({} if target is None else {"target": target})}
        self._source = _processor(source, where)
        self._target = self._source if target is None else _processor(target, where)
        self._vocab = None if vocab is None else dict(vocab)
        self.added, self.marks, self.legacy = list(added), list(marks), legacy
        longest_first = sorted(map(re.escape, marks), key=len, reverse=True)
        self._mark = re.compile(f"({'|'.join(longest_first) or '(?!)'})")
        strips_spaces = self._source.encode(" a") == self._source.encode("a")
        has_inner = bool(marks) and not strips_spaces
        self._inner = _processor(source + WITHOUT_PREFIX, where) if has_inner else self._source
        size = self._source.get_piece_size()
        pieces = {self._source.id_to_piece(i): i for i in range(size)} if vocab is None else dict(vocab)
        pieces |= {token: size + i for i, token in enumerate(added)} if vocab is None else {}
        ids = range(size) if vocab is None else ()
        special = {i for i in ids if self._source.is_control(i) or self._source.is_unknown(i)}
        special |= {pieces[token] for token in added if token in pieces}
        self._describe(pieces, roles, vocab_size, special - {pieces[token] for token in marks})
        self.prefix = [self.token_to_id[token] for token in prefix]
        self.has_end = has_end

    def encode(self, text: str) -> list[int]:
        return self._encode(self._source, text)

    def encode_target(self, text: str) -> list[int]:
        return self._encode(self._target, text)

    def _encode(self, processor: Any, text: str) -> list[int]:
        _check_text(text)
        if self._vocab is None:
            encode = lambda part, by: [self.token_to_id[part]] if by is None else by.encode(part)
            return [i for _, part, by in self._parts(text) for i in encode(part, by)]
        code, text = _language_code(text)
        return [self._id_of(piece) for piece in [*code, *processor.encode(text, out_type=str)]]

    def _parts(self, text: str) -> Iterator[tuple[int, str, Any]]:
        """Split a text at its marks. Yield each part with its start and the processor that encodes it.

        The processor of a mark is None.
        """
        start = 0
        for number, part in enumerate(self._mark.split(text)):
            has_space = number == 0 or (self.legacy and not part.startswith(" "))
            processor = self._source if has_space else self._inner
            yield start, part, None if number % 2 else processor
            start += len(part)

    def _id_of(self, piece: str) -> int:
        return self.token_to_id.get(piece, self.unk_id or 0)

    def encode_with_special_tokens(self, text: str) -> list[int]:
        end = [] if self.end_id is None or not self.has_end else [self.end_id]
        return [*self.prefix, *self.encode(text), *end]

    def encode_with_offsets(self, text: str) -> list[tuple[int, tuple[int, int]]]:
        _check_text(text)
        pairs: list[tuple[int, tuple[int, int]]] = []
        for start, part, processor in self._parts(text):
            if processor is None:
                pairs.append((self.token_to_id[part], (start, start + len(part))))
                continue
            found = processor.encode(part, out_type="offset_mapping")
            ids = found["ids"] if self._vocab is None else [self._id_of(piece) for piece in found["pieces"]]
            pairs += [(i, (start + a, start + b)) for i, (a, b) in zip(ids, found["offsets"], strict=True)]
        return pairs

    def encode_marked(self, parts: Sequence[str]) -> list[int]:
        ids: list[int] = []
        for k, part in enumerate(parts):
            ids += [self.special_id(part)] if k % 2 else self.encode(part.strip() if len(parts) > 1 else part)
        return ids

    def _text_of(self, ids: list[int]) -> str:
        text = self._target.decode_pieces([self.id_to_token[i] for i in ids])
        if self._vocab is None:
            return text
        return text.replace(SPACE, " ").strip()  # a piece that only the source model has keeps its ▁

    # ------------------------------------------------------------ files

    def to_bytes(self) -> bytes:
        """The content of a run's tokenizer.json, with models in base64."""
        content = {
            "roles": self.roles,
            "vocab_size": self.vocab_size,
            "vocab": self._vocab,
            "added": self.added,
            "marks": self.marks,
            "legacy": self.legacy,
            "prefix": [self.id_to_token[i] for i in self.prefix],
            "has_end": self.has_end,
            "models": {name: base64.b64encode(model).decode() for name, model in self._content.items()},
        }
        found = json.dumps({"sentencepiece": content}, ensure_ascii=False, separators=(",", ":"))
        return self._checked_content(found.encode())

    def model_files(self) -> dict[str, bytes]:
        """The original files of the tokenizer, by the names that transformers expects."""
        if self._vocab is not None:
            vocab = json.dumps(self._vocab, ensure_ascii=False).encode()
            return {
                "source.spm": self._content["source"],
                "target.spm": self._content.get("target", self._content["source"]),
                "vocab.json": vocab,
            }
        has_sentinels = "<extra_id_0>" in self.token_to_id  # T5 has them
        return {"spiece.model" if has_sentinels else "tokenizer.model": self._content["source"]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str) -> SentencePieceTokenizer:
        about = content["sentencepiece"]
        models = {name: base64.b64decode(text) for name, text in about["models"].items()}
        keys = ("roles", "vocab_size", "vocab", "added", "prefix", "has_end", "marks", "legacy")
        settings = {key: about[key] for key in keys}
        return cls(models["source"], target=models.get("target"), where=where, **settings)


def model_message(content: bytes) -> Any:
    """Parse a .model file, and return the library's protocol buffer of pieces and settings."""
    try:
        messages = import_module("sentencepiece.sentencepiece_model_pb2")
    except Exception:  # a protobuf older than sentencepiece expects raises other errors
        raise _missing("reading the settings of a SentencePiece model", "protobuf") from None
    return messages.ModelProto.FromString(content)


def _processor(model: bytes, where: str) -> Any:
    """Load a model with the library. Raise a TokenizerError if that fails."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise _missing(where, "sentencepiece") from None
    try:
        processor = SentencePieceProcessor(model_proto=model)
        processor.id_to_piece(list(range(processor.get_piece_size())))  # raises if one is not UTF-8
        return processor
    except (RuntimeError, OSError, ValueError) as error:
        problem = str(error).splitlines()[0] if str(error) else "it cannot be parsed"
        raise TokenizerError(
            f"{where} is not a SentencePiece model: {problem:.200}.\nDownload it again."
        ) from None


def _missing(what: str, package: str) -> TokenizerError:
    return TokenizerError(
        f"{what} needs the package {package}.\n"
        f"Install it: pip install 'minitransformer[pretrained]', or pip install -U {package}."
    )


def _check_text(text: str) -> None:
    try:
        text.encode()
    except (UnicodeEncodeError, AttributeError):
        raise TokenizerError(f"{text!r:.60} is not valid text.\nPass text in UTF-8.") from None


def _language_code(text: str) -> tuple[list[str], str]:
    """Split off the code of a target language, such as >>fr<<, from the start of a text, if it has one."""
    end = text.find("<<")
    return ([text[: end + 2]], text[end + 2 :]) if text.startswith(">>") and end > 0 else ([], text)
