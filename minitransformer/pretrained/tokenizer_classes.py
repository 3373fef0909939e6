"""The tokenizer classes of transformers, which decide how texts are normalized, split and completed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tokenizers as hf
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from .errors import PretrainedError

LAYOUTS = {  # the files of a tokenizer -> the classes that read them, the most common one first
    ("source.spm", "target.spm", "vocab.json"): "MarianTokenizer",
    ("tokenizer.json",): "",  # all classes except `WITHOUT_JSON`
    ("spiece.model",): "T5Tokenizer LlamaTokenizer",
    ("tokenizer.model",): "LlamaTokenizer T5Tokenizer",
    ("vocab.json", "merges.txt"): "GPT2Tokenizer RobertaTokenizer BartTokenizer",
    ("vocab.txt",): "BertTokenizer DistilBertTokenizer ElectraTokenizer",
}
USUAL_CLASS = {  # model_type -> the usual class of its tokenizer
    "bart": "RobertaTokenizer", "bert": "BertTokenizer", "distilbert": "BertTokenizer",
    "gpt2": "GPT2Tokenizer", "llama": "LlamaTokenizer", "marian": "MarianTokenizer", "t5": "T5Tokenizer",
}  # fmt: skip
GENERAL = ("", "PreTrainedTokenizer", "PythonBackend", "TokenizersBackend")  # these only follow the files
WITHOUT_JSON = """
BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer BertweetTokenizer BioGptTokenizer
BlenderbotSmallTokenizer ByT5Tokenizer CTRLTokenizer CanineTokenizer ClvpTokenizer CpmAntTokenizer
CpmTokenizer DiaTokenizer EsmTokenizer FSMTTokenizer FlaubertTokenizer GPTNeoXJapaneseTokenizer
GPTSw3Tokenizer M2M100Tokenizer MarianTokenizer MgpstrTokenizer MyT5Tokenizer PLBartTokenizer
PerceiverTokenizer PhobertTokenizer ProphetNetTokenizer RagTokenizer RoCBertTokenizer SiglipTokenizer
Speech2TextTokenizer SpeechT5Tokenizer TapasTokenizer VitsTokenizer Wav2Vec2CTCTokenizer
Wav2Vec2PhonemeCTCTokenizer XLMTokenizer
"""
BERTS = LAYOUTS["vocab.txt",].split()
BYTE_LEVELS = LAYOUTS["vocab.json", "merges.txt"].split()
NAMES = {  # our roles -> transformers' settings
    "pad": "pad_token", "unk": "unk_token", "start": "bos_token", "end": "eos_token",
    "cls": "cls_token", "sep": "sep_token", "mask": "mask_token",
}  # fmt: skip
BERT_TOKENS = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}  # fmt: skip
ROBERTA_TOKENS = {
    "unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>",
    "mask_token": "<mask>",
}  # fmt: skip
GPT2_TOKENS = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}


def class_of(
    where: str, files: tuple[str, ...], settings: Mapping[str, Any], config: Mapping[str, Any]
) -> str:
    """Return the class that reads the `files` of a folder. Raise a PretrainedError if it is not supported."""
    readers = LAYOUTS[files].split()
    given = str(settings.get("tokenizer_class") or config.get("tokenizer_class") or "").removesuffix("Fast")
    usual = USUAL_CLASS.get(str(config.get("model_type")), "")
    if given not in (*GENERAL, *readers) and (readers or given in WITHOUT_JSON.split()):
        raise PretrainedError(
            f"{where} has the tokenizer_class {given!s:.60}, which is not supported for its "
            f"{' and '.join(files)}.\n"
            f"Choose a model whose tokenizer is a {' or '.join(readers) or 'PreTrainedTokenizerFast'}."
        )
    if not readers:
        return given or usual
    return next(name for name in (given, usual, *readers) if name in readers)


def content_of(token: Any) -> Any:
    """The text of a special token in the settings, which is a string or an object with a `content`."""
    return token.get("content") if isinstance(token, dict) else token


def special_tokens(settings: Mapping[str, Any], usual: Mapping[str, str]) -> dict[str, str]:
    """The special tokens in the settings, or where they have none, the `usual` ones of the class."""
    return {name: str(content_of(settings.get(name)) or token) for name, token in usual.items()}


def complete(backend: hf.Tokenizer, name: str, settings: Mapping[str, Any], where: str) -> None:
    """Set the normalizer, pre-tokenizer, post-processor and decoder of a tokenizer as the class `name` does.

    As in transformers, the settings and their defaults take precedence over tokenizer.json.
    """
    if name in BERTS and isinstance(backend.model, models.WordPiece):
        _complete_bert(backend, settings, where)
    is_byte_level = isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel | None)
    if name in BYTE_LEVELS and isinstance(backend.model, models.BPE) and is_byte_level:
        _complete_byte_level(backend, name, settings)


def _complete_bert(backend: hf.Tokenizer, settings: Mapping[str, Any], where: str) -> None:
    special = special_tokens(settings, BERT_TOKENS)
    vocab = backend.get_vocab()
    needed = [special[name] for name in ("unk_token", "cls_token", "sep_token")]
    if missing := [token for token in needed if token not in vocab]:
        raise PretrainedError(
            f"{where} is not the vocabulary of a BERT: it lacks {', '.join(missing)}.\nDownload it again."
        )
    strip_accents = settings.get("strip_accents")
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
        strip_accents=None if strip_accents is None else bool(strip_accents),
        lowercase=settings.get("do_lower_case") is not False,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    sep, cls = ((special[name], vocab[special[name]]) for name in ("sep_token", "cls_token"))
    backend.post_processor = processors.BertProcessing(sep, cls)
    backend.add_special_tokens([token for token in special.values() if token in vocab])


def _complete_byte_level(backend: hf.Tokenizer, name: str, settings: Mapping[str, Any]) -> None:
    """Complete a byte-level BPE tokenizer, such as GPT-2's or BART's (Radford et al. 2019, section 2.2)."""
    space = settings.get("add_prefix_space") is True
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    backend.decoder = decoders.ByteLevel()
    is_gpt2 = name == "GPT2Tokenizer"
    special = special_tokens(settings, GPT2_TOKENS if is_gpt2 else ROBERTA_TOKENS)
    before = [special["bos_token"]] if is_gpt2 and settings.get("add_bos_token") else []
    after = [special["eos_token"]] if is_gpt2 and settings.get("add_eos_token") else []
    known = [token for token in special.values() if backend.token_to_id(token) is not None]
    backend.add_special_tokens([*known, *before, *after])
    vocab = backend.get_vocab()
    if before or after:
        pairs = [(token, vocab[token]) for token in {*before, *after}]
        backend.post_processor = processors.TemplateProcessing([*before, "$A", *after], None, pairs)
    if not is_gpt2 and special["sep_token"] in vocab and special["cls_token"] in vocab:
        sep, cls = ((special[end], vocab[special[end]]) for end in ("sep_token", "cls_token"))
        backend.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=space)
