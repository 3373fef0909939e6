"""Unigram pieces with bytes as a last resort (Kudo 2018), and vocabularies given by hand."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitransformer import Tokenizer
from minitransformer.text.tokenizer import TokenizerError

TEXTS = ["the cat sat on the mat", "Le chat s'est assis sur le tapis.", "a man eats food", "hello world"] * 5


@pytest.fixture(scope="module")
def unigram():
    return Tokenizer.train_unigram(TEXTS, 320, added=["[CLS]", "[SEP]", "[MASK]"])


def test_texts_with_unseen_characters_round_trip(unigram):
    for text in [*TEXTS, "北京 🙂 ñ", "the cat [MASK]", "</s> <PAD>"]:
        assert unigram.decode(unigram.encode(text)) == text
    assert unigram.unk_id not in unigram.encode("北京 🙂")
    assert unigram.vocab_size == len(unigram.token_to_id) <= 320


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Z", "Cc", "M"]), min_size=1, max_size=20))
def test_words_of_any_letters_round_trip(unigram, text):
    import unicodedata

    text = unicodedata.normalize("NFC", text).replace("▁", "_")
    assert unigram.decode(unigram.encode(text)) == text


@pytest.mark.parametrize("word", ["<UNK>", "<PAD>", "</s>", "[MASK]", "<unk>"])
def test_names_of_special_tokens_in_a_text_round_trip(word):
    texts = [f"the {word} sat on{word} mat {i}" for i in range(20)]
    trained = Tokenizer.train_unigram(texts, 320, added=["[MASK]"])
    for text in texts:
        assert trained.decode(trained.encode(text)) == text
        assert trained.unknown_words(text) == []


def test_training_words_are_split_into_few_pieces(unigram):
    assert len(unigram.encode("the cat sat")) <= 6
    assert unigram.tokens("the")[0].startswith("▁")


def test_special_tokens_inside_a_text_are_marked(unigram):
    ids = unigram.encode_marked(["the ", "[MASK]", " sat"])
    assert ids.count(unigram.special_id("[MASK]")) == 1
    assert unigram.decode(ids).split() == ["the", "sat"]


def test_unigram_tokenizers_round_trip_through_a_file(unigram, tmp_path):
    unigram.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    for text in [*TEXTS, "北京"]:
        assert again.encode(text) == unigram.encode(text)
    assert again.to_bytes() == unigram.to_bytes()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda vocab: vocab.append(["the", "x"]), "is not a tokenizer"),
        (lambda vocab: vocab.append(vocab[9]), "is damaged"),
    ],
)
def test_a_damaged_vocabulary_is_named(unigram, tmp_path, change, problem):
    content = json.loads(unigram.to_bytes())
    change(content["model"]["vocab"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match=problem):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_from_vocab_keeps_the_given_ids(tmp_path):
    tokenizer = Tokenizer.from_vocab({"you": 0, "I": 2, "love": 1})
    assert tokenizer.encode("I love you") == [2, 1, 0]
    assert tokenizer.decode([2, 1, 0]) == "I love you"
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").encode("you") == [0]
    with pytest.raises(TokenizerError, match="'they': not in the vocabulary, which has no <UNK>"):
        tokenizer.encode("they love you")
    with_special = Tokenizer.from_vocab(["<PAD>", "<UNK>", "<START>", "<END>", "I", "love", "you"])
    assert with_special.encode("they love") == [1, 5]
    assert with_special.end_id == 3


@pytest.mark.parametrize("vocab", [{}, {"a": 1}, {"a": 0, "b": 0}, ["a", "a"], {"a": "x"}])
def test_from_vocab_rejects_invalid_ids(vocab):
    with pytest.raises((TokenizerError, TypeError)):
        Tokenizer.from_vocab(vocab)
