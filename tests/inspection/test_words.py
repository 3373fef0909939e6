"""Word vectors: similar words and analogies that were planted are found; files hold what was written."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minitransformer import (
    BERT,
    BERTConfig,
    Seq2Seq,
    Seq2SeqConfig,
    Tokenizer,
    WordVectors,
    analogy,
    fill_embedding,
    load_word_vectors,
    nearest_words,
    project_vectors,
    save_word_vectors,
    word_similarities,
    word_vectors,
)
from minitransformer.errors import UserError

ROYALTY, PERSON, GENDER, FRUIT = np.eye(4)
PLANTED = {
    "man": PERSON - GENDER, "woman": PERSON + GENDER, "king": PERSON - GENDER + ROYALTY,
    "queen": PERSON + GENDER + ROYALTY, "prince": 0.6 * PERSON - GENDER + ROYALTY,
    "apple": FRUIT, "pear": 5 * FRUIT + 0.1 * PERSON, "<PAD>": 0 * FRUIT,
}  # fmt: skip
WORDS = [*PLANTED]
TABLE = np.stack([*PLANTED.values()])


def embedding_of(table):
    embedding = nn.Embedding(*table.shape)
    embedding.weight.data = mg.tensor(table.astype(np.float32))
    return embedding


# ---------------------------------------------------------------- similar words, analogies, projections


def test_nearest_words_are_ranked_by_cosine_similarity():
    (first, cosine), (second, _) = nearest_words(TABLE, WORDS, "apple", 2)
    assert (first, second) == ("pear", "man")  # however long the vectors are; cosines of 0 in their order
    assert cosine == pytest.approx(5 / np.hypot(5, 0.1))
    assert len(nearest_words(TABLE, WORDS, "apple", 99)) == len(WORDS) - 1
    assert all(np.isfinite(cosine) for _, cosine in nearest_words(TABLE, WORDS, "<PAD>"))


def test_analogy_finds_queen_from_king_man_and_woman():
    (word, cosine), *_ = analogy(TABLE, WORDS, "king", "man", "woman")
    assert word == "queen"
    unit = lambda x: x / np.linalg.norm(x)
    sought = unit(PLANTED["king"]) - unit(PLANTED["man"]) + unit(PLANTED["woman"])
    assert cosine == pytest.approx(unit(sought) @ unit(PLANTED["queen"]))
    assert analogy(TABLE, WORDS, "man", "king", "queen", 1)[0][0] == "woman"
    found = [word for word, _ in analogy(TABLE, WORDS, "man", "man", "woman", 99)]
    assert len(found) == len(WORDS) - 2
    assert not {"man", "woman"} & {*found}


def test_word_vectors_can_come_from_an_array_or_a_model():
    tokenizer = Tokenizer.train_word(["man woman king queen prince apple pear"])
    rows = [PLANTED.get(tokenizer.id_to_token[i], 0 * FRUIT) for i in range(tokenizer.vocab_size)]
    table = np.stack(rows).astype(np.float32)
    model = BERT(BERTConfig(tokenizer.vocab_size, 4, 1, 2, 4))
    model.embedding = embedding_of(table)
    for vectors in (table, mg.tensor(table), embedding_of(table), model):
        assert nearest_words(vectors, tokenizer, "apple", 1)[0][0] == "pear"
    with pytest.raises(UserError, match="8 tokens for 11 vectors"):
        nearest_words(model, WORDS, "apple")
    with pytest.raises(UserError, match="ReLU has no table of word vectors"):
        nearest_words(nn.ReLU(), WORDS, "apple")
    with pytest.raises(UserError, match=r"word vectors of shape \(3,\)"):
        nearest_words([1, 2, 3], "abc", "a")


def test_words_without_a_vector_are_rejected_with_suggestions():
    with pytest.raises(UserError, match=r"no vector of 'quen'. Did you mean queen\?\nChoose one of the 8"):
        analogy(TABLE, WORDS, "king", "man", "quen")
    with pytest.raises(UserError, match=r"count = 0 is out of range"):
        nearest_words(TABLE, WORDS, "king", 0)


def test_word_similarities_are_pairwise_cosines():
    chosen = ["apple", "king", "queen", "<PAD>"]
    found = word_similarities(TABLE, WORDS, chosen)
    np.testing.assert_allclose(np.diag(found), [1, 1, 1, 0])
    assert found[1, 2] == found[2, 1] == pytest.approx(1 / 3)
    np.testing.assert_array_equal(word_vectors(TABLE, WORDS, chosen)[1], PLANTED["king"])
    np.testing.assert_array_equal(word_vectors(TABLE, WORDS, "king"), [PLANTED["king"]])


def test_project_vectors_keeps_the_largest_variance():
    random = np.random.default_rng(0)
    points = random.normal(size=(200, 3)) * [3, 1, 0.1]
    turned = points @ np.linalg.qr(random.normal(size=(3, 3)))[0] + 7
    coordinates, shares = project_vectors(turned)
    variances = np.linalg.eigvalsh(np.cov(turned.T))[::-1]
    np.testing.assert_allclose(shares, (variances / variances.sum())[:2])
    np.testing.assert_allclose(coordinates.var(0, ddof=1), variances[:2])
    distances = lambda x: np.linalg.norm(x[:, None] - x, axis=-1)
    whole, all_shares = project_vectors(mg.tensor(turned), 3)
    np.testing.assert_allclose(distances(whole), distances(turned), atol=1e-9)
    assert all_shares.sum() == pytest.approx(1)
    assert project_vectors(np.ones((2, 5)))[0].tolist() == [[0, 0], [0, 0]]
    assert project_vectors(np.array([[1.0, 2, 3]]), 2)[1].tolist() == [0, 0]
    with pytest.raises(UserError, match="dims = 4 is out of range"):
        project_vectors(turned, 4)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("header", [True, False], ids=["word2vec", "glove"])
def test_word_vectors_round_trip_through_a_file_exactly(tmp_path, header):
    path = tmp_path / "vectors.txt"
    table = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    table[1] = [1e-30, -3e15, 0.1]
    words = ["le", "été", "don't", "a\u00a0b\u2028"]  # white space of other kinds belongs to a word
    save_word_vectors(path, mg.tensor(table), words, header)
    first, *_ = path.read_text(encoding="utf-8").split("\n")
    assert first == "4 3" if header else first.startswith("le ")
    loaded = load_word_vectors(path)
    assert loaded.tokens == words
    assert loaded.vectors.dtype == np.float32
    assert np.array_equal(loaded.vectors, table)
    assert nearest_words(*loaded, "le", 3)


def test_word2vec_and_glove_files_are_read(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(b"2 3\r\n</s> 1 2 3 \r\nthe 4 5e-1 -6 \r\n")  # word2vec ends lines with a space
    assert load_word_vectors(path).vectors.tolist() == [[1, 2, 3], [4, 0.5, -6]]
    path.write_bytes(b"\xef\xbb\xbfthe\t1\t2\n. . . 3 4\n\n1990 5 6\n")  # GloVe has words with spaces
    assert load_word_vectors(path) == WordVectors(pytest.approx(np.array([[1, 2], [3, 4], [5, 6]])), [
        "the", ". . .", "1990",
    ])  # fmt: skip
    path.write_bytes(b"7 5  6\n8 1  2\n")  # words that are numbers
    assert load_word_vectors(path).tokens == ["7", "8"]


BAD = {
    "empty": (b"", "is empty.\nPass a file with a word"),
    "too few columns": (b"a 1 2\nb 1\n", "line 2 of .*bad.txt has 1 number, expected 2"),
    "too many columns": (b"a 1 2\n\nb 1 2 3\n", "line 3 of .*bad.txt has 3 numbers, expected 2"),
    "no numbers": (b"the cat sat\n", "line 1 of .*bad.txt has 'cat' where a number"),
    "a word alone": (b"a 1 2\nb\n", "line 2 of .*bad.txt has no numbers after the word 'b', expected 2"),
    "a decimal comma": (b"a 0,5 2\n", "line 1 of .*bad.txt has '0,5' where a number"),
    "twice": (b"a 1 2\nb 1 2\na 3 4\n", "line 3 of .*bad.txt has the word 'a' again"),
    "not UTF-8": ("a 1 2\né 1 2\n".encode("latin-1"), "line 2 of .*bad.txt is not UTF-8"),
    "word2vec's binary format": (b"1 2\nabc \xcd\xcc\xcc\x3d\xcd\xcc\x4c\xbe\n", "binary format"),
    "compressed": (b"\x1f\x8b\x08\x00", "is compressed .gzip..\nDecompress it: gunzip"),
    "not finite": (b"a 1 nan\n", "line 1 of .*bad.txt has a number that is not finite"),
    "cut off": (b"3 2\na 1 2\nb 1 2\n", "bad.txt has 2 words, its first line says 3"),
    "a number of words beyond all files": (
        b"9" * 5000 + b" 3\na 1 2 3\n",
        "line 1 of .*bad.txt says how many words there are: a number of 5,000 digits, expected a number",
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", BAD)
def test_malformed_vector_files_are_rejected_with_the_line(tmp_path, name):
    content, message = BAD[name]
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        load_word_vectors(path)
    assert str(caught.value).count("\n") == 1


def test_missing_vector_files_and_folders_are_rejected(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*none.txt: No such file"):
        load_word_vectors(tmp_path / "none.txt")
    with pytest.raises(UserError, match=r"is a folder; a text file of word vectors is expected.\nPass the"):
        load_word_vectors(tmp_path)


@pytest.mark.parametrize("word", ["", "a b", "a\n", "b"])
def test_words_that_cannot_be_stored_are_rejected(tmp_path, word):
    with pytest.raises(UserError, match="a text file of vectors cannot hold it"):
        save_word_vectors(tmp_path / "v.txt", np.ones((2, 2)), ["b", word])
    assert not [*tmp_path.iterdir()]


# ---------------------------------------------------------------- embeddings that begin with them


def test_fill_embedding_sets_only_rows_of_known_words():
    tokenizer = Tokenizer.train_word(["king apple tree"])
    model = Seq2Seq(Seq2SeqConfig(tokenizer.vocab_size, embedding_dim=4, hidden_size=3))
    before = model.embedding.weight.numpy().copy()
    assert fill_embedding(model, tokenizer, TABLE, WORDS) == 3  # with <PAD>
    after = model.embedding.weight
    for token, i in tokenizer.token_to_id.items():
        expected = PLANTED.get(token, before[i])
        np.testing.assert_array_equal(after.numpy()[i], expected.astype(np.float32), err_msg=token)
    assert after.requires_grad
    assert after.is_leaf
    assert fill_embedding(model.embedding, tokenizer, np.ones((1, 4)), ["none"]) == 0
    with pytest.raises(UserError, match="vectors of 3 dimensions for an embedding of 4"):
        fill_embedding(model, tokenizer, np.ones((1, 3)), ["king"])


def test_fill_embedding_ignores_word_start_markers():
    embedding = embedding_of(np.zeros((4, 4)))
    assert fill_embedding(embedding, ["▁king", "Ġqueen", " man", "▁"], TABLE, WORDS) == 3
    np.testing.assert_array_equal(embedding.weight.numpy()[:3], TABLE[[2, 3, 0]])
