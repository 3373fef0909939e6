"""Tokenizer files as they are on the hub: settings in their several forms, and damaged files."""

import json
import sys

import pytest
import tokenizers as hf
from tokenizers import models, pre_tokenizers

from minitransformer.errors import UserError
from minitransformer.pretrained import PretrainedWarning
from minitransformer.pretrained.tokenizers import load_tokenizer, save_tokenizer
from minitransformer.text.loading import load_tokenizer as load_run_tokenizer
from minitransformer.text.sentencepiece_tokenizer import model_message
from minitransformer.text.tokenizer import Tokenizer

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s"]


def write(folder, **files):
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def bert(folder, **settings):
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    write(folder, tokenizer_config=settings)
    return load_tokenizer(folder)


def words(folder, change=lambda content: None, unknown="<unk>", **files):
    """A tokenizer.json of the words a, b, <s> and </s>, changed."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4}
    backend = hf.Tokenizer(models.WordLevel(vocab, unk_token=unknown))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.add_special_tokens(["<s>", "</s>"])
    content = json.loads(backend.to_str())
    change(content)
    write(folder, tokenizer=content, **files)
    return load_tokenizer(folder)


def sentencepiece(folder, name="tokenizer.model"):
    spm = pytest.importorskip("sentencepiece")
    text = folder / "text.txt"
    text.write_text("the naïve cat sat on the mat\n" * 4)
    spm.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "sp"), vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    (folder / "sp.model").rename(folder / name)
    return folder / name


# ---------------------------------------------------------------- settings


def test_special_tokens_can_be_strings_or_objects(tmp_path):
    ours = bert(tmp_path, unk_token={"__type": "AddedToken", "content": "[UNK]"}, pad_token="[PAD]")
    assert (ours.unk_id, ours.pad_id) == (1, 0)
    assert ours.encode("cats dog") == [6, 7, 1]


def test_save_tokenizer_writes_the_infilling_mask_token(tmp_path):
    save_tokenizer(Tokenizer.train_word(["the cat"], added=["<extra_id_0>", "<MASK>"]), tmp_path)
    assert load_tokenizer(tmp_path).roles["mask"] == "<MASK>"


def test_encode_marked_treats_other_special_tokens_as_text(tmp_path):
    ours = bert(tmp_path)
    assert ours.encode_marked(["the ", "[MASK]", " cats"]) == [5, 4, 6, 7]
    assert ours.encode_marked(["the [SEP] ", "[MASK]", " cats"]) == [5, 1, 1, 1, 4, 6, 7]
    assert ours.encode_marked(["the ", "[MASK]", " [SEP]"]) == [5, 4, 1, 1, 1]
    assert ours.encode_marked(["[SEP]", "[MASK]", "", "[SEP]", "cats"]) == [1, 1, 1, 4, 3, 6, 7]


def test_do_lower_case_is_respected(tmp_path):
    assert bert(tmp_path, do_lower_case=True).encode("The") == [5]
    assert bert(tmp_path, do_lower_case=None).encode("The") == [5]
    assert bert(tmp_path, do_lower_case=False).encode("The") == [1]


def byte_level(folder, **settings):
    write(folder, vocab={token: i for i, token in enumerate(["a", "Ġ", "Ġa", "</s>", "<s>"])})
    (folder / "merges.txt").write_text("#version: 0.2\nĠ a\n")
    write(folder, tokenizer_config=settings)
    return load_tokenizer(folder)


@pytest.mark.parametrize(("adds", "ids"), [(False, [0, 2]), (True, [2, 2])])
def test_byte_level_bpe_respects_add_prefix_space(adds, ids, tmp_path):
    assert byte_level(tmp_path, add_prefix_space=adds).encode("a a") == ids


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        ({}, [0]),
        ({"tokenizer_class": "GPT2TokenizerFast"}, [0]),
        ({"tokenizer_class": "RobertaTokenizer"}, [4, 0, 3]),
        ({"tokenizer_class": "BartTokenizerFast", "add_prefix_space": True}, [4, 2, 3]),
        ({"add_bos_token": True, "bos_token": "<s>"}, [4, 0]),
        ({"add_eos_token": True, "eos_token": {"content": "</s>"}}, [0, 3]),
    ],
)
def test_the_tokenizer_class_determines_surrounding_tokens(settings, ids, tmp_path):
    tokenizer = byte_level(tmp_path, **settings)
    assert tokenizer.encode_with_special_tokens("a") == ids
    assert tokenizer.prefix == [i for i in ids[:1] if i == 4]  # <s>


def test_bert_settings_override_tokenizer_json(tmp_path):
    ours = bert(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    ours._backend.save(str(tmp_path / "tokenizer.json"))
    for name, ids in [("BertTokenizerFast", [2, 1, 3]), ("PreTrainedTokenizerFast", [2, 5, 3])]:
        write(tmp_path, tokenizer_config={"tokenizer_class": name, "do_lower_case": False})
        assert load_tokenizer(tmp_path).encode_with_special_tokens("The") == ids


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["vocab.txt"], "BertJapaneseTokenizer"),
        (["vocab.txt"], "MPNetTokenizer"),
        (["vocab.json", "merges.txt"], "Qwen2TokenizerFast"),
        (["vocab.json", "merges.txt"], "CLIPTokenizer"),
        (["tokenizer.model"], "GemmaTokenizer"),
        (["spiece.model"], "AlbertTokenizer"),
        (["source.spm", "target.spm", "vocab.json"], "M2M100Tokenizer"),
        (["tokenizer.json"], "PhobertTokenizer"),
        (["tokenizer.json"], "BertJapaneseTokenizer"),
    ],
)
@pytest.mark.parametrize("where", ["config", "tokenizer_config"])
def test_unsupported_tokenizer_classes_are_rejected_by_name(files, name, where, tmp_path):
    for file in files:
        (tmp_path / file).write_text("{}")
    write(tmp_path, **{where: {"tokenizer_class": name}})
    match = rf"tokenizer_class {name.removesuffix('Fast')}, which is not supported for its {files[0]}"
    with pytest.raises(UserError, match=match):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("file", ["tokenizer.model", "tokenizer.json"])
def test_llama_without_add_prefix_space_is_rejected(file, tmp_path):
    if file == "tokenizer.model":
        sentencepiece(tmp_path)
    else:
        backend = hf.Tokenizer(models.BPE({"<unk>": 0, "▁": 1, "a": 2}, [], unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.save(str(tmp_path / file))
    write(tmp_path, config={"model_type": "llama"}, tokenizer_config={"add_prefix_space": True})
    load_tokenizer(tmp_path)
    write(tmp_path, tokenizer_config={"add_prefix_space": False})
    with pytest.raises(UserError, match="add_prefix_space = False, which is not supported"):
        load_tokenizer(tmp_path)


def test_special_tokens_map_overrides_older_settings(tmp_path):
    write(tmp_path, special_tokens_map={"pad_token": "[SEP]"})
    assert bert(tmp_path, pad_token="[MASK]").pad_id == 3
    assert bert(tmp_path, pad_token="[MASK]", added_tokens_decoder={}).pad_id == 4


# ---------------------------------------------------------------- added tokens

MARK = {"content": "<|m|>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
ADDED = {  # how the folder of a tokenizer says that it has one token more
    "added_tokens.json": lambda n: {"added_tokens": {"<|m|>": n}},
    "added_tokens_decoder": lambda n: {"tokenizer_config": {"added_tokens_decoder": {str(n): MARK}}},
}


def pieces(folder):
    sentencepiece(folder)
    return load_tokenizer(folder)


@pytest.mark.parametrize("how", ADDED)
@pytest.mark.parametrize("make", [bert, byte_level, words, pieces])
def test_added_tokens_are_single_tokens_and_round_trip(make, how, tmp_path):
    plain = make(tmp_path)
    n = plain.vocab_size
    write(tmp_path, **ADDED[how](n), config={"vocab_size": n + 1})
    ours = load_tokenizer(tmp_path)
    assert [i for i in ours.encode("a<|m|>a <|m|>") if i == n] == [n, n]
    assert ours.encode("a") == plain.encode("a")
    assert "<|m|>" in ours.decode([n])
    assert [(i, ab) for i, ab in ours.encode_with_offsets("a <|m|>") if i == n] == [(n, (2, 7))]
    ours.save(tmp_path / "run.json")
    (tmp_path / "back").mkdir()
    save_tokenizer(ours, tmp_path / "back")
    for again in (load_run_tokenizer(tmp_path / "run.json"), load_tokenizer(tmp_path / "back")):
        assert again.encode("a<|m|>a <|m|>") == ours.encode("a<|m|>a <|m|>")
        assert again.decode([n]) == ours.decode([n])


@pytest.mark.parametrize("make", [bert, byte_level, words, pieces])
def test_special_added_tokens_are_known_but_not_text(make, tmp_path):
    n = make(tmp_path).vocab_size
    write(tmp_path, tokenizer_config={"added_tokens_decoder": {str(n): MARK | {"special": True}}})
    ours = load_tokenizer(tmp_path)
    assert n not in ours.encode("a <|m|>")
    assert (ours.special_id("<|m|>"), ours.decode([n])) == (n, "")
    write(tmp_path, tokenizer_config={"additional_special_tokens": ["<|m|>"]}, added_tokens={"<|m|>": n})
    assert load_tokenizer(tmp_path).decode([n]) == ""


@pytest.mark.parametrize("how", ADDED)
@pytest.mark.parametrize("make", [bert, byte_level, words, pieces])
def test_added_tokens_without_an_embedding_row_are_named(make, how, tmp_path):
    plain = make(tmp_path)
    n = plain.vocab_size
    write(tmp_path, **ADDED[how](n), config={"vocab_size": n})
    with pytest.warns(PretrainedWarning, match=r"without a row in the model\'s embedding: <\|m\|>$"):
        ours = load_tokenizer(tmp_path)
    assert ours.vocab_size == n
    assert ours.encode("a <|m|>") == plain.encode("a <|m|>")


def test_a_pad_token_without_an_embedding_row_is_ignored(tmp_path):
    padding = MARK | {"content": "[PAD]", "id": 5, "special": True}
    more = lambda content: content["added_tokens"].append(padding)
    files = {"config": {"vocab_size": 5}, "tokenizer_config": {"pad_token": "[PAD]", "unk_token": "<unk>"}}
    with pytest.warns(PretrainedWarning, match=r"without a row in the model\'s embedding: \[PAD\]$"):
        ours = words(tmp_path, more, **files)
    assert (ours.pad_id, ours.unk_id, ours.vocab_size) == (None, 0, 5)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"added_tokens": {"<|m|>": 50}}, r"no place for the added token '<\|m\|>' with the id 50"),
        ({"added_tokens": {"<|m|>": 2**40}, "config": {"vocab_size": 99}}, f"{2**40}|16,777,215"),
        ({"added_tokens": {"<|m|>": "x"}}, "not objects with an id and a content"),
        ({"tokenizer_config": {"added_tokens_decoder": {"9": {"content": {}}}}}, "not objects with an id"),
        ({"added_tokens": [3]}, "is not an object of settings"),
    ],
)
@pytest.mark.parametrize("make", [bert, pieces])
def test_invalid_added_tokens_are_rejected(make, files, message, tmp_path):
    make(tmp_path)
    write(tmp_path, **files)
    with pytest.raises(UserError, match=message):
        load_tokenizer(tmp_path)


def test_token_flags_unsupported_by_sentencepiece_are_named(tmp_path):
    n = pieces(tmp_path).vocab_size
    write(tmp_path, tokenizer_config={"added_tokens_decoder": {str(n): MARK | {"lstrip": True}}})
    with pytest.raises(UserError, match=r"'<\|m\|>' has lstrip, which is not supported"):
        load_tokenizer(tmp_path)


# ---------------------------------------------------------------- roles


def test_token_roles_prefer_config_to_generation_config(tmp_path):
    generation = {"decoder_start_token_id": 1, "eos_token_id": [2, 4]}
    ours = words(tmp_path, generation_config=generation)
    assert (ours.start_id, ours.end_id) == (1, 2)
    assert words(tmp_path, config={"eos_token_id": 4}, generation_config=generation).end_id == 4


def test_stored_truncation_and_padding_are_switched_off(tmp_path):
    def change(content):
        content["truncation"] = {
            "direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0
        }  # fmt: skip
        content["padding"] = {
            "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "<unk>",
        }  # fmt: skip

    assert words(tmp_path, change).encode("a b a") == [3, 4, 3]


# ---------------------------------------------------------------- SentencePiece


def test_sentencepieces_have_offsets_in_the_text(tmp_path):
    sentencepiece(tmp_path)
    ours = load_tokenizer(tmp_path)
    text = "the naïve 🙂 cat"
    pairs = ours.encode_with_offsets(text)
    assert [i for i, _ in pairs] == ours.encode(text)
    assert "".join(text[a:b] for _, (a, b) in pairs).replace(" ", "") == "thenaïve🙂cat"
    assert ours.unknown_words(text) == ["🙂"]


def test_marian_decodes_source_pieces_with_spaces(tmp_path):
    for name in ("source.spm", "target.spm"):
        sentencepiece(tmp_path, name)
    vocab = ["</s>", "<unk>", "▁queens", "▁", "t", "<pad>"]  # "▁queens" is in neither model
    write(tmp_path, vocab={token: i for i, token in enumerate(vocab)})
    ours = load_tokenizer(tmp_path)
    assert ours.decode([2, 2, 3, 4, 3, 0]) == "queens queens t"


def test_missing_tokenizer_packages_are_named_with_a_command(tmp_path, monkeypatch):
    content = sentencepiece(tmp_path).read_bytes()
    assert model_message(content).pieces[0].piece == "<unk>"
    monkeypatch.setitem(sys.modules, "sentencepiece.sentencepiece_model_pb2", None)
    with pytest.raises(UserError, match="needs the package protobuf") as raised:
        model_message(content)
    assert "pip install -U protobuf" in str(raised.value)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match="needs the package sentencepiece"):
        load_tokenizer(tmp_path)


def test_sentencepiece_files_with_shifted_ids_are_rejected(tmp_path):
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"")
    with pytest.raises(UserError, match="save_pretrained"):
        load_tokenizer(tmp_path)


# ---------------------------------------------------------------- damaged files


DAMAGES = {
    "an id that would take memory": lambda content: content["model"]["vocab"].update(a=2**31 - 1),
    "a negative id": lambda content: content["model"]["vocab"].update(a=-1),
    "an id that is no integer": lambda content: content["model"]["vocab"].update(a=1.5),
    "an added token that is no text": lambda content: content["added_tokens"][0].update(content={"a": 1}),
    "no model": lambda content: content.pop("model"),
    "an unknown normalizer": lambda content: content.update(normalizer={"type": "Magic"}),
    "a lone surrogate": lambda content: content["model"]["vocab"].update({"\ud800": 5}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_tokenizers_are_rejected_with_advice(damage, tmp_path):
    with pytest.raises(UserError, match="Download"):
        words(tmp_path, DAMAGES[damage])


def test_deeply_nested_tokenizer_json_is_rejected(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"model":' + "[" * 100_000)
    with pytest.raises(UserError, match="Download"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("size", [10**12, 10**40, -1, "5", 2])
def test_invalid_vocabulary_sizes_are_rejected(size, tmp_path):
    with pytest.raises(UserError):
        words(tmp_path, config={"vocab_size": size})


def test_texts_that_cannot_be_encoded_are_named(tmp_path):
    ours = words(tmp_path, unknown="<none>")
    for encode in (ours.encode, ours.encode_with_special_tokens, ours.encode_with_offsets):
        with pytest.raises(UserError, match="'zebra' has a word or character that is not in the vocabulary"):
            encode("zebra")
