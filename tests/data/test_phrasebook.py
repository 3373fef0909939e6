"""What the rows of the phrasebook say beside their two texts."""

import re
from pathlib import Path

import pytest

from minitransformer.data.phrasebook import DOCUMENT_SENTENCES, phrasebook, sentence_splits


@pytest.fixture(scope="module")
def rows():
    book = phrasebook()
    return {pair[0]: vars(pair) for pair in book.train + book.test}


def test_statements_have_tags_negations_and_questions(rows):
    assert rows["Our sister saw her bag in her house."] == {
        "mode": "statement",
        "subject": "our sister",
        "verb": ("did", "see", "saw"),
        "object": "thing",
        "tags": "B-person I-person O B-thing I-thing O B-place I-place O",
        "negation": "Our sister did not see her bag in her house.",
        "question": "Did our sister see her bag in her house?",
        "asked": (
            ("Who saw her bag in her house?", "our sister"),
            ("What did our sister see in her house?", "her bag"),
            ("Where did our sister see her bag?", "in her house"),
        ),
        "short": "saw her bag",
    }


def test_pronouns_and_ambiguous_words_are_annotated(rows):
    reference = rows["The animal didn't cross the street because it was too tired."]["reference"]
    assert reference == ((8, 10), (1, 1), (6, 7))
    assert reference.noun == (1, 1)
    sense = rows["The princes are singing near the bank under the bridge."]["sense"]
    assert sense == ("bank", "river", (6, 6), (9, 9))
    assert sense.meaning == "river"


def test_the_sentences_of_the_documents_are_for_training(rows):
    assert {*DOCUMENT_SENTENCES} <= {*phrasebook().train}
    assert all(rows[english] == {} for english, _ in DOCUMENT_SENTENCES)
    assert not {*DOCUMENT_SENTENCES} & {*sentence_splits()["train"]}


def test_the_documented_table_matches_the_phrasebook(rows):
    page = (Path(__file__).parents[2] / "docs" / "your-data.md").read_text(encoding="utf-8")
    table = page.split("| english | french |")[1].split("\n\n")[0]
    shown = [re.split(r" ?\| ?", line)[1:-1] for line in table.splitlines()[2:]]
    pairs = {pair[0]: pair for pair in phrasebook().train + phrasebook().test}
    assert len(shown) == 8
    for english, *others in shown:
        pair = pairs[english]
        assert others == [pair[1], pair.mode, pair.object, pair.tags]
