"""Text becomes ids and comes back as it was; files and mistakes behave."""

import json
import time
import unicodedata

import numpy as np
import pytest
import tokenizers as hf
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.data.datasets import tinyshakespeare
from minitransformer.errors import UserError
from minitransformer.text.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerError

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
ODD = "two  spaces, e\u0301"  # neither plain words nor plain byte pairs give it back
TRAINERS = {
    "word": lambda texts: Tokenizer.train_word(texts),
    "spaced word": lambda texts: Tokenizer.train_word(texts, held_out=[ODD]),
    "bpe": lambda texts: Tokenizer.train_bpe(texts, 120),
    "byte bpe": lambda texts: Tokenizer.train_bpe(texts, 400, held_out=[ODD]),
    "char": lambda texts: Tokenizer.train_char(texts),
}


@pytest.fixture(params=TRAINERS, scope="module")
def tokenizer(request):
    return TRAINERS[request.param](SENTENCES)


@pytest.fixture(scope="module")
def words():
    return Tokenizer.train_word(SENTENCES)


@pytest.mark.parametrize("layout", TRAINERS)
def test_the_tokenizer_layout_is_chosen_from_the_texts(layout):
    assert TRAINERS[layout](SENTENCES).layout == layout


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_round_trip_exactly(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


# --- Texts that plain tokens do not give back ---

LANGUAGES = {
    "en": "He said, “It’s 5 o'clock – isn't it?”",
    "de": "Die „Straße“ ist 1.000 m lang, z. B. hier.",
    "fr": "« Où es-tu ? » dit l’homme : « Là ! »",
    "es": "¿Qué dice? « el coche » ¡Vaya!",
    "it": "Dov'è l'amico? (È qui), po' di più.",
    "pl": "„Zażółć gęślą jaźń” – rzekł.",
    "ru": "Ёж сказал: «Привет, мир!» — и ушёл.",
    "el": "Τι κάνεις; «Καλά», είπε.",
    "ar": "قال: «مرحبًا، كيف حالك؟» نعم.",
    "fa": "می\u200cخواهم بروم؟",
    "hi": "क्षत्रिय ने कहा, “नमस्ते दुनिया!” ।",
    "zh": "我爱你。他说：“你好，世界！”",
    "ja": "彼は「ラーメンが好き」と言った。",
    "th": "ฉันรักคุณ ที่นี่ ๑๒๓",
    "tr": "İstanbul'da  ığüşöç mü?",
    "ko": "안녕하세요, 세계! ‘네’.",
    "numbers": "3.14 + 2,5 = 5.64",
    "C++": "C++ and C#",
    "code": "if (a && b) { x += y[0]; }",
    "tabs": "a\tb\n\n    c\r\n",
    "spaces": " two  spaces, no\u00a0break\u202fspace ",
    "emoji": "👩\u200d🚀 🏳️\u200d🌈 ❤️ 🇫🇷",
    "accents": "e\u0301te\u0301, été",
    "special": "▁a <PAD> <END> \u200b\x00",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_word_tokenizers_round_trip_other_languages(language, tmp_path):
    text = LANGUAGES[language]
    tokenizer = Tokenizer.train_word([text])
    tokenizer.save(tmp_path / "tokenizer.json")
    for one in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        assert one.layout == "spaced word"
        assert one.decode(one.encode(text)) == text


@pytest.mark.parametrize("language", LANGUAGES)
def test_byte_bpe_round_trips_unseen_texts(language, tmp_path):
    tokenizer = TRAINERS["byte bpe"](SENTENCES)
    tokenizer.save(tmp_path / "tokenizer.json")
    for one in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        assert one.lossy_texts([LANGUAGES[language]]) == []


@given(st.text())
def test_byte_bpe_round_trips_any_text(text):
    assert BYTE_PAIRS.lossy_texts([text]) == []


BYTE_PAIRS = TRAINERS["byte bpe"](SENTENCES)


@given(st.lists(st.text(), min_size=1))
def test_word_tokenizers_round_trip_training_texts(texts):
    assert Tokenizer.train_word(texts).lossy_texts(texts) == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("¿Qué es l’IA?", [" ¿", "Qué", " es", " l’", "IA", "?"]),
        ("pi = 3.14;", [" pi", " =", " 3", ".", "14", ";"]),
        ("我爱 Rust。", [" 我", "爱", " Rust", "。"]),
        ("ที่นี่", [" ที่", "นี่"]),
        ("a\tb", [" a", "\t", "b"]),
    ],
)
def test_word_tokens_include_the_preceding_space(text, tokens):
    assert Tokenizer.train_word([text, ODD]).tokens(text) == tokens


