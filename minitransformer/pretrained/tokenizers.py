"""Loads and saves the tokenizer in a folder of the Hugging Face hub, in any of the layouts of files there."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tokenizers as hf
from tokenizers import decoders, processors

from ..errors import UserError
from ..files import read_bytes, read_text, write_json
from ..text.pretrained_tokenizer import MOST_TOKENS, PretrainedTokenizer, backend_of
from ..text.sentencepiece_tokenizer import SentencePieceTokenizer
from ..text.tokenizer import Tokenizer
from ..text.tokenizer_presets import sentinels
from .added_tokens import Token, added_tokens, check_marks, entries
from .errors import PretrainedError, PretrainedWarning
from .settings import read_object, read_optional
from .tokenizer_classes import (
    BERT_TOKENS,
    LAYOUTS,
    NAMES,
    class_of,
    complete,
    content_of,
    special_tokens,
)
from .weights import listed

BLANK: dict[str, Any] = {  # an empty tokenizer.json
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": None, "post_processor": None, "decoder": None,
}  # fmt: skip
USUAL = {  # the tokens of each role if no file names any, where the vocabulary has them
    "pad": ("<pad>", "[PAD]"), "unk": ("<unk>", "[UNK]"), "start": ("<s>",), "end": ("</s>", "<|endoftext|>"),
    "cls": ("[CLS]",), "sep": ("[SEP]",), "mask": ("[MASK]", "<mask>"),
}  # fmt: skip


def load_tokenizer(folder: str | Path) -> PretrainedTokenizer:
    """Load the tokenizer in a folder of the Hugging Face hub, from the first of these files that it has.

    They are: source.spm, target.spm and vocab.json (Marian); tokenizer.json; spiece.model or tokenizer.model;
    vocab.json and merges.txt; vocab.txt. As in transformers, tokenizer_class and the other settings of
    tokenizer_config.json take precedence over tokenizer.json, except for its vocabulary. The roles of special
    tokens are in tokenizer_config.json, special_tokens_map.json, config.json and generation_config.json.

    A PretrainedWarning names added tokens for which the model's embedding has no row.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise PretrainedError(
            f"there is no folder {folder}.\nPass the folder with the model's tokenizer files."
        )
    settings = read_optional(folder / "tokenizer_config.json")
    older = read_optional(folder / "special_tokens_map.json")
    settings = older | settings if "added_tokens_decoder" in settings else settings | older
    config = read_optional(folder / "generation_config.json") | read_optional(folder / "config.json")
    files = next((names for names in LAYOUTS if all((folder / name).is_file() for name in names)), ())
    if not files:
        raise PretrainedError(_no_tokenizer(folder))
    name = class_of(str(folder), files, settings, config)
    content = read_object(folder / files[0]) if files[0] == "tokenizer.json" else {}
    tokens = added_tokens(folder, content.get("added_tokens"), settings)
    rows = config.get("vocab_size")
    is_lost = lambda i: type(rows) is int and rows <= i < MOST_TOKENS  # larger ids are an error
    lost = [token["content"] for token in tokens if is_lost(token["id"])]
    added = [token for token in tokens if token["content"] not in lost]
    tokenizer = _read(folder / files[0], name, content, added, settings, config)
    where = str(folder)
    for token in added:
        if tokenizer.token_to_id.get(token["content"]) != token["id"]:
            raise PretrainedError(
                f"{where} has no place for the added token {token['content']!r:.60} with the "
                f"id {token['id']}.\n"
                f"Download the tokenizer's files again, all from one model."
            )
    first = tokenizer.encode("a")[:1] if settings.get("add_prefix_space") is False else []
    if name == "LlamaTokenizer" and any(tokenizer.id_to_token[i].startswith("▁") for i in first):
        raise PretrainedError(
            f"{where} puts a space before each text, but its tokenizer_config.json has add_prefix_space = "
            f"False, which is not supported.\n"
            f"Choose a model without this setting."
        )
    if lost:
        warning = f"{where}: tokens without a row in the model's embedding: {listed(lost)}"
        warnings.warn(warning, PretrainedWarning, stacklevel=2)
    return tokenizer


