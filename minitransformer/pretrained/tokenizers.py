"""The tokenizer in a folder of the Hugging Face hub, in any of the layouts that models have there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from ..errors import UserError
from ..files import printable, read_bytes, read_text, write_json
from ..text.pretrained_tokenizer import PretrainedTokenizer, backend_of
from ..text.sentencepiece_tokenizer import SentencePieceTokenizer
from ..text.tokenizer import Tokenizer
from ..text.tokenizer_presets import sentinels
from .errors import PretrainedError
from .settings import read_object, read_optional

NAMES = {  # our roles -> transformers' settings
    "pad": "pad_token", "unk": "unk_token", "start": "bos_token", "end": "eos_token",
    "cls": "cls_token", "sep": "sep_token", "mask": "mask_token",
}  # fmt: skip
BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
USUAL = {  # if no file gives roles: of these, those that the vocabulary has
    "pad": ("<pad>", "[PAD]"), "unk": ("<unk>", "[UNK]"), "start": ("<s>",), "end": ("</s>", "<|endoftext|>"),
    "cls": ("[CLS]",), "sep": ("[SEP]",), "mask": ("[MASK]", "<mask>"),
}  # fmt: skip


def load_tokenizer(folder: str | Path) -> PretrainedTokenizer:
    """The tokenizer of a model, in any layout of the hub.

    They are, in this order: source.spm, target.spm and vocab.json (Marian); tokenizer.json; spiece.model or
    tokenizer.model; vocab.json and merges.txt; vocab.txt.
    Special tokens get their roles from tokenizer_config.json, special_tokens_map.json, config.json and
    generation_config.json.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise PretrainedError(
            f"there is no folder {printable(folder)}.\nPass the folder with the model's tokenizer files."
        )
    settings = read_optional(folder / "special_tokens_map.json")
    settings |= read_optional(folder / "tokenizer_config.json")
    config = read_optional(folder / "generation_config.json") | read_optional(folder / "config.json")
    size = config.get("vocab_size")
    has = lambda *names: all((folder / name).is_file() for name in names)
    if has("source.spm", "target.spm", "vocab.json"):
        return _marian(folder, settings, config)
    if not has("tokenizer.json"):
        for name in ("spiece.model", "tokenizer.model"):
            if has(name):
                return _sentencepiece(folder / name, settings, config)
    if has("tokenizer.json"):
        path = folder / "tokenizer.json"
        backend = backend_of(read_object(path), printable(path))
    elif has("vocab.json", "merges.txt"):
        backend = _byte_level(folder, settings.get("add_prefix_space") is True)
    elif has("vocab.txt"):
        backend = _word_piece(folder / "vocab.txt", settings)
    elif has("sentencepiece.bpe.model"):
        raise PretrainedError(
            f"{printable(folder)}: the ids of sentencepiece.bpe.model are not those of the model.\n"
            f"Write its tokenizer.json: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER), "
            f"of transformers."
        )
    else:
        raise PretrainedError(
            f"{printable(folder)} has no tokenizer: found none of tokenizer.json, spiece.model, "
            f"tokenizer.model, source.spm, vocab.json with merges.txt, and vocab.txt.\n"
            f"Download the model's tokenizer files into the same folder."
        )
    return PretrainedTokenizer(backend, _roles(backend.get_vocab(), settings, config), size)


def _roles(
    vocab: Mapping[str, int], settings: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, str]:
    """The token of each role.

    The first token of an encoder-decoder's targets is its `decoder_start_token_id`.
    """
    tokens = {i: token for token, i in vocab.items()}
    found = {}
    for role, name in NAMES.items():
        token = _token(settings, name)
        number = config.get(f"{name}_id")
        if isinstance(number, list) and number:  # of several end tokens, the first
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


def _token(settings: Mapping[str, Any], name: str) -> Any:
    """A special token of the settings, which is text, or an object with its content."""
    token = settings.get(name)
    return token.get("content") if isinstance(token, dict) else token


def _sentencepiece(
    path: Path, settings: Mapping[str, Any], config: Mapping[str, Any]
) -> SentencePieceTokenizer:
    """T5's, with sentinels after the pieces; or Llama's, with <s> before each text."""
    is_t5 = config.get("model_type") == "t5"
    count = settings.get("extra_ids", 100) if is_t5 else 0
    count = count if isinstance(count, int) and 0 <= count <= 1000 else 0
    added = sentinels(count)[::-1]
    content = read_bytes(path)
    where = printable(path)
    plain = SentencePieceTokenizer(content, {}, added=added, where=where)
    roles = _roles(plain.token_to_id, settings, config)
    begins = not is_t5 and settings.get("add_bos_token", True) and "start" in roles
    prefix = [roles["start"]] if begins else []
    return SentencePieceTokenizer(
        content, roles, config.get("vocab_size"), added=added, prefix=prefix, has_end=is_t5, where=where
    )


