"""Tokenizers in every layout of the hub give the ids of transformers, and come back as they were.

The vocabularies are small, trained when the test runs.
"""

import json

import pytest
import tokenizers as hf
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, trainers

from minitransformer import BERT, GPT, BERTConfig, GPTConfig, Tokenizer, Transformer, TransformerConfig
from minitransformer.pretrained.tokenizer_classes import WITHOUT_JSON
from minitransformer.pretrained.tokenizers import load_tokenizer, save_tokenizer
from minitransformer.text.loading import load_tokenizer as load_run_tokenizer

from .from_transformers import transformers

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")]

TEXTS = [
    "The cat sat on the mat, because it was tired.", "Le chat s'est assis sur le tapis.", "You don't say!",
    "A man is eating food; someone is having a meal.", "1234567890 (a+b)*c", "naïve café, ÀÉÎ", "北京 東京",
    "Thank you for inviting me to your party last week", "hello hello   world\n\ttabs",
] * 4  # fmt: skip
STRANGE = [
    "", " ", "  two  spaces ", "\n", "tab\there", "Hello, World", "ÇA VA?", "don't you're", "🙂 emoji 🙃",
    "x" * 150,
    "ﬁne ½ ①", "e\u0301 café", "\u200bzero\u00a0width", "a</s>b", "<unk>", "北京abc", ">>fr<< hello", "¡Olé!",
]  # fmt: skip


def sentencepiece(folder, name, **options):
    from sentencepiece import SentencePieceTrainer

    text = folder / "text.txt"
    text.write_text("\n".join(text.replace("\n", " ") for text in TEXTS))
    SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "sp"), vocab_size=options.pop("vocab_size", 160),
        hard_vocab_limit=False, minloglevel=2, **options,
    )  # fmt: skip
    (folder / "sp.model").rename(folder / name)
    for leftover in ("sp.vocab", "text.txt"):
        (folder / leftover).unlink()


def write(folder, **files):
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def trained(model, trainer, pre_tokenizer, vocab_size, special, normalizer=None, **options):
    """A tokenizer of the tokenizers library, trained on TEXTS."""
    backend = hf.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    if normalizer:
        backend.normalizer = normalizer
    options |= {"vocab_size": vocab_size, "special_tokens": special, "show_progress": False}
    backend.train_from_iterator(TEXTS, trainer(**options))
    return backend


def byte_level(folder, model_type, special):
    """vocab.json and merges.txt"""
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False)
    options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    backend = trained(models.BPE(), trainers.BpeTrainer, bytes_, 330, special, **options)
    backend.model.save(str(folder))
    write(folder, config={"model_type": model_type, "vocab_size": backend.get_vocab_size()})


def gpt2(folder):
    byte_level(folder, "gpt2", ["<|endoftext|>"])
    return transformers().GPT2Tokenizer


def bart(folder):
    byte_level(folder, "bart", ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"])
    return transformers().RobertaTokenizer


def bert(folder, lower=True):
    """vocab.txt"""
    backend = trained(
        models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer, pre_tokenizers.BertPreTokenizer(),
        200, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], normalizers.BertNormalizer(lowercase=lower),
    )  # fmt: skip
    backend.model.save(str(folder))
    write(folder, config={"model_type": "bert", "vocab_size": backend.get_vocab_size()},
          tokenizer_config={"do_lower_case": lower})  # fmt: skip
    return transformers().BertTokenizer


