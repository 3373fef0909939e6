"""Where data comes from, and that every example is in its batch exactly once."""

import gzip
import hashlib
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.data import datasets
from minitransformer.data.batching import (
    IGNORE,
    BlockBatches,
    ShuffledBatches,
    TokenBatches,
    all_blocks,
    collate,
    sliding_blocks,
)
from minitransformer.data.datasets import multi30k, sha256_of, tinyshakespeare
from minitransformer.data.rows import DataError, read_noted_text, read_pairs
from minitransformer.errors import UserError
from minitransformer.text.tokenizer import Tokenizer

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60).map(np.array)


# --- A user's file ---


@pytest.mark.parametrize("character", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
def test_unicode_separators_do_not_split_lines(tmp_path, character):
    (tmp_path / "pairs.tsv").write_text(f"a{character}b\tc\n", encoding="utf-8")
    assert read_pairs(tmp_path / "pairs.tsv") == [(f"a{character}b", "c")]


@pytest.mark.parametrize("read", [read_pairs, read_noted_text])
def test_endless_or_huge_data_files_are_rejected(tmp_path, read):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 10**12)
    for path in (tmp_path / "fifo", "/dev/zero", tmp_path / "huge"):
        with pytest.raises(UserError, match=r"is not a regular file|the limit is"):
            read(path)