def _marian(folder: Path, settings: Mapping[str, Any], config: Mapping[str, Any]) -> SentencePieceTokenizer:
    """A model for each language, and the ids of both in one vocabulary."""
    if settings.get("separate_vocabs"):
        raise PretrainedError(
            f"{printable(folder)} has separate vocabularies of source and target, which are not supported.\n"
            f"Choose a model with one vocab.json."
        )
    vocab = read_object(folder / "vocab.json")
    if any(type(i) is not int or i < 0 for i in vocab.values()) or len(set(vocab.values())) < len(vocab):
        raise PretrainedError(
            f"{printable(folder / 'vocab.json')} does not give each token an id.\nDownload it again."
        )
    source, target = (read_bytes(folder / name) for name in ("source.spm", "target.spm"))
    roles = _roles(vocab, settings, config)
    where = printable(folder / "source.spm")
    return SentencePieceTokenizer(source, roles, config.get("vocab_size"), target, vocab, where=where)


def _byte_level(folder: Path, add_prefix_space: bool) -> hf.Tokenizer:
    """GPT-2's and BART's: pairs of bytes (Radford et al. 2019, 2.2)."""
    vocab = read_optional(folder / "vocab.json")
    lines = read_text(folder / "merges.txt").split("\n")
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    content: Any = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": vocab, "merges": merges},
    }  # fmt: skip
    backend = backend_of(content, printable(folder / "vocab.json"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    if "<s>" in vocab and "</s>" in vocab:  # RoBERTa's and BART's
        pair = ("</s>", vocab["</s>"]), ("<s>", vocab["<s>"])
        backend.post_processor = processors.RobertaProcessing(*pair, add_prefix_space=add_prefix_space)
    special = [
        token for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>") if token in vocab
    ]
    backend.add_special_tokens(special)
    return backend


def _word_piece(path: Path, settings: Mapping[str, Any]) -> hf.Tokenizer:
    """BERT's: a token on each line."""
    tokens = read_text(path).removesuffix("\n").split("\n")
    vocab = {token: i for i, token in enumerate(tokens)}
    if len(vocab) < len(tokens):
        raise PretrainedError(f"{printable(path)} has a token twice.\nDownload it again.")
    special = {role: _token(settings, NAMES[role]) or token for role, token in BERT_TOKENS.items()}
    missing = [token for token in special.values() if not isinstance(token, str) or token not in vocab]
    if missing:
        raise PretrainedError(
            f"{printable(path)} is not the vocabulary of a BERT: it lacks "
            f"{printable(', '.join(map(str, missing)))}.\n"
            f"Download it again."
        )
    backend = hf.Tokenizer(models.WordPiece(vocab, unk_token=special["unk"], max_input_chars_per_word=100))
    for name in ("tokenize_chinese_chars", "strip_accents", "do_lower_case"):
        if not isinstance(settings.get(name), bool | None):
            raise PretrainedError(
                f"{printable(path.parent)}: {name} of tokenizer_config.json must be true or false.\n"
                f"Download it again."
            )
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case") is not False,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    cls, sep = ((special[role], vocab[special[role]]) for role in ("cls", "sep"))
    backend.post_processor = processors.BertProcessing(sep, cls)
    backend.add_special_tokens(list(special.values()))
    return backend


MARKS = [(f" {mark}", mark) for mark in ".,?!:;)…"] + [
    ("' ", "'"),
    ("( ", "("),
    (" \u00a0", " "),
    ("\u00a0", " "),
]
DECODERS = {  # of layouts whose texts `Tokenizer.decode` makes itself
    "word": decoders.Sequence(
        [decoders.WordPiece("\0", False), decoders.Fuse(), *(decoders.Replace(*each) for each in MARKS)]
    ),
    "spaced word": decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
    "char": decoders.Fuse(),
    "byte bpe": decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]),
}


def save_tokenizer(tokenizer: Tokenizer, folder: Path, model: Any = None) -> None:
    """Write the files that AutoTokenizer of transformers reads to the same ids.

    Around a text, it puts the special tokens that the `model` is fed with.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        for name, content in tokenizer.model_files().items():
            (folder / name).write_bytes(content)
        kind = "MarianTokenizer" if (folder / "source.spm").exists() else "LlamaTokenizer"
        kind = "T5Tokenizer" if getattr(model, "model_type", "") == "t5" else kind
    else:
        backend = hf.Tokenizer.from_str(tokenizer._backend.to_str())
        if not isinstance(tokenizer, PretrainedTokenizer):
            backend.post_processor = _post_processor(tokenizer, model)
            backend.decoder = DECODERS.get(tokenizer.layout, backend.decoder)
        backend.save(str(folder / "tokenizer.json"))
        kind = "PreTrainedTokenizerFast"
    settings: dict[str, Any] = {"tokenizer_class": kind, **special_tokens(tokenizer)}
    if kind == "LlamaTokenizer":
        settings |= {"add_bos_token": bool(tokenizer.prefix), "add_eos_token": False}
    write_json(folder / "tokenizer_config.json", settings)


def special_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens by the names of transformers. A token before each text is its bos_token."""
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
    """What puts [CLS] and [SEP] around a text, or the end token after it; None for a language model."""
    if getattr(model, "model_type", "") == "bert":
        cls, sep = ((name, tokenizer.special_id(name)) for name in ("[CLS]", "[SEP]"))
        return processors.BertProcessing(sep, cls)
    if getattr(model, "is_encoder_decoder", False) and tokenizer.end_id is not None:
        end = tokenizer.id_to_token[tokenizer.end_id]
        return processors.TemplateProcessing(f"$A {end}", None, [(end, tokenizer.end_id)])
    return None
