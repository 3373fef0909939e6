"""The description of a tokenizer with which JavaScript tokenizes a text in the same way.

`assets/model/tokenizers.js` implements our own layouts by name. A pretrained tokenizer is described by the
parts of its tokenizer.json: steps that normalize a text, steps that split it into words, a model that splits
words into tokens, and steps that decode tokens into a text. A step that can be expressed by other steps is
replaced by them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..errors import UserError
from ..text.pretrained_tokenizer import ROLE_OF, PretrainedTokenizer
from ..text.sentencepiece_tokenizer import SentencePieceTokenizer, model_message

Step = dict[str, Any]  # a step of a tokenizer, whose kind is the value of "type"

STEPS = {  # the steps that assets/model/tokenizers.js implements
    "normalizer": (
        "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Prepend", "Replace", "Strip",
        "BertNormalizer", "Precompiled", "SentencePiece",
    ),
    "pre_tokenizer": ("Split", "Punctuation", "PrefixSpace", "ByteLevel", "Metaspace"),
    "decoder": (
        "ByteLevel", "Metaspace", "WordPiece", "ByteFallback", "Fuse", "Replace", "Strip", "SentencePiece",
        "StripText",
    ),
}  # fmt: skip
SIDES = ("left", "right")  # the sides on which a special token may strip spaces
GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class UnknownPart(UserError):
    """Raised for a part of a tokenizer that the page does not implement."""


def tokenizer_data(tokenizer: Any) -> dict[str, Any] | None:
    """Describe a tokenizer for JavaScript; None without a tokenizer.

    Raise an UnknownPart if the tokenizer has a part that the page does not implement.
    """
    if tokenizer is None:
        return None
    roles = getattr(tokenizer, "roles", {})
    return {
        "tokens": [tokenizer.id_to_token[i] for i in range(tokenizer.vocab_size)],
        "shown": shown_tokens(tokenizer),
        "special": sorted({*tokenizer._special, *getattr(tokenizer, "_unused", ())}),
        "names": {name: tokenizer.special_id(name) for name, role in ROLE_OF.items() if role in roles},
        "pad_id": tokenizer.pad_id,
        "unk_id": tokenizer.unk_id,
        "start_id": tokenizer.start_id,
        "end_id": tokenizer.end_id,
        **_reading(tokenizer),
    }


def _reading(tokenizer: Any) -> dict[str, Any]:
    """Describe how a text is split into tokens, and how tokens are joined."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        return _of_sentencepiece(tokenizer)
    content = json.loads(tokenizer.to_bytes())
    if isinstance(tokenizer, PretrainedTokenizer):
        return _of_parts(content["tokenizer"], tokenizer)
    if tokenizer.layout == "unigram":
        return _of_parts(content, tokenizer)
    return {"layout": tokenizer.layout, "merges": _merges(content["model"])}


def shown_tokens(tokenizer: Any) -> list[str] | None:
    """The tokens as the page shows them: with spaces for "▁" and "Ġ", and decoded bytes.

    Return None if they are shown as they are.
    """
    tokens = [tokenizer.id_to_token[i] for i in range(tokenizer.vocab_size)]
    decoder = "▁"
    if not isinstance(tokenizer, SentencePieceTokenizer):
        decoder = json.dumps(json.loads(tokenizer._backend.to_str())["decoder"], ensure_ascii=False)
    if "ByteLevel" in decoder:
        return [_text_of_bytes(token) for token in tokens]
    return [token.replace("▁", " ") for token in tokens] if "▁" in decoder else None


def _text_of_bytes(token: str) -> str:
    """Decode a token of bytes. Bytes that are not UTF-8 are shown as in \\xe2."""
    if not set(token) <= BYTE_OF.keys():  # an added token
        return token
    return bytes(BYTE_OF[character] for character in token).decode(errors="backslashreplace")


def _byte_characters() -> Iterator[tuple[str, int]]:
    """Yield GPT-2's character for each byte: its own if it is visible, otherwise one from U+0100 on."""
    others = 0
    for byte in range(256):
        is_visible = 33 <= byte <= 126 or (161 <= byte <= 255 and byte != 173)
        yield chr(byte if is_visible else 256 + others), byte
        others += not is_visible


BYTE_OF = dict(_byte_characters())


# ---------------------------------------------------------------- the parts of a tokenizer.json


