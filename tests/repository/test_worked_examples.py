"""The numbers that the documents work through, by the library's own functions, to 1e-6."""

import json

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import MultiHeadAttention, Transformer, TransformerConfig
from minitransformer.layers import Encoder, LayerConfig
from minitransformer.layers.embeddings import TokenEmbedding
from minitransformer.layers.masks import causal_mask
from minitransformer.layers.positions import positional_encoding


@pytest.fixture
def example(shared):
    examples = {e["id"]: e for e in json.loads((shared / "worked_examples.json").read_text(encoding="utf-8"))}
    return lambda name: (examples[name]["inputs"], examples[name]["computed"])


def close(given, expected):
    np.testing.assert_allclose(getattr(given, "array", given), np.array(expected), rtol=0, atol=1e-6)


def tensor(rows):
    return mg.tensor(rows, dtype="float64")


def attend(q, k, v, expected):
    scores = q @ k.mT
    close(scores, expected["scores"])
    close(scores / 2, expected["scaled"])  # sqrt(d_k) = 2
    close(F.softmax(scores / 2), expected["weights"])
    close(F.scaled_dot_product_attention(q, k, v), expected["output"])


def test_i_love_you(example):
    given, expected = example("i-love-you")
    embedding = TokenEmbedding(10, 4, scale=False).double()
    embedding.load_state_dict({"weight": given["embedding"]})
    pe = positional_encoding(3, 4, np.float64)
    close(pe, expected["positional_encoding"])
    x = embedding(np.array([given["tokens"]]))[0] + mg.tensor(pe)
    close(x, expected["x"])
    q, k, v = (x @ tensor(given[w]) for w in ("W_q", "W_k", "W_v"))
    for name, value in zip("qkv", (q, k, v), strict=True):
        close(value, expected[name])
    attend(q, k, v, expected)


def test_i_love_you_through_multi_head_attention_with_one_head(example):
    given, expected = example("i-love-you")
    attention = MultiHeadAttention(4, 1).double()
    stacked = np.concatenate([np.array(given[w]).T for w in ("W_q", "W_k", "W_v")])
    attention.load_state_dict(
        {
            "in_proj_weight": stacked,
            "in_proj_bias": np.zeros(12),
            "out_proj.weight": np.eye(4),
            "out_proj.bias": np.zeros(4),
        }
    )
    close(attention(tensor([expected["x"]]))[0], expected["output"])


def test_causal_mask(example):
    given, expected = example("causal-mask")
    scores = tensor(given["scores"])
    close(F.softmax(scores.masked_fill(~causal_mask(4), -np.inf)), expected["weights"])
    identity = tensor(
        np.eye(4)
    )  # attention whose scores are the given ones, and whose values are unit vectors
    close(
        F.scaled_dot_product_attention(scores, identity, identity, is_causal=True, scale=1.0),
        expected["weights"],
    )


def test_next_word(example):
    given, expected = example("next-word")
    logits = tensor(given["logits"])
    close(F.softmax(logits), expected["probabilities"])
    assert logits.argmax().item() == expected["argmax"]


@pytest.mark.parametrize("name", ["three-tokens", "i-love-ai"])
def test_attention_of_given_q_k_v(example, name):
    given, expected = example(name)
    attend(*(tensor(given[x]) for x in "qkv"), expected)


def test_query_projection(example):
    given, expected = example("query-projection")
    close(F.linear(tensor(given["x"]), tensor(given["W_q"]).T), expected["q"])


def test_positional_encoding(example):
    given, expected = example("positional-encoding-6x4")
    close(positional_encoding(given["n"], given["d_model"], np.float64), expected["pe"])


def test_why_scale(example):
    given, expected = example("why-scale")
    for name in ("unscaled", "scaled"):
        close(F.softmax(tensor(given[name])), expected[name])


def test_label_smoothing(example):
    given, expected = example("label-smoothing")
    logits = mg.zeros(1, given["classes"], dtype="float64", requires_grad=True)
    F.cross_entropy(logits, [given["target"]], label_smoothing=given["epsilon"]).backward()
    smoothed = F.softmax(logits)[0] - logits.grad[0]  # the gradient is softmax - target
    close(smoothed, expected["target"])


def test_paper_base_parameters(example):
    given, expected = example("paper-base-parameters")
    assert (
        MultiHeadAttention(given["d_model"], given["heads"]).num_parameters() - 4 * given["d_model"]
        == expected["attention_weights_per_layer"]
    )
    model = Transformer(TransformerConfig(given["vocabulary"]))
    c = model.config
    assert (c.d_model, c.d_ff, c.num_encoder_layers, c.num_heads) == tuple(
        given[k] for k in ("d_model", "d_ff", "layers", "heads")
    )
    parts = {"encoder": "encoder", "decoder": "decoder", "embedding": "embedding_tied"}
    for part, name in parts.items():
        assert getattr(model, part).num_parameters() == expected[name]
    assert model.num_parameters() == expected["total_tied"]


def test_slips_that_are_in_no_example(example):
    given, expected = example("i-love-you")
    pe = positional_encoding(3, 4, np.float64)
    you_love_i = np.array(given["embedding"])[given["tokens"]][::-1] + pe
    np.testing.assert_allclose(you_love_i[0], [0.30, 1.80, 0.20, 1.60], atol=0.005)
    np.testing.assert_allclose(you_love_i[2], [1.11, 0.08, 0.12, 1.80], atol=0.005)
    scores = np.array(expected["scores"])
    close(scores, scores.T)
    keys = np.array(example("i-love-ai")[0]["k"])
    assert (keys[2] > keys[:2]).all()  # so "AI" wins for any positive query
    before_it = ["The", "animal", "didn't", "cross", "the", "street", "because"]
    assert (before_it.index("animal") + 1, len(before_it) + 1) == (2, 8)
    np.testing.assert_allclose(positional_encoding(2, 512)[1, :4], [0.84, 0.54, 0.82, 0.57], atol=0.005)
    np.testing.assert_allclose([0.5, 0.1, 0.8, 0.2] + pe[1], [1.34, 0.64, 0.81, 1.20], atol=0.005)  # "love"
    assert F.softmax(tensor([1_000_000.0, 1_000_001.0]))[1].item() == pytest.approx(0.731, abs=5e-4)


def test_sigma_plus_epsilon_has_no_gradient_for_equal_numbers():
    equal = mg.zeros(4, dtype="float64", requires_grad=True)
    with np.errstate(all="ignore"):
        (equal / (((equal - equal.mean()) ** 2).mean() ** 0.5 + 1e-5)).sum().backward()
    assert np.isnan(equal.grad.numpy()).all()


def test_the_walk_through_counts_the_same_parameters(example):
    from minitransformer.explain.documents import RECOMPUTED

    given, expected = example("paper-base-parameters")
    assert RECOMPUTED["paper-base-parameters"](given)["total_in_millions"] == expected["total_tied"] / 1e6


def test_an_encoder_can_be_built_from_the_layers_alone():
    config = LayerConfig(d_model=8, num_heads=2, d_ff=16)
    assert Encoder(2, config)(mg.randn(1, 3, 8)).shape == (1, 3, 8)
