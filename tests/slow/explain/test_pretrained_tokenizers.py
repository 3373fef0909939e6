"""The page's tokenizers beside Python's, of each kind that pretrained models have: ids, pieces and texts."""

# ruff: noqa: F811 (a fixture that is imported)

import json
import unicodedata

import pytest
import tokenizers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from minitransformer.explain.tokenizers import tokenizer_data
from minitransformer.tasks.inputs import marked_ids
from minitransformer.text.pretrained_tokenizer import PretrainedTokenizer
from minitransformer.text.sentencepiece_tokenizer import SentencePieceTokenizer, model_message
from minitransformer.text.tokenizer import Tokenizer
from tests.explain.test_model import GPT, load, make, page  # noqa: F401 (a fixture)

TEXTS = [
    "The cat sat on the mat, because it was tired.", "Le chat s'est assis sur le tapis.", "You don't say!",
    "A man is eating food; someone is having a meal.", "1234567890 (a+b)*c", "naïve café, ÀÉÎ", "北京 東京",
    "Thank you for inviting me to your party last week", "hello hello   world\n\ttabs",
]  # fmt: skip
STRANGE = [
    "", " ", "  two  spaces ", "\n", "\r\n\n x", "tab\there", "Hello, World", "ÇA VA?",
    "DON'T you're it'ſ I'Ll", "🙂 emoji 👩‍👩‍👧 👍🏽", "x" * 150, "ﬁne ½ ① Ⅻ",
    "e\u0301 cafe\u0301 n\u0303\u0323", "\u200bzero\u00a0width\u3000x", "a</s>b", "<unk>",
    "<s> <pad> <|endoftext|>", "北京abc", ">>fr<< hello", ">>fr<<", ">> <<x", "a<<b", "¡Olé!",
    "▁a ▁▁b", "\ufeffbom", "\x00\x01\x7f", "שלום العربية ไทย हिन्दी", "  \u2028 \u0085 ",
    "12345 1,234.5", "<0x41>", "\u1112\u1161\u11ab한", "İı ß Σς", "  leading", "trailing  ",
    "a\u0300\u0301\u0302", "[MASK] [CLS] <mask>",
]  # fmt: skip


def is_normalized_alike(letter):
    """Whether the library's tables for normal forms, which are those of Unicode 9, have a letter."""
    text = f"a\u0301{letter}\u0316"
    return normalizers.NFKD().normalize_str(text) == unicodedata.normalize("NFKD", text)


# Python's Unicode is older than the browser's
LETTERS = st.characters(exclude_categories=("Cs", "Cn")).filter(is_normalized_alike)
PARTS = [*"  aetThc'.,1\n▁é京🙂ﬁ\u00a0\u0301", "<0x41>", "the ", "</s>"]
MIXED = st.lists(st.sampled_from(PARTS), max_size=20).map("".join)
BATCHES = st.lists(st.text(LETTERS, max_size=30) | MIXED, min_size=10, max_size=20)


def trained(backend, trainer, **roles):
    backend.train_from_iterator(TEXTS * 4, trainer)
    return PretrainedTokenizer(backend, roles)


def bytes_trainer(special=("<s>", "</s>", "<unk>", "<mask>")):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trainers.BpeTrainer(
        vocab_size=360, initial_alphabet=alphabet, special_tokens=list(special), show_progress=False
    )


def gpt2(prefix=False):
    backend = hf.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.decoder = decoders.ByteLevel()
    return trained(backend, bytes_trainer(), end="</s>")


