"""Probes find what was planted in states, and nothing in noise; states and distances are the model's own."""

import numpy as np
import pytest

import minigrad as mg
from minitransformer import (
    BERT,
    GPT,
    BERTConfig,
    GPTConfig,
    RecurrentConfig,
    RecurrentLM,
    Transformer,
    TransformerConfig,
    attention_distance,
    attention_distances,
    layer_states,
    probe_layers,
    record_attention,
)
from minitransformer.errors import UserError
from minitransformer.inspection.probes import fit_logistic_regression

B, T, D = 60, 8, 10
RANDOM = np.random.default_rng(0)
IDS = RANDOM.integers(1, 200, (B, T))
REAL = np.arange(T) < RANDOM.integers(3, T + 1, B)[:, None]
NOISE = RANDOM.normal(size=(B, T, D))
KINDS = np.array(["noun", "verb", "other"])
DIRECTIONS = 4 * RANDOM.normal(size=(3, D))


def planted(kind):
    return NOISE + DIRECTIONS[kind]


# ---------------------------------------------------------------- probes


def test_a_probe_finds_only_a_planted_direction():
    kind = np.minimum(RANDOM.integers(0, 4, (B, T)), 2)  # half of them 2
    states = {"embedding": NOISE, "layers.0": planted(kind)}
    found = probe_layers(states, KINDS[kind], REAL)
    assert found.layers == [*states]
    assert found.majority == pytest.approx(0.5, abs=0.1)
    assert found.accuracy[0] < found.majority + 0.1
    assert found.accuracy[1] > 0.97
    assert (found.control < found.majority + 0.1).all()
    assert found.selectivity[1] == found.accuracy[1] - found.control[1] > 0.35
    assert sum(found.examples) == REAL.sum()
    assert found.examples[1] == pytest.approx(REAL.sum() / 4, rel=0.15)


def test_word_controls_can_be_memorized():
    """States that are the words give any label of a word; states that are only the label do not."""
    ids = RANDOM.integers(0, 20, (B, T))
    kind = (ids < 10).astype(int)
    states = {"words": np.eye(20)[ids], "label": np.eye(2)[kind]}
    by_word = probe_layers(states, kind, words=ids)
    np.testing.assert_array_equal(by_word.accuracy, 1)
    assert by_word.control[0] == 1
    assert by_word.control[1] < 0.85
    assert probe_layers(states, kind).control[0] < 0.65  # shuffled: another label at each occurrence


def test_sentence_labels_are_probed_from_mean_states():
    kind = RANDOM.integers(0, 2, B)
    states = np.where(REAL[..., None], planted(kind[:, None]), 1e3 * RANDOM.normal(size=(B, 1, 1)))
    masked = probe_layers({"a": states}, kind, REAL)
    assert masked.accuracy[0] == 1
    assert sum(masked.examples) == B
    means = (states * REAL[..., None]).sum(1) / REAL.sum(1, keepdims=True)
    assert probe_layers({"a": means}, kind).accuracy[0] == masked.accuracy[0]
    assert probe_layers({"a": states}, kind).accuracy[0] < 1


def test_probes_hold_out_whole_sentences():
    """A sentence's own direction, shared by its tokens, must not help: its label is that of no other."""
    sentence = np.repeat(np.arange(B)[:, None], T, 1)
    kind = RANDOM.integers(0, 2, B)[sentence]
    states = 20 * np.eye(B)[sentence]
    assert probe_layers({"a": states}, kind).accuracy[0] < 0.8


def test_logistic_regression_reaches_its_minimum():
    x = planted(kind := RANDOM.integers(0, 3, (B, T))).reshape(-1, D)[:200] * np.arange(1, D + 1) + 5
    y = kind.ravel()[:200]
    with mg.no_grad():
        weight, bias = fit_logistic_regression(x, y, 3)
    z = (x - x.mean(0)) / x.std(0)
    scaled = weight * x.std(0)
    logits = z @ scaled.T + (bias + weight @ x.mean(0))
    np.testing.assert_allclose(logits, x @ weight.T + bias)
    p = np.exp(logits - logits.max(1, keepdims=True))
    error = p / p.sum(1, keepdims=True) - np.eye(3)[y]
    np.testing.assert_allclose(error.T @ z / 200 + scaled / 200, 0, atol=1e-5)
    np.testing.assert_allclose(error.mean(0), 0, atol=1e-5)


def test_probe_scores_print_as_a_table_and_are_reproducible():
    kind = RANDOM.integers(0, 2, (B, T))
    first, second, other = (probe_layers({"layers.0": planted(kind)}, kind, seed=s) for s in (3, 3, 4))
    assert str(first) == str(second) != str(other)
    header, row, sizes = str(first).splitlines()
    assert header.split() == ["states", "accuracy", "control", "selectivity"]
    assert row.split()[:3] == ["layer", "1", f"{first.accuracy[0]:.2f}"]
    assert sizes == f"majority {first.majority:.2f}; 360 examples for training, 120 held out"


