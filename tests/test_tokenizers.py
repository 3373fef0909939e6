"""Text becomes ids and comes back as it was; files and mistakes behave."""

import unicodedata

import numpy as np
import pytest
import tokenizers as hf
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.data.datasets import tinyshakespeare
from minitransformer.data.phrasebook import phrasebook
from minitransformer.errors import UserError
from minitransformer.tokenizers import SPECIAL_TOKENS, Tokenizer, TokenizerError

SENTENCES = [
    "I love you.",
    "Je t'aime.",
    "J'aime l'IA.",
    "Do you love me?",
    "Est-ce que tu m'aimes ?",
    "The dog's ball is red, isn't it?",
    "Qu'est-ce que c'est ?",
    "Quelle journée !",
    "What a day!",
    "Il dit : je dors ; elle lit.",
    "The cat sat on the mat",
    "Aujourd'hui, l'homme n'est pas là.",
]
TRAINERS = {
    "word": lambda texts: Tokenizer.train_word(texts),
    "bpe": lambda texts: Tokenizer.train_bpe(texts, 120),
    "char": lambda texts: Tokenizer.train_char(texts),
}


@pytest.fixture(params=TRAINERS, scope="module")
def tokenizer(request):
    return TRAINERS[request.param](SENTENCES)


@pytest.fixture(scope="module")
def words():
    return Tokenizer.train_word(SENTENCES)


@pytest.mark.parametrize("text", SENTENCES)
def test_a_sentence_comes_back_exactly(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_every_sentence_of_the_phrasebook_comes_back_exactly(kind):
    book = phrasebook()
    texts = [sentence for pair in book.train + book.test for sentence in pair]
    tokenizer = Tokenizer.train_word(texts) if kind == "word" else Tokenizer.train_bpe(texts, 2000)
    changed = [text for text in texts if tokenizer.decode(tokenizer.encode(text)) != text]
    assert changed == []


# --- Words ---


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I love you.", ["I", "love", "you", "."]),
        ("Je t'aime.", ["Je", "t'", "aime", "."]),
        ("J'aime l'IA.", ["J'", "aime", "l'", "IA", "."]),
        ("Do you love me?", ["Do", "you", "love", "me", "?"]),
    ],
)
def test_words_are_split_as_a_reader_would(words, text, tokens):
    assert words.tokens(text) == tokens


def test_a_hyphenated_word_is_one_token(words):
    assert words.tokens("Est-ce que")[0] == "Est-ce"


def test_the_french_question_mark_is_another_token_than_the_english(words):
    assert words.encode("m'aimes ?")[-1] != words.encode("me?")[-1]


def test_both_apostrophes_are_one(words):
    assert words.encode("Je t\u2019aime.") == words.encode("Je t'aime.")


def test_composed_and_decomposed_accents_are_one(words):
    text = "Quelle journée !"
    assert words.encode(unicodedata.normalize("NFD", text)) == words.encode(text)


def test_the_vocabulary_is_in_order_of_frequency_then_of_the_alphabet():
    tokenizer = Tokenizer.train_word(["b a c c", "c d"])
    assert [tokenizer.id_to_token[i] for i in range(8)] == [*SPECIAL_TOKENS, "c", "a", "b", "d"]


def test_rare_words_are_left_out():
    tokenizer = Tokenizer.train_word(["cat cat dog"], min_frequency=2)
    assert "cat" in tokenizer.token_to_id
    assert "dog" not in tokenizer.token_to_id


def test_unknown_words_are_named_in_order_and_once(words):
    assert words.unknown_words("I love zebras, zebras and quaggas.") == ["zebras", "and", "quaggas"]


def test_an_unknown_word_is_named_whole_however_its_accents_are_written(words):
    assert words.unknown_words(unicodedata.normalize("NFD", "Je t'aime, Ève rêvée")) == ["Ève", "rêvée"]


def test_a_word_vocabulary_can_be_limited_to_the_most_frequent():
    tokenizer = Tokenizer.train_word(["a a a b b c"], vocab_size=6)
    assert set(tokenizer.token_to_id) == {*SPECIAL_TOKENS, "a", "b"}


def test_one_vocabulary_serves_both_languages():
    book = phrasebook().train[:300]
    both = Tokenizer.train_word([side for pair in book for side in pair])
    for language in (0, 1):
        alone = Tokenizer.train_word([pair[language] for pair in book])
        assert alone.token_to_id.keys() <= both.token_to_id.keys()