def t5(folder):
    """spiece.model, and 100 sentinels"""
    sentencepiece(folder, "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    write(folder, config={"model_type": "t5", "vocab_size": 300, "eos_token_id": 1, "pad_token_id": 0})
    return transformers().T5Tokenizer


def llama(folder):
    """tokenizer.model, of byte-pair encoding with byte fallback"""
    sentencepiece(
        folder, "tokenizer.model", vocab_size=420, model_type="bpe", byte_fallback=True, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
    )  # fmt: skip
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    write(folder, config={"model_type": "llama", "vocab_size": 420},
          tokenizer_config={"add_bos_token": True, **names})  # fmt: skip
    return transformers().LlamaTokenizer


def marian(folder):
    """source.spm, target.spm and vocab.json"""
    from sentencepiece import SentencePieceProcessor

    pieces = {}
    for name in ("source.spm", "target.spm"):
        sentencepiece(folder, name, vocab_size=140 if name == "source.spm" else 150)
        processor = SentencePieceProcessor(model_file=str(folder / name))
        pieces |= {processor.id_to_piece(i): None for i in range(processor.get_piece_size())}
    known = [p for p in list(pieces)[:-5] if p not in ("</s>", "<unk>", "<s>")]
    tokens = ["</s>", "<unk>", ">>fr<<", "▁queens", *known, "<pad>"]  # the fourth is in neither model
    vocab = {token: i for i, token in enumerate(tokens)}
    pad = vocab["<pad>"]
    write(folder, vocab=vocab, config={"model_type": "marian", "vocab_size": len(vocab), "eos_token_id": 0,
          "pad_token_id": pad, "decoder_start_token_id": pad})  # fmt: skip
    return transformers().MarianTokenizer


LAYOUTS = {"gpt2": gpt2, "bart": bart, "bert": bert, "bert, cased": lambda folder: bert(folder, False),
           "t5": t5, "llama": llama, "marian": marian}  # fmt: skip


@pytest.fixture(params=LAYOUTS)
def layout(request, tmp_path):
    kind = LAYOUTS[request.param](tmp_path)
    return request.param, tmp_path, kind.from_pretrained(tmp_path)


def test_token_ids_match_transformers(layout):
    name, folder, theirs = layout
    ours = load_tokenizer(folder)
    for text in [*TEXTS[:9], *STRANGE]:
        if any(token in text for token in theirs.all_special_tokens):
            continue  # transformers takes it for the token itself
        if name == "llama" and text.startswith(" "):
            continue  # SentencePiece puts a space before it all the same, transformers does not
        assert ours.encode_with_special_tokens(text) == theirs(text)["input_ids"], text
        ids = ours.encode(text)
        if ours.unk_id in ids:
            continue  # one drops it, the other writes a mark
        assert ours.decode(ids) == theirs.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        ), text


def as_json(make, **parts):
    """tokenizer.json for the vocabulary of another layout, with these parts."""

    def write_json(folder):
        kind = make(folder)
        backend = kind.from_pretrained(folder).backend_tokenizer
        for name in ("vocab.txt", "vocab.json", "merges.txt"):
            (folder / name).unlink(missing_ok=True)
        for name, part in parts.items():
            setattr(backend, name, part)
        backend.save(str(folder / "tokenizer.json"))

    return write_json


