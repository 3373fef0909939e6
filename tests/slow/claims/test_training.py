"""The experiments with training and reading: their variants do what they say, their arms are equally large,
and nothing is tested that was trained on."""

from functools import partial

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minitransformer.claims.claim import Trial
from minitransformer.claims.experiments.attention_of_it import HELD_OUT, data_of, reasons
from minitransformer.claims.experiments.cheating import copied
from minitransformer.claims.experiments.contextual_meaning import (
    FIRST,
    LAST,
    bert,
    made_sentences,
    nearest_error,
    same_and_other,
    states_of_bank,
    without_shared_clues,
)
from minitransformer.claims.experiments.exposure_bias import data_of as pairs_of
from minitransformer.claims.experiments.exposure_bias import with_own_words
from minitransformer.claims.experiments.pre_training import classifier
from minitransformer.claims.experiments.smoothing import calibration_error, reliability
from minitransformer.claims.experiments.two_directions import each_word, model_of, question_of, two_directions
from minitransformer.claims.reading import masked_words, texts
from minitransformer.claims.translating import draw, sentences, size, translator
from minitransformer.data.batching import IGNORE
from minitransformer.data.phrasebook import tokens_of

SEED = 1000


@pytest.fixture(scope="module")
def data():
    return texts(SEED, longest=5, count=1000)


def trial(arm, case):
    return Trial(arm, case, 1e-3, SEED)


def test_probed_sentences_are_tagged_and_held_out(data):
    known = {tuple(each.ids) for each in data.train}
    assert not any(tuple(each.ids) in known for each in data.held_out)
    assert all(len(each.ids) == len(each.tags) + 2 for each in data.train)
    names = [data.tags[tag] for tag in data.train[0].tags]
    assert len(names) == len(data.tokenizer.tokens(data.tokenizer.decode(data.train[0].ids)))


@pytest.mark.parametrize("case", two_directions.cases)
def test_left_to_right_states_ignore_later_words(data, case):
    both, left = (model_of(trial(arm, case), data) for arm in two_directions.arms)
    assert size(both) == size(left)
    ids = np.array([[2, 9, 10, 11, 3]])
    changed = np.array([[2, 9, 10, 12, 3]])
    with mg.no_grad():
        assert np.array_equal(left.states(ids)[:, :3].numpy(), left.states(changed)[:, :3].numpy())
        assert not np.allclose(both.states(ids)[:, :3].numpy(), both.states(changed)[:, :3].numpy())


def test_each_word_is_predicted_once_and_hidden_from_the_input(data):
    rows = data.held_out[:3]
    words = sorted(word for row in rows for word in row.ids[1:-1])
    for both_sides in (True, False):
        ids, asked = each_word(data, rows, both_sides)
        assert sorted(asked[asked != IGNORE]) == words
        assert not both_sides or set(ids[asked != IGNORE]) == {data.mask_id}
    assert ids[0, 1] == asked[0, 0]  # from the left, it is the next


def test_training_questions_cover_words_tags_and_types(data):
    rows = [row for row in data.train if row.object is not None][:8]
    random = np.random.default_rng(SEED)
    ids, asked = masked_words(data, rows, random)
    assert ((asked != IGNORE).sum(1) >= 1).all()
    assert (asked[:, 0] == IGNORE).all()
    ids, asked = question_of(trial("left side", "entities"), data)(rows, random)
    assert asked[0, 1 : len(rows[0].tags) + 1].tolist() == rows[0].tags
    ids, asked = question_of(trial("left side", "types of objects"), data)(rows, random)
    assert (ids[asked != IGNORE] == data.tokenizer.end_id).all()
    assert asked[asked != IGNORE].tolist() == [row.object for row in rows]


def test_fine_tuning_keeps_the_body_and_resets_the_head(data):
    model, other = classifier(data, {}), classifier(data, {})
    weights = [each[0].embedding.weight.numpy() for each in (model, other)]
    assert not np.array_equal(*weights)
    body = {"embedding.weight": model[0].embedding.weight}
    assert np.array_equal(classifier(data, body)[0].embedding.weight.numpy(), weights[0])


def test_own_words_are_the_predictions_of_the_model():
    data = pairs_of(Trial("own words", "reversal", 1e-3, SEED))
    assert not {tuple(source) for source, _ in data.train} & {tuple(source) for source, _ in data.held_out}
    model = translator(data)
    batch = draw(data, np.random.default_rng(SEED))
    mixed = partial(with_own_words, model, batch, random=np.random.default_rng(SEED))
    assert np.array_equal(mixed(part=0)["target_in"], batch["target_in"])
    own = mixed(part=1)["target_in"]
    said = model(batch["source"], batch["target_in"]).numpy().argmax(-1)
    is_word = batch["target"] != IGNORE
    assert np.array_equal(own[:, 1:][is_word[:, 1:]], said[:, :-1][is_word[:, 1:]])
    assert (own[:, 0] == data.tokenizer.start_id).all()
    assert np.array_equal(own[:, 1:][~is_word[:, 1:]], batch["target_in"][:, 1:][~is_word[:, 1:]])


class Copier(nn.Module):
    """Says the word that stands some places ahead of the last one that it may see."""

    def __init__(self, words, ahead):
        super().__init__()
        self.words = words
        self.ahead = ahead

    def forward(self, source, target_in):
        return mg.tensor(np.eye(self.words)[np.roll(target_in, -self.ahead, axis=1)])


def test_only_next_word_copiers_are_detected_as_copying():
    data = sentences(SEED, longest=5)
    copies, repeats = (copied(Copier(data.tokenizer.vocab_size, ahead), data, SEED) for ahead in (1, 0))
    assert copies == 1
    assert repeats < 0.05  # by chance, as frequent as the word is


def test_calibration_error_is_zero_for_calibrated_models():
    p = np.array([[0.75, 0.25]] * 4)
    three_right = np.array([0, 0, 0, 1])
    assert calibration_error(p, three_right) == 0
    assert calibration_error(p, np.ones(4, int)) == 0.75
    assert calibration_error(p, np.zeros(4, int)) == 0.25
    assert reliability(p, three_right) == [(0.75, 0.75, 1.0)]


def test_meanings_are_distinguished_without_shared_clues():
    texts, meanings = made_sentences(LAST, LAST)
    trained, _ = made_sentences(FIRST, FIRST)
    use = without_shared_clues(texts)
    same = meanings[:, None] == meanings
    assert (use[same].sum(), (~same).sum()) == (2 * 16 * 9, use[~same].sum())
    row, *states = states_of_bank(bert(), texts)
    assert (row == row[0]).all()
    assert all(not np.allclose(each, each[0]) for each in states)
    separate = np.where(meanings[:, None] == 0, 1.0, -1.0) * np.ones((1, 4))
    assert same_and_other(separate, meanings) == pytest.approx((1, -1))
    assert nearest_error(separate, meanings, separate, meanings, use) == 0
    assert nearest_error(separate, 1 - meanings, separate, meanings, use) == 1
    assert not set(texts) & set(trained)


def test_pronoun_sentences_are_distinct_and_held_out():
    pairs = reasons(SEED)
    data = data_of(pairs)
    assert len({english for english, _ in pairs}) == len(pairs)
    assert len(data.held_out) == HELD_OUT
    assert not {tuple(source) for source, _ in data.train} & {tuple(source) for source, _ in data.held_out}
    assert all(tokens_of(pair[0])[pair.reference.pronoun[0]] == "it" for pair in pairs)