def _read(
    path: Path, name: str, content: dict[str, Any], added: list[Token], settings: Mapping[str, Any],
    config: Mapping[str, Any],
) -> PretrainedTokenizer:  # fmt: skip
    """Read the tokenizer of the class `name` from the file `path`.

    `content` is the content of tokenizer.json, or empty, and `added` are the added tokens.
    """
    where = str(path)
    if path.suffix in (".spm", ".model"):
        check_marks(added, name, where)
    if path.suffix == ".spm":
        return _marian(path.parent, settings, config)
    if path.suffix == ".model":
        return _sentencepiece(path, name, added, settings, config)
    if content:
        settings = {key: settings[key] for key in settings if key not in ("add_bos_token", "add_eos_token")}
    else:
        content = BLANK | {"model": _model(path, settings)}
    backend = backend_of(content | {"added_tokens": added}, where)
    complete(backend, name, settings, where)
    return PretrainedTokenizer(
        backend, _roles(backend.get_vocab(), settings, config), config.get("vocab_size")
    )


def _no_tokenizer(folder: Path) -> str:
    """The error message for a folder that has no supported tokenizer files."""
    if (folder / "sentencepiece.bpe.model").is_file():
        return (
            f"{folder}: the ids of sentencepiece.bpe.model are not those of the model.\n"
            f"Write its tokenizer.json: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER), "
            f"of transformers."
        )
    return (
        f"{folder} has no tokenizer: found none of tokenizer.json, spiece.model, "
        f"tokenizer.model, source.spm, vocab.json with merges.txt, and vocab.txt.\n"
        f"Download the model's tokenizer files into the same folder."
    )


def _roles(
    vocab: Mapping[str, int], settings: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, str]:
    """The special token of each role, such as {"end": "</s>"}.

    The start token of an encoder-decoder is its `decoder_start_token_id`.
    """
    tokens = {i: token for token, i in vocab.items()}
    found = {}
    for role, name in NAMES.items():
        token = content_of(settings.get(name))
        number = config.get(f"{name}_id")
        if isinstance(number, list) and number:  # take the first of several end tokens
            number = number[0]
        if token is None and type(number) is int:
            token = tokens.get(number)
        if token is None and not any(name in settings for name in NAMES.values()):
            token = next((usual for usual in USUAL[role] if usual in vocab), None)
        if isinstance(token, str) and token in vocab:
            found[role] = token
    start = config.get("decoder_start_token_id")
    if type(start) is int and start in tokens:
        found["start"] = tokens[start]
    return found


def _sentencepiece(
    path: Path, kind: str, tokens: list[Token], settings: Mapping[str, Any], config: Mapping[str, Any]
) -> SentencePieceTokenizer:
    """Read the tokenizer of a T5, with sentinels after the pieces, or of a Llama, with <s> before each text.

    `tokens` are the added tokens.
    """
    is_t5 = kind == "T5Tokenizer"
    count = settings.get("extra_ids", 100) if is_t5 else 0
    count = count if isinstance(count, int) and 0 <= count <= 1000 else 0
    added = sentinels(count)[::-1]
    content = read_bytes(path)
    where = str(path)
    plain = SentencePieceTokenizer(content, {}, added=added, where=where)
    ids = {token["content"]: token["id"] for token in tokens}
    added += [token for token in ids if token not in plain.token_to_id]
    marks = [token["content"] for token in tokens if not token["special"]]
    roles = _roles({**plain.token_to_id, **ids}, settings, config)
    begins = not is_t5 and settings.get("add_bos_token", True) and "start" in roles
    prefix = [roles["start"]] if begins else []
    has_end = is_t5 or settings.get("add_eos_token") is True
    return SentencePieceTokenizer(
        content, roles, config.get("vocab_size"), added=added, prefix=prefix, has_end=has_end, where=where,
        marks=marks, legacy=settings.get("legacy") is True,
    )  # fmt: skip


def _marian(folder: Path, settings: Mapping[str, Any], config: Mapping[str, Any]) -> SentencePieceTokenizer:
    """Read Marian's tokenizer: a SentencePiece model for each language, and one vocabulary with all ids."""
    if settings.get("separate_vocabs"):
        raise PretrainedError(
            f"{folder} has separate vocabularies of source and target, which are not supported.\n"
            f"Choose a model with one vocab.json."
        )
    vocab = read_object(folder / "vocab.json")
    if any(type(i) is not int or i < 0 for i in vocab.values()) or len(set(vocab.values())) < len(vocab):
        raise PretrainedError(f"{folder / 'vocab.json'} does not give each token an id.\nDownload it again.")
    source, target = (read_bytes(folder / name) for name in ("source.spm", "target.spm"))
    roles = _roles(vocab, settings, config)
    where = str(folder / "source.spm")
    return SentencePieceTokenizer(source, roles, config.get("vocab_size"), target, vocab, where=where)