CASED = {"normalizer": normalizers.BertNormalizer(lowercase=False)}
NONE = {"post_processor": None}
SPACE = {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)}
BOS = {"add_bos_token": True, "bos_token": "<|endoftext|>"}
EOS = {"add_eos_token": True, "eos_token": "<|endoftext|>"}
CLASSES = [  # a layout, and settings of tokenizer_config.json
    (as_json(bert), {"do_lower_case": False}),
    (as_json(bert), {"strip_accents": False}),
    (as_json(bert), {"tokenize_chinese_chars": False}),
    (as_json(bert), {"tokenizer_class": "DistilBertTokenizer", "do_lower_case": False}),
    (as_json(bert), {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False}),
    (as_json(bert, **CASED), {}),
    (as_json(bert, **CASED), {"tokenizer_class": "BertTokenizerFast"}),
    (as_json(bert, **CASED), {"tokenizer_class": "PreTrainedTokenizerFast"}),
    (as_json(bert, **NONE), {"tokenizer_class": "BertTokenizer"}),
    (as_json(bert, **NONE), {"tokenizer_class": "TokenizersBackend"}),
    (bert, {"do_lower_case": False, "tokenizer_class": "ElectraTokenizer"}),
    (gpt2, BOS), (gpt2, EOS), (gpt2, BOS | EOS), (gpt2, {"add_bos_token": True}),
    (gpt2, {"add_prefix_space": True}),
    (as_json(gpt2), BOS), (as_json(gpt2), {"add_prefix_space": True}),
    (as_json(gpt2), {"add_prefix_space": True, "tokenizer_class": "PreTrainedTokenizerFast"}),
    (as_json(gpt2, **SPACE), {}), (as_json(gpt2, **SPACE), {"add_prefix_space": True}),
    (bart, {}), (bart, BOS), (bart, {"add_prefix_space": True}), (bart, {"tokenizer_class": "BartTokenizer"}),
    (bart, {"tokenizer_class": "GPT2Tokenizer"}),
    (as_json(bart, **NONE), {}), (as_json(bart), {"tokenizer_class": "GPT2Tokenizer"}),
    (llama, {"add_bos_token": True, "add_eos_token": True}),
    (llama, {"add_bos_token": False, "add_eos_token": True}),
    (llama, {"add_bos_token": True, "legacy": True, "tokenizer_class": "LlamaTokenizerFast"}),
    (t5, {"add_bos_token": True, "add_eos_token": False, "legacy": False}),
]  # fmt: skip


@pytest.mark.parametrize(("make", "settings"), CLASSES)
def test_tokenizer_class_and_settings_are_applied(make, settings, tmp_path):
    make(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    write(tmp_path, tokenizer_config=stored | settings)
    theirs = transformers().AutoTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    (tmp_path / "back").mkdir()
    config = json.loads((tmp_path / "config.json").read_text())
    save_tokenizer(ours, tmp_path / "back", type("Model", (), {"model_type": config["model_type"]}))
    again = transformers().AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in [*TEXTS[:9], *STRANGE]:
        if text.startswith(" ") or "</s>" in text or "<unk>" in text:
            continue  # as in test_token_ids_match_transformers
        assert ours.encode_with_special_tokens(text) == theirs(text)["input_ids"], text
        assert again(text)["input_ids"] == theirs(text)["input_ids"], text


CHAT = [
    "<|m|>user hi <|m|> there", "user <|m|>  two", "<|m|>", "a<|m|><|m|>b <|m|> <|m|>", "<|m|",
    "New New1 new", "<|m|>naïve café\n<|m|>",
]  # fmt: skip
LLAMA = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "tokenizer_class": "LlamaTokenizer"}
MARKED = {  # layouts, and settings of tokenizer_config.json
    "gpt2": (gpt2, {}),
    "gpt2, tokenizer.json": (as_json(gpt2), {}),
    "tokenizer.json alone": (as_json(gpt2), {"tokenizer_class": "PreTrainedTokenizerFast"}),
    "bart": (bart, {}),
    "bert": (bert, {}),
    "cased bert, tokenizer.json": (as_json(bert), {"do_lower_case": False}),
    "llama": (llama, {**LLAMA, "add_bos_token": False}),
    "llama with <s>": (llama, {**LLAMA, "add_bos_token": True, "legacy": False}),
    "llama, legacy": (llama, {**LLAMA, "add_bos_token": True, "legacy": True}),
    "t5": (t5, {}),
}