def test_an_unknown_word_is_unk(words):
    assert words.encode("zebras") == [words.unk_id]


# --- Pieces ---


def test_pieces_do_not_cross_punctuation():
    tokenizer = Tokenizer.train_bpe(["l'homme."] * 50, 60)
    assert tokenizer.tokens("l'homme.") == ["▁l", "'", "homme", "."]


def test_pieces_fill_the_vocabulary_and_are_always_the_same_ones():
    first, second = (Tokenizer.train_bpe(SENTENCES, 110) for _ in range(2))
    assert first.vocab_size == 110
    assert first.token_to_id == second.token_to_id


@given(st.lists(st.text(st.sampled_from("abcdelo'.,?!é-"), min_size=1), min_size=1).map(" ".join))
def test_pieces_bring_back_any_single_spaced_text(text):
    tokenizer = Tokenizer.train_bpe(["abcdelo'.,?!é- a b c d e l o"], 60)
    assert tokenizer.decode(tokenizer.encode(text)) == text


# --- Characters ---


def test_characters_are_numbered_in_code_point_order():
    tokenizer = Tokenizer.train_char(["ba\n", "Z é"])
    assert tokenizer.token_to_id == {c: i for i, c in enumerate("\n Zabé")}
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.start_id, tokenizer.end_id) == (None,) * 4


def test_an_unknown_character_is_named():
    with pytest.raises(TokenizerError, match="'é'"):
        Tokenizer.train_char(["abc"]).encode("abé")


def test_characters_can_have_special_tokens():
    tokenizer = Tokenizer.train_char(["abc"], special_tokens=True)
    assert tokenizer.encode("aé") == [4, tokenizer.unk_id]
    assert tokenizer.unknown_words("aéaé") == ["é"]


@given(st.text(st.sampled_from("ab \n\t'é€")))
def test_characters_bring_back_any_text(text):
    tokenizer = Tokenizer.train_char(["ab \n\t'é€"])
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_shakespeare_has_65_characters(shared):
    text = "".join(tinyshakespeare(shared / "data" / "tinyshakespeare").values())
    tokenizer = Tokenizer.train_char([text])
    ids = tokenizer.encode_array(text)
    assert tokenizer.vocab_size == 65
    assert ids.shape == (1_115_394,)
    assert tokenizer.decode(ids[:1000].tolist()) == text[:1000]


# --- Special tokens ---


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_the_special_tokens_come_first(kind):
    tokenizer = TRAINERS[kind](SENTENCES)
    assert [tokenizer.token_to_id[name] for name in ("<PAD>", "<UNK>", "<START>", "<END>")] == [0, 1, 2, 3]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.start_id, tokenizer.end_id) == (0, 1, 2, 3)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_special_tokens_are_neither_added_nor_shown(kind):
    tokenizer = TRAINERS[kind](SENTENCES)
    ids = tokenizer.encode("I love you.")
    assert not {0, 2, 3} & set(ids)
    assert tokenizer.decode([2, *ids, 3, 0, 0]) == "I love you."


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_a_user_who_writes_a_special_token_does_not_get_it(kind):
    tokenizer = TRAINERS[kind](SENTENCES)
    assert tokenizer.end_id not in tokenizer.encode("I love <END> you")


# --- Arrays and files ---


def test_an_array_holds_the_same_ids(tokenizer):
    ids = tokenizer.encode_array("I love you.")
    assert ids.dtype == np.int64
    assert ids.tolist() == tokenizer.encode("I love you.")
    assert tokenizer.decode(ids.tolist()) == "I love you."


def test_a_saved_tokenizer_is_the_same_tokenizer(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (loaded.kind, loaded.token_to_id) == (tokenizer.kind, tokenizer.token_to_id)
    for text in SENTENCES:
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text)) == text


def test_a_save_that_fails_leaves_the_old_file(words, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    words.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="disk full"):
        Tokenizer.train_word(["other words"]).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", TRAINERS)
def test_what_is_no_text_is_refused(kind):
    with pytest.raises(TokenizerError):
        TRAINERS[kind](SENTENCES).encode("caf\udce9")


def test_a_tokenizer_of_another_program_is_refused(tmp_path):
    foreign = hf.Tokenizer(hf.models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    foreign.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json .*written by another program"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("content", ["", "{}", "not json"])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        Tokenizer.load(path)


def test_a_missing_file_is_a_users_mistake(tmp_path):
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path / "tokenizer.json")