def _model(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read vocab.json and merges.txt, or vocab.txt, and return the entry `model` of a tokenizer.json."""
    if path.suffix == ".json":
        lines = read_text(path.with_name("merges.txt")).split("\n")
        merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        return {"type": "BPE", "vocab": read_object(path), "merges": merges}
    tokens = read_text(path).removesuffix("\n").split("\n")  # one token on each line
    vocab = {token: i for i, token in enumerate(tokens)}
    if len(vocab) < len(tokens):
        raise PretrainedError(f"{path} has a token twice.\nDownload it again.")
    unknown = special_tokens(settings, BERT_TOKENS)["unk_token"]
    return {
        "type": "WordPiece", "vocab": vocab, "unk_token": unknown, "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }  # fmt: skip


MARKS = [(f" {mark}", mark) for mark in ".,?!:;)…"] + [
    ("' ", "'"),
    ("( ", "("),
    (" \u00a0", " "),
    ("\u00a0", " "),
]
DECODERS = {  # for layouts that `Tokenizer.decode` decodes without the library
    "word": decoders.Sequence(
        [decoders.WordPiece("\0", False), decoders.Fuse(), *(decoders.Replace(*each) for each in MARKS)]
    ),
    "spaced word": decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
    "char": decoders.Fuse(),
    "byte bpe": decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]),
}


def save_tokenizer(tokenizer: Tokenizer, folder: Path, model: Any = None) -> None:
    """Write a tokenizer's files, with which transformers' AutoTokenizer encodes texts to the same ids.

    AutoTokenizer adds the special tokens that the `model` expects before and after a text.
    """
    more: dict[str, Any] = {}
    if isinstance(tokenizer, SentencePieceTokenizer):
        for name, content in tokenizer.model_files().items():
            (folder / name).write_bytes(content)
        kind = "MarianTokenizer" if (folder / "source.spm").exists() else "LlamaTokenizer"
        kind = "T5Tokenizer" if getattr(model, "model_type", "") == "t5" else kind
        if kind == "LlamaTokenizer":
            more = {"add_bos_token": bool(tokenizer.prefix), "add_eos_token": tokenizer.has_end}
            more["legacy"] = tokenizer.legacy
        ids = {token: tokenizer.token_to_id[token] for token in (*tokenizer.added, *tokenizer.marks)}
        if ids:
            more["added_tokens_decoder"] = entries(ids, tokenizer.marks)
    else:
        backend = hf.Tokenizer.from_str(tokenizer._backend.to_str())
        if not isinstance(tokenizer, PretrainedTokenizer):
            backend.post_processor = _post_processor(tokenizer, model)
            backend.decoder = DECODERS.get(tokenizer.layout, backend.decoder)
        backend.save(str(folder / "tokenizer.json"))
        kind = "PreTrainedTokenizerFast"
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": kind, **roles_of(tokenizer), **more})


def roles_of(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens by their names in transformers. A token before each text is the bos_token."""
    ids: dict[str, Any] = {
        "pad": tokenizer.pad_id,
        "unk": tokenizer.unk_id,
        "start": tokenizer.start_id,
        "end": tokenizer.end_id,
    }
    is_cls = "cls" in getattr(tokenizer, "roles", {}) and tokenizer.special_id("[CLS]") in tokenizer.prefix
    if tokenizer.prefix and not is_cls:
        ids["start"] = tokenizer.prefix[0]
    found = {NAMES[role]: tokenizer.id_to_token[i] for role, i in ids.items() if i is not None}
    for role, name in (("cls", "[CLS]"), ("sep", "[SEP]"), ("mask", "[MASK]"), ("mask", "<MASK>")):
        with suppress(UserError):
            found[NAMES[role]] = tokenizer.id_to_token[tokenizer.special_id(name)]
    return found


def _post_processor(tokenizer: Tokenizer, model: Any) -> Any:
    """The post-processor that adds special tokens to a text, or None for a decoder-only model.

    A BERT gets [CLS] and [SEP], and an encoder-decoder the end token.
    """
    if getattr(model, "model_type", "") == "bert":
        cls, sep = ((name, tokenizer.special_id(name)) for name in ("[CLS]", "[SEP]"))
        return processors.BertProcessing(sep, cls)
    if getattr(model, "is_encoder_decoder", False) and tokenizer.end_id is not None:
        end = tokenizer.id_to_token[tokenizer.end_id]
        return processors.TemplateProcessing(f"$A {end}", None, [(end, tokenizer.end_id)])
    return None