def _of_parts(content: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """Describe the parts of a tokenizer.json."""
    own = [token["content"] for token in content["added_tokens"] if not token["special"]]
    if own:
        raise UnknownPart(f"added tokens that are not special, such as {own[0]!r:.40}")
    found = {name: list(_steps(name, content[name])) for name in STEPS}
    model = _model(content["model"])
    if model["type"] == "Unigram":  # special tokens are pieces too, but must not be matched in a text
        model["refused"] = [tokenizer.id_to_token[i] for i in sorted(tokenizer._special)]
    added = tokenizer._backend.get_added_tokens_decoder().items()
    strips = {
        f"{side}Strips": [i for i, token in added if getattr(token, f"{side[0]}strip")] for side in SIDES
    }
    return {"layout": "parts", **found, "model": model, **strips}


def _steps(name: str, part: Any) -> Iterator[Step]:
    """Yield the steps of a normalizer, pre-tokenizer or decoder, with sequences flattened."""
    if part is None:
        if name == "decoder":
            raise UnknownPart("no decoder")
        return
    if part["type"] == "Sequence":
        for each in next(part[key] for key in ("normalizers", "pretokenizers", "decoders") if key in part):
            yield from _steps(name, each)
        return
    for step in REWRITTEN.get((name, part["type"]), lambda part: [part])(part):
        if step["type"] not in STEPS[name]:
            raise UnknownPart(f"the {name} {step['type']}")
        yield step


def _replace(part: Step) -> Iterable[Step]:
    yield {**part, "pattern": _regex(part["pattern"])}


def _split(part: Step) -> Iterable[Step]:
    if part["behavior"] not in ("Isolated", "Removed"):
        raise UnknownPart(f"the pre_tokenizer Split with the behavior {part['behavior']}")
    yield {**part, "pattern": _regex(part["pattern"])}


def _split_at(pattern: str, behavior: str) -> Step:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


def _byte_level(part: Step) -> Iterable[Step]:
    if part["add_prefix_space"]:
        yield {"type": "PrefixSpace"}
    if part.get("use_regex", True):
        yield _split_at(_regex({"Regex": GPT2_WORDS}), "Isolated")
    yield {"type": "ByteLevel"}


def _punctuation(part: Step) -> Iterable[Step]:
    if part["behavior"] != "Isolated":
        raise UnknownPart(f"the pre_tokenizer Punctuation with the behavior {part['behavior']}")
    yield {"type": "Punctuation"}


def _bert_words(part: Step) -> Iterable[Step]:
    return [_split_at(r"\p{White_Space}+", "Removed"), {"type": "Punctuation"}]


def _bert_normalizer(part: Step) -> Iterable[Step]:
    if not part["clean_text"]:
        raise UnknownPart("the normalizer BertNormalizer without clean_text")
    strip = part["strip_accents"]
    yield {
        "type": "BertNormalizer",
        "lowercase": part["lowercase"],
        "stripAccents": part["lowercase"] if strip is None else strip,
        "chinese": part["handle_chinese_chars"],
    }


REWRITTEN: dict[tuple[str, str], Callable[[Step], Iterable[Step]]] = {  # rewrites or checks a step
    ("normalizer", "Replace"): _replace,
    ("normalizer", "BertNormalizer"): _bert_normalizer,
    ("pre_tokenizer", "Split"): _split,
    ("pre_tokenizer", "ByteLevel"): _byte_level,
    ("pre_tokenizer", "Punctuation"): _punctuation,
    ("pre_tokenizer", "BertPreTokenizer"): _bert_words,
    ("pre_tokenizer", "WhitespaceSplit"): lambda part: [_split_at(r"\p{White_Space}+", "Removed")],
    ("pre_tokenizer", "Digits"): lambda part: [
        _split_at(r"\p{N}" if part["individual_digits"] else r"\p{N}+", "Isolated")
    ],
    ("decoder", "Replace"): _replace,
}

CATEGORY = r"\\[pP]\{(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfson]?)\}"
CHARACTER = rf"{CATEGORY}|\\u[0-9a-fA-F]{{4}}|\\[rntfv]|\\[sSd]|\\[^\w\s]"  # a character, or a class
SAME_IN_JAVASCRIPT = re.compile(
    rf"{CHARACTER}|\[\^?(?:(?:{CATEGORY}|\\[sSd])(?!-[^\]])|(?!{CATEGORY}|\\[sSd])(?:{CHARACTER})|[^\\\[\]&])+\]"
    r"|\(\?i:[^\\()\[\]{}.^$&]*\)|\(\?[:=!]|\((?!\?)|\)|\|"
    r"|(?:[*+?]|\{\d+(?:,\d*)?\})(?!\+)|[^\\()\[\]{}*+?|.^$&]"
)


def _regex(pattern: dict[str, str]) -> str:
    """Translate a pattern to a JavaScript regular expression with the flag u."""
    if "String" in pattern:
        return re.sub(r"[.*+?^${}()|\[\]\\/]", r"\\\g<0>", pattern["String"])
    text = pattern["Regex"]
    if SAME_IN_JAVASCRIPT.sub("", text):
        raise UnknownPart(f"the regular expression {text!r:.60}")
    text = re.sub(r"\(\?i:([^()]*)\)", lambda found: f"(?:{_in_both_cases(found[1])})", text)
    classes = {"s": r"\p{White_Space}", "S": r"\P{White_Space}", "d": r"\p{Nd}"}
    named = lambda found: classes.get(found[1]) or (found[0] if found[1] in r"^$\.*+?()[]{}|/-" else found[1])
    return re.sub(r"\\([sSd]|[^\w\s])", named, text)


def _in_both_cases(text: str) -> str:
    """A pattern that matches letters in both cases; ſ counts as an s, and the kelvin sign as a k."""
    others = {"s": "ſ", "k": "\u212a"}
    both = lambda found: f"[{found[0].lower()}{found[0].upper()}{others.get(found[0].lower(), '')}]"
    return re.sub("[a-zA-Z]", both, text)


def _model(part: dict[str, Any]) -> dict[str, Any]:
    """Describe the model of a tokenizer.json, which splits words into tokens."""
    kind = part.get("type")
    unknown = part.get("unk_token")
    if kind == "BPE":
        for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
            if part.get(name):
                raise UnknownPart(f"BPE with {name}")
        settings = {name: bool(part.get(name)) for name in ("byte_fallback", "fuse_unk", "ignore_merges")}
        return {"type": kind, "unknown": unknown, "merges": _merges(part), **settings}
    if kind == "Unigram":
        number = part.get("unk_id")
        unknown = None if number is None else part["vocab"][number][0]
        return {
            "type": kind, "unknown": unknown, "pieces": dict(part["vocab"]), "precision": 64,
            "byte_fallback": bool(part.get("byte_fallback")),
        }  # fmt: skip
    if kind == "WordPiece":
        found = {"prefix": part["continuing_subword_prefix"], "longest": part["max_input_chars_per_word"]}
        return {"type": kind, "unknown": unknown, **found}
    raise UnknownPart(f"the model {kind}")


def _merges(model: dict[str, Any]) -> list[Sequence[str]]:
    """Return the merges as pairs. Older files have "a b" instead of ["a", "b"]."""
    return [merge.split(" ") if isinstance(merge, str) else merge for merge in model.get("merges", [])]


# ---------------------------------------------------------------- SentencePiece


def _of_sentencepiece(tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    """Describe one or two SentencePiece files. If there are two, the second encodes targets, and decodes."""
    if tokenizer.marks:
        raise UnknownPart(f"added tokens that are not special, such as {tokenizer.marks[0]!r:.40}")
    source, *others = (_of_file(content) for content in tokenizer._content.values())
    unknown = tokenizer.id_to_token.get(tokenizer.unk_id or 0)
    is_named = tokenizer._vocab is not None  # pieces are looked up in a vocab.json
    if is_named:
        for each in (source, *others):
            each["model"]["unknown"] = unknown
    data = {"layout": "parts", **source, "languageCodes": is_named}
    if is_named:
        data["decoder"] = [*(others or [source])[0]["decoder"], {"type": "StripText"}]
    return {**data, "target": others[0]} if others else data


def _of_file(content: bytes) -> dict[str, Any]:
    """Describe the parts of a SentencePiece model."""
    file = model_message(content)
    kind = {1: "Unigram", 2: "SentencePieceBPE"}.get(file.trainer_spec.model_type)
    settings = file.normalizer_spec
    if kind is None:
        raise UnknownPart("a SentencePiece model of words or characters")
    if file.trainer_spec.treat_whitespace_as_suffix or not settings.escape_whitespaces:
        raise UnknownPart("a SentencePiece model with spaces elsewhere than before words")
    if file.denormalizer_spec.precompiled_charsmap:
        raise UnknownPart("a SentencePiece model that changes texts again")
    if any(piece.type == piece.USER_DEFINED for piece in file.pieces):
        raise UnknownPart("a SentencePiece model with pieces that a user defined")
    normalizer = {
        "type": "SentencePiece",
        "precompiled_charsmap": base64.b64encode(settings.precompiled_charsmap).decode(),
        "adds": settings.add_dummy_prefix,
        "removes": settings.remove_extra_whitespaces,
    }
    model = {
        "type": kind,
        "pieces": {each.piece: each.score for each in file.pieces if each.type == each.NORMAL},
        "precision": 32,  # the bits of sums of scores, which decide what counts as a tie
        "unknown": next(each.piece for each in file.pieces if each.type == each.UNKNOWN),
        "byte_fallback": file.trainer_spec.byte_fallback,
    }
    strips = settings.add_dummy_prefix or settings.remove_extra_whitespaces
    decoder = {"type": "SentencePiece", "strips": strips, "all": settings.remove_extra_whitespaces}
    return {"normalizer": [normalizer], "pre_tokenizer": [], "decoder": [decoder], "model": model}