def test_sentences_without_spaces_are_split():
    assert len(Tokenizer.train_word(["我爱你"]).tokens("我爱你")) == 3


def test_byte_bpe_merges_across_combining_marks():
    text = "\u0939\u093f\u0928\u094d\u0926\u0940"  # Hindi: its vowels are marks that join to letters
    assert len(Tokenizer.train_bpe([f"{text} " * 50], 400, held_out=[ODD]).tokens(text)) == 1


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("word", ["Je", "[MASK]", "aime", ",", "[MASK]", "\xa0?"]),
        ("bpe", ["▁Je", "[MASK]", "'", "aime", ",", "[MASK]", "▁", "?"]),
    ],
)
def test_apostrophes_end_words_but_not_byte_pairs(kind, tokens):
    train = Tokenizer.train_word if kind == "word" else Tokenizer.train_bpe
    tokenizer = train(["Je t'aime, l'ami ?"], vocab_size=300, added=["[MASK]"])
    ids = tokenizer.encode_marked(["Je ", "[MASK]", "'aime, ", "[MASK]", " ?"])
    assert [tokenizer.id_to_token[i] for i in ids] == tokens


@pytest.mark.parametrize("train", ["word", "bpe"])
def test_held_out_texts_affect_the_layout(train):
    def layout(**options):
        if train == "word":
            return Tokenizer.train_word(["a b c"], **options).layout
        return Tokenizer.train_bpe(["a b c"], 300, **options).layout

    assert layout() == layout(held_out=["c b a"]) == train
    assert layout(held_out=["c  b", "é"]) != train


def test_lossy_texts_are_listed():
    tokenizer = Tokenizer.train_word(["a b", "c d"])
    assert tokenizer.lossy_texts(["b a", "a  b", "unknown", "d"]) == ["a  b", "unknown"]


@pytest.mark.parametrize("layout", ["spaced word", "byte bpe"])
def test_unknown_words_are_found_in_lossless_layouts(layout):
    unknown = {"spaced word": ["zébra", "¿"], "byte bpe": []}
    assert TRAINERS[layout](SENTENCES).unknown_words("I love zébra ¿zébra") == unknown[layout]


def test_an_unknown_tab_is_named():
    assert TRAINERS["spaced word"](SENTENCES).unknown_words("I\tlove") == ["\t", "love"]


@pytest.mark.parametrize("size", [10**9, 10**20])
def test_vocab_size_is_capped_by_the_texts(size):
    assert Tokenizer.train_word(["a b"], vocab_size=size).vocab_size == 6
    assert Tokenizer.train_bpe(["a b"], size).token_to_id.keys() >= {"▁a", "▁b"}


@pytest.mark.parametrize(
    "train", [lambda: Tokenizer.train_word(["a"], vocab_size=3), lambda: Tokenizer.train_bpe(["a"], 0)]
)
def test_a_vocab_size_that_is_too_small_is_rejected(train):
    with pytest.raises(UserError, match=r"vocab_size = [03] is out of range"):
        train()


@pytest.mark.parametrize("text", ["lovecatsat" * 20_000, "one\nword\n" * 20_000, "\t\n  \t\r\n" * 30_000])
@pytest.mark.slow
def test_long_words_are_trained_on_in_seconds(text):
    start = time.perf_counter()
    assert Tokenizer.train_bpe([text], 300).lossy_texts([text]) == []
    assert time.perf_counter() - start < 10