def llama3():
    words = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    backend = hf.Tokenizer(models.BPE(ignore_merges=True))
    split = pre_tokenizers.Split(hf.Regex(words), "isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, as_bytes])
    backend.decoder = decoders.ByteLevel()
    found = trained(backend, bytes_trainer(), end="</s>")
    content = json.loads(backend.to_str())  # a word that no merges make
    content["model"]["vocab"]["Ġparty"] = found.vocab_size
    content["model"]["merges"] = [each for each in content["model"]["merges"] if each[1] != "arty"]
    return PretrainedTokenizer(hf.Tokenizer.from_str(json.dumps(content)), {"end": "</s>"})


def llama2():
    """Byte pairs of SentencePiece as a tokenizer.json."""
    pieces = scores(sentencepiece(vocab_size=420, model_type="bpe", byte_fallback=True))
    vocab = {piece: i for i, piece in enumerate(pieces)}
    pairs = [(score, piece[:i], piece[i:]) for piece, score in pieces.items() for i in range(1, len(piece))]
    merges = [(a, b) for _, a, b in sorted(pairs, key=lambda each: -each[0]) if a in vocab and b in vocab]
    backend = hf.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return PretrainedTokenizer(backend, {"unk": "<unk>", "start": "<s>", "end": "</s>"})


def t5_json(scheme="always"):
    """Pieces of SentencePiece as a tokenizer.json, with its normalizer."""
    content = sentencepiece(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    pieces = [*scores(content).items(), ("<extra_id_0>", 0.0)]
    backend = hf.Tokenizer(models.Unigram(pieces, 2, byte_fallback=False))
    backend.normalizer = normalizers.Precompiled(model_message(content).normalizer_spec.precompiled_charsmap)
    split = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    words = [pre_tokenizers.WhitespaceSplit(), split] if scheme == "always" else [split]
    backend.pre_tokenizer = pre_tokenizers.Sequence(words)
    backend.decoder = decoders.Metaspace(prepend_scheme=scheme)
    backend.add_special_tokens(["<pad>", "</s>", "<unk>", "<extra_id_0>"])
    return PretrainedTokenizer(backend, {"pad": "<pad>", "end": "</s>", "unk": "<unk>"}, 180)


def with_bytes():
    backend = hf.Tokenizer(models.Unigram())
    trainer = trainers.UnigramTrainer(
        vocab_size=150, unk_token="<unk>", special_tokens=["<unk>", "</s>"], show_progress=False
    )
    backend.train_from_iterator(TEXTS * 4, trainer)
    pieces = json.loads(backend.to_str())["model"]["vocab"]
    pieces += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    backend = hf.Tokenizer(models.Unigram([tuple(piece) for piece in pieces], 0, byte_fallback=True))
    spaces = normalizers.Replace(hf.Regex(" {2,}"), " ")
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), spaces])
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Metaspace()])
    backend.add_special_tokens(["</s>"])
    return PretrainedTokenizer(backend, {"unk": "<unk>", "end": "</s>"})


def bert(lowercase=True):
    backend = hf.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    return trained(backend, trainer, unk="[UNK]", cls="[CLS]", sep="[SEP]", mask="[MASK]")


def sentencepiece(**options):
    """The content of a model that SentencePiece trains."""
    from io import BytesIO

    trainer = pytest.importorskip("sentencepiece").SentencePieceTrainer
    found = BytesIO()
    texts = iter(text.replace("\n", " ") for text in TEXTS * 4)
    options = {"vocab_size": 160, "hard_vocab_limit": False, "minloglevel": 2, **options}
    trainer.train(sentence_iterator=texts, model_writer=found, **options)
    return found.getvalue()


def scores(content):
    """The pieces of a SentencePiece model, with their scores."""
    return {each.piece: each.score for each in model_message(content).pieces}


def spiece(**options):
    content = sentencepiece(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **options)
    return SentencePieceTokenizer(
        content, {"pad": "<pad>", "end": "</s>", "unk": "<unk>"}, added=["<extra_id_1>", "<extra_id_0>"]
    )


def llama_model(**options):
    usual = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True}
    sizes = {"model_type": "bpe", "split_digits": True, "vocab_size": 420}
    content = sentencepiece(**sizes | usual | options)
    return SentencePieceTokenizer(content, {"start": "<s>", "end": "</s>", "unk": "<unk>"}, has_end=False)


def marian():
    source, target = sentencepiece(vocab_size=140), sentencepiece(vocab_size=150)
    pieces = scores(source) | scores(target)
    known = [piece for piece in list(pieces)[:-5] if piece not in ("</s>", "<unk>", "<s>")]
    vocab = {token: i for i, token in enumerate(["</s>", "<unk>", ">>fr<<", "▁queens", *known, "<pad>"])}
    roles = {"end": "</s>", "unk": "<unk>", "pad": "<pad>"}
    return SentencePieceTokenizer(source, roles, None, target, vocab)


