"""The experiments on positions: their variants are what they say, and of equal size."""

import importlib

import numpy as np
import pytest

import minigrad as mg
from minitransformer.claims import CLAIMS
from minitransformer.claims.translating import Sentences, size
from minitransformer.claims.word_before import WordBefore, draw, loss_of
from minitransformer.layers.positions import NoPositions, SinusoidalPositions
from minitransformer.text.tokenizer import Tokenizer


def experiment(name):
    return importlib.import_module(f"minitransformer.claims.experiments.{name}")


def vocabulary(count):
    """No sentences, but a tokenizer of as many words as that of the phrasebook."""
    return Sentences([], [], [], Tokenizer.train_word([f"w{i}" for i in range(count)]))


def models():
    """For each model of each claim: its builder, of an arm."""
    data = vocabulary(980)
    extrapolation = experiment("extrapolation")
    yield "extrapolation", extrapolation.word_model
    yield "extrapolation", lambda arm: extrapolation.translation_model(arm, data)
    yield "add-or-concatenate", experiment("add_or_concatenate").word_model
    yield "add-or-concatenate", lambda arm: experiment("add_or_concatenate").translation_model(arm, data)
    yield "integer-positions", lambda arm: WordBefore(experiment("integer_positions").positions(arm, 32))
    yield "no-positions", lambda arm: experiment("no_positions").build(arm, data)
    copies = experiment("no_positions").copies(900)
    yield "no-positions", lambda arm: experiment("no_positions").build(arm, copies, layers=1)
    random = np.random.default_rng(900)
    yield "relative-positions", lambda arm: experiment("relative_positions").build(arm, random)


def test_arms_about_positions_have_equal_sizes():
    for name, build in models():
        sizes = [size(build(arm)) for arm in CLAIMS[name].arms]
        assert max(sizes) <= 1.02 * min(sizes), (name, sizes)


@pytest.mark.parametrize("mixed", [False, True])
def test_extrapolation_is_scored_on_longer_pairs(mixed):
    extrapolation = experiment("extrapolation")
    data = extrapolation.short_and_long(900, mixed)
    train, held_out, longer = ({str(p) for p in pairs} for pairs in (data.train, data.held_out, data.longer))
    assert len(data.train) == 3000
    assert not train & held_out
    assert not train & longer
    longest = max(len(side) for pair in data.train for side in pair)
    assert (longest > extrapolation.SHORT) is mixed
    assert min(len(side) for pair in data.longer for side in pair) >= extrapolation.LONG


def test_extrapolation_scores_only_untrained_positions():
    extrapolation = experiment("extrapolation")
    data = extrapolation.short_and_long(900, mixed=False)
    model = extrapolation.translation_model("sinusoidal", data)
    pairs = data.longer[:5]
    scored = extrapolation.errors(model, pairs, data, first=extrapolation.SHORT + 1)
    assert len(scored) == sum(len(target) - extrapolation.SHORT for _, target in pairs)


def test_mixed_and_short_training_use_the_same_longer_pairs():
    extrapolation = experiment("extrapolation")
    short, mixed = (extrapolation.short_and_long(900, mixed) for mixed in (False, True))
    assert short.longer == mixed.longer


def test_previous_word_loss_is_zero_for_a_perfect_model():
    ids = draw(np.random.default_rng(900), 4, 12)
    assert all(len(set(row)) == 12 for row in ids)

    class Perfect(WordBefore):
        def forward(self, ids):
            return mg.tensor(50 * np.eye(self.words)[np.roll(ids, 1, axis=1)])

    assert loss_of(Perfect(NoPositions()), ids).item() < 1e-6
    assert loss_of(Perfect(NoPositions()), ids, back=2).item() > 10


def test_position_offsets_shift_the_encoding():
    integers = experiment("integer_positions").Integers()
    x = mg.zeros(1, 3, 4)
    assert integers(x, start=10_000)[0, :, 2].tolist() == [10_000, 10_001, 10_002]
    model = WordBefore(SinusoidalPositions(32), start=7)
    seen = []
    model.encoder.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].numpy()))
    ids = np.array([[5, 6, 7]])
    model(ids)
    model.start = 0
    model(np.concatenate([np.zeros((1, 7), int), ids], axis=1))
    assert np.allclose(seen[0], seen[1][:, 7:])


def test_copy_pairs_have_eight_distinct_words_out_of_32():
    data = experiment("no_positions").copies(900)
    assert all(source == target and len(set(source)) == 8 for source, target in data.train)
    assert len({word for source, _ in data.train for word in source}) == 32
    assert not {str(pair) for pair in data.train} & {str(pair) for pair in data.held_out}


def test_translators_without_positions_ignore_word_order():
    data = vocabulary(20)
    no_positions = experiment("no_positions")
    source, shuffled = np.array([[5, 6, 7, 8]]), np.array([[8, 5, 7, 6]])
    target = np.array([[2, 9]])
    for arm in CLAIMS["no-positions"].arms:
        model = no_positions.build(arm, data)
        same = np.allclose(model(source, target).numpy(), model(shuffled, target).numpy(), atol=1e-4)
        assert same is (arm in ("not in the encoder", "in neither")), arm


def test_a_linear_map_explains_rotations_and_not_random_vectors():
    relative = experiment("relative_positions")
    random = np.random.default_rng(900)
    sinusoids = relative.table(SinusoidalPositions(relative.WIDTH))[: relative.LENGTH]
    assert relative.unexplained(sinusoids, 5, random) < 1e-6
    assert relative.unexplained(random.normal(size=sinusoids.shape), 5, random) > 0.5
