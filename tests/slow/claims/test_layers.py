"""What can be wrong in the experiments with residual connections, norms, widths, embeddings and probes."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minitransformer.claims import two_looks
from minitransformer.claims.experiments import feed_forward_width, norms, probes, residuals, weight_tying
from minitransformer.claims.experiments.gradient_flow import root_mean_square, states
from minitransformer.claims.sublayers import WAYS, Around, put_around
from minitransformer.claims.translating import Sentences, held_out_loss, size, translator
from minitransformer.data.phrasebook import NEGATION, Sentence
from minitransformer.layers import LayerConfig, Residual
from minitransformer.text.tokenizer import Tokenizer

SEED = 900  # no study has this seed
D = 8


@pytest.fixture(scope="module")
def data():
    """As many words as the phrasebook's, but made up."""
    tokenizer = Tokenizer.train_word([" ".join(f"word{i}" for i in range(980))])
    assert tokenizer.vocab_size == 984
    pairs = [([5 + i, 17 + i, 200 + i], [400 + i, 30 + i]) for i in range(20)]
    return Sentences(pairs, pairs, [], tokenizer)


@pytest.fixture
def x():
    return mg.randn(2, 5, D)


def test_norm_only_sublayers_return_the_norm_of_f(x):
    f = nn.Linear(D, D)
    mean = f(x).mean(-1, keepdim=True)
    spread = f(x).var(-1, correction=0, keepdim=True) + 1e-5
    assert np.allclose(
        Around(D, "norm only")(x, f).numpy(), ((f(x) - mean) / spread.sqrt()).numpy(), atol=1e-5
    )


def test_add_only_sublayers_return_the_sum(x):
    f = nn.Linear(D, D)
    around = Around(D, "add only")
    assert np.array_equal(around(x, f).numpy(), (x + f(x)).numpy())
    assert size(around) == 0


@pytest.mark.parametrize("way", ["post-norm", "pre-norm"])
def test_pre_and_post_norm_sublayers_match_the_library(way, x):
    f = nn.Linear(D, D)
    library = Residual(LayerConfig(D, 2, 4 * D, norm_first=way == "pre-norm"))
    assert np.allclose(Around(D, way)(x, f).numpy(), library(x, f).numpy(), atol=1e-6)


def test_put_around_replaces_every_sublayer(data):
    model = translator(data)
    put_around(model, 64, "norm only")
    assert sum(isinstance(module, Around) for module in model.modules()) == 2 * 2 + 2 * 3
    assert not any(isinstance(module, Residual) for module in model.modules())


def test_bare_stacks_lose_the_gradient():
    mg.manual_seed(SEED)
    size_at_input = {way: root_mean_square(states(way, 6)[0].grad) for way in WAYS}
    assert size_at_input["bare"] < 0.1 < size_at_input["post-norm"] < 10 < size_at_input["add only"]


def is_within_2_percent(counts):
    return max(counts) <= 1.02 * min(counts)


def test_arms_about_layers_have_equal_parameters(data):
    for depth in (1, 4):
        assert is_within_2_percent(
            [size(residuals.make_translator(data, depth, has)) for has in (True, False)]
        )
    assert is_within_2_percent([size(norms.make_translator(data, arm)) for arm in norms.norms.arms])
    assert is_within_2_percent([size(norms.make_looker(arm)) for arm in norms.norms.arms])
    widths = feed_forward_width
    assert is_within_2_percent([size(widths.make_translator(data, arm)) for arm in widths.SHAPES])
    arms = ("three matrices", "one, wider")
    assert is_within_2_percent([size(weight_tying.make_translator(data, arm)) for arm in arms])


def test_one_and_three_embedding_matrices_start_at_equal_loss(data):
    losses = []
    for arm in ("one matrix", "three matrices"):
        mg.manual_seed(SEED)
        losses.append(held_out_loss(weight_tying.make_translator(data, arm), data))
    assert abs(losses[0] - losses[1]) < 0.3


def norms_of(model):
    return [module for module in model.modules() if isinstance(module, nn.LayerNorm)]


@pytest.mark.parametrize("rival", norms.RIVALS)
def test_arms_without_norms_contain_no_norm(data, rival):
    assert not norms_of(norms.make_translator(data, rival))
    assert not norms_of(norms.make_looker(rival))


def test_smaller_branches_keep_the_logits_small():
    outputs = {}
    for arm in norms.RIVALS:
        mg.manual_seed(SEED)
        outputs[arm] = root_mean_square(norms.make_looker(arm)(np.ones((1, two_looks.T), int)))
    assert outputs["no norm but smaller"] < outputs["no norm"] / 2


def test_two_looks_answers_need_two_lookups():
    x, answer = two_looks.examples(np.random.default_rng(SEED), 3)
    assert answer.tolist() == [[row[row[row[i]]] for i in range(two_looks.T)] for row in x]


def test_probe_labels_of_a_sentence_are_right():
    verb = ("did", "see", "saw")
    sentence = Sentence("I did not see the old cat", "Je n'ai pas vu le vieux chat", mode=NEGATION, verb=verb)
    assert probes.last_place(sentence) == 6
    assert probes.word_before(sentence) == "old"
    assert {name: label(sentence) for name, label in probes.GLOBAL.items()} == {
        "past": True,
        "negation": True,
        "question": False,
    }


def test_mean_layer_is_where_accuracy_is_gained():
    accuracy = np.array([[0.5, 0.9, 0.9, 0.9], [0.5, 0.5, 0.5, 0.9], [0.5, 0.7, 0.7, 0.9]])
    assert np.allclose([probes.mean_layer(each) for each in accuracy], [1, 3, 2])


def test_mean_layer_ignores_accuracy_lost_and_regained():
    assert probes.mean_layer(np.array([0.5, 0.9, 0.6, 0.9])) == 1
    assert probes.mean_layer(np.array([0.5, 0.7, 0.6, 0.9])) == pytest.approx(2)
    assert np.isnan(probes.mean_layer(np.array([0.5, 0.4, 0.5])))


def test_diverged_losses_count_as_guessing():
    assert two_looks.new_loss([1.7] * 30 + [np.nan]) == two_looks.new_loss([50.0]) == np.log(two_looks.T)
    assert two_looks.new_loss([9.0, *[0.5] * 20]) == 0.5