KINDS = {
    "GPT-2": gpt2,
    "with a space before the text": lambda: gpt2(prefix=True),
    "Llama 3": llama3,
    "Llama 2, tokenizer.json": llama2,
    "Llama 2, tokenizer.model": llama_model,
    "BPE without bytes": lambda: llama_model(
        byte_fallback=False, normalization_rule_name="nmt_nfkc", remove_extra_whitespaces=True
    ),
    "T5, tokenizer.json": t5_json,
    "T5, a space before the first word": lambda: t5_json("first"),
    "T5, spiece.model": spiece,
    "T5, lower case": lambda: spiece(
        normalization_rule_name="nmt_nfkc_cf", byte_fallback=True, vocab_size=420
    ),
    "Marian": marian,
    "unigrams and bytes": with_bytes,
    "our unigrams": lambda: Tokenizer.train_unigram(TEXTS * 4, 400),
    "BERT": bert,
    "BERT, cased": lambda: bert(False),
}  # fmt: skip
ENCODED = """texts => texts.map(text => {
  const { ids, tokens, pieces } = model.tokenizer.encode(text);
  return [ids, tokens, pieces.length, model.decode(ids), model.tokenizer.encodeTarget(text).ids];
})"""


@pytest.mark.parametrize("kind", KINDS)
def test_page_ids_and_texts_match_python(page, kind):
    tokenizer = KINDS[kind]()
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer))
    count = 0

    def check(texts):
        nonlocal count
        for text, found in zip(texts, page.evaluate(ENCODED, texts), strict=True):
            ids = tokenizer.encode(text)
            tokens = [tokenizer.id_to_token[i] for i in ids]
            expected = [ids, tokens, len(ids), tokenizer.decode(ids), tokenizer.encode_target(text)]
            assert found == expected, (text, tokens, found[1])
            count += 1

    check([*TEXTS, *STRANGE])
    settings(max_examples=60, deadline=None, database=None)(given(BATCHES)(check))()
    assert count > 600


@pytest.mark.parametrize("kind", KINDS)
def test_page_decoding_of_any_ids_matches_python(page, kind):
    tokenizer = KINDS[kind]()
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer))
    ids = st.integers(0, tokenizer.vocab_size - 1)

    @settings(max_examples=60, deadline=None, database=None)
    @given(st.lists(st.lists(ids, max_size=12), min_size=10, max_size=20))
    def check(rows):
        found = page.evaluate("rows => rows.map(ids => model.decode(ids))", rows)
        assert found == [tokenizer.decode(row) for row in rows]

    check()


@pytest.mark.parametrize("kind", ["BERT", "BERT, cased"])
def test_marks_in_a_text_are_special_tokens(page, kind):
    tokenizer = KINDS[kind]()
    settings = {"marks": ["[MASK]"], "strip": False}
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer), input=settings)
    texts = [
        "The [MASK] sat.",
        "[MASK][MASK]",
        "un[MASK]able",
        "a [CLS] [MASK] , naïve",
        "[MASK] \n ##x [MASK]",
    ]
    found = page.evaluate("texts => texts.map(model.sourceIds, model)", texts)
    assert found == [marked_ids(tokenizer, text, ["[MASK]"]) for text in texts]


@pytest.mark.parametrize("strips", [{}, {"lstrip": True}, {"rstrip": True}])
def test_page_marks_map_to_the_mask_token_of_the_tokenizer(page, strips):
    backend = gpt2()._backend
    backend.add_special_tokens([hf.AddedToken("<mask>", special=True, **strips)])
    tokenizer = PretrainedTokenizer(backend, {"end": "</s>", "mask": "<mask>"})
    marks = ["[MASK]", "<MASK>"]
    settings = {"marks": marks, "strip": False}
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer), input=settings)
    texts = ["The [MASK] sat<MASK>.", "<MASK>  [MASK] a"]
    found = page.evaluate("texts => texts.map(model.sourceIds, model)", texts)
    assert found == [marked_ids(tokenizer, text, marks) for text in texts]
