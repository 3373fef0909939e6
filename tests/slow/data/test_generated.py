"""What draws a data set again: other seeds, and the same ones."""

import pytest

from minitransformer.data.conversations import dialogues, summaries
from minitransformer.data.phrasebook import phrasebook
from tests.data.test_conversations import FEW


def test_another_seed_gives_another_corpus():
    assert phrasebook(seed=1) != phrasebook()


@pytest.mark.parametrize("make", [summaries, dialogues])
def test_no_example_is_in_two_splits_and_they_are_always_the_same(make):
    splits = make(FEW)
    sources = [source for split in splits.values() for source, _ in split]
    assert {name: len(split) for name, split in splits.items()} == {
        "test": 500,
        "validation": 500,
        "train": FEW,
    }
    assert len(set(sources)) == len(sources)
    assert make.__wrapped__(FEW) == splits
