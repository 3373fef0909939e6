"""The tokenizer in a folder of the Hugging Face hub, in any of the layouts that models have there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from ..files import printable, read_text
from ..text.pretrained_tokenizer import PretrainedTokenizer, backend_of
from .errors import PretrainedError
from .settings import read_object, read_optional

NAMES = {  # our roles -> transformers' settings
    "pad": "pad_token", "unk": "unk_token", "start": "bos_token", "end": "eos_token",
    "cls": "cls_token", "sep": "sep_token", "mask": "mask_token",
}  # fmt: skip
BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


def load_tokenizer(folder: str | Path) -> Any:
    """The tokenizer of a model: from tokenizer.json, vocab.json with merges.txt, or vocab.txt.

    Special tokens get their roles from tokenizer_config.json, special_tokens_map.json and config.json.
    """
    folder = Path(folder)
    settings = read_optional(folder / "tokenizer_config.json")
    config = read_optional(folder / "config.json")
    if (folder / "tokenizer.json").is_file():
        path = folder / "tokenizer.json"
        backend = backend_of(read_object(path), printable(path))
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        backend = _byte_level(folder)
    elif (folder / "vocab.txt").is_file():
        backend = _word_piece(folder / "vocab.txt", settings)
    else:
        raise PretrainedError(
            f"{printable(folder)} has no tokenizer: found none of tokenizer.json, vocab.json with "
            f"merges.txt, and vocab.txt.\n"
            f"Download the model's tokenizer files into the same folder."
        )
    return PretrainedTokenizer(backend, _roles(folder, backend, settings, config), config.get("vocab_size"))


def _roles(
    folder: Path, backend: hf.Tokenizer, settings: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, str]:
    """The token of each role.

    The first token of an encoder-decoder's targets is its `decoder_start_token_id`.
    """
    mapped = read_optional(folder / "special_tokens_map.json")
    found = {}
    for role, name in NAMES.items():
        token = settings.get(name) or mapped.get(name)
        token = token.get("content") if isinstance(token, dict) else token
        if token is None and isinstance(number := config.get(f"{name}_id"), int):
            token = backend.id_to_token(number) if 0 <= number < 2**31 else None
        if token is None and not settings and not mapped and role in BERT_TOKENS:  # a vocab.txt alone
            token = BERT_TOKENS[role] if backend.token_to_id(BERT_TOKENS[role]) is not None else None
        if isinstance(token, str) and backend.token_to_id(token) is not None:
            found[role] = token
    start = config.get("decoder_start_token_id")
    if isinstance(start, int) and 0 <= start < 2**31 and (token := backend.id_to_token(start)) is not None:
        found["start"] = token
    return found


def _byte_level(folder: Path) -> hf.Tokenizer:
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
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    if "<s>" in vocab and "</s>" in vocab:  # RoBERTa's and BART's
        pair = ("</s>", vocab["</s>"]), ("<s>", vocab["<s>"])
        backend.post_processor = processors.RobertaProcessing(*pair, add_prefix_space=False)
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
    special = {role: settings.get(NAMES[role]) or token for role, token in BERT_TOKENS.items()}
    missing = [token for token in special.values() if token not in vocab]
    if missing:
        raise PretrainedError(
            f"{printable(path)} is not the vocabulary of a BERT: it lacks "
            f"{printable(', '.join(map(str, missing)))}.\n"
            f"Download it again."
        )
    backend = hf.Tokenizer(models.WordPiece(vocab, unk_token=special["unk"], max_input_chars_per_word=100))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    cls, sep = ((special[role], vocab[special[role]]) for role in ("cls", "sep"))
    backend.post_processor = processors.BertProcessing(sep, cls)
    backend.add_special_tokens(list(special.values()))
    return backend