@pytest.mark.parametrize("how", ["added_tokens", "added_tokens_decoder"])
@pytest.mark.parametrize("name", MARKED)
def test_added_tokens_match_transformers(name, how, tmp_path):
    make, settings = MARKED[name]
    make(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    write(tmp_path, tokenizer_config=settings)
    n = len(transformers().AutoTokenizer.from_pretrained(tmp_path))
    names = ["<|m|>", "New", "<|special|>"]
    if how == "added_tokens":
        write(tmp_path, added_tokens={token: n + i for i, token in enumerate(names)})
        settings = settings | {"additional_special_tokens": ["<|special|>"]}
    else:
        flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
        settings = settings | {"added_tokens_decoder": {
            str(n + i): {"content": token, "special": token == "<|special|>", **flags}
            for i, token in enumerate(names)
        }}  # fmt: skip
    write(tmp_path, tokenizer_config=settings, config=config | {"vocab_size": n + 3})
    theirs = transformers().AutoTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    ours.save(tmp_path / "run.json")
    (tmp_path / "back").mkdir()
    write(tmp_path / "back", config=config)
    save_tokenizer(ours, tmp_path / "back", type("Model", (), {"model_type": config["model_type"]}))
    again = transformers().AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in CHAT:
        expected = theirs(text)["input_ids"]
        assert ours.encode_with_special_tokens(text) == expected, text
        assert again(text)["input_ids"] == expected, text
        decoded = theirs.decode(expected, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if theirs.unk_token_id not in expected:
            assert ours.decode(expected) == decoded
            assert load_run_tokenizer(tmp_path / "run.json").decode(expected) == decoded
        assert load_run_tokenizer(tmp_path / "run.json").encode_with_special_tokens(text) == expected
        assert [i for i, _ in ours.encode_with_offsets(text)] == ours.encode(text)
    assert ours.special_id("<|special|>") == theirs.convert_tokens_to_ids("<|special|>") == n + 2


def test_classes_that_read_no_tokenizer_json_are_known():
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES, tokenizer_class_from_name

    names = {name for name in TOKENIZER_MAPPING_NAMES.values() if name}
    classes = {name: tokenizer_class_from_name(name) for name in names}
    backend = transformers().PreTrainedTokenizerFast
    assert {n for n, c in classes.items() if c and not issubclass(c, backend)} == set(WITHOUT_JSON.split())


def test_a_tokenizer_saved_with_a_run_is_unchanged(layout, tmp_path):
    _, folder, _ = layout
    ours = load_tokenizer(folder)
    ours.save(tmp_path / "run.json")
    again = load_run_tokenizer(tmp_path / "run.json")
    for text in [*TEXTS[:9], *STRANGE]:
        assert again.encode_with_special_tokens(text) == ours.encode_with_special_tokens(text)
        assert again.decode(ours.encode(text)) == ours.decode(ours.encode(text))
    assert (again.roles, again.vocab_size, again.prefix) == (ours.roles, ours.vocab_size, ours.prefix)


def test_exported_tokenizers_are_read_by_transformers(layout, tmp_path):
    name, folder, theirs = layout
    (tmp_path / "back").mkdir()
    ours = load_tokenizer(folder)
    save_tokenizer(ours, tmp_path / "back", type("Model", (), {"model_type": name}))
    (tmp_path / "back" / "config.json").write_text((folder / "config.json").read_text())
    again = transformers().AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in [*TEXTS[:9], *STRANGE]:
        assert again(text)["input_ids"] == theirs(text)["input_ids"]


def test_marian_encodes_targets_with_the_target_model(tmp_path):
    kind = marian(tmp_path)
    ours = load_tokenizer(tmp_path)
    theirs = kind.from_pretrained(tmp_path)
    for text in TEXTS[:9]:
        assert [*ours.encode_target(text), ours.end_id] == theirs(text_target=text)["input_ids"]


def test_marian_decodes_random_ids_like_transformers(tmp_path):
    theirs = marian(tmp_path).from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    queens = ours.token_to_id["▁queens"]

    @settings(max_examples=2000, deadline=None, database=None)
    @example([queens, queens])
    @given(st.lists(st.integers(0, ours.vocab_size - 1), max_size=12))
    def check(ids):
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)

    check()


def test_the_sentinels_of_t5_count_down_from_the_end(tmp_path):
    theirs = t5(tmp_path).from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    for number in (0, 1, 99):
        assert ours.special_id(f"<extra_id_{number}>") == theirs.convert_tokens_to_ids(f"<extra_id_{number}>")


OWN = {
    "word": lambda: Tokenizer.train_word(TEXTS, added=["[CLS]", "[SEP]", "[MASK]"]),
    "bpe": lambda: Tokenizer.train_bpe([t for t in TEXTS if "\n" not in t], 300, added=["[CLS]", "[SEP]"]),
    "byte bpe": lambda: Tokenizer.train_bpe(TEXTS, 340, held_out=["🙂"], added=["[CLS]", "[SEP]"]),
    "unigram": lambda: Tokenizer.train_unigram(TEXTS, 400, added=["[CLS]", "[SEP]"]),
    "char": lambda: Tokenizer.train_char(TEXTS, added=["[CLS]", "[SEP]"]),
    "wordpiece": lambda: Tokenizer.train_wordpiece(TEXTS, 250, added=["[CLS]", "[SEP]", "[MASK]"]),
}
MODELS = {
    "bert": lambda size: BERT(
        BERTConfig(vocab_size=size, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    ),
    "gpt2": lambda size: GPT(GPTConfig(vocab_size=size, n_embd=8, n_layer=1, n_head=2)),
    "transformer": lambda size: Transformer(TransformerConfig(size, 8, 2, 12, 1, 1)),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", OWN)
def test_tokenizers_trained_here_are_read_by_transformers(name, model, tmp_path):
    ours = OWN[name]()
    assert ours.layout.endswith(name)
    save_tokenizer(ours, tmp_path, MODELS[model](ours.vocab_size))
    theirs = transformers().AutoTokenizer.from_pretrained(tmp_path)
    around = {"bert": ([ours.special_id("[CLS]")], [ours.special_id("[SEP]")]), "gpt2": ([], []),
              "transformer": ([], [ours.end_id])}[model]  # fmt: skip
    for text in TEXTS[:9]:
        assert theirs(text)["input_ids"] == [*around[0], *ours.encode(text), *around[1]]
    assert theirs.pad_token_id == ours.pad_id
    for text in TEXTS[:7]:
        ids = ours.encode(text)
        decoded = theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert decoded == ours.decode(ids)


# ---------------------------------------------------------------- any text


def unigram(folder):
    """tokenizer.json with bytes for unknown characters"""
    backend = trained(
        models.Unigram(), trainers.UnigramTrainer, None, 150, ["<unk>", "</s>"], unk_token="<unk>"
    )
    pieces = json.loads(backend.to_str())["model"]["vocab"]
    pieces += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    backend = hf.Tokenizer(models.Unigram([tuple(piece) for piece in pieces], 0, byte_fallback=True))
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(hf.Regex(" {2,}"), " ")]
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = hf.decoders.Sequence(
        [hf.decoders.ByteFallback(), hf.decoders.Fuse(), hf.decoders.Metaspace()]
    )
    backend.add_special_tokens(["</s>"])
    backend.post_processor = hf.processors.TemplateProcessing("$A </s>", None, [("</s>", 1)])
    backend.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    "make", [as_json(gpt2), as_json(bert), unigram], ids=["bytes", "WordPiece", "Unigram"]
)
def test_10_000_texts_agree_with_the_library(make, tmp_path):
    make(tmp_path)
    theirs = hf.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path)
    count = 0

    @settings(max_examples=10_000, deadline=None, database=None)
    @given(st.text(max_size=40))
    def check(text):
        assume(not any(token.content in text for token in theirs.get_added_tokens_decoder().values()))
        nonlocal count
        count += 1
        ids = ours.encode(text)
        assert ids == theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode_with_special_tokens(text) == theirs.encode(text).ids
        assert ours.decode(ids) == theirs.decode(ids)

    check()
    assert count >= 10_000