@pytest.mark.parametrize(
    ("states", "labels", "options", "message"),
    [
        (NOISE, IDS[:, 1:], {}, r"labels \(60, 7\) for the states 'a', \(60, 8, 10\)"),
        (NOISE, IDS, {"mask": REAL[:, 0]}, r"labels \(60, 8\) and a mask \(60,\) for the states 'a'"),
        (NOISE, np.ones((B, T)), {}, "480 labels of 1 kind cannot be split"),
        (NOISE[:1], np.arange(T)[None] % 2, {}, "8 labels of 2 kinds cannot be split"),
        (NOISE, IDS, {"held_out": 1.0}, r"held_out = 1\.0 is out of range"),
    ],
)
def test_probe_labels_of_a_wrong_shape_are_rejected(states, labels, options, message):
    with pytest.raises(UserError, match=message):
        probe_layers({"a": states}, labels, **options)


# ---------------------------------------------------------------- states


def test_layer_states_are_the_inputs_and_outputs_of_layers():
    model = BERT(BERTConfig(9, 8, 2, 2, 8)).train()
    ids = np.array([[4, 5, 6], [7, 8, 0]])
    states = layer_states(model, ids)
    assert model.training
    assert mg.is_grad_enabled()
    model.eval()
    assert [*states] == ["embedding", "encoder.layers.0", "encoder.layers.1"]
    np.testing.assert_array_equal(states["embedding"].numpy(), model.embed(ids).numpy())
    x = states["encoder.layers.0"]
    mask = mg.tensor(ids > 0)[:, None, None]
    np.testing.assert_allclose(
        model.encoder.layers[1](x, mask).numpy(), states["encoder.layers.1"].numpy(), atol=1e-6
    )
    assert not x.requires_grad


def test_encoder_and_decoder_states_have_distinct_names():
    model = Transformer(TransformerConfig(9, 8, 2, 8, 1, 2))
    states = layer_states(model, np.array([[4, 5, 6]]), np.array([[2, 7]]))
    assert {name: x.shape for name, x in states.items()} == {
        "encoder.embedding": (1, 3, 8), "encoder.layers.0": (1, 3, 8),
        "decoder.embedding": (1, 2, 8), "decoder.layers.0": (1, 2, 8), "decoder.layers.1": (1, 2, 8),
    }  # fmt: skip


def test_layer_states_restores_the_model_after_an_error():
    model = Transformer(TransformerConfig(9, 8, 2, 8, 1, 2))
    layer = model.encoder.layers[0]
    layer.forward = None  # a call of it raises a TypeError
    with pytest.raises(TypeError):
        layer_states(model, np.array([[4, 5, 6]]), np.array([[2, 7]]))
    del layer.forward
    assert model.training
    assert len(layer_states(model, np.array([[4, 5]]), np.array([[2, 7]]))) == 5


def test_layer_states_rejects_recurrent_models():
    with pytest.raises(UserError, match="RecurrentLM has no layers with a residual stream"):
        layer_states(RecurrentLM(RecurrentConfig(9, 6, 6)), np.array([[1, 2]]))


# ---------------------------------------------------------------- distances


@pytest.mark.parametrize("is_causal", [False, True], ids=["bert", "gpt2"])
def test_uniform_attention_has_the_documented_distance(is_causal):
    model = GPT(GPTConfig(9, 8, 8, 2, 2)) if is_causal else BERT(BERTConfig(9, 8, 2, 2, 8))
    for name, p in model.named_parameters():
        if "in_proj" in name:
            p.array[:8] = 0
    distances = attention_distances(model, [[4, 5, 6], [1, 2, 3, 4, 5, 6, 7]])
    expected = [(n - 1) / 4 if is_causal else (n * n - 1) / 3 / n for n in (3, 7)]
    for each in distances.values():
        np.testing.assert_allclose(each, [(3 * expected[0] + 7 * expected[1]) / 10] * 2, atol=1e-6)


def test_attention_distances_match_recorded_attention():
    model = Transformer(TransformerConfig(9, 8, 2, 8, 1, 1))
    pair = [4, 5, 6, 3], [2, 7]
    distances = attention_distances(model, [pair])
    assert [*distances] == ["encoder.layers.0.self_attention", "decoder.layers.0.self_attention"]
    with record_attention(model.eval()) as maps:
        model(*(np.array([ids]) for ids in pair))
    for path, found in distances.items():
        np.testing.assert_array_equal(found, attention_distance(maps[path]))
    assert [*attention_distances(model, [pair], "*cross*")] == ["decoder.layers.0.cross_attention"]
    with pytest.raises(UserError, match=r"no attention of Transformer matches 'layers' in 1 sentence\."):
        attention_distances(model, [pair], "layers")
