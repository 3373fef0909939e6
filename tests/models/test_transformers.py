"""The models: who sees whom, what is learned, and that every parameter's gradient is right."""

import dataclasses

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import GPT, GPTConfig, MultiHeadAttention, Transformer, TransformerConfig
from minitransformer.errors import UserError
from minitransformer.layers.attention import split_heads
from minitransformer.layers.config import LayerConfig
from minitransformer.layers.encoder_decoder import FeedForward
from minitransformer.layers.masks import causal_mask, from_blocked, padding_mask
from minitransformer.layers.positions import SinusoidalPositions, positional_encoding

TINY = TransformerConfig(11, 8, 2, 12, 1, 1, dropout=0.0)
TINY_GPT = GPTConfig(11, 6, 8, 2, 2, embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0)
SOURCE = np.array([[4, 5, 6, 3], [7, 3, 0, 0]])
TARGET = np.array([[2, 8, 9], [2, 4, 0]])


def jitter(model):
    """Move parameters off their first values, so that biases and norms count too."""
    rng = np.random.default_rng(0)
    for p in model.parameters():
        p.array += 0.3 * rng.normal(size=p.shape)
    return model


def test_gpt_gradients_match_with_and_without_fused_kernels():
    model = jitter(GPT(TINY_GPT).double())
    ids = np.array([[1, 2, 3, 4, 5, 6]])
    gradients = []
    for fused in (True, False):
        model.zero_grad()
        with mg.fused(fused):
            F.cross_entropy(model(ids)[0], ids[0]).backward()
        gradients.append({name: p.grad.numpy() for name, p in model.named_parameters()})
    for name, g in gradients[0].items():
        np.testing.assert_allclose(g, gradients[1][name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_later_position_is_a_rotation_of_an_earlier_one():
    d, k = 6, 3
    pe = positional_encoding(20, d, np.float64)
    for i in range(d // 2):
        w = 10000 ** (-2 * i / d)
        turn = np.array([[np.cos(k * w), np.sin(k * w)], [-np.sin(k * w), np.cos(k * w)]])
        np.testing.assert_allclose(pe[k:, 2 * i : 2 * i + 2], pe[:-k, 2 * i : 2 * i + 2] @ turn.T, atol=1e-12)


def test_sinusoidal_positions_support_any_length_and_width():
    for length, width in ((5000, 8), (3, 5)):
        found = SinusoidalPositions(width)(mg.zeros(1, length, width))
        np.testing.assert_allclose(found.numpy()[0], positional_encoding(length, width))


def test_feed_forward_matches_two_convolutions_of_width_1():
    feed_forward = jitter(FeedForward(LayerConfig(4, num_heads=1, d_ff=6)).double())
    first, second = feed_forward.linear1, feed_forward.linear2
    x = mg.randn(2, 5, 4, dtype="float64")
    hidden = F.conv1d(x.mT, first.weight[:, :, None], first.bias).relu()  # (B, d_ff, T)
    out = F.conv1d(hidden, second.weight[:, :, None], second.bias)  # (B, D, T)
    np.testing.assert_allclose(out.mT.numpy(), feed_forward(x).numpy(), rtol=1e-12, atol=1e-12)


def test_embeddings_are_scaled_by_sqrt_d_model():
    scaled, plain = (
        Transformer(dataclasses.replace(TINY, scale_embeddings=s)).embedding for s in (True, False)
    )
    plain.load_state_dict(scaled.state_dict())
    np.testing.assert_allclose(scaled(SOURCE).numpy(), plain(SOURCE).numpy() * np.sqrt(8), rtol=1e-6)


def test_one_matrix_is_shared_by_both_embeddings_and_logits():
    model = Transformer(TINY)
    (matrix,) = [p for p in model.parameters() if p.shape == (11, 8)]
    assert matrix is model.embedding.weight
    model.embedding.weight.array[:] = 0
    assert not model(SOURCE, TARGET).numpy().any()


def test_only_pre_norm_has_a_final_norm():
    post = Transformer(TINY)
    pre = Transformer(dataclasses.replace(TINY, norm_first=True))
    assert post.encoder.norm is None
    assert pre.num_parameters() == post.num_parameters() + 2 * 2 * 8


def test_dropout_is_keyed_and_acts_only_in_training():
    model = Transformer(dataclasses.replace(TINY, dropout=0.5, attention_dropout=0.5, activation_dropout=0.5))
    mg.random.set_step(1)
    first = model(SOURCE, TARGET).numpy()
    mg.random.set_step(1)
    again = model(SOURCE, TARGET).numpy()
    mg.random.set_step(2)
    other = model(SOURCE, TARGET).numpy()
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    np.testing.assert_array_equal(model.eval()(SOURCE, TARGET).numpy(), model(SOURCE, TARGET).numpy())


def test_causal_and_padding_masks_have_the_expected_values():
    np.testing.assert_array_equal(causal_mask(3).numpy(), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(padding_mask(SOURCE, 0).numpy()[:, 0, 0], SOURCE != 0)
    both = (causal_mask(4) & padding_mask(SOURCE, 0)).numpy()
    np.testing.assert_array_equal(both[1, 0], [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]])
    np.testing.assert_array_equal(from_blocked([[True, False]]).numpy(), [[False, True]])


@pytest.mark.parametrize("is_cross", [False, True])
def test_attention_weights_reproduce_the_output(is_cross):
    attention = MultiHeadAttention(8, 2).double().eval()
    rng = np.random.default_rng(0)
    x = mg.tensor(rng.normal(size=(2, 3, 8)))
    memory = mg.tensor(rng.normal(size=(2, 5, 8))) if is_cross else None
    weights = attention.weights(*attention.project(x, memory), None, not is_cross)
    _, _, v = split_heads(*attention.project(x, memory), 2, 2)
    heads = (weights @ v).transpose(1, 2).flatten(-2)
    expected = attention(x, memory, is_causal=not is_cross)
    np.testing.assert_allclose(attention.out_proj(heads).numpy(), expected.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Transformer(TINY)([1, 2], [[2]]), "batch of one"),
        (lambda: Transformer(TINY)([[1.0, 2.0]], [[2]]), r"got float64 \(1, 2\).\nPass what the tokenizer's"),
        (lambda: Transformer(TINY)([[1, 2], [1]], [[2], [2]]), "different lengths"),
        (lambda: Transformer(TINY)(SOURCE, TARGET[:1]), "2 source sequences and 1 target sequence"),
        (
            lambda: MultiHeadAttention(8, 2).project(mg.zeros(2, 3, 8), mg.zeros(1, 3, 8)),
            "1 source sequence and 2 target sequences: the batches",
        ),
        (
            lambda: MultiHeadAttention(8, 2)(mg.zeros(2, 3, 8), mask=mg.ones(4).bool()),
            r"mask of shape \(4,\) for scores of shape \(2, 2, 3, 3\)",
        ),
    ],
)
def test_invalid_model_inputs_are_explained(call, message):
    with pytest.raises((UserError, mg.ShapeError), match=message):
        call()