def test_a_long_text_is_read_whole(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbf" + b"a line\r\n" * 20)
    assert read_noted_text(path)[0] == "a line\n" * 20


def test_sha256_of_lines_matches_the_file():
    assert sha256_of(["one", "été"]) == hashlib.sha256("one\nété\n".encode()).hexdigest()
    assert sha256_of(["ab", "c"]) != sha256_of(["a", "bc"])


# --- Public data, from a folder ---


@pytest.fixture
def captions(tmp_path):
    """A tiny Multi30k: French gzipped, English not; the French of a line has a line separator in it."""
    for stem in ("train", "val", "test_2016_flickr"):
        (tmp_path / f"{stem}.en").write_text(f"{stem} one\n two \n", encoding="utf-8")
        (tmp_path / f"{stem}.fr.gz").write_bytes(gzip.compress("un\u2028e\ndeux\n".encode()))
    return tmp_path


def test_plain_and_gzipped_files_are_read_line_by_line(captions):
    pairs = multi30k("en", "fr", captions)
    assert list(pairs) == ["train", "validation", "test"]
    assert pairs["validation"] == [("val one", "un\u2028e"), ("two", "deux")]


def test_a_missing_file_error_names_the_file_and_folder(captions):
    (captions / "val.fr.gz").unlink()
    with pytest.raises(DataError, match=r"val\.fr") as caught:
        multi30k("en", "fr", captions)
    assert str(captions) in str(caught.value)
    assert "--data-dir" in str(caught.value)


def test_sides_with_different_line_counts_are_rejected(captions):
    (captions / "train.en").write_text("only one\n")
    with pytest.raises(DataError, match="1 line of en, 2 of fr"):
        multi30k("en", "fr", captions)


def test_a_damaged_file_is_named(captions):
    whole = (captions / "train.fr.gz").read_bytes()
    (captions / "train.fr.gz").write_bytes(whole[:-9])
    with pytest.raises(DataError, match=r"train\.fr\.gz is damaged"):
        multi30k("en", "fr", captions)


def test_gzip_bombs_are_rejected(captions, monkeypatch):
    monkeypatch.setattr(datasets, "LIMIT", 1000)
    (captions / "train.fr.gz").write_bytes(gzip.compress(b"un\n" * 300))
    assert len(datasets._from_folder(captions, "train.fr")) == 900
    (captions / "train.fr.gz").write_bytes(gzip.compress(b"un\n" * 400))
    with pytest.raises(DataError, match=r"train\.fr\.gz is damaged: it has more than 1,000 bytes"):
        multi30k("en", "fr", captions)


@pytest.mark.parametrize("name", ["train.fr.gz", "train.fr"])
def test_a_fifo_in_a_folder_is_refused(captions, name):
    (captions / "train.fr.gz").unlink()
    os.mkfifo(captions / name)
    with pytest.raises(UserError, match="is not a regular file"):
        multi30k("en", "fr", captions)


@pytest.mark.parametrize("language", ["", "/../../x", "..", "e n", "en\n", "en\x1b", "é", "a" * 36])
def test_invalid_language_names_are_rejected(language, tmp_path):
    for pair in ((language, "fr"), ("en", language)):
        with pytest.raises(DataError, match="is not a language"):
            multi30k(*pair, tmp_path)


def test_shakespeare_is_split_90_to_10(tmp_path):
    (tmp_path / "input.txt").write_text("abcdefghijklmnopqrs")  # 19: nine tenths are 17.1
    assert tinyshakespeare(tmp_path) == {"train": "abcdefghijklmnopq", "validation": "rs"}


def test_the_real_captions_match_the_published_checksums(shared):
    folder = shared / "data" / "multi30k"
    pairs = multi30k("en", "fr", folder)
    assert {split: len(lines) for split, lines in pairs.items()} == {
        "train": 29_000,
        "validation": 1_014,
        "test": 1_000,
    }
    assert all(source and target for lines in pairs.values() for source, target in lines)
    for name, expected in datasets.SHA256.items():
        if name != "input.txt":
            text = gzip.decompress((folder / f"{name}.gz").read_bytes())
            assert hashlib.sha256(text).hexdigest() == expected, name


def test_the_real_shakespeare_matches_the_published_checksum(shared):
    text = "".join(tinyshakespeare(shared / "data" / "tinyshakespeare").values())
    assert hashlib.sha256(text.encode()).hexdigest() == datasets.SHA256["input.txt"]


# --- A batch of pairs ---

TOKENIZER = Tokenizer.train_word(["a b c d"])  # <PAD> 0, <UNK> 1, <START> 2, <END> 3


def test_batches_are_padded_and_targets_shifted():
    batch = collate([([4, 5], [6]), ([7], [4, 5, 6])], TOKENIZER)
    assert batch["source"].tolist() == [[4, 5, 3], [7, 3, 0]]
    assert batch["target_in"].tolist() == [[2, 6, 0, 0], [2, 4, 5, 6]]
    assert batch["target"].tolist() == [[6, 3, IGNORE, IGNORE], [4, 5, 6, 3]]
    assert batch.n_tokens == 6


def test_batch_slices_count_their_own_tokens():
    batch = collate([([4, 5], [6]), ([7], [4, 5, 6])], TOKENIZER)
    assert batch.rows(slice(1)).n_tokens + batch.rows(slice(1, 2)).n_tokens == batch.n_tokens
    assert batch.rows(slice(1, 2))["source"].tolist() == [[7, 3, 0]]


# --- An epoch of batches ---


@given(LENGTHS, st.integers(1, 100), st.integers(0, 3))
def test_every_example_is_in_exactly_one_batch_of_an_epoch(lengths, max_tokens, epoch):
    batches = TokenBatches(lengths, max_tokens, seed=0).epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 100))
def test_no_batch_exceeds_max_tokens(lengths, max_tokens):
    for rows in TokenBatches(lengths, max_tokens, seed=0).epoch(0):
        assert len(rows) == 1 or (len(rows) * lengths[rows].max(axis=0) <= max_tokens).all()


def test_examples_of_similar_length_are_batched_together():
    lengths = np.random.default_rng(0).integers(1, 50, (2000, 1)).repeat(2, axis=1)
    batches = TokenBatches(lengths, 1000, seed=0).epoch(0)
    padded = sum(len(rows) * lengths[rows, 1].max() for rows in batches)
    assert lengths[:, 1].sum() / padded > 0.95


def test_batch_order_depends_on_seed_and_epoch():
    lengths = np.full((200, 2), 5)

    def order(seed, epoch):
        return [rows.tolist() for rows in TokenBatches(lengths, 50, seed).epoch(epoch)]

    assert order(0, 3) == order(0, 3)
    assert order(0, 3) != order(0, 4)
    assert order(0, 3) != order(1, 3)


def test_equally_long_examples_are_reshuffled_each_epoch():
    batches = TokenBatches(np.full((200, 2), 5), 50, seed=0)
    first, second = ({frozenset(rows.tolist()) for rows in batches.epoch(epoch)} for epoch in (0, 1))
    assert first != second