def test_vocab_size_below_the_number_of_bytes_is_rejected():
    with pytest.raises(TokenizerError, match="vocab_size = 259 is too small"):
        Tokenizer.train_bpe([ODD], 259)
    assert Tokenizer.train_bpe([ODD], 260).vocab_size == 260


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
def test_words_and_punctuation_are_split(words, text, tokens):
    assert words.tokens(text) == tokens


def test_a_hyphenated_word_is_one_token(words):
    assert words.tokens("Est-ce que")[0] == "Est-ce"


def test_the_french_question_mark_is_a_token_of_its_own(words):
    assert words.encode("m'aimes ?")[-1] != words.encode("me?")[-1]


def test_both_apostrophes_are_the_same_token(words):
    assert words.encode("Je t\u2019aime.") == words.encode("Je t'aime.")


def test_composed_and_decomposed_accents_are_equivalent(words):
    text = "Quelle journée !"
    assert words.encode(unicodedata.normalize("NFD", text)) == words.encode(text)


def test_the_vocabulary_is_sorted_by_frequency():
    tokenizer = Tokenizer.train_word(["b a c c", "c d"])
    assert [tokenizer.id_to_token[i] for i in range(8)] == [*SPECIAL_TOKENS, "c", "a", "b", "d"]


def test_rare_words_are_left_out():
    tokenizer = Tokenizer.train_word(["cat cat dog"], min_frequency=2)
    assert "cat" in tokenizer.token_to_id
    assert "dog" not in tokenizer.token_to_id


def test_unknown_words_are_listed_in_order_without_duplicates(words):
    assert words.unknown_words("I love zebras, zebras and quaggas.") == ["zebras", "and", "quaggas"]


def test_unknown_words_are_named_in_composed_form(words):
    assert words.unknown_words(unicodedata.normalize("NFD", "Je t'aime, Ève rêvée")) == ["Ève", "rêvée"]


def test_a_word_vocabulary_can_be_limited_to_the_most_frequent():
    tokenizer = Tokenizer.train_word(["a a a b b c"], vocab_size=6)
    assert set(tokenizer.token_to_id) == {*SPECIAL_TOKENS, "a", "b"}


def test_unknown_words_are_encoded_as_unk(words):
    assert words.encode("zebras") == [words.unk_id]


# --- Pieces ---


def test_pieces_do_not_cross_punctuation():
    tokenizer = Tokenizer.train_bpe(["l'homme."] * 50, 60)
    assert tokenizer.tokens("l'homme.") == ["▁l", "'", "homme", "."]


def test_bpe_training_fills_the_vocabulary_deterministically():
    first, second = (Tokenizer.train_bpe(SENTENCES, 110) for _ in range(2))
    assert first.vocab_size == 110
    assert first.token_to_id == second.token_to_id


@given(st.lists(st.text(st.sampled_from("abcdelo'.,?!é-"), min_size=1), min_size=1).map(" ".join))
def test_bpe_round_trips_any_single_spaced_text(text):
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
def test_known_characters_round_trip(text):
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


@pytest.mark.parametrize("kind", ["word", "spaced word", "bpe", "byte bpe"])
def test_the_special_tokens_come_first(kind):
    tokenizer = TRAINERS[kind](SENTENCES)
    assert [tokenizer.token_to_id[name] for name in ("<PAD>", "<UNK>", "<START>", "<END>")] == [0, 1, 2, 3]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.start_id, tokenizer.end_id) == (0, 1, 2, 3)


@pytest.mark.parametrize("kind", ["word", "spaced word", "bpe", "byte bpe"])
def test_encode_adds_no_special_tokens_and_decode_hides_them(kind):
    tokenizer = TRAINERS[kind](SENTENCES)
    ids = tokenizer.encode("I love you.")
    assert not {0, 2, 3} & set(ids)
    assert tokenizer.decode([2, *ids, 3, 0, 0]) == "I love you."


