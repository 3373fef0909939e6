"""What can be wrong in the experiments with recurrent models, with time, memory and size."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minitransformer.claims.experiments import (
    attention_memory,
    equal_quality,
    far_gradients,
    fixed_context,
    loss_and_size,
)
from minitransformer.claims.paths import count_steps, gradient_norm
from minitransformer.claims.translating import Sentences, size
from minitransformer.text.tokenizer import Tokenizer


def are_equal(sizes):
    return max(sizes) <= 1.02 * min(sizes)


def test_recurrent_and_attention_arms_have_equal_parameters():
    assert are_equal([size(far_gradients.FirstWord(arm)) for arm in far_gradients.LAYERS])


@pytest.mark.parametrize(
    ("case", "vocab_size"), [("copying letters", fixed_context.VOCABULARY), ("translation", 990)]
)
def test_fixed_context_and_attention_have_equal_parameters(case, vocab_size):
    models = [fixed_context.build(arm, case, vocab_size) for arm in ("attention", "fixed")]
    assert are_equal(list(map(size, models)))
    assert [model.attention.attends for model in models] == [True, False]


def made_up(words):
    tokenizer = Tokenizer.train_word([" ".join(f"word{i}" for i in range(words))])
    pairs = [([5 + i % 4], [6 + i % 4, 9]) for i in range(20)]
    return Sentences(pairs, pairs, [], tokenizer)


def test_compared_translators_have_equal_parameters():
    data = made_up(980)
    assert data.tokenizer.vocab_size == 984  # the phrasebook's
    assert are_equal([size(build(data)) for build in equal_quality.TRANSLATORS.values()])


def test_time_to_goal_counts_steps_up_to_the_goal():
    data = made_up(20)
    mg.manual_seed(1000)
    model = equal_quality.recurrent(data, "none", 16)
    found = equal_quality.time_to_goal(model, data, 2e-2, 400, 1000)
    assert found["loss"] <= equal_quality.GOAL
    assert 0 < found["steps"] < 400
    assert found["seconds"] == pytest.approx(found["steps"] * found["step"] / 1000)


def test_the_three_sentence_sets_are_disjoint():
    parts = loss_and_size.split(range(11_000), seed=1000)
    assert [len(part) for part in parts[:2]] == [300, 300]
    assert sorted(row for part in parts for row in part) == list(range(11_000))
    assert len(parts[2]) >= max(loss_and_size.AMOUNTS.values())


def test_copy_task_targets_are_shifted_copies_of_the_source():
    source, target_in, target = fixed_context.copies(np.random.default_rng(1000), 5, 3)
    assert (source[:, :5] == target_in[:, 1:]).all()
    assert (source == target).all()
    assert source.max() < fixed_context.VOCABULARY


def test_tiled_attention_matches_with_less_memory():
    q = mg.randn(1, 1, 1024, 8)

    def attend():
        return nn.functional.scaled_dot_product_attention(q, q, q).numpy()

    found = {}
    for arm in ("as defined", "in tiles"):
        with attention_memory.kernels(arm):
            found[arm] = attend(), attention_memory.peak_bytes(attend)
    assert np.allclose(found["as defined"][0], found["in tiles"][0], atol=1e-5)
    assert found["as defined"][1] > 1024 * 1024 * 4 > found["in tiles"][1] / 2


def test_a_recurrent_gradient_is_the_product_of_its_factors():
    rnn = nn.RNN(4, 4, batch_first=True)
    rnn.weight_hh_l0.array[:] = 0.5 * np.eye(4)
    rnn.weight_ih_l0.array[:] = 1e-4 * np.eye(4)  # tanh is linear
    rnn.bias_ih_l0.array[:] = rnn.bias_hh_l0.array[:] = 0
    layer = far_gradients.Recurrent(rnn)
    assert count_steps(layer, 8, 4) == 2 * count_steps(layer, 4, 4)
    assert gradient_norm(layer.to("float64"), 5, 4) == pytest.approx(1e-4 * 0.5**4 * 2, rel=1e-5)