def test_batches_are_not_sorted_by_length():
    lengths = np.arange(1, 101).repeat(2).reshape(-1, 2)
    longest = [int(lengths[rows].max()) for rows in TokenBatches(lengths, 200, seed=0).epoch(0)]
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)


def test_batching_does_not_use_the_global_generator():
    np.random.seed(0)
    expected = np.random.random()
    np.random.seed(0)
    TokenBatches(np.full((9, 2), 5), 10, seed=0).epoch(0)
    BlockBatches(np.arange(100), 8, 4, seed=0).batch(0)
    assert np.random.random() == expected


def test_batches_of_steps_can_be_requested_in_any_order():
    for batches in (TokenBatches(np.full((10, 2), 5), 10, seed=7), ShuffledBatches(11, 2, seed=7)):
        assert batches.per_epoch == 5
        expected = [rows.tolist() for epoch in (0, 1, 2) for rows in batches.epoch(epoch)]
        for step in (3, 4, 5, 6, 0, 14, 9, 10):
            assert batches.rows(step).tolist() == expected[step]


def test_fixed_size_batches_drop_the_remainder():
    batches = ShuffledBatches(11, 2, seed=7)
    assert len({i for rows in batches.epoch(3) for i in rows.tolist()}) == 10
    assert len(ShuffledBatches(3, 8, seed=7).rows(1)) == ShuffledBatches(3, 8, seed=7).largest == 3


# --- Blocks of a long text ---


def test_block_targets_are_the_next_tokens():
    x, y = BlockBatches(np.arange(100), block_size=8, batch_size=4, seed=0).batch(0).values()
    assert x.shape == y.shape == (4, 8)
    assert (y == x + 1).all()
    assert (np.diff(x) == 1).all()


def test_blocks_depend_only_on_seed_and_step():
    blocks = BlockBatches(np.arange(1000), 8, 4, seed=0)
    later = blocks.batch(5)["input"].tolist()
    blocks.batch(0)
    assert blocks.batch(5)["input"].tolist() == later
    assert blocks.batch(6)["input"].tolist() != later
    assert BlockBatches(np.arange(1000), 8, 4, seed=1).batch(5)["input"].tolist() != later


def test_blocks_reach_the_first_and_the_last_token():
    blocks = BlockBatches(np.arange(10), block_size=8, batch_size=64, seed=0)
    x, y = blocks.batch(0).values()
    assert (x.min(), y.max()) == (0, 9)


@given(st.integers(2, 200), st.integers(1, 20), st.integers(1, 5))
def test_all_blocks_cover_every_target_once(n, block_size, batch_size):
    pairs = []
    for x, y in map(dict.values, all_blocks(np.arange(n), block_size, batch_size)):
        assert x.shape == y.shape
        assert x.shape[0] <= batch_size
        pairs += list(zip(x[y != IGNORE].tolist(), y[y != IGNORE].tolist(), strict=True))
    assert pairs == [(i, i + 1) for i in range(n - 1)]


@given(st.integers(2, 200), st.integers(2, 20), st.data())
def test_sliding_blocks_score_every_target_once(n, window, data):
    stride = data.draw(st.integers(1, window - 1))
    targets, sizes = [], []
    for x, y in map(dict.values, sliding_blocks(np.arange(n), window, stride, 3)):
        sizes.append(len(x))
        for row, scored in zip(x, y, strict=True):
            places = np.flatnonzero(scored != IGNORE)
            np.testing.assert_array_equal(row[: places[-1] + 1], row[0] + np.arange(places[-1] + 1))
            np.testing.assert_array_equal(scored[places], row[places] + 1)
            assert row[0] == 0 or places[0] + 1 >= window - stride  # tokens of context
            targets += scored[places].tolist()
    assert targets == list(range(1, n))
    assert all(size == 3 for size in sizes[:-1])


def test_sliding_blocks_need_the_memory_of_one_batch():
    ids = np.zeros(200_000, np.int64)  # in windows of 1,000 that move by one: 3 GB
    tracemalloc.start()
    x = next(sliding_blocks(ids, 1000, 1, 4))["input"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert x.shape == (4, 999)
    assert peak < 1_000_000