@pytest.mark.parametrize("kind", ["word", "spaced word", "bpe", "byte bpe"])
def test_special_tokens_in_user_text_are_not_recognized(kind):
    tokenizer = TRAINERS[kind](SENTENCES)
    assert tokenizer.end_id not in tokenizer.encode("I love <END> you")


# --- Arrays and files ---


def test_encode_array_matches_encode(tokenizer):
    ids = tokenizer.encode_array("I love you.")
    assert ids.dtype == np.int64
    assert ids.tolist() == tokenizer.encode("I love you.")
    assert tokenizer.decode(ids.tolist()) == "I love you."


def test_tokenizers_round_trip_through_a_file(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (loaded.kind, loaded.token_to_id) == (tokenizer.kind, tokenizer.token_to_id)
    for text in SENTENCES:
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text)) == text


def test_a_failed_save_keeps_the_old_file(words, tmp_path, monkeypatch):
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


def test_tokenizers_too_large_to_load_are_not_saved(words, tmp_path, monkeypatch):
    monkeypatch.setattr("minitransformer.text.tokenizer.JSON_LIMIT", 1000)
    with pytest.raises(TokenizerError, match=r"tokens has .* bytes, the limit is 1,000.\nLower --vocab-size"):
        words.save(tmp_path / "tokenizer.json")
    assert not (tmp_path / "tokenizer.json").exists()


@pytest.mark.parametrize("kind", TRAINERS)
def test_lone_surrogates_are_rejected(kind):
    with pytest.raises(TokenizerError):
        TRAINERS[kind](SENTENCES).encode("caf\udce9")


def test_tokenizers_of_other_programs_are_rejected(tmp_path):
    foreign = hf.Tokenizer(hf.models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    foreign.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json .*written by another program"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_missing_tokenizer_file_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize(
    "content",
    [
        *(
            "",
            "{}",
            "not json",
            "[]",
            '{"model": []}',
            '{"model": {}}',
            "[" * 100_000,
            '{"model": ' * 100_000,
            "9" * 10_000,
        ),
        '{"model": {"type": "WordLevel", "vocab": {"\\ud800": 0}, "unk_token": "<UNK>"}}',
    ],
    ids=lambda text: text[:20],
)
def test_invalid_tokenizer_json_is_named(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        Tokenizer.load(path)


def saved(layout):
    """The content of a saved tokenizer."""
    return json.loads(TRAINERS[layout](SENTENCES)._backend.to_str())


@pytest.mark.parametrize("layout", TRAINERS)
@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("post_processor", {"type": "ByteLevel"}),
        ("normalizer", {"type": "Lowercase"}),
        ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(" * 10_000}}),
        ("decoder", {"type": "Fuse"}),
        ("added_tokens", [{"id": 3, "content": "love"}]),
    ],
)
def test_a_tokenizer_that_splits_differently_is_refused(tmp_path, layout, part, value):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(saved(layout) | {part: value}))
    with pytest.raises(TokenizerError, match=r"is not a .*tokenizer|is damaged"):
        Tokenizer.load(path)


@pytest.mark.parametrize("layout", TRAINERS)
@pytest.mark.parametrize(
    "change",
    [
        lambda vocab: vocab | {"new": len(vocab) + 1},  # a gap
        lambda vocab: vocab | {"new": 0},
        lambda vocab: None,
    ],
)
def test_a_damaged_vocabulary_is_refused(tmp_path, layout, change):
    content = saved(layout)
    content["model"]["vocab"] = change(content["model"]["vocab"])
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match=r"is not a .*tokenizer|is damaged"):
        Tokenizer.load(path)


def test_stored_padding_and_truncation_are_ignored(tmp_path):
    content = saved("word") | {
        "padding": {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None,
                    "pad_id": 0, "pad_type_id": 0, "pad_token": "<PAD>"},
        "truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0},
    }  # fmt: skip
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    assert len(Tokenizer.load(path).encode(SENTENCES[0])) > 1
