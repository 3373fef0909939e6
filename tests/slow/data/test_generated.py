"""What draws a data set again: other seeds, and the same ones."""

from hashlib import sha256

import pytest

from minitransformer.data.conversations import dialogues, summaries
from minitransformer.recipes import load_recipe
from minitransformer.runs.run import load_splits
from tests.data.test_conversations import FEW


@pytest.mark.parametrize("make", [summaries, dialogues])
def test_generated_splits_are_disjoint(make):
    splits = make(FEW)
    sources = [source for split in splits.values() for source, _ in split]
    assert {name: len(split) for name, split in splits.items()} == {
        "test": 500,
        "validation": 500,
        "train": FEW,
    }
    assert len(set(sources)) == len(sources)
    assert make.__wrapped__(FEW) == splits


# SHA-256 of the first 200 rows of each split, and how many there are
SAME = {
    "addition": "c59c1b1c803de18a", "bart-infill": "1d92d1102ed115ea", "bert-answers": "8567fea54150ac79",
    "bert-classify": "ee9021fa09472ea5", "bert-mlm": "bf5f4a5717ef702a", "bert-similar": "0af795eb69559d2c",
    "bert-tag": "a3035496feec38d6", "brackets": "70ead409f5ac6bd5", "dialogue": "16d246c6c67c7de4",
    "phrasebook": "22efd496a0c2a3d2", "reverse": "a59c1d7192ac54b7", "summarize": "0e84d0b169495d0b",
    "t5-denoise": "94d37620cad55c5d", "t5-prefixes": "071b1b80c122ad29",
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_generated_data_has_not_changed(name):
    splits = load_splits(load_recipe(name), None, None)
    found = sha256()
    for split, rows in sorted(splits.items()):
        found.update(repr((split, len(rows), list(rows)[:200])).encode())
    assert found.hexdigest()[:16] == SAME[name]
