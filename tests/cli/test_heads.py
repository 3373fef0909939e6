"""`minitransformer heads`: words that go together, and the heads that attend to them."""

import numpy as np

from minitransformer.cli.heads import alignment
from minitransformer.data.phrasebook import phrasebook
from minitransformer.runs.run import Run
from tests.tiny import PAIRS


def test_words_that_cooccur_are_aligned():
    train = [([1, 2], [7, 8]), ([1, 3], [7, 9]), ([2], [8]), ([3, 3], [9])]
    pairs = [([1, 2], [8, 7]), ([3, 1, 3], [7, 9])]
    np.testing.assert_array_equal(alignment(train, pairs), [[0, 0, 1], [0, 1, 0], [1, 0, 1]])
    assert alignment(train, [([4], [5])]).shape == (0, 3)


def test_heads_are_ranked_by_their_word_alignment(cli):
    code, out, err = cli("heads", "mine")
    assert (code, err) == (0, "")
    shares = [float(line.split()[0]) for line in out.splitlines()[2:]]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == 2  # only cross-attention has an alignment to rank
    english, _ = PAIRS[0]
    assert cli("heads", "mine", english)[1].startswith(english + "\n")


def test_heads_are_ranked_by_resolving_it(cli, monkeypatch):
    test = [pair for pair in phrasebook().test if pair.reference][:2]
    monkeypatch.setattr(Run, "splits", lambda self: {"train": PAIRS, "test": test})
    code, out, _ = cli("heads", "mine")
    assert code == 0
    assert len(out.partition("that “it” stands for, and on the other one:\n")[2].splitlines()) >= 2


def test_heads_rejects_language_models(cli):
    code, _, err = cli("heads", "play")
    assert code == 2
    assert "which cannot align words" in err
