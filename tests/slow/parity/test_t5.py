"""T5 against Hugging Face's, with the same random weights."""

import numpy as np
import pytest

import minigrad as mg
from minitransformer.layers.relative_positions import RelativePositionBias
from minitransformer.models.t5 import T5, T5Config

from .from_transformers import as_theirs, assert_same_training, randomized, transformers

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

V = 29
SOURCE = np.array([[5, 6, 7, 8, 9, 10, 1], [3, 4, 2, 1, 0, 0, 0], [11, 1, 0, 0, 0, 0, 0]])
LABELS = np.array([[6, 2, 9, 1], [5, 5, 1, -100], [1, -100, -100, -100]])
TARGET = np.array([[0, 6, 2, 9], [0, 5, 5, 0], [0, 0, 0, 0]])  # starts with the padding token, as T5 does
REAL = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], bool)


def pair(std=0.2, **settings):
    """Our T5 and theirs, with the same weights; buckets of several distances occur in short texts."""
    config = T5Config(
        V, d_model=12, d_kv=5, d_ff=16, num_layers=2, num_decoder_layers=1, num_heads=2,
        relative_attention_num_buckets=8, relative_attention_max_distance=6, dropout_rate=0.0, **settings,
    )  # fmt: skip
    mg.manual_seed(0)
    ours = randomized(T5(config), std)
    return ours, as_theirs(ours)


@pytest.mark.parametrize("tie_word_embeddings", [True, False])
@pytest.mark.parametrize("feed_forward_proj", ["relu", "gated-gelu"])
def test_logits_loss_and_every_gradient_agree(feed_forward_proj, tie_word_embeddings):
    ours, theirs = pair(feed_forward_proj=feed_forward_proj, tie_word_embeddings=tie_word_embeddings)
    assert_same_training(ours, theirs, SOURCE, TARGET, REAL, LABELS)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"), [(4, 20), (8, 16), (31, 100), (32, 128), (64, 2000)]
)
def test_relative_position_buckets_match_transformers(num_buckets, max_distance, bidirectional):
    theirs = transformers().models.t5.modeling_t5.T5Attention._relative_position_bucket
    distance = np.arange(-2500, 2501)
    expected = theirs(torch.tensor(distance), bidirectional, num_buckets, max_distance)
    ours = RelativePositionBias(2, num_buckets, max_distance, bidirectional).buckets(distance)
    np.testing.assert_array_equal(ours, expected.numpy())
